//! Unique values that are held, to look them up and to free them.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use crate::embedded::file::request::Weight;
use crate::embedded::row::{at, ms};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work::Work;
use crate::{StoreError, UniqueHold, Uniques};
use gristmill_core::job::TopicId;
use gristmill_core::time::Timestamp;

const HOLD: &str = "SELECT holder, until FROM uniques JOIN topics ON topics.number = topic_number
                    WHERE tenant = ?1 AND topic = ?2 AND value = ?3 AND coalesce(until, ?4 + 1) > ?4";

const FREE: &str = "DELETE FROM uniques WHERE value = ?3 AND until > ?4
                        AND topic_number = (SELECT number FROM topics WHERE tenant = ?1 AND topic = ?2)";

const FREE_SOME: &str = "DELETE FROM uniques WHERE (topic_number, value) IN
                             (SELECT topic_number, value FROM uniques JOIN topics ON topics.number = topic_number
                              WHERE tenant = ?1 AND topic = ?2 AND until IS NOT NULL LIMIT 1000)";

#[async_trait]
impl Uniques for EmbeddedStore {
    async fn unique_hold(&self, topic: &TopicId, value: &str) -> Result<Option<UniqueHold>, StoreError> {
        let (topic, value) = (topic.clone(), value.to_owned());
        let look = move |connection: &Connection, now: Timestamp| {
            let mut select = connection.prepare_cached(HOLD)?;
            let of = params![topic.tenant.as_str(), topic.topic.as_str(), value, ms(now)];
            let held =
                select.query_row(of, |row| Ok((row.get::<_, String>("holder")?, row.get::<_, Option<i64>>("until")?)));
            let Some((holder, until)) = held.optional()? else { return Ok(None) };
            Ok(holder.parse().ok().map(|holder| UniqueHold { holder, until: until.map(at) }))
        };
        self.read("look up a unique value", look).await
    }

    async fn free_unique(&self, topic: &TopicId, value: &str) -> Result<bool, StoreError> {
        let (topic, value) = (topic.clone(), value.to_owned());
        let free = move |work: &mut Work<'_>| {
            let of = params![topic.tenant.as_str(), topic.topic.as_str(), value, ms(work.now())];
            Ok(work.connection.prepare_cached(FREE)?.execute(of)? > 0)
        };
        self.write("free a unique value", Weight::default(), free).await
    }

    async fn free_windows(&self, topic: &TopicId) -> Result<u64, StoreError> {
        let topic = topic.clone();
        let free = move |work: &mut Work<'_>| {
            let of = params![topic.tenant.as_str(), topic.topic.as_str()];
            Ok(work.connection.prepare_cached(FREE_SOME)?.execute(of)? as u64)
        };
        self.write("free unique values", Weight::default(), free).await
    }
}
