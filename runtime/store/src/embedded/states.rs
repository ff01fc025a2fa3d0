//! What the jobs of a key leave for each other.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use super::fault::Done;
use super::request::Weight;
use super::row::{at, ms};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::clock::wait_ms;
use crate::{StateWrite, States, StoreError, StoredState};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::outcome::StateChange;

/// Sets a state, in place of an earlier one.
const SET: &str = "INSERT INTO states (tenant, topic, key, value, until) VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (tenant, topic, key) DO UPDATE SET value = ?4, until = ?5";

/// A state whose time is not over.
const FIND: &str = "SELECT value FROM states WHERE tenant = ?1 AND topic = ?2 AND key = ?3 AND until > ?4";

/// A state with its end.
const EXPORT: &str = "SELECT value, until FROM states WHERE tenant = ?1 AND topic = ?2 AND key = ?3 AND until > ?4";

/// Sets a state where there is none.
const IMPORT: &str = "INSERT INTO states (tenant, topic, key, value, until) VALUES (?1, ?2, ?3, ?4, ?5)
                      ON CONFLICT (tenant, topic, key) DO UPDATE SET value = ?4, until = ?5 WHERE until <= ?6";

/// The keys that have a state.
const KEYS: &str = "SELECT topic, key FROM states WHERE tenant = ?1 AND until > ?2";

/// Deletes a state.
const DELETE: &str = "DELETE FROM states WHERE tenant = ?1 AND topic = ?2 AND key = ?3 RETURNING until";

/// Forgets states whose time is over, a bounded number.
const EXPIRE: &str = "DELETE FROM states WHERE number IN
                          (SELECT number FROM states WHERE until <= ?1 ORDER BY until LIMIT ?2)";

#[async_trait]
impl States for EmbeddedStore {
    async fn state(&self, topic: &TopicId, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (topic, key) = (topic.clone(), key.to_owned());
        self.read("read the state of a key", move |connection, now| {
            let mut find = connection.prepare_cached(FIND)?;
            let names = params![topic.tenant.as_str(), topic.topic.as_str(), key, ms(now)];
            Ok(find.query_row(names, |row| row.get(0)).optional()?)
        })
        .await
    }

    async fn delete_state(&self, topic: &TopicId, key: &str) -> Result<bool, StoreError> {
        let (topic, key) = (topic.clone(), key.to_owned());
        self.write("delete the state of a key", Weight::default(), move |work| work.delete_state(&topic, &key)).await
    }
}

impl EmbeddedStore {
    pub(super) async fn all_keys_with_state(&self, tenant: &Name) -> Result<Vec<(TopicId, String)>, StoreError> {
        let tenant = tenant.clone();
        self.read_list("look for states of keys", move |connection, now| {
            let mut select = connection.prepare_cached(KEYS)?;
            let rows = select.query_map(params![tenant.as_str(), ms(now)], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let rows = rows.collect::<Result<Vec<(String, String)>, _>>()?;
            let named = |(topic, key): (String, String)| {
                Some((TopicId { tenant: tenant.clone(), topic: topic.parse().ok()? }, key))
            };
            Ok(rows.into_iter().filter_map(named).collect())
        })
        .await
    }

    pub(super) async fn one_state(&self, topic: &TopicId, key: &str) -> Result<Option<StoredState>, StoreError> {
        let (topic, key) = (topic.clone(), key.to_owned());
        self.read("read the state of a key", move |connection, now| {
            let mut find = connection.prepare_cached(EXPORT)?;
            let names = params![topic.tenant.as_str(), topic.topic.as_str(), key, ms(now)];
            let state =
                find.query_row(names, |row| Ok(StoredState { value: row.get(0)?, ttl: at(row.get(1)?).since(now) }));
            Ok(state.optional()?)
        })
        .await
    }
}

impl Work<'_> {
    pub(super) fn import_state(&self, topic: &TopicId, key: &str, state: &StoredState) -> Done<bool> {
        let until = self.now().plus(state.ttl);
        let names = params![topic.tenant.as_str(), topic.topic.as_str(), key, state.value, ms(until), ms(self.now())];
        Ok(self.connection.prepare_cached(IMPORT)?.execute(names)? > 0)
    }

    pub(super) fn write_state(&self, topic: &TopicId, StateWrite { key, change, ttl }: &StateWrite) -> Done<()> {
        let StateChange::Set(value) = change else { return self.delete_state(topic, key).map(drop) };
        let until = self.now().plus(Duration::from_millis(wait_ms(*ttl)));
        let names = params![topic.tenant.as_str(), topic.topic.as_str(), key, value, ms(until)];
        self.connection.prepare_cached(SET)?.execute(names)?;
        Ok(())
    }

    fn delete_state(&self, topic: &TopicId, key: &str) -> Done<bool> {
        let mut delete = self.connection.prepare_cached(DELETE)?;
        let names = params![topic.tenant.as_str(), topic.topic.as_str(), key];
        let until: Option<i64> = delete.query_row(names, |row| row.get(0)).optional()?;
        Ok(until.is_some_and(|until| until > ms(self.now())))
    }

    pub(super) fn expire_states(&self, limit: i64) -> Done<usize> {
        Ok(self.connection.prepare_cached(EXPIRE)?.execute([ms(self.now()), limit])?)
    }
}
