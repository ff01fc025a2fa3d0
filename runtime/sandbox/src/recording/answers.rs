//! Answers whose types come from the contract, in a form that can be written down, and the questions that have several parts.

use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};
use url::Url;

use crate::bindings::http::{HttpError, Response};
use crate::bindings::queue::LinkedError;
use crate::keyed_state::StateError;
use gristmill_core::job::{AfterFailed, JobId};

/// What a handler asks with a follow-up. The order of the fields is part of the form of recordings.
#[derive(Serialize)]
pub(crate) struct FollowUpQuestion<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: (&'a Bytes, &'a Option<String>),
    pub(crate) metadata: &'a [(String, String)],
    pub(crate) key: &'a Option<String>,
    pub(crate) priority: u8,
    pub(crate) not_before: Option<u64>,
    pub(crate) unique: &'a Option<String>,
    pub(crate) unique_window: Option<u64>,
    pub(crate) links: (&'a [JobId], AfterFailed, &'a Option<JobId>, bool),
}

impl FollowUpQuestion<'_> {
    /// What a person may read of it. Only the names of topics are short.
    pub(crate) fn about(&self) -> &str {
        self.topic.get(..self.topic.floor_char_boundary(64)).unwrap_or_default()
    }
}

/// An error: which one, and what it says. The numbers are part of the form of recordings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    kind: u8,
    text: String,
    number: u64,
}

/// Status, headers, body, and the URL that it is from.
pub(crate) type Answered = (u16, Vec<(String, String)>, ByteBuf, String);

/// The answer, and how many requests it took, redirects included.
pub(crate) type HttpReply = (Result<Answered, Fault>, u32);

/// What a handler asks with a request of `http`.
pub(crate) fn request_question<'a>(
    method: &'a str,
    url: &'a str,
    headers: &'a [(String, String)],
    body: Option<&'a [u8]>,
    timeout: Option<u64>,
    redirects: u32,
) -> impl Serialize + 'a {
    (method, url, headers, body.map(Bytes::new), timeout, redirects)
}

/// What a person may read of a request: method and origin. Paths and queries carry secrets.
pub(crate) fn about_request(method: &str, url: &str) -> String {
    let origin = Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
    format!("{method} {origin}")
}

pub(crate) fn answered(response: &Response) -> Answered {
    let Response { status, headers, body, url } = response;
    (*status, headers.clone(), ByteBuf::from(body.as_slice()), url.clone())
}

pub(crate) fn response((status, headers, body, url): Answered) -> Response {
    Response { status, headers, body: body.into_vec(), url }
}

impl Fault {
    fn new(kind: u8, text: &str, number: u64) -> Self {
        Self { kind, text: text.to_owned(), number }
    }

    /// Which error, what it says, and its number.
    pub(super) fn parts(&self) -> (u8, &str, u64) {
        (self.kind, &self.text, self.number)
    }
}

impl From<&HttpError> for Fault {
    fn from(error: &HttpError) -> Self {
        match error {
            HttpError::Denied(text) => Self::new(0, text, 0),
            HttpError::Invalid(text) => Self::new(1, text, 0),
            HttpError::Timeout => Self::new(2, "", 0),
            HttpError::TooLarge(limit) => Self::new(3, "", *limit),
            HttpError::TooMany(limit) => Self::new(4, "", u64::from(*limit)),
            HttpError::Unreachable(text) => Self::new(5, text, 0),
        }
    }
}

impl From<Fault> for HttpError {
    fn from(Fault { kind, text, number }: Fault) -> Self {
        match kind {
            0 => Self::Denied(text),
            1 => Self::Invalid(text),
            2 => Self::Timeout,
            3 => Self::TooLarge(number),
            4 => Self::TooMany(u32::try_from(number).unwrap_or(u32::MAX)),
            _ => Self::Unreachable(text),
        }
    }
}

impl From<&LinkedError> for Fault {
    fn from(error: &LinkedError) -> Self {
        match error {
            LinkedError::Denied => Self::new(0, "", 0),
            LinkedError::TooLarge(limit) => Self::new(1, "", *limit),
            LinkedError::TooMany(limit) => Self::new(2, "", u64::from(*limit)),
            LinkedError::UnknownTopic => Self::new(3, "", 0),
            LinkedError::InvalidLinks(text) => Self::new(4, text, 0),
        }
    }
}

impl From<Fault> for LinkedError {
    fn from(Fault { kind, text, number }: Fault) -> Self {
        match kind {
            0 => Self::Denied,
            1 => Self::TooLarge(number),
            2 => Self::TooMany(u32::try_from(number).unwrap_or(u32::MAX)),
            3 => Self::UnknownTopic,
            _ => Self::InvalidLinks(text),
        }
    }
}

impl From<&StateError> for Fault {
    fn from(error: &StateError) -> Self {
        match error {
            StateError::NoKey => Self::new(0, "", 0),
            StateError::TooLarge(limit) => Self::new(1, "", *limit),
            StateError::Unavailable(text) => Self::new(2, text, 0),
        }
    }
}

impl From<Fault> for StateError {
    fn from(Fault { kind, text, number }: Fault) -> Self {
        match kind {
            0 => Self::NoKey,
            1 => Self::TooLarge(number),
            _ => Self::Unavailable(text),
        }
    }
}
