//! The id of the store that this process works on: no connection is made to a server that has another one.

use parking_lot::Mutex;
use redis::{RedisResult, Value};

use super::commands::Commands;
use super::error::misconfigured;
use crate::StoreId;
use crate::redis::key_names;

/// The key of the id, and the id that this process has found there.
#[derive(Debug)]
pub(in crate::redis) struct KnownId {
    pub(in crate::redis) key: String,
    pub(in crate::redis) id: Mutex<Option<StoreId>>,
}

impl KnownId {
    pub(in crate::redis) fn new(prefix: &str) -> Self {
        Self { key: key_names::id(prefix), id: Mutex::default() }
    }

    /// Refuses a new connection to a server that has another store than this process has worked on. A store that was emptied
    /// (`FLUSHALL`) gets its id back.
    pub(in crate::redis) async fn check(&self, connection: &mut Commands) -> RedisResult<()> {
        let Some(known) = self.id.lock().clone() else { return Ok(()) };
        let found: RedisResult<Option<String>> = redis::cmd("GET").arg(&self.key).query_async(connection).await;
        match found {
            // The server of a cluster that has the key looks at it.
            Err(error) if error.is_cluster_error() => Ok(()),
            found => match found?.map(StoreId::from) {
                None => {
                    let mut write = redis::cmd("SET");
                    // A server that takes no writes gets it later.
                    let written: RedisResult<Value> =
                        write.arg(&self.key).arg(known.as_str()).arg("NX").query_async(connection).await;
                    if written.is_ok_and(|written| written != Value::Nil) {
                        say_emptied();
                    }
                    Ok(())
                }
                Some(found) if found == known => Ok(()),
                Some(found) => Err(misconfigured(is_another(&found, &known))),
            },
        }
    }
}

/// Once: by the process that has written the id again.
pub(in crate::redis) fn say_emptied() {
    tracing::error!(
        "the store was emptied (FLUSHALL, or a Redis that started without its data): its jobs, results, schedules, states and tokens are gone, and \
         this process goes on in the empty one; if that is a mistake, end it and restore a backup"
    );
}

/// Why nothing is done.
pub(in crate::redis) fn is_another(found: &StoreId, known: &StoreId) -> String {
    format!(
        "another store is there now ({found}), and not the one that this process has worked on ({known}): bring that one back, or start this \
         process again to work on the other one"
    )
}
