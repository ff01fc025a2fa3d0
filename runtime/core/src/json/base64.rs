//! Bytes as base64 (RFC 4648 §4).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserializer, Serializer, de};

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
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text of base64")
            }

            /// Without a copy of the text, which may be long.
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
                STANDARD.decode(text).map_err(|error| E::custom(format!("no base64: {error}")))
            }
        }
        from.deserialize_str(Text)
    }
}

schema!(inline Base64: { "type": "string", "contentEncoding": "base64", "format": "byte" });
