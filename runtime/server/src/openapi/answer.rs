//! What the type of an answer says about it.

use std::marker::PhantomData;

use axum::Json;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;

use super::Operation;

/// What a route function answers.
pub(crate) trait RouteAnswer {
    fn describe(operation: &mut Operation<'_>);
}

impl<T: RouteAnswer, E> RouteAnswer for Result<T, E> {
    fn describe(operation: &mut Operation<'_>) {
        T::describe(operation);
    }
}

impl<T: JsonSchema> RouteAnswer for Json<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<T>(200);
    }
}

/// Something new: 201. Or something that was there: 200.
impl<T: JsonSchema> RouteAnswer for (StatusCode, Json<T>) {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<T>(200);
        operation.answer::<T>(201);
    }
}

impl<T: JsonSchema> RouteAnswer for (HeaderMap, Json<T>) {
    fn describe(operation: &mut Operation<'_>) {
        Json::<T>::describe(operation);
    }
}

impl<T: JsonSchema> RouteAnswer for (StatusCode, HeaderMap, Json<T>) {
    fn describe(operation: &mut Operation<'_>) {
        <(StatusCode, Json<T>)>::describe(operation);
    }
}

impl RouteAnswer for &'static str {
    fn describe(operation: &mut Operation<'_>) {
        String::describe(operation);
    }
}

impl RouteAnswer for String {
    fn describe(operation: &mut Operation<'_>) {
        operation.text("A line of text.", "text/plain");
    }
}

/// A text of fixed type.
impl RouteAnswer for ([(HeaderName, &'static str); 1], &'static str) {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<serde_json::Map<String, serde_json::Value>>(200);
    }
}

impl<A: RouteAnswer, B: RouteAnswer> RouteAnswer for (A, B) {
    fn describe(operation: &mut Operation<'_>) {
        A::describe(operation);
        B::describe(operation);
    }
}

/// A response that is made elsewhere, and is as `D` describes it.
pub(crate) struct Described<D>(Response, PhantomData<D>);

impl<D> From<Response> for Described<D> {
    fn from(response: Response) -> Self {
        Self(response, PhantomData)
    }
}

impl<D> IntoResponse for Described<D> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<D: RouteAnswer> RouteAnswer for Described<D> {
    fn describe(operation: &mut Operation<'_>) {
        D::describe(operation);
    }
}

/// Server-sent events, each with a `T`.
pub(crate) struct EventStream<T>(PhantomData<T>);

impl<T: JsonSchema> RouteAnswer for EventStream<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.stream::<T>("Events, until either side ends.", "text/event-stream");
    }
}

/// One `T` a line.
pub(crate) struct JsonLines<T>(PhantomData<T>);

impl<T: JsonSchema> RouteAnswer for JsonLines<T> {
    fn describe(operation: &mut Operation<'_>) {
        operation.stream::<T>("One document a line, until either side ends.", "application/x-ndjson");
    }
}

/// A table, for a client that asks for it.
pub(crate) struct Csv;

impl Csv {
    pub(crate) const MEDIA_TYPE: &'static str = "text/csv; charset=utf-8; header=present";
}

impl RouteAnswer for Csv {
    fn describe(operation: &mut Operation<'_>) {
        operation.text("The same as CSV (RFC 4180), with a header.", "text/csv");
    }
}

/// Metrics, in the format that the request accepts.
pub(crate) struct Exposed;

impl RouteAnswer for Exposed {
    fn describe(operation: &mut Operation<'_>) {
        let description = "In Prometheus' text format 0.0.4, or in OpenMetrics 1.0 for a client that accepts it. See \
            docs/reference/metrics.md.";
        operation.text(description, "text/plain");
        operation.text(description, "application/openmetrics-text");
    }
}
