//! Answers whose types come from the contract, in a form that can be written down.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::bindings::http::{HttpError, Response};
use crate::bindings::queue::LinkedError;
use crate::keyed_state::StateError;

/// An error: which one, and what it says. The numbers are part of the form of recordings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    kind: u8,
    text: String,
    number: u64,
}

/// Status, headers, body, and the URL that it is from.
pub(crate) type Answered = (u16, Vec<(String, String)>, ByteBuf, String);

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
