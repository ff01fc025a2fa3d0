//! Waits as whole milliseconds, for `#[serde(with = "json::wait_ms")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

use crate::time::whole_millis;

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
