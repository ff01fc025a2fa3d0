//! The OpenAPI document, made from the routes: a route's path, its scope, and the types of its arguments and of its answer
//! say what a request may bring and what comes back. [`crate::routes::Routes`] takes the words beside them.
//!
//! `docs/reference/openapi.json` is what `document` makes, in a test of this crate that compares them; `GET /v1/openapi.json` serves that
//! file. So nothing of this is called in a program, and the schemas of all types, which are megabytes of code, are not in it.

#![cfg_attr(not(test), allow(dead_code, reason = "a test makes the document"))]

mod answer;
mod argument;
#[cfg(test)]
mod document;
mod endpoint;
mod operation;
mod route;
mod schema;

pub(crate) use answer::{Csv, Described, EventStream, Exposed, JsonLines, RouteAnswer};
pub(crate) use argument::{Argument, InPath};
#[cfg(test)]
pub(crate) use document::document;
pub use endpoint::Requirement;
pub(crate) use endpoint::{Endpoint, Gate};
pub(crate) use operation::Operation;
pub(crate) use route::Docs;
pub use route::Route;
pub(crate) use schema::AnyOf;
