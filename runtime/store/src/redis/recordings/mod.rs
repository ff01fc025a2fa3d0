//! Recordings of attempts. Those of a tenant are all in its first partition, since what asks for one does not know where the job is.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::pipe;

use super::clock::TimeReply;
use super::key_names::Keys;
use super::script::{Call, script};
use super::store::{Partition, SCRIPT_JOBS};
use crate::clock::wait_ms;
use crate::list::PAGE_JOBS;
use crate::{RECORDINGS_BYTES, RecordedJob, StoreError};
use gristmill_core::job::{JobId, TopicId};
use gristmill_core::time::Timestamp;

/// In place of a recording.
const FORGET: fn(&JobId) -> (&JobId, &[u8]) = |job| (job, &[]);

impl Partition {
    pub(crate) async fn keep_recordings(
        &self,
        topic: &TopicId,
        recordings: &[(JobId, Vec<u8>)],
        keep: Duration,
    ) -> Result<(), StoreError> {
        let recordings = recordings.iter().map(|(job, recording)| (job, recording.as_slice()));
        self.change_recordings("keep recordings", topic, recordings, keep).await
    }

    pub(crate) async fn recording(&self, topic: &TopicId, job: &JobId) -> Result<Option<Vec<u8>>, StoreError> {
        let (keys, mut ask) = (self.recording_keys(topic), pipe());
        ask.atomic().cmd("HGET").arg(keys.recordings(&topic.topic)).arg(job.as_str());
        ask.cmd("ZSCORE").arg(keys.recorded(&topic.topic)).arg(job.as_str()).cmd("TIME");
        let (found, until, time): (Option<Vec<u8>>, Option<f64>, TimeReply) =
            self.link.query("read a recording", &ask).await?;
        let now = self.now(time);
        Ok(found.filter(|_| until.is_some_and(|until| Timestamp::from_millis(until as u64) > now)))
    }

    pub(crate) async fn recorded_jobs(
        &self,
        topic: &TopicId,
        after: Option<&RecordedJob>,
        limit: usize,
    ) -> Result<Vec<RecordedJob>, StoreError> {
        const DOING: &str = "list recordings";
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut call =
            Call::new(script!("recordings/recorded.lua"), &[self.recording_keys(topic).recorded(&topic.topic)]);
        call.arg(self.now_argument()).arg(limit.min(PAGE_JOBS));
        if let Some(RecordedJob { until, id }) = after {
            call.arg(until.as_millis()).arg(id.as_str());
        }
        let mut reply = self.reply(DOING, call).await?;
        let mut jobs = Vec::with_capacity(reply.len() / 2);
        while !reply.is_empty() {
            let (id, until) = (reply.text(), reply.number());
            let (id, until) = id.and_then(|id| Ok((id, until?))).map_err(self.misread(DOING))?;
            // Every id that was kept is one.
            if let Ok(id) = id.parse() {
                jobs.push(RecordedJob { until: Timestamp::from_millis(until), id });
            }
        }
        Ok(jobs)
    }

    pub(crate) async fn forget_recordings(&self, topic: &TopicId, jobs: &[JobId]) -> Result<(), StoreError> {
        self.change_recordings("forget recordings", topic, jobs.iter().map(FORGET), Duration::ZERO).await
    }

    /// The same for jobs that have just ended. What fails leaves some until their time is over, and the jobs have ended all the same.
    pub(super) async fn forget_recordings_of<'a>(&self, ended: impl IntoIterator<Item = (&'a TopicId, &'a JobId)>) {
        let mut by_topic = BTreeMap::<&TopicId, Vec<&JobId>>::new();
        for (topic, job) in ended {
            by_topic.entry(topic).or_default().push(job);
        }
        if by_topic.is_empty() {
            return;
        }
        if let Err(error) = self.forget_by_topic(&by_topic).await {
            let error = anyhow::Error::from(error);
            tracing::debug!("recordings of jobs that are over stay for their time: {error:#}");
        }
    }

    /// Of most topics there are none.
    async fn forget_by_topic(&self, by_topic: &BTreeMap<&TopicId, Vec<&JobId>>) -> Result<(), StoreError> {
        const DOING: &str = "forget recordings";
        let mut ask = pipe();
        for topic in by_topic.keys() {
            ask.cmd("EXISTS").arg(self.recording_keys(topic).recorded(&topic.topic));
        }
        let some: Vec<bool> = self.link.query(DOING, &ask).await?;
        for ((topic, jobs), _) in by_topic.iter().zip(some).filter(|(_, some)| *some) {
            for jobs in jobs.chunks(SCRIPT_JOBS) {
                self.change_recordings(DOING, topic, jobs.iter().copied().map(FORGET), Duration::ZERO).await?;
            }
        }
        Ok(())
    }

    fn recording_keys(&self, topic: &TopicId) -> Keys {
        Keys::new(&self.prefix, &topic.tenant, 0)
    }

    /// Jobs with what is kept of each; nothing forgets what is kept.
    async fn change_recordings<'a>(
        &self,
        doing: &'static str,
        topic: &TopicId,
        recordings: impl Iterator<Item = (&'a JobId, &'a [u8])>,
        keep: Duration,
    ) -> Result<(), StoreError> {
        let keys = self.recording_keys(topic);
        let mut call = Call::new(
            script!("recordings/recordings.lua"),
            &[keys.recordings(&topic.topic), keys.recorded(&topic.topic)],
        );
        call.arg(self.now_argument()).arg(wait_ms(keep)).arg(RECORDINGS_BYTES);
        for (job, recording) in recordings {
            call.arg(job.as_str()).arg(recording);
        }
        self.reply(doing, call).await.map(drop)
    }
}
