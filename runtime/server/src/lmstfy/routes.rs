//! The routes under `/api`, and the checks that all of them share.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::uri::Uri;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, put};
use tokio::time::Instant;

use super::api::Api;
use super::refusal::Refusal;
use super::{ack, consume, dead, id, publish, queue};
use crate::auth::origin;
use crate::problem::Problem;

/// From a request's head to its answer, of the admin API.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(20);

/// lmstfy's API, to be nested under `/api`.
pub(crate) fn routes<S>(api: Api) -> Router<S> {
    let queue = "/{namespace}/{queue}";
    let at_once = [
        ("", put(publish::publish).delete(queue::destroy)),
        ("/bulk", put(publish::publish_many)),
        ("/peek", get(queue::peek)),
        ("/size", get(queue::size)),
        ("/job/{job}", get(queue::peek_job).put(publish::republish).delete(ack::ack)),
        ("/deadletter", get(dead::peek).put(dead::respawn).delete(dead::delete)),
        ("/deadletter/size", get(dead::size)),
    ];
    let at_once = at_once.into_iter().fold(Router::new(), |router, (rest, methods)| {
        router.route(&format!("{queue}{rest}"), methods).route(&format!("{queue}{rest}/"), any(redirect))
    });
    at_once
        .layer(middleware::from_fn_with_state(api.clone(), limit))
        // It may wait for as long as its client wants, without a permit.
        .route(queue, get(consume::consume))
        .fallback(async || Refusal::NO_API)
        .method_not_allowed_fallback(async || Refusal::NO_API)
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(api.clone(), receive))
        .with_state(api)
}

/// Bounds how long each request may take, the time of its body included.
async fn limit(State(api): State<Api>, request: Request, next: Next) -> Result<Response, Refusal> {
    let time = api.state.request_limiter.time() * 2;
    tokio::time::timeout(time, next.run(request)).await.map_err(Refusal::internal)
}

/// Gives every request its id, and refuses what a web page can make a browser send.
async fn receive(State(api): State<Api>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let ip = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let (method, path) = (request.method().clone(), format!("/api{}", request.uri().path()));
    let id = id::new_request();
    let checked = check(&api, refuse_pages(&request), origin::check_is_local(&request)).await;
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    if api.access_log.load(Ordering::Relaxed) {
        let (code, latency_ms) = (response.status().as_u16(), begun.elapsed().as_millis());
        // Not the query, which may hold a token.
        tracing::info!(target: "gristmill::access", %method, path, code, latency_ms, ?ip, id);
    }
    name(&mut response, &id);
    response
}

/// # Errors
/// There is no such API, a page could have sent the request, or its `Host` is not a name of this machine where only local
/// requests are allowed.
async fn check(api: &Api, page: Result<(), Refusal>, host: Result<(), Problem>) -> Result<(), Refusal> {
    if !api.enabled {
        return Err(Refusal::NO_API);
    }
    page?;
    if api.state.auth.takes_local_requests_only().await { Ok(host?) } else { Ok(()) }
}

/// Sets the header by which lmstfy names every request.
pub(super) fn name(response: &mut Response, id: &str) {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert("x-request-id", id);
    }
}

/// # Errors
/// A browser sends the request for a page of another site: a consume changes things, and a page can make a browser request it
/// like a picture. Or it is a `HEAD`: lmstfy has none, and axum would run a consume for it.
pub(super) fn refuse_pages(request: &Request) -> Result<(), Refusal> {
    if *request.method() == Method::HEAD {
        return Err(Refusal::NO_API);
    }
    let is_same_site = match request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes) {
        None => !origin::is_of_page_elsewhere(request.headers()),
        Some(site) => matches!(site, b"none" | b"same-origin"),
    };
    if is_same_site { Ok(()) } else { Err(Refusal::forbidden("not for pages of other sites")) }
}

/// Redirects a path with a slash at its end to the path without it, as lmstfy does.
async fn redirect(method: Method, uri: Uri) -> impl IntoResponse {
    let path = uri.path().trim_end_matches('/');
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let status = if method == Method::GET { StatusCode::MOVED_PERMANENTLY } else { StatusCode::TEMPORARY_REDIRECT };
    (status, [(header::LOCATION, format!("/api{path}{query}"))])
}
