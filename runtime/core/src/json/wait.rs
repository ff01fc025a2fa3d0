//! Waits as whole milliseconds.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::schema;
use crate::admission::LONGEST;
use crate::time::{millis, whole_millis};

/// For a field: `#[serde(with = "json::WaitMs")]`.
#[derive(Debug)]
pub struct WaitMs;

impl WaitMs {
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(wait: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(whole_millis(*wait))
    }

    /// # Errors
    /// It is no whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

schema!(inline WaitMs: { "type": "integer", "format": "int64", "minimum": 0, "maximum": millis(LONGEST) });

/// For a field that may be left out: `#[serde(default, with = "json::OptionalWaitMs")]`.
#[derive(Debug)]
pub struct OptionalWaitMs;

impl OptionalWaitMs {
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(wait: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        wait.map(whole_millis).serialize(to)
    }

    /// # Errors
    /// It is neither null nor a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

impl JsonSchema for OptionalWaitMs {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OptionalWaitMs".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Option<WaitMs>>()
    }
}
