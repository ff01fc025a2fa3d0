//! Which store it is. A runner that has seen the id of its store notices when another store is behind the same address.

use async_trait::async_trait;
use redis::{Value, pipe};

use super::connection::known_id::{KnownId, is_another, say_emptied};
use super::partitions::RedisStore;
use super::store::Server;
use crate::{Identity, StoreError, StoreId};

const DOING: &str = "look which store it is";

impl Server {
    /// Reads the id. Where there is none, writes one: the one that this process knows, so that runners whose store was emptied
    /// (`FLUSHALL`) go on in it, or else a new one.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: another store is there than before. Drops all connections until the earlier store is there again.
    pub(super) async fn check_id(&self) -> Result<StoreId, StoreError> {
        let KnownId { key, id } = &*self.link.known_id;
        let known = id.lock().clone();
        let (found,): (Option<String>,) = self.link.query(DOING, pipe().cmd("GET").arg(key)).await?;
        let found = match found {
            Some(found) => StoreId::from(found),
            None => {
                let new = known.clone().unwrap_or_else(StoreId::random);
                let mut write = pipe();
                write.cmd("SET").arg(key).arg(new.as_str()).arg("NX").cmd("GET").arg(key);
                let (written, found): (Value, Option<String>) = self.link.query(DOING, &write).await?;
                if known.is_some() && written != Value::Nil {
                    say_emptied();
                }
                found.map_or(new, StoreId::from)
            }
        };
        let known = id.lock().get_or_insert_with(|| found.clone()).clone();
        if known == found {
            return Ok(found);
        }
        self.link.disconnect();
        let source = anyhow::anyhow!(is_another(&found, &known));
        Err(StoreError::Unavailable { store: self.link.address.clone(), source })
    }
}

#[async_trait]
impl Identity for RedisStore {
    async fn store_id(&self) -> Result<StoreId, StoreError> {
        self.server.check_id().await
    }
}
