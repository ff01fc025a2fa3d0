//! Which store it is.

use async_trait::async_trait;

use super::file::open::id;
use super::store::EmbeddedStore;
use crate::{Identity, StoreError, StoreId};

#[async_trait]
impl Identity for EmbeddedStore {
    async fn store_id(&self) -> Result<StoreId, StoreError> {
        self.read("look which store it is", |connection, _| id(connection)).await
    }
}
