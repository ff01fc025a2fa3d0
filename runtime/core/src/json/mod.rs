//! How the facts of this crate are written in JSON: version 1 of the HTTP API. Bytes are base64; times and waits are whole
//! milliseconds, and their names end in `_ms`. Unknown fields of a request are refused, so that a misspelt one does not go
//! unnoticed.

pub mod at_most;
mod base64;
pub mod object;
mod wait;

pub use base64::Base64;
pub use wait::{OptionalWaitMs, WaitMs};

/// Whether a value says nothing that its absence would not say: `#[serde(default, skip_serializing_if = "is_default")]`.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// States the JSON schema of a type: `inline` where the type is used, or `named`, as a component of the OpenAPI document.
macro_rules! schema {
    (inline $type:ident: $json:tt) => {
        $crate::json::schema!(true, $type, $json);
    };
    (named $type:ident: $json:tt) => {
        $crate::json::schema!(false, $type, $json);
    };
    ($is_inline:literal, $type:ident, $json:tt) => {
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                $is_inline
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($json)
            }
        }
    };
}

/// Gives a type two serialised forms: one in JSON, and the one that stores keep in MessagePack.
macro_rules! json_and_stored {
    ($type:ty, $json:ty, $stored:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    <$json>::serialize(self, serializer)
                } else {
                    <$stored>::serialize(self, serializer)
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    <$json>::deserialize(deserializer)
                } else {
                    <$stored>::deserialize(deserializer)
                }
            }
        }
    };
}

pub(crate) use {json_and_stored, schema};
