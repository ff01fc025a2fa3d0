//! Recordings of attempts.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Done;
use super::file::request::Weight;
use super::row::{at, ms};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::clock::wait_ms;
use crate::list::PAGE_JOBS;
use crate::{RECORDINGS_BYTES, RecordedJob, Recordings, StoreError};
use gristmill_core::job::{JobId, TopicId};

const FIND_TOPIC: &str = "SELECT number FROM recorded_topics WHERE tenant = ?1 AND topic = ?2";

const ADD_TOPIC: &str = "INSERT INTO recorded_topics (tenant, topic, bytes) VALUES (?1, ?2, 0) RETURNING number";

const COUNT_BYTES: &str = "UPDATE recorded_topics SET bytes = bytes + ?2 WHERE number = ?1";

const BYTES: &str = "SELECT bytes FROM recorded_topics WHERE number = ?1";

const FORGET_TOPIC: &str = "DELETE FROM recorded_topics
                            WHERE number = ?1 AND NOT EXISTS (SELECT 1 FROM recordings WHERE topic = ?1)";

const KEEP: &str = "INSERT INTO recordings (topic, id, until, recording) VALUES (?1, ?2, ?3, ?4)";

/// SQLite opens a table for what a change returns, so that costs more than to look first.
const FIND_ONE: &str = "SELECT number, length(recording) FROM recordings WHERE topic = ?1 AND id = ?2";

/// What would go first anyway.
const OLDEST: &str = "SELECT number, length(recording) FROM recordings WHERE topic = ?1 ORDER BY until, number";

/// Those whose time is over, a bounded number. `CROSS` has SQLite go from topic to topic, and not through all recordings.
const EXPIRED: &str = "SELECT recordings.number, recordings.topic, length(recording)
                       FROM recorded_topics CROSS JOIN recordings ON recordings.topic = recorded_topics.number
                       WHERE until <= ?1 LIMIT ?2";

const DROP: &str = "DELETE FROM recordings WHERE number = ?1";

const DROP_ALL: &str = "DELETE FROM recordings WHERE topic = ?1";

const FIND: &str = "SELECT recording FROM recorded_topics JOIN recordings ON recordings.topic = recorded_topics.number
                    WHERE tenant = ?1 AND recorded_topics.topic = ?2 AND id = ?3 AND until > ?4";

/// Texts sort by their bytes, as ids in Redis do.
const LIST: &str = "SELECT until, id FROM recordings
                        WHERE topic = ?1 AND until > ?2 AND until <= ?3 AND (until < ?3 OR id < ?4)
                        ORDER BY until DESC, id DESC LIMIT ?5";

#[async_trait]
impl Recordings for EmbeddedStore {
    async fn keep_recordings(
        &self,
        topic: &TopicId,
        recordings: &[(JobId, Vec<u8>)],
        keep: Duration,
    ) -> Result<(), StoreError> {
        let (topic, recordings) = (topic.clone(), recordings.to_vec());
        let bytes = recordings.iter().map(|(_, recording)| recording.len()).sum();
        let weight = Weight { jobs: recordings.len(), bytes };
        self.write("keep recordings", weight, move |work| work.keep_recordings(&topic, &recordings, keep)).await
    }

    async fn recording(&self, topic: &TopicId, job: &JobId) -> Result<Option<Vec<u8>>, StoreError> {
        let (topic, job) = (topic.clone(), job.clone());
        self.read("read a recording", move |connection, now| {
            let of = params![topic.tenant.as_str(), topic.topic.as_str(), job.as_str(), ms(now)];
            Ok(connection.prepare_cached(FIND)?.query_row(of, |row| row.get(0)).optional()?)
        })
        .await
    }

    async fn recorded_jobs(
        &self,
        topic: &TopicId,
        after: Option<&RecordedJob>,
        limit: usize,
    ) -> Result<Vec<RecordedJob>, StoreError> {
        let (topic, after) = (topic.clone(), after.cloned());
        let limit = i64::try_from(limit.min(PAGE_JOBS)).unwrap_or(i64::MAX);
        self.read("list recordings", move |connection, now| {
            let Some(topic) = find_topic(connection, &topic)? else { return Ok(Vec::new()) };
            let (until, id) = after.as_ref().map_or((i64::MAX, ""), |after| (ms(after.until), after.id.as_str()));
            let of = params![topic, ms(now), until, id, limit];
            let mut list = connection.prepare_cached(LIST)?;
            let mut rows = list.query(of)?;
            let mut jobs = Vec::new();
            while let Some(row) = rows.next()? {
                let (until, id): (i64, String) = (row.get(0)?, row.get(1)?);
                // Every id that was kept is one.
                let Ok(id) = id.parse() else { continue };
                jobs.push(RecordedJob { until: at(until), id });
            }
            Ok(jobs)
        })
        .await
    }

    async fn forget_recordings(&self, topic: &TopicId, jobs: &[JobId]) -> Result<(), StoreError> {
        let (topic, jobs) = (topic.clone(), jobs.to_vec());
        let weight = Weight { jobs: jobs.len(), bytes: 0 };
        let forget = move |work: &mut Work<'_>| jobs.iter().try_for_each(|job| forget(work.connection, &topic, job));
        self.write("forget recordings", weight, forget).await
    }
}

pub(super) fn forget(connection: &Connection, topic: &TopicId, job: &JobId) -> Done<()> {
    let Some(topic) = find_topic(connection, topic)? else { return Ok(()) };
    let bytes = drop_one(connection, topic, job)?;
    if bytes > 0 {
        count_bytes(connection, topic, -bytes)?;
    }
    Ok(())
}

/// All of a topic.
pub(super) fn forget_all(connection: &Connection, topic: &TopicId) -> Done<()> {
    let Some(topic) = find_topic(connection, topic)? else { return Ok(()) };
    connection.prepare_cached(DROP_ALL)?.execute([topic])?;
    connection.prepare_cached(FORGET_TOPIC)?.execute([topic])?;
    Ok(())
}

impl Work<'_> {
    fn keep_recordings(&self, topic: &TopicId, recordings: &[(JobId, Vec<u8>)], keep: Duration) -> Done<()> {
        let topic = match find_topic(self.connection, topic)? {
            Some(known) => known,
            None => {
                let of = [topic.tenant.as_str(), topic.topic.as_str()];
                self.connection.prepare_cached(ADD_TOPIC)?.query_row(of, |row| row.get(0))?
            }
        };
        let until = ms(self.now().plus(Duration::from_millis(wait_ms(keep))));
        let mut add = self.connection.prepare_cached(KEEP)?;
        let mut more = 0;
        for (job, recording) in recordings {
            more -= drop_one(self.connection, topic, job)?;
            more += i64::try_from(recording.len()).unwrap_or(i64::MAX);
            add.execute(params![topic, job.as_str(), until, recording])?;
        }
        let most = i64::try_from(RECORDINGS_BYTES).unwrap_or(i64::MAX);
        let had: i64 = self.connection.prepare_cached(BYTES)?.query_row([topic], |row| row.get(0))?;
        for (number, bytes) in self.oldest(topic, had + more - most)? {
            drop_recording(self.connection, number)?;
            more -= bytes;
        }
        count_bytes(self.connection, topic, more)
    }

    /// Those that go first, with their bytes: as many as have at least `bytes` together.
    fn oldest(&self, topic: i64, mut bytes: i64) -> Done<Vec<(i64, i64)>> {
        let mut oldest = Vec::new();
        if bytes <= 0 {
            return Ok(oldest);
        }
        let mut select = self.connection.prepare_cached(OLDEST)?;
        let mut rows = select.query([topic])?;
        while bytes > 0
            && let Some(row) = rows.next()?
        {
            let (number, of_one): (i64, i64) = (row.get(0)?, row.get(1)?);
            oldest.push((number, of_one));
            bytes -= of_one;
        }
        Ok(oldest)
    }

    pub(super) fn expire_recordings(&self, limit: i64) -> Done<usize> {
        let mut select = self.connection.prepare_cached(EXPIRED)?;
        let expired = select.query_map([ms(self.now()), limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let expired = expired.collect::<Result<Vec<(i64, i64, i64)>, _>>()?;
        let mut by_topic = BTreeMap::<i64, i64>::new();
        for (number, topic, bytes) in &expired {
            drop_recording(self.connection, *number)?;
            *by_topic.entry(*topic).or_default() += bytes;
        }
        for (topic, bytes) in by_topic {
            count_bytes(self.connection, topic, -bytes)?;
        }
        Ok(expired.len())
    }
}

/// The number of a topic that has recordings.
fn find_topic(connection: &Connection, topic: &TopicId) -> Done<Option<i64>> {
    let of = [topic.tenant.as_str(), topic.topic.as_str()];
    Ok(connection.prepare_cached(FIND_TOPIC)?.query_row(of, |row| row.get(0)).optional()?)
}

/// Without counting. Returns the bytes that it had; 0 if there was none.
fn drop_one(connection: &Connection, topic: i64, job: &JobId) -> Done<i64> {
    let of = params![topic, job.as_str()];
    let found = connection.prepare_cached(FIND_ONE)?.query_row(of, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((number, bytes)) = found else { return Ok(0) };
    drop_recording(connection, number)?;
    Ok(bytes)
}

fn drop_recording(connection: &Connection, number: i64) -> Done<()> {
    connection.prepare_cached(DROP)?.execute([number])?;
    Ok(())
}

/// A topic that has none left is forgotten.
fn count_bytes(connection: &Connection, topic: i64, more: i64) -> Done<()> {
    connection.prepare_cached(COUNT_BYTES)?.execute([topic, more])?;
    connection.prepare_cached(FORGET_TOPIC)?.execute([topic])?;
    Ok(())
}
