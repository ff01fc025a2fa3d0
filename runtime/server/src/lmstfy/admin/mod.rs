//! lmstfy's admin API, at an address of its own: tokens and their limits, and what there is.

mod limits;
mod look;
mod tokens;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};

use super::accounts::Accounts;
use super::api::Api;
use super::id;
use super::refusal::Refusal;
use super::routes::refuse_pages;
use crate::auth::origin;
use gristmill_config::Password;

/// The most that a request may bring.
const BODY_BYTES: usize = 64 << 10;
const REQUEST_TIME: Duration = Duration::from_secs(20);

const BAD_POOL: Refusal = Refusal::bad("the pool was not exists");

/// Everything but the version is for these accounts only, if there are any.
pub(crate) fn routes(api: Api, accounts: BTreeMap<String, Password>) -> Router {
    let open = accounts.is_empty();
    let limit = get(limits::limit).post(limits::add).put(limits::set).delete(limits::delete);
    Router::new()
        .route("/info", get(look::info))
        .route("/pools", get(look::pools))
        .route("/limits", get(limits::limits))
        .route("/token/{namespace}", get(tokens::list).post(tokens::add))
        .route("/token/{namespace}/{token}", delete(tokens::revoke))
        .route("/token/{namespace}/{token}/limit", limit)
        .route("/accesslog", get(look::access_log))
        .route("/accesslog", post(look::set_access_log))
        .layer(middleware::from_fn_with_state(Accounts(accounts), let_in))
        .route("/version", get(look::version))
        .fallback(async || Refusal::NO_API)
        .method_not_allowed_fallback(async || Refusal::NO_API)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn_with_state(open, receive))
        .with_state(api)
}

async fn let_in(State(accounts): State<Accounts>, request: Request, next: Next) -> Response {
    if accounts.let_in(request.headers()) { next.run(request).await } else { Accounts::refusal() }
}

/// As under `/api`. Nothing is logged here: tokens stand in paths.
async fn receive(State(open): State<bool>, request: Request, next: Next) -> Response {
    // Whoever has no account is on this machine, by a name of this machine.
    let host = if open { origin::check_host(&request) } else { Ok(()) };
    let checked = refuse_pages(&request).and_then(|()| Ok(host?));
    let answer = async {
        if *request.method() == Method::HEAD {
            return Refusal::NO_API.into_response();
        }
        match checked {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.into_response(),
        }
    };
    let answered = tokio::time::timeout(REQUEST_TIME, answer).await;
    let mut response = answered.unwrap_or_else(|_| Refusal::Internal.into_response());
    if let Ok(id) = HeaderValue::from_str(&id::new_request()) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}
