//! Pushes a job and waits for its end in one request, which takes no other scope than `push`.

use std::time::Duration;

use tokio::time::Instant;

use super::RemoteStore;
use super::exchange::Question;
use crate::wire::push::{Accepted, Job};
use gristmill_core::job::{JobId, NewJob};
use gristmill_store::{JobState, JobView, StoreError};

/// How long one request waits: less than an answer may take.
const WAIT: Duration = Duration::from_secs(20);

impl RemoteStore {
    /// Pushes the job and waits for its end. With `is_named` it keeps its id, or its unique value: then only one request waits, up to 20 s,
    /// because the answer to another one would not say what became of the job. Returns the id under which the job is known, and the job
    /// as it is in the end.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn push_and_wait(
        &self,
        job: &NewJob,
        is_named: bool,
        patience: Duration,
    ) -> Result<(JobId, Option<JobView>), StoreError> {
        let (until, topic) = (Instant::now() + patience, &job.spec.topic);
        // The same request again is answered as the first one was, and waits on.
        let key = (!is_named).then(|| JobId::generate().to_string());
        let document = Job::of(job, is_named);
        loop {
            let wait = until.saturating_duration_since(Instant::now()).min(WAIT);
            let wait_ms = wait.as_millis().max(1);
            let path = format!("/v1/tenants/{}/topics/{}/jobs?wait_ms={wait_ms}", topic.tenant, topic.topic);
            let question = Question::post(path, &document, "push a job and wait for it").named(key.clone());
            let Accepted { id, job, .. } = self.server.ask(question).await?;
            let is_over = |view: &JobView| matches!(view.state, JobState::Finished | JobState::Dead { .. });
            if job.as_ref().is_none_or(is_over) || is_named || Instant::now() >= until {
                return Ok((id, job));
            }
        }
    }
}
