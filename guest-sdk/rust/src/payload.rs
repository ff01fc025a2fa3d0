//! Making a [`Payload`] out of what a handler has at hand.

use serde::Serialize;

use crate::{Failure, Payload};

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

impl Payload {
    /// Bytes in the format that `content_type` names.
    pub fn new(data: impl Into<Vec<u8>>, content_type: &str) -> Self {
        Self { data: data.into(), content_type: Some(content_type.into()) }
    }

    /// `value` as JSON.
    ///
    /// # Errors
    ///
    /// Rejects with the code `unserializable`: a map's key is not a string, or a `Serialize` of the author's own failed.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Result<Self, Failure> {
        match serde_json::to_vec(value) {
            Ok(data) => Ok(Self::new(data, JSON)),
            Err(error) => Err(Failure::reject("unserializable", format!("value cannot be written as JSON: {error}"))),
        }
    }
}

/// Opaque octets.
impl From<Vec<u8>> for Payload {
    fn from(data: Vec<u8>) -> Self {
        Self { data, content_type: None }
    }
}

/// `text/plain`.
impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self::new(text, TEXT)
    }
}

/// `text/plain`.
impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self::new(text, TEXT)
    }
}
