//! Which store it is.

use async_trait::async_trait;
use rusqlite::Connection;

use super::fault::Done;
use super::store::EmbeddedStore;
use crate::{Identity, StoreError, StoreId};

/// The id of the store.
const ID: &str = "SELECT value FROM installation WHERE name = 'id'";

#[async_trait]
impl Identity for EmbeddedStore {
    async fn store_id(&self) -> Result<StoreId, StoreError> {
        self.read("look which store it is", |connection, _| id(connection)).await
    }
}

/// The id that is in the file.
pub(super) fn id(connection: &Connection) -> Done<StoreId> {
    Ok(connection.query_row(ID, [], |row| row.get::<_, String>(0))?.into())
}
