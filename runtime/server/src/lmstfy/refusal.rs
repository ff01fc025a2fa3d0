//! Refusals in the words of lmstfy.

use std::borrow::Cow;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::problem::{COME_AGAIN, Problem};
use gristmill_store::StoreError;

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A status and `{"error": …}`.
    Because(StatusCode, Cow<'static, str>),
    /// There is no job to consume. lmstfy answers that with a message, not with an error.
    NoJob,
    /// Over the limit of a token; it may try again after this long.
    TooFast { action: &'static str, again_after: Duration },
    /// Over another limit; it may try again after this long.
    TooMany { error: String, again_after: Duration },
    /// The cause is in the log, and nowhere else.
    Internal,
}

impl Refusal {
    pub(super) const fn bad(error: &'static str) -> Self {
        Self::Because(StatusCode::BAD_REQUEST, Cow::Borrowed(error))
    }

    pub(super) const fn too_large(error: &'static str) -> Self {
        Self::Because(StatusCode::PAYLOAD_TOO_LARGE, Cow::Borrowed(error))
    }

    pub(super) const fn not_found(error: &'static str) -> Self {
        Self::Because(StatusCode::NOT_FOUND, Cow::Borrowed(error))
    }

    pub(super) const fn forbidden(error: &'static str) -> Self {
        Self::Because(StatusCode::FORBIDDEN, Cow::Borrowed(error))
    }

    pub(super) const fn unknown(error: &'static str) -> Self {
        Self::Because(StatusCode::UNAUTHORIZED, Cow::Borrowed(error))
    }

    /// lmstfy has no such path or method.
    pub(super) const NO_API: Self = Self::not_found("api not found");

    /// A failure of the server, which goes to the log and nowhere else.
    pub(super) fn internal(error: impl Into<anyhow::Error>) -> Self {
        tracing::error!("a request of lmstfy's API failed: {:#}", error.into());
        Self::Internal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Because(status, error) => (status, Json(json!({ "error": error }))).into_response(),
            Self::NoJob => (StatusCode::NOT_FOUND, Json(json!({ "msg": "no job available" }))).into_response(),
            Self::TooFast { action, again_after } => {
                too_many(&format!("{action} reach the limit rate, please retry later"), again_after)
            }
            Self::TooMany { error, again_after } => too_many(&error, again_after),
            Self::Internal => {
                (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": "internal error" }))).into_response()
            }
        }
    }
}

fn too_many(error: &str, again_after: Duration) -> Response {
    let body = Json(json!({ "msg": error, "error": error }));
    let seconds = again_after.as_secs() + u64::from(again_after.subsec_nanos() > 0);
    let headers = [(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))];
    (StatusCode::TOO_MANY_REQUESTS, headers, body).into_response()
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::internal(error)
    }
}

/// What the server refuses on every API, in lmstfy's form.
impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        match StatusCode::from_u16(problem.status) {
            Ok(StatusCode::TOO_MANY_REQUESTS) => {
                Self::TooMany { error: problem.detail, again_after: problem.retry_after.unwrap_or(COME_AGAIN) }
            }
            Ok(status) if status.is_client_error() => Self::Because(status, problem.detail.into()),
            _ => Self::internal(anyhow::Error::msg(problem.detail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Code;

    #[test]
    fn a_client_over_a_limit_learns_when_to_try_again() {
        for (problem, seconds) in [
            (Problem::new(Code::TooManyJobs, "full").retry_after(COME_AGAIN), "1"),
            (Problem::new(Code::RateLimited, "fast").retry_after(Duration::from_millis(2100)), "3"),
        ] {
            let response = Refusal::from(problem).into_response();
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(response.headers()[header::RETRY_AFTER], seconds);
        }
    }
}
