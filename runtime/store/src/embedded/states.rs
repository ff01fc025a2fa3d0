//! What the jobs of a key leave for each other.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::{Done, Fault};
use super::file::request::Weight;
use super::memory::topic::row_count;
use super::row::{at, ms, whole};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::clock::wait_ms;
use crate::{StateDeleted, StateWrite, States, StoreError, StoredState, VersionedState};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::outcome::StateChange;
use gristmill_core::time::Timestamp;

/// Sets a state, in place of an earlier one. One whose time is over is none, and was not swept yet.
const SET: &str = "INSERT INTO states (tenant, topic, key, value, until, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT (tenant, topic, key) DO UPDATE SET value = ?4, until = ?5,
                       version = CASE WHEN until > ?6 THEN version + 1 ELSE ?6 END";

/// A state whose time is not over.
const FIND: &str = "SELECT value, version FROM states WHERE tenant = ?1 AND topic = ?2 AND key = ?3 AND until > ?4";

/// A state with its end.
const EXPORT: &str =
    "SELECT value, version, until FROM states WHERE tenant = ?1 AND topic = ?2 AND key = ?3 AND until > ?4";

/// Sets a state where there is none.
const IMPORT: &str = "INSERT INTO states (tenant, topic, key, value, until, version) VALUES (?1, ?2, ?3, ?4, ?5, ?7)
                      ON CONFLICT (tenant, topic, key) DO UPDATE SET value = ?4, until = ?5, version = ?7
                      WHERE until <= ?6";

/// The keys that have a state.
const KEYS: &str = "SELECT topic, key FROM states WHERE tenant = ?1 AND until > ?2";

/// Deletes a state, also one whose time is over; or, if ?4 is no null, only this version of it.
const DELETE: &str =
    "DELETE FROM states WHERE tenant = ?1 AND topic = ?2 AND key = ?3 AND version = coalesce(?4, version)
                      RETURNING until";

/// Forgets states whose time is over, a bounded number.
const EXPIRE: &str = "DELETE FROM states WHERE number IN
                          (SELECT number FROM states WHERE until <= ?1 ORDER BY until LIMIT ?2)";

#[async_trait]
impl States for EmbeddedStore {
    async fn state(&self, topic: &TopicId, key: &str) -> Result<Option<VersionedState>, StoreError> {
        let (topic, key) = (topic.clone(), key.to_owned());
        self.read("read the state of a key", move |connection, now| find(connection, &topic, &key, now)).await
    }

    async fn delete_state(&self, topic: &TopicId, key: &str, version: Option<u64>) -> Result<StateDeleted, StoreError> {
        let (topic, key) = (topic.clone(), key.to_owned());
        let delete = move |work: &mut Work<'_>| work.delete_state(&topic, &key, version);
        self.write("delete the state of a key", Weight::default(), delete).await
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
            let state = find.query_row(names, |row| {
                Ok(StoredState { value: row.get(0)?, version: whole(row.get(1)?), ttl: at(row.get(2)?).since(now) })
            });
            Ok(state.optional()?)
        })
        .await
    }
}

fn find(connection: &Connection, topic: &TopicId, key: &str, now: Timestamp) -> Done<Option<VersionedState>> {
    let mut find = connection.prepare_cached(FIND)?;
    let names = params![topic.tenant.as_str(), topic.topic.as_str(), key, ms(now)];
    let read = |row: &Row<'_>| Ok(VersionedState { value: row.get(0)?, version: whole(row.get(1)?) });
    Ok(find.query_row(names, read).optional()?)
}

impl Work<'_> {
    pub(super) fn import_state(&self, topic: &TopicId, key: &str, state: &StoredState) -> Done<bool> {
        let until = self.now().plus(state.ttl);
        let StoredState { value, version, .. } = state;
        let (now, version) = (ms(self.now()), row_count(*version));
        let names = params![topic.tenant.as_str(), topic.topic.as_str(), key, value, ms(until), now, version];
        Ok(self.connection.prepare_cached(IMPORT)?.execute(names)? > 0)
    }

    pub(super) fn write_state(&self, topic: &TopicId, StateWrite { key, change, ttl }: &StateWrite) -> Done<()> {
        let StateChange::Set(value) = change else { return self.delete_state(topic, key, None).map(drop) };
        let until = self.now().plus(Duration::from_millis(wait_ms(*ttl)));
        let names = params![topic.tenant.as_str(), topic.topic.as_str(), key, value, ms(until), ms(self.now())];
        self.connection.prepare_cached(SET)?.execute(names)?;
        Ok(())
    }

    fn delete_state(&self, topic: &TopicId, key: &str, version: Option<u64>) -> Done<StateDeleted> {
        let mut delete = self.connection.prepare_cached(DELETE)?;
        let names = params![topic.tenant.as_str(), topic.topic.as_str(), key, version.map(row_count)];
        let until: Option<i64> = delete.query_row(names, |row| row.get(0)).optional()?;
        let is_another = || Ok::<_, Fault>(find(self.connection, topic, key, self.now())?.is_some());
        Ok(match until {
            Some(until) if until > ms(self.now()) => StateDeleted::Deleted,
            None if version.is_some() && is_another()? => StateDeleted::OtherVersion,
            _ => StateDeleted::Missing,
        })
    }

    pub(super) fn expire_states(&self, limit: i64) -> Done<usize> {
        Ok(self.connection.prepare_cached(EXPIRE)?.execute([ms(self.now()), limit])?)
    }
}
