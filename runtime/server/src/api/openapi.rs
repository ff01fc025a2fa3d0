//! `GET /v1/openapi.json`: the routes, for programs.
//!
//! The document is written by hand: `docs/openapi.json`. `tests/it/http_api/document.rs` holds it against the server, route
//! by route and example by example, so a route that is not in it fails the tests, as does one that is no more.

use axum::http::header;

use crate::auth::allowed::AnyToken;
use crate::routes::Routes;

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

pub(crate) fn routes() -> Routes {
    Routes::new().get("/openapi.json", async |_: AnyToken| ([(header::CONTENT_TYPE, "application/json")], DOCUMENT))
}
