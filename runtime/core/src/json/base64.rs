//! Bytes as base64 (RFC 4648 §4).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serializer, de};

use super::schema;

/// For a field of bytes: `#[serde(with = "json::Base64")]`.
#[derive(Debug)]
pub struct Base64;

impl Base64 {
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    /// # Errors
    /// It is no text, or no base64.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        STANDARD.decode(text.as_bytes()).map_err(|error| de::Error::custom(format!("no base64: {error}")))
    }
}

schema!(inline Base64: { "type": "string", "contentEncoding": "base64", "format": "byte" });
