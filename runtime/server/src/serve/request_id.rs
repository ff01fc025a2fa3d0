//! Every answer names its request, and so does every line of the log that is about it.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Instrument, Level};

use gristmill_core::token::TokenText;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Answers a request by its name: the client's own id if it is one, else a new one.
pub(super) async fn name_request(request: Request, answer: impl AsyncFnOnce(Request) -> Response) -> Response {
    let given = request.headers().get(HEADER).filter(|id| is_sane(id)).cloned();
    let id = given.unwrap_or_else(generate);
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default());
    let mut response = logged(request, answer).instrument(span).await;
    response.headers_mut().insert(HEADER, id);
    response
}

async fn logged(request: Request, answer: impl AsyncFnOnce(Request) -> Response) -> Response {
    // Not `enabled!`: that leaves notes for the filters of single layers, which the next event would read.
    if LevelFilter::current() < Level::DEBUG {
        return answer(request).await;
    }
    let (method, path) = (request.method().clone(), TokenText::masked(request.uri().path()));
    let begun = Instant::now();
    let response = answer(request).await;
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    tracing::debug!(%method, path = path.escape_debug().to_string(), status, ?took, "answered");
    response
}

/// Short, and harmless in a log and in a shell.
fn is_sane(id: &HeaderValue) -> bool {
    (1..=64).contains(&id.len())
        && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn generate() -> HeaderValue {
    // 26 letters and digits: always a header's value.
    HeaderValue::try_from(ulid::Ulid::generate().to_string()).unwrap_or_else(|_| HeaderValue::from_static("none"))
}
