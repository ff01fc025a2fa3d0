//! Reads what a request brings. What does not fit is answered with a [`Problem`].

use std::convert::Infallible;
use std::marker::PhantomData;
use std::panic::resume_unwind;

use axum::Json;
use axum::body::HttpBody;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use schemars::JsonSchema;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::limits::requests::NoPermit;
use crate::openapi::{Argument, Operation};
use crate::problem::{Code, Problem};
use gristmill_core::json::object::Object;

/// The media type of documents on lines.
pub(super) const LINES: &str = "application/x-ndjson";

/// Whether a body of this media type says what the request wants, and is not a job's body itself.
pub(super) fn is_document(media: &str) -> bool {
    media == "application/json" || media == LINES
}

/// Whether the client names this media type among those that it takes. A weight of 0 says that it does not take it.
pub(super) fn names(headers: &HeaderMap, media: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    accepted.flat_map(|accept| accept.split(',')).any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let is_zero = |weight: &str| !weight.is_empty() && weight.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        let is_it = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(media));
        is_it && !parts.any(|part| part.strip_prefix("q=").is_some_and(is_zero))
    })
}

/// Documents of more bytes are read beside the threads that serve requests.
const LONG_BYTES: u64 = 256 << 10;

/// How many at once: each takes a processor.
static READERS: Semaphore = Semaphore::const_new(2);

/// A part of the request's head.
pub(super) struct Head<E>(pub(super) E);

impl<E, S> FromRequestParts<S> for Head<E>
where
    E: FromRequestParts<S, Rejection: Into<Problem>>,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        E::from_request_parts(parts, state).await.map(Self).map_err(Into::into)
    }
}

/// The request's body, a JSON document that is an object.
pub(super) struct Document<T>(pub(super) T);

impl<T, S> FromRequest<S> for Document<T>
where
    T: Send + 'static,
    Json<Object<T>>: FromRequest<(), Rejection = JsonRejection>,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = request.body().size_hint().lower();
        let Json(Object(document)) =
            aside(bytes, async move { Json::<Object<T>>::from_request(request, &()).await }).await??;
        Ok(Self(document))
    }
}

/// Reads a document of this many bytes. If they are many, on a thread beside those that serve requests: one that reads megabytes in one go
/// answers no other request meanwhile.
///
/// # Errors
/// There is no such thread.
pub(super) async fn aside<T: Send + 'static>(
    bytes: u64,
    read: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    if bytes <= LONG_BYTES {
        return Ok(read.await);
    }
    // The semaphore is never closed.
    let turn = READERS.acquire().await.ok();
    let here = Handle::current();
    let reading = spawn_blocking(move || {
        let _turn = turn;
        here.block_on(read)
    });
    reading.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(error) => Problem::new(Code::Other, format!("failed to read the document: {error}")),
    })
}

impl<S: Sync> FromRequestParts<S> for NoPermit {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::at_beginning())
    }
}

impl Argument for NoPermit {
    const TAKES_PERMIT: bool = false;
}

impl<T: JsonSchema> Argument for Head<Query<T>> {
    const TAKES_QUERY: bool = true;

    fn describe(operation: &mut Operation<'_>) {
        operation.in_query::<T>();
        operation.fails(Code::BadRequest);
    }
}

impl<T: JsonSchema> Argument for Document<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.document::<T>();
        [Code::BadRequest, Code::TooLarge, Code::MediaType].into_iter().for_each(|code| operation.fails(code));
    }
}

/// A request that the route reads itself, as `D` describes it.
pub(super) struct RequestOf<D> {
    pub(super) request: Request,
    described: PhantomData<D>,
}

impl<D, S: Sync> FromRequest<S> for RequestOf<D> {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(Self { request, described: PhantomData })
    }
}

impl<D: Argument> Argument for RequestOf<D> {
    const TAKES_QUERY: bool = D::TAKES_QUERY;

    fn describe(operation: &mut Operation<'_>) {
        D::describe(operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_of_no_weight_is_not_wanted() {
        let wants = |accept: &'static str| {
            let headers = [(header::ACCEPT, accept.parse().unwrap())].into_iter().collect();
            names(&headers, "text/csv")
        };
        for accept in ["text/csv", "text/html, TEXT/CSV;q=0.5", "text/csv; header=present", "text/csv;q=1.000"] {
            assert!(wants(accept), "{accept}");
        }
        for accept in ["", "*/*", "text/csv;q=0", "text/csv; header=present; q=0.000, text/html"] {
            assert!(!wants(accept), "{accept}");
        }
    }
}
