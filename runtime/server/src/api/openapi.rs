//! `GET /v1/openapi.json`: the routes, for programs.
//!
//! The document, `docs/reference/openapi.json`, is made by [`crate::openapi`]. `tests/it/http_api/document.rs` holds it against the
//! server, example by example.

use axum::http::header;

use crate::auth::allowed::AnyToken;
use crate::routes::Routes;

const DOCUMENT: &str = include_str!("../../openapi.json");

pub(crate) fn routes() -> Routes {
    let document = async |_: AnyToken| ([(header::CONTENT_TYPE, "application/json")], DOCUMENT);
    Routes::of("health").get("/openapi.json", document, "This document")
}
