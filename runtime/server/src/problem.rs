//! Errors as they go over the wire: RFC 9457, with a stable `code` of our own.

use std::time::Duration;

use axum::Json;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wrong_document::WrongDocument;
use gristmill_core::job::Name;
use gristmill_core::json::at_most::TOO_LONG;
use gristmill_store::StoreError;

/// When to come again where that depends on others.
pub(crate) const COME_AGAIN: Duration = Duration::from_secs(1);

/// Bytes of a detail; what is longer is cut.
const DETAIL_BYTES: usize = 4096;

/// Begins the detail of [`Code::Unconfirmed`].
pub(crate) const UNCONFIRMED: &str =
    "the jobs are stored, but a failover may lose them (to push them again with the same ids is safe): ";

/// The media type of a [`Problem`].
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// What went wrong: RFC 9457. The type is `about:blank`, so the title is the status in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Problem {
    /// Stable; new ones may come. docs/reference/http-api.md lists them.
    #[schemars(with = "String")]
    pub(super) code: Code,
    pub(super) status: u16,
    pub(super) title: String,
    /// For people.
    pub(super) detail: String,
    /// The store that the problem is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<String>,
    /// Of a request that the token does not allow: its tenant, if it allows the same there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<Name>,
    /// When to come again; the header `Retry-After`.
    #[serde(skip)]
    pub(super) retry_after: Option<Duration>,
}

/// The codes are stable; new ones may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Code {
    BadRequest,
    /// The `Host` is not this machine's own name for itself.
    HostRefused,
    /// The body is not announced as JSON.
    MediaType,
    TooLarge,
    /// There is no such path.
    NotFound,
    MethodNotAllowed,
    JobUnknown,
    Timeout,
    /// The body did not come in time.
    BodyTimeout,
    StoreUnavailable,
    /// The store has what was pushed, and did not confirm in time that it outlives a failover.
    Unconfirmed,
    StoreRefused,
    Unreadable,
    Starting,
    Ending,
    /// The request says no token, where one is needed.
    TokenMissing,
    /// The token is none, has expired, or was revoked.
    TokenInvalid,
    /// The caller may not do that there. The same whether or not there is such a tenant or job.
    Forbidden,
    /// More than a token or a tenant may ask for at a time.
    RateLimited,
    /// The tenant may not have more jobs in the store.
    TooManyJobs,
    /// The tenant may not have more bytes in the store.
    TooManyBytes,
    /// The tenant may not have more topics beside those of the manifest and of components.
    TooManyTopics,
    TokenUnknown,
    /// The text is a token already.
    TokenExists,
    /// The tenant may not have more tokens.
    TooManyTokens,
    /// Too many requests wait.
    Busy,
    /// With another request than the first time.
    IdempotencyKeyReused,
    /// The job is over.
    TooLate,
    /// The component failed a check.
    HandlerRefused,
    HandlerUnknown,
    HandlersFolder,
    TopicUnknown,
    /// A topic with jobs is not forgotten.
    TopicHasJobs,
    ScheduleUnknown,
    /// A manifest made the schedule, and only a manifest changes it.
    ScheduleOfManifest,
    /// The tenant may not have more schedules.
    TooManySchedules,
    /// So many streams are open already.
    TooManyStreams,
    /// No pull worker may claim of this topic.
    NotExternal,
    /// Tenants cannot be moved where there is one store.
    OneStore,
    BulkUnknown,
    /// Its state or its count does not allow that.
    BulkRefused,
    /// There is no such store, or the move is against another one.
    MoveRefused,
    /// The state of the key has another version than the request names.
    OtherVersion,
    /// The request is meant for the store of another server.
    OtherStore,
    /// A code of a newer server.
    #[serde(other)]
    Other,
}

impl Code {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::HostRefused | Self::OtherStore => StatusCode::MISDIRECTED_REQUEST,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::TokenMissing | Self::TokenInvalid => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::RateLimited | Self::TooManyJobs | Self::TooManyBytes | Self::TooManyTopics => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::TokenExists | Self::TooManyTokens | Self::ScheduleOfManifest | Self::TooManySchedules => {
                StatusCode::CONFLICT
            }
            Self::NotFound
            | Self::JobUnknown
            | Self::TokenUnknown
            | Self::HandlerUnknown
            | Self::TopicUnknown
            | Self::ScheduleUnknown
            | Self::BulkUnknown => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLate
            | Self::TopicHasJobs
            | Self::NotExternal
            | Self::OneStore
            | Self::MoveRefused
            | Self::BulkRefused => StatusCode::CONFLICT,
            Self::OtherVersion => StatusCode::PRECONDITION_FAILED,
            Self::IdempotencyKeyReused | Self::HandlerRefused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Timeout
            | Self::StoreUnavailable
            | Self::Unconfirmed
            | Self::Starting
            | Self::Ending
            | Self::Busy
            | Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
            Self::StoreRefused | Self::Unreadable | Self::HandlersFolder | Self::Other => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

impl Problem {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        let status = code.status();
        let title = status.canonical_reason().unwrap_or_default().into();
        let mut detail: String = detail.into();
        // What a request has wrong may be as long as the request.
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES));
        Self { code, status: status.as_u16(), title, detail, store: None, tenant: None, retry_after: None }
    }

    pub(super) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, retry_after) = (self.code, self.retry_after);
        let status = code.status();
        let passes_soon = matches!(code, Code::Busy | Code::Starting | Code::StoreUnavailable | Code::Unconfirmed)
            .then_some(COME_AGAIN);
        let mut response = (status, Json(self)).into_response();
        response.extensions_mut().insert(code);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"gristmill\""));
        }
        if let Some(wait) = retry_after.or(passes_soon) {
            headers.insert(header::RETRY_AFTER, whole_seconds(wait).into());
        }
        response
    }
}

/// Rounded up: a client that comes back after this time must not be too early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (code, store) = match &error {
            StoreError::Unavailable { store, .. } | StoreError::Full { store, .. } => (Code::StoreUnavailable, store),
            StoreError::Unconfirmed { store, .. } => (Code::Unconfirmed, store),
            StoreError::Refused { store, .. } | StoreError::Owned { store, .. } => (Code::StoreRefused, store),
            StoreError::Unreadable { store, .. } => (Code::Unreadable, store),
            StoreError::BadAddress { address, .. } => (Code::StoreRefused, address),
        };
        let store = Some(store.clone());
        // The client says itself which store it is, and what it was doing.
        let detail = match &error {
            StoreError::Unavailable { source, .. }
            | StoreError::Full { source, .. }
            | StoreError::Refused { source, .. } => format!("{source:#}"),
            StoreError::Unconfirmed { source, .. } => {
                format!("{UNCONFIRMED}{source:#}")
            }
            other => other.to_string(),
        };
        Self { store, ..Self::new(code, detail) }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let code = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::MediaType,
            _ => return WrongDocument::find(&rejection).map_or_else(|| bad(rejection.body_text()), Self::from),
        };
        Self::new(code, rejection.body_text())
    }
}

impl From<WrongDocument> for Problem {
    fn from(wrong: WrongDocument) -> Self {
        let detail = wrong.to_string();
        let code = if detail.contains(TOO_LONG) { Code::TooLarge } else { Code::BadRequest };
        Self::new(code, detail)
    }
}

fn bad(detail: String) -> Problem {
    Problem::new(Code::BadRequest, detail)
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Self {
        let code = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE { Code::TooLarge } else { Code::BadRequest };
        Self::new(code, rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        let PathRejection::FailedToDeserializePathParams(failed) = &rejection else {
            return bad(rejection.body_text());
        };
        bad(match failed.kind() {
            ErrorKind::DeserializeError { key, value, message } => {
                format!("the {key} `{value}` in the path makes no sense: {message}")
            }
            ErrorKind::InvalidUtf8InPathParam { key } => format!("the {key} in the path is not UTF-8"),
            other => format!("the path makes no sense: {other}"),
        })
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        WrongDocument::find(&rejection).map_or_else(|| bad(rejection.body_text()), Self::from)
    }
}
