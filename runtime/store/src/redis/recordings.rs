//! Recordings of attempts.

use std::time::Duration;

use redis::pipe;

use super::clock::TimeReply;
use super::script::{Call, script};
use super::store::Partition;
use crate::clock::wait_ms;
use crate::{RECORDINGS_BYTES, StoreError};
use gristmill_core::job::{JobId, TopicId};
use gristmill_core::time::Timestamp;

impl Partition {
    pub(crate) async fn keep_recording(
        &self,
        topic: &TopicId,
        job: &JobId,
        recording: &[u8],
        keep: Duration,
    ) -> Result<(), StoreError> {
        self.change_recordings("keep a recording", topic, &[job], recording, keep).await
    }

    pub(crate) async fn recording(&self, topic: &TopicId, job: &JobId) -> Result<Option<Vec<u8>>, StoreError> {
        let (keys, mut ask) = (self.keys(&topic.tenant), pipe());
        ask.atomic().cmd("HGET").arg(keys.recordings(&topic.topic)).arg(job.as_str());
        ask.cmd("ZSCORE").arg(keys.recorded(&topic.topic)).arg(job.as_str()).cmd("TIME");
        let (found, until, time): (Option<Vec<u8>>, Option<f64>, TimeReply) =
            self.link.query("read a recording", &ask).await?;
        let now = self.now(time);
        Ok(found.filter(|_| until.is_some_and(|until| Timestamp::from_millis(until as u64) > now)))
    }

    pub(crate) async fn forget_recordings(&self, topic: &TopicId, jobs: &[JobId]) -> Result<(), StoreError> {
        let jobs: Vec<_> = jobs.iter().collect();
        self.change_recordings("forget recordings", topic, &jobs, &[], Duration::ZERO).await
    }

    async fn change_recordings(
        &self,
        doing: &'static str,
        topic: &TopicId,
        jobs: &[&JobId],
        recording: &[u8],
        keep: Duration,
    ) -> Result<(), StoreError> {
        let keys = self.keys(&topic.tenant);
        let mut call =
            Call::new(script!("recordings.lua"), &[keys.recordings(&topic.topic), keys.recorded(&topic.topic)]);
        call.arg(self.now_argument()).arg(recording).arg(wait_ms(keep)).arg(RECORDINGS_BYTES);
        call.arg(jobs.iter().map(|job| job.as_str()).collect::<Vec<_>>());
        self.reply(doing, call).await.map(drop)
    }
}
