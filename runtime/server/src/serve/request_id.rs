//! Every answer names its request, and so does every line of the log that is about it.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;
use tracing::Instrument;

use gristmill_core::token::TokenText;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The client's own id if it is one, else a new one.
pub(crate) async fn name_request(request: Request, next: Next) -> Response {
    let given = request.headers().get(HEADER).filter(|id| is_sane(id)).cloned();
    let id = given.unwrap_or_else(generate);
    let (method, path) = (request.method().clone(), TokenText::masked(request.uri().path()));
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default());
    let begun = Instant::now();
    let mut response = async {
        let response = next.run(request).await;
        let (status, took) = (response.status().as_u16(), begun.elapsed());
        tracing::debug!(%method, path = path.escape_debug().to_string(), status, ?took, "answered");
        response
    }
    .instrument(span)
    .await;
    response.headers_mut().insert(HEADER, id);
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
