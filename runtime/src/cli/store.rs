//! Opens a store by its address.

use std::sync::Arc;

use crate::config::{StoreAddress, StoreSettings};
use crate::store::redis::RedisStore;
use crate::store::{Store, StoreError};

/// Opens the store at its address.
///
/// # Errors
/// It is away, or refuses.
pub(super) async fn open(settings: &StoreSettings) -> anyhow::Result<Arc<dyn Store>> {
    match &settings.address {
        StoreAddress::Redis(url) => Ok(Arc::new(RedisStore::connect(url, &settings.prefix).await?)),
        address @ (StoreAddress::File(_) | StoreAddress::Memory) => {
            let problem = "this build has no SQLite store".into();
            Err(StoreError::BadAddress { address: address.to_string(), problem }.into())
        }
    }
}
