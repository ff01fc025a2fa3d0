//! Which store it is.

use std::fmt;

use super::error::StoreError;
use super::operations::operations;

/// What a store is known by, wherever it is: made at random with the store, and kept in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreId(String);

/// What distinguishes a server from every other one. Process ids, addresses and names of files may be those of another one: in containers
/// all servers are process 1 at the same address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerName {
    /// Its store, or the primary one of several.
    pub store: StoreId,
    /// Made at random when the server began.
    pub instance: String,
}

operations! {
    primary shard:
    /// Which store it is.
    pub trait Identity {
        /// The id of the store. Another store has another one, also at the same address; that of a file goes with its copies.
        async fn store_id(&self) -> Result<StoreId, StoreError>;
    }
}

impl StoreId {
    /// An id that no store has yet.
    #[cfg(feature = "redis")]
    pub(crate) fn random() -> Self {
        Self(format!("{:032x}", fastrand::u128(..)))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for StoreId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
