//! Recordings of attempts.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Done;
use super::request::Weight;
use super::row::ms;
use super::store::EmbeddedStore;
use super::work::Work;
use crate::clock::wait_ms;
use crate::{RECORDINGS_BYTES, Recordings, StoreError};
use gristmill_core::job::{JobId, TopicId};

const KEEP: &str = "INSERT INTO recordings (tenant, topic, id, until, recording) VALUES (?1, ?2, ?3, ?4, ?5)";

const HAS_TOO_MUCH: &str = "SELECT bytes > ?3 FROM recording_bytes WHERE tenant = ?1 AND topic = ?2";

/// What would go first anyway.
const DROP_OLDEST: &str = "DELETE FROM recordings WHERE number =
                               (SELECT number FROM recordings WHERE tenant = ?1 AND topic = ?2 ORDER BY until, number LIMIT 1)";

const FIND: &str = "SELECT recording FROM recordings WHERE tenant = ?1 AND topic = ?2 AND id = ?3 AND until > ?4";

const FORGET: &str = "DELETE FROM recordings WHERE tenant = ?1 AND topic = ?2 AND id = ?3";

/// Forgets those whose time is over, a bounded number.
const EXPIRE: &str = "DELETE FROM recordings WHERE number IN
                          (SELECT number FROM recordings WHERE until <= ?1 ORDER BY until LIMIT ?2)";

#[async_trait]
impl Recordings for EmbeddedStore {
    async fn keep_recording(
        &self,
        topic: &TopicId,
        job: &JobId,
        recording: &[u8],
        keep: Duration,
    ) -> Result<(), StoreError> {
        let (topic, job, recording) = (topic.clone(), job.clone(), recording.to_vec());
        let weight = Weight { jobs: 1, bytes: recording.len() };
        self.write("keep a recording", weight, move |work: &mut Work<'_>| {
            let (tenant, name) = (topic.tenant.as_str(), topic.topic.as_str());
            let until = ms(work.now().plus(Duration::from_millis(wait_ms(keep))));
            forget(work.connection, &topic, &job)?;
            work.connection.prepare_cached(KEEP)?.execute(params![tenant, name, job.as_str(), until, recording])?;
            let most = i64::try_from(RECORDINGS_BYTES).unwrap_or(i64::MAX);
            let mut has_too_much = work.connection.prepare_cached(HAS_TOO_MUCH)?;
            let mut drop_oldest = work.connection.prepare_cached(DROP_OLDEST)?;
            while has_too_much.query_row(params![tenant, name, most], |row| row.get(0))?
                && drop_oldest.execute([tenant, name])? > 0
            {}
            Ok(())
        })
        .await
    }

    async fn recording(&self, topic: &TopicId, job: &JobId) -> Result<Option<Vec<u8>>, StoreError> {
        let (topic, job) = (topic.clone(), job.clone());
        self.read("read a recording", move |connection, now| {
            let of = params![topic.tenant.as_str(), topic.topic.as_str(), job.as_str(), ms(now)];
            Ok(connection.prepare_cached(FIND)?.query_row(of, |row| row.get(0)).optional()?)
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
    let of = params![topic.tenant.as_str(), topic.topic.as_str(), job.as_str()];
    connection.prepare_cached(FORGET)?.execute(of)?;
    Ok(())
}

impl Work<'_> {
    pub(super) fn expire_recordings(&self, limit: i64) -> Done<usize> {
        Ok(self.connection.prepare_cached(EXPIRE)?.execute([ms(self.now()), limit])?)
    }
}
