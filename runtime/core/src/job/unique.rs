//! A value that only one job of a topic may hold.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json;

/// A value that only one job of a topic may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// What must differ. At most one job with this value is in a topic at a time.
    pub value: String,
    /// How long the value is held from the push on, whatever becomes of the job meanwhile. Without it, the value is held until
    /// the job is done, dead, expired or cancelled.
    pub window: Option<Duration>,
}

impl Unique {
    /// The value, if the end of the job sets it free.
    pub fn held_until_done(&self) -> Option<&str> {
        self.window.is_none().then_some(&*self.value)
    }
}

/// A value that only one job of a topic may hold.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Unique", deny_unknown_fields)]
struct UniqueObject {
    /// What must differ. At most one job with this value is in a topic at a time.
    value: String,
    /// How long the value is held from the push on, whatever becomes of the job meanwhile. Without it, the value is held until
    /// the job is done, dead, expired or cancelled.
    #[serde(rename = "window_ms", default, with = "json::OptionalWaitMs")]
    window: Option<Duration>,
}

/// Answers always have the object.
impl Serialize for Unique {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.held_until_done() {
            Some(value) if !to.is_human_readable() => to.serialize_str(value),
            _ => UniqueObject::serialize(self, to),
        }
    }
}

/// A text is the value alone.
impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Unique;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or an object with `value`")
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Unique, E> {
                Ok(Unique { value: value.to_owned(), window: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Unique, A::Error> {
                UniqueObject::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_any(Either)
    }
}

impl JsonSchema for Unique {
    fn schema_name() -> Cow<'static, str> {
        "Unique".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = UniqueObject::json_schema(generator);
        if generator.contract().is_serialize() {
            return object;
        }
        json_schema!({ "description": "A value, or a value and how long it is held.", "anyOf": [{ "type": "string" }, object] })
    }
}
