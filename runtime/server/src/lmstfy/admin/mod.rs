//! lmstfy's admin API, at an address of its own: tokens and their limits, namespaces, pools and the version.

mod limits;
mod look;
mod tokens;

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};

use super::accounts::Accounts;
use super::api::Api;
use super::id;
use super::refusal::Refusal;
use super::routes::{REQUEST_TIME, name, refuse_pages};
use crate::audit::RequestFacts;
use crate::auth::origin;
use crate::limits::client_address;
use gristmill_config::Password;

/// The most that a request may bring.
const BODY_BYTES: usize = 64 << 10;

/// The admin API. Everything but the version is for these accounts only, if there are any.
pub(crate) fn routes(api: Api, accounts: BTreeMap<String, Password>) -> Router {
    let open = accounts.is_empty();
    let limit = get(limits::limit).post(limits::set).put(limits::set).delete(limits::delete);
    Router::new()
        .route("/info", get(look::info))
        .route("/pools", get(look::pools))
        .route("/limits", get(limits::limits))
        .route("/token/{namespace}", get(tokens::list).post(tokens::add))
        .route("/token/{namespace}/{token}", delete(tokens::revoke))
        .route("/token/{namespace}/{token}/limit", limit)
        .route("/accesslog", get(look::access_log).post(look::set_access_log))
        .layer(middleware::from_fn_with_state(Accounts::new(accounts), authenticate))
        .route("/version", get(look::version))
        .fallback(async || Refusal::NO_API)
        .method_not_allowed_fallback(async || Refusal::NO_API)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn_with_state(open, receive))
        .with_state(api)
}

async fn authenticate(State(accounts): State<Accounts>, request: Request, next: Next) -> Response {
    match accounts.check(request.headers(), client_address(request.extensions())) {
        Ok(true) => {
            RequestFacts::of(request.extensions()).administers_as(accounts.user(request.headers()));
            next.run(request).await
        }
        Ok(false) => Accounts::refusal(),
        Err(problem) => problem.into_response(),
    }
}

/// The checks of all routes, as under `/api`. Nothing is logged here: paths have tokens in them.
async fn receive(State(open): State<bool>, request: Request, next: Next) -> Response {
    // Without accounts, requests come from this machine only, by a name of this machine.
    let host = if open { origin::check_is_local(&request) } else { Ok(()) };
    let checked = refuse_pages(&request).and_then(|()| Ok(host?));
    let answer = async {
        match checked {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.into_response(),
        }
    };
    let answered = tokio::time::timeout(REQUEST_TIME, answer).await;
    let mut response = answered.unwrap_or_else(|late| Refusal::internal(late).into_response());
    name(&mut response, &id::new_request());
    response
}
