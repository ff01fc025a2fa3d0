//! Which component a handler is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::json::schema;

/// The content of a component: SHA-256 of its bytes. Shown as its first 12 hexadecimal digits; stored and sent as all 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(pub [u8; 32]);

schema!(inline Version: { "type": "string", "pattern": "^[0-9a-f]{64}$" });

/// The text is not the SHA-256 of a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version in full: it is 64 of 0-9 a-f, the SHA-256 of the component")]
pub struct BadVersion(pub String);

impl Version {
    /// The version of these bytes: their SHA-256.
    pub fn of(wasm: &[u8]) -> Self {
        Self(Sha256::digest(wasm).into())
    }

    /// All 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(self.0.get(..6).unwrap_or_default()))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Version {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| BadVersion(text.to_owned()))?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Version {
    type Error = BadVersion;

    fn try_from(text: String) -> Result<Self, BadVersion> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.digest()
    }
}
