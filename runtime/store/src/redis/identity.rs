//! Which store it is. A runner that has seen the id of its store notices when another store is behind the same address.

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::{RedisResult, Value, pipe};

use super::commands::Commands;
use super::error::misconfigured;
use super::keys;
use super::partitions::RedisStore;
use super::store::Server;
use crate::{Identity, StoreError, StoreId};

const DOING: &str = "look which store it is";

/// The key of the id, and the id that this process has found there.
#[derive(Debug)]
pub(super) struct KnownId {
    key: String,
    id: Mutex<Option<StoreId>>,
}

impl KnownId {
    pub(super) fn new(prefix: &str) -> Self {
        Self { key: keys::id(prefix), id: Mutex::default() }
    }

    /// Refuses a new connection to a server that has another store than this process has worked on. A store that was emptied
    /// (`FLUSHALL`) gets its id back.
    pub(super) async fn check(&self, connection: &mut Commands) -> RedisResult<()> {
        let Some(known) = self.id.lock().clone() else { return Ok(()) };
        let found: RedisResult<Option<String>> = redis::cmd("GET").arg(&self.key).query_async(connection).await;
        match found {
            // The server of a cluster that has the key looks at it.
            Err(error) if error.is_cluster_error() => Ok(()),
            found => match found?.map(StoreId::from) {
                None => {
                    let mut write = redis::cmd("SET");
                    // A server that takes no writes gets it later.
                    let _: RedisResult<Value> =
                        write.arg(&self.key).arg(known.as_str()).arg("NX").query_async(connection).await;
                    Ok(())
                }
                Some(found) if found == known => Ok(()),
                Some(found) => Err(misconfigured(is_another(&found, &known))),
            },
        }
    }
}

fn is_another(found: &StoreId, known: &StoreId) -> String {
    format!(
        "another store is there now ({found}), and not the one that this process has worked on ({known}): bring that one back, or start this \
         process again to work on the other one"
    )
}

impl Server {
    /// Reads the id. Where there is none, writes one: the one that this process knows, so that runners whose store was emptied
    /// (`FLUSHALL`) go on in it, or else a new one.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: another store is there than before. All connections are dropped, and none is made until the one before is back.
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
                let (_, found): (Value, Option<String>) = self.link.query(DOING, &write).await?;
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
