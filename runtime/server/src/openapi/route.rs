//! A route, and the words about it.

use axum::http::Method;

#[cfg(test)]
use super::Operation;
use super::Requirement;
use crate::problem::Code;

/// One method of one path.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// With names in braces, such as `/v1/tenants/{tenant}/topics`.
    pub path: String,
    /// What a token must allow.
    pub requires: Requirement,
    pub(crate) docs: Docs,
}

/// What the OpenAPI document says about a route.
#[derive(Debug, Clone)]
pub(crate) struct Docs {
    /// Of those that the document lists.
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: Option<&'static str>,
    /// In place of what the answer's type says.
    pub(crate) answer: Option<&'static str>,
    /// Headers of the answer: names and descriptions.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// Besides those that follow from the arguments.
    pub(crate) problems: Vec<Code>,
    /// Adds what the route's types say.
    #[cfg(test)]
    pub(crate) describe: fn(&mut Operation<'_>),
}
