//! What the fake host knows, grants and refuses.

use crate::bindings::http::gristmill::job::http::{HttpError, Response};
use crate::testing::Run;
use crate::testing::fake::{self, State};
use crate::{Failure, IntoOutcome, Job, http};

/// The fake clock's time by default: 2026-01-01T00:00:00Z.
pub(crate) const NOW: u64 = 1_767_225_600_000;

/// A host that grants nothing but enqueueing to any topic, and whose clock stands still.
#[derive(Debug, Clone, Default)]
pub struct Host {
    state: State,
}

impl Host {
    /// A host without answers, that knows no topic and grants nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Grants a setting.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.state.config.insert(name.into(), value.into());
        self
    }

    /// Grants a secret.
    #[must_use]
    pub fn secret(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.state.secrets.insert(name.into(), value.into());
        self
    }

    /// The store's clock, in milliseconds since the Unix epoch. It does not move.
    #[must_use]
    pub fn now(mut self, unix_millis: u64) -> Self {
        self.state.now = unix_millis;
        self
    }

    /// What `context::fuel_remaining` answers. The fake does not burn any.
    #[must_use]
    pub fn fuel(mut self, remaining: u64) -> Self {
        self.state.fuel = remaining;
        self
    }

    /// The job was cancelled, or the runner is shutting down.
    #[must_use]
    pub fn cancelled(mut self) -> Self {
        self.state.cancelled = true;
        self
    }

    /// Refuses to enqueue to this topic.
    #[must_use]
    pub fn deny(mut self, topic: &str) -> Self {
        self.state.denied.insert(topic.into());
        self
    }

    /// Takes no more follow-up jobs than this from one attempt. 100 by default, as in a manifest.
    #[must_use]
    pub fn follow_ups(mut self, limit: u32) -> Self {
        self.state.follow_ups_max = limit;
        self
    }

    /// Checkpoints fail: the store could not take them.
    #[must_use]
    pub fn without_checkpoints(mut self) -> Self {
        self.state.checkpoints_fail = true;
        self
    }

    /// The state of the job's key before the attempt. None unless it is given.
    #[must_use]
    pub fn state(mut self, state: impl Into<Vec<u8>>) -> Self {
        self.state.state = Some(state.into());
        self
    }

    /// Takes no larger state than this, in bytes. 64 KiB by default, as in a manifest.
    #[must_use]
    pub fn state_limit(mut self, bytes: u64) -> Self {
        self.state.state_limit = bytes;
        self
    }

    /// States cannot be read: the store does not answer.
    #[must_use]
    pub fn without_states(mut self) -> Self {
        self.state.states_fail = true;
        self
    }

    /// Queues the answer to the handler's next request; see [`answer`](crate::testing::answer). Once the queue is empty,
    /// requests are denied.
    #[must_use]
    pub fn answer(mut self, answer: Response) -> Self {
        self.state.answers.push_back(Ok(answer));
        self
    }

    /// Queues what becomes of a request that gets no answer.
    #[must_use]
    pub fn no_answer(mut self, error: http::Error) -> Self {
        self.state.answers.push_back(Err(HttpError::from(error)));
        self
    }

    /// Runs one attempt on this thread. A panic of the handler is a panic of the test.
    pub fn run<T: IntoOutcome, E: Into<Failure>>(
        &self,
        handle: impl FnOnce(Job) -> Result<T, E>,
        job: impl Into<Job>,
    ) -> Run {
        let job = job.into();
        let state = State { has_key: job.key.as_ref().is_some_and(|key| !key.is_empty()), ..self.state.clone() };
        let (result, state) = fake::with(state, || handle(job));
        Run::new(result.map_err(Into::into).and_then(IntoOutcome::into_outcome), state)
    }
}
