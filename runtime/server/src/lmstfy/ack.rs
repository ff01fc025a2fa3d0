//! Ack: the end of a job by its id alone, wherever it is.

use axum::extract::State;
use axum::http::StatusCode;

use super::api::Api;
use super::refusal::Refusal;
use super::request::RequestContext;
use crate::claims;
use gristmill_core::job::{JobId, TopicId, WorkerId};
use gristmill_core::outcome::Outcome;
use gristmill_core::token::Scope;
use gristmill_runner::decide;
use gristmill_store::{Cancelled, JobState, JobView, Settled, StoreError};

const NOT_HELD: Refusal =
    Refusal::forbidden("the client does not hold the job, and its token lacks the scope `lmstfy`");

/// How often to look again at a job that has moved meanwhile.
const LOOKS: usize = 5;

/// Answers 204 whether or not there was a job to end.
pub(super) async fn ack(State(api): State<Api>, context: RequestContext) -> Result<StatusCode, Refusal> {
    context.client.may(Scope::Work)?;
    end(&api, &context).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// # Errors
/// [`end`] would refuse to end the job in the path.
pub(super) async fn may_end(api: &Api, context: &RequestContext) -> Result<(), Refusal> {
    let topic = &context.queue.topic;
    let Ok(id) = context.job.parse::<JobId>() else { return Ok(()) };
    match api.state.store.job(&topic.tenant, &id).await? {
        Some(view) if view.job.as_ref().is_some_and(|job| job.spec.topic == *topic) && !may_end_job(context, &view) => {
            Err(NOT_HELD)
        }
        _ => Ok(()),
    }
}

/// Ends the job in the path. Does nothing if the job is in another queue, or if the server knows that another client has it now.
///
/// # Errors
/// The client does not hold the job, and its token lacks the scopes `lmstfy` and `admin`.
pub(super) async fn end(api: &Api, context: &RequestContext) -> Result<(), Refusal> {
    let Ok(id) = context.job.parse::<JobId>() else { return Ok(()) };
    let topic = &context.queue.topic;
    for _ in 0..LOOKS {
        let Some(view) = api.state.store.job(&topic.tenant, &id).await? else { break };
        // The job is over.
        let Some(job) = &view.job else { break };
        if job.spec.topic != *topic {
            return Ok(());
        }
        if is_late(api, context, &view) {
            tracing::debug!(job = %id, "ignored a late ack: the job is another client's now");
            return Ok(());
        }
        if !may_end_job(context, &view) {
            // A client that had the job acks late. The job will run again.
            let had = api.holders.had(&topic.tenant, &id, context.client.name());
            return if had { Ok(()) } else { Err(NOT_HELD) };
        }
        if end_once(api, topic, view).await? {
            break;
        }
    }
    api.holders.forget(&topic.tenant, &id);
    Ok(())
}

/// Whether the server knows that another client got the job after this one, and has it now.
fn is_late(api: &Api, context: &RequestContext, view: &JobView) -> bool {
    let JobState::Running { worker, delivery, .. } = &view.state else { return false };
    let (worker, client, tenant) = (WorkerId::new(worker), context.client.name(), &context.queue.topic.tenant);
    worker.is_pull()
        && claims::client_of(&worker) != Some(client)
        && api.holders.is_late(tenant, &view.id, *delivery, client)
}

/// The scope `work` is enough for a job that a client with the token holds. To end another one is to cancel or delete it.
fn may_end_job(context: &RequestContext, view: &JobView) -> bool {
    let holds = match &view.state {
        JobState::Running { worker, .. } => context.client.has_token_of(&WorkerId::new(worker)),
        _ => false,
    };
    holds || context.client.has_all_of_lmstfy()
}

/// Returns whether the job was ended. If not, it had moved.
async fn end_once(api: &Api, topic: &TopicId, view: JobView) -> Result<bool, StoreError> {
    let (store, ids) = (&api.state.store, [view.id.clone()]);
    if matches!(view.state, JobState::Dead { .. }) {
        return Ok(store.delete_dead(topic, &ids).await?.first() == Some(&true));
    }
    match claims::running(view).filter(|claim| claim.lease.worker.is_pull()) {
        Some(claim) => {
            let topics = api.state.topics();
            let topic = topics.get(topic).map(|entry| &entry.topic);
            let settlement = decide(&claim, topic, Outcome::Complete(None), Vec::new());
            Ok(store.settle(&[settlement]).await?.first() != Some(&Settled::LeaseLost))
        }
        // The job waits, or a runner has it.
        None => Ok(store.cancel(&topic.tenant, &ids).await?.first() != Some(&Cancelled::TooLate)),
    }
}
