//! `GET /v1/openapi.json`: the routes, for programs.
//!
//! The document is written by hand: `docs/openapi.json`. `tests/it/http_api/document.rs` holds it against the server, route
//! by route and example by example, so a route that is not in it fails the tests, as does one that is no more.

use axum::Router;
use axum::http::header;
use axum::routing::get;

use crate::state::AppState;

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/openapi.json", get(async || ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)))
}
