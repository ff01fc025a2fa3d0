//! What the store knows of jobs, for clients that ask about them or settle them.

use std::sync::Arc;

use gristmill_core::job::{Claim, Job, Lease, WorkerId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::RetryPolicy;
use gristmill_runner::handlers::HandlerRegistry;
use gristmill_store::{JobState, JobView};

/// The claim under which a job runs. `None` if it does not run.
pub(crate) fn running(view: JobView) -> Option<Claim> {
    let JobState::Running { worker, delivery, lease_until, .. } = view.state else { return None };
    let job = view.job?;
    let lease = Lease {
        job: job.spec.id.clone(),
        topic: job.spec.topic.clone(),
        worker: WorkerId::new(&worker),
        delivery,
        batch: None,
    };
    Some(Claim {
        job: Arc::new(job),
        lease,
        attempt: view.attempts,
        claimed_at: Timestamp::default(),
        lease_until,
        previous: view.last_failure.map(|failure| failure.reason),
        checkpoint: None,
    })
}

/// How many attempts a job has in all: by its own maximum, or by its topic's.
pub(crate) fn attempts_max(job: &Job, topics: &HandlerRegistry) -> u32 {
    let of_topic = || topics.get(&job.spec.topic).map(|entry| entry.topic.retry.attempts);
    job.spec.options.max_attempts.or_else(of_topic).unwrap_or(RetryPolicy::default().attempts)
}
