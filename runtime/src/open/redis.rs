//! Opens a Redis.

use std::sync::Arc;

use super::One;
use gristmill_config::RedisSettings;
use gristmill_store::StoreError;
pub(super) use gristmill_store::redis::RedisStore;

/// With `must_answer` waits for a connection; without, the store connects when it is used.
pub(super) async fn open(url: &str, settings: &RedisSettings, must_answer: bool) -> Result<One, StoreError> {
    let store = if must_answer { RedisStore::open(url, settings).await? } else { RedisStore::at(url, settings)? };
    let (any, registry) = (Arc::new(store.clone()), Arc::new(store.clone()));
    Ok(One { store: any, registry, owned: None, server: Some(store), is_remote: true })
}
