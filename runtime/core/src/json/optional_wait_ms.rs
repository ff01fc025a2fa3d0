//! Waits that may be left out, for `#[serde(default, with = "json::optional_wait_ms")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::whole_millis;

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
