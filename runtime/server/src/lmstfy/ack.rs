//! Ack: the end of a job by its id alone, wherever it is.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::api::Api;
use super::refusal::Refusal;
use super::request::RequestContext;
use gristmill_core::job::{Claim, Job, JobId, Lease, WorkerId};
use gristmill_core::outcome::Verdict;
use gristmill_core::time::Timestamp;
use gristmill_core::token::Scope;
use gristmill_store::{Cancelled, JobState, JobView, Settled, Settlement};

/// How often to look again at a job that moved in the meantime.
const LOOKS: usize = 5;

/// 204 whatever there was to end.
pub(super) async fn ack(State(api): State<Api>, context: RequestContext) -> Result<StatusCode, Refusal> {
    context.client.may(Scope::Work)?;
    end(&api, &context).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the job in the path, unless it is another queue's, or the client is known to have lost it to somebody else.
pub(super) async fn end(api: &Api, context: &RequestContext) -> Result<(), Refusal> {
    let Ok(id) = context.job.parse::<JobId>() else { return Ok(()) };
    let tenant = &context.queue.topic.tenant;
    for _ in 0..LOOKS {
        let Some(JobView { job: Some(job), state, attempts, .. }) = api.state.store.job(tenant, &id).await? else {
            break;
        };
        if job.spec.topic != context.queue.topic {
            return Ok(());
        }
        match end_once(api, context, job, state, attempts).await? {
            Looked::Ended => break,
            Looked::PassedOver => return Ok(()),
            Looked::Moved => {}
        }
    }
    api.holders().forget(tenant, &id);
    Ok(())
}

/// What came of a look at a job.
enum Looked {
    Ended,
    /// It is another client's.
    PassedOver,
    /// It was somewhere else by then.
    Moved,
}

impl Looked {
    const fn ended(ended: bool) -> Self {
        if ended { Self::Ended } else { Self::Moved }
    }
}

async fn end_once(
    api: &Api,
    context: &RequestContext,
    job: Job,
    state: JobState,
    attempts: u32,
) -> Result<Looked, Refusal> {
    let (store, topic, id) = (&api.state.store, job.spec.topic.clone(), job.spec.id.clone());
    match state {
        JobState::Running { worker, delivery, lease_until, .. } if WorkerId::new(&worker).is_pull() => {
            let (worker, me) = (WorkerId::new(&worker), context.client.worker());
            if worker != *me && api.holders().is_late(&topic.tenant, &id, delivery, me) {
                tracing::debug!(job = %id, "a late ack is passed over: the job is another client's now");
                return Ok(Looked::PassedOver);
            }
            let lease = Lease { job: id, topic, worker, delivery };
            let settled = store.settle(&[acked(api, job, lease, attempts, lease_until)]).await?;
            Ok(Looked::ended(settled.first() != Some(&Settled::LeaseLost)))
        }
        JobState::Ready | JobState::Delayed { .. } | JobState::Running { .. } => {
            let cancelled = store.cancel(&topic.tenant, std::slice::from_ref(&id)).await?;
            Ok(Looked::ended(cancelled.first() != Some(&Cancelled::TooLate)))
        }
        JobState::Dead { .. } => {
            let deleted = store.delete_dead(&topic, std::slice::from_ref(&id)).await?;
            Ok(Looked::ended(deleted.first() == Some(&true)))
        }
        JobState::Finished => Ok(Looked::Ended),
    }
}

fn acked(api: &Api, job: Job, lease: Lease, attempt: u32, lease_until: Timestamp) -> Settlement {
    let retention = api.retention(&job.spec.topic);
    let (job, claimed_at) = (Arc::new(job), Timestamp::default());
    let claim = Claim { job, lease, attempt, claimed_at, lease_until, previous: None, checkpoint: None };
    Settlement::of(&claim, Verdict::Ack(None), retention)
}
