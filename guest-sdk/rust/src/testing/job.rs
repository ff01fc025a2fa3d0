//! Jobs to test with.

use serde::Serialize;

use crate::testing::host::NOW;
use crate::{Job, Payload};

/// Begins a job: the first attempt of five at a job of this topic, with an empty body, pushed and due just now, and 30 s
/// to go.
pub fn job(topic: &str) -> JobBuilder {
    JobBuilder {
        job: Job {
            id: "01K00000000000000000000000".into(),
            tenant: "default".into(),
            topic: topic.into(),
            body: Payload { data: Vec::new(), content_type: None },
            metadata: Vec::new(),
            key: None,
            attempt: 1,
            max_attempts: 5,
            enqueued_at: NOW,
            due_at: NOW,
            deadline: NOW + 30_000,
            checkpoint: None,
        },
    }
}

/// A job in the making. What has no method here is a public field of the [`Job`] that [`JobBuilder::build`] returns.
#[derive(Debug, Clone)]
pub struct JobBuilder {
    job: Job,
}

impl JobBuilder {
    /// Bytes, text, or a [`Payload`].
    #[must_use]
    pub fn body(mut self, body: impl Into<Payload>) -> Self {
        self.job.body = body.into();
        self
    }

    /// `value` as JSON.
    ///
    /// # Panics
    ///
    /// `value` cannot be written as JSON.
    #[must_use]
    #[expect(clippy::panic, reason = "a mistake in the author's test")]
    pub fn json(self, value: &(impl Serialize + ?Sized)) -> Self {
        match Payload::json(value) {
            Ok(body) => self.body(body),
            Err(failure) => panic!("{}", failure.message()),
        }
    }

    /// Adds a metadata entry.
    #[must_use]
    pub fn meta(mut self, name: &str, value: &str) -> Self {
        self.job.metadata.push((name.into(), value.into()));
        self
    }

    /// The key that the job shares with others.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.job.key = Some(key.into());
        self
    }

    /// 1 is the first.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.job.attempt = attempt;
        self
    }

    /// What an earlier attempt saved.
    #[must_use]
    pub fn checkpoint(mut self, state: impl Into<Vec<u8>>) -> Self {
        self.job.checkpoint = Some(state.into());
        self
    }

    /// The job as it was built.
    pub fn build(self) -> Job {
        self.job
    }
}

impl From<JobBuilder> for Job {
    fn from(builder: JobBuilder) -> Self {
        builder.build()
    }
}
