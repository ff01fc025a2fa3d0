//! What a worker does with what it holds: extend, save a checkpoint, settle.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;

use super::lease::{self, WorkerLease};
use super::lease_length;
use crate::auth::allowed::{Allowed, scope};
use crate::claims;
use crate::extract::Document;
use crate::limits::Added;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::wire::{self, Extended};
use gristmill_core::admission::{FollowUpRules, FollowUps, LONGEST, NoFollowUp, Refused};
use gristmill_core::job::{Claim, Lease, Name, NewJob};
use gristmill_core::outcome::{CODE_BYTES, FailureDetail, Outcome, Verdict};
use gristmill_core::topic::Limits;
use gristmill_runner::decide;
use gristmill_runner::handlers::TopicHandler;
use gristmill_store::{PollTenant, Settlement, Store, StoreError};

/// As with a push: results, follow-ups and checkpoints are as large as jobs.
const SETTLE_BYTES: usize = 96 << 20;

/// Routes that answer at once.
pub(crate) fn routes() -> Routes {
    Routes::of("workers")
        .post("/tenants/{tenant}/leases/checkpoint", checkpoint, "Keep bytes for the next attempt")
        .post("/tenants/{tenant}/leases/settle", settle, "Say how jobs ended")
        .description("All of them make sense and are within the topic's limits, or none is carried out.")
        .body_bytes(SETTLE_BYTES)
        .merge(Routes::of("workers").post("/tenants/{tenant}/leases/extend", extend, "Hold leases for longer"))
}

async fn extend(
    Allowed { over: tenant, state, .. }: Allowed<scope::Work, Name>,
    Document(asked): Document<wire::Extend>,
) -> Result<Json<wire::ExtendAnswer>, Problem> {
    let by = lease_length(asked.lease_ms)?;
    let leases = asked.leases.iter().enumerate().map(|(index, text)| {
        let lease = lease::read(&tenant, text).map(|read| read.claim.lease);
        lease.map_err(|wrong| Problem { detail: format!("`leases[{index}]`: {}", wrong.detail), ..wrong })
    });
    let leases = leases.collect::<Result<Vec<Lease>, Problem>>()?;
    let extended = state.store.extend(&leases, by).await?;
    // After the leases: a job that is cancelled from now on is in the next answer.
    let polled = state.store.poll_work(&[PollTenant { tenant, raw: Vec::new() }]).await?;
    let polled = polled.into_iter().collect::<Result<Vec<_>, _>>()?;
    let cancelled: HashSet<_> = polled.into_iter().flat_map(|pending| pending.cancelled).collect();
    let answer = |(lease, extended): (&Lease, bool)| match extended {
        false => Extended::LeaseLost,
        true if cancelled.contains(&lease.job) => Extended::Cancelled,
        true => Extended::Longer,
    };
    Ok(Json(wire::ExtendAnswer { extended: leases.iter().zip(extended).map(answer).collect() }))
}

async fn checkpoint(
    Allowed { over: tenant, state, .. }: Allowed<scope::Work, Name>,
    Document(asked): Document<wire::Checkpoint>,
) -> Result<Json<wire::Saved>, Problem> {
    let (lease, bytes) = (lease::read(&tenant, &asked.lease)?.claim.lease, asked.state.0);
    let limits = state.topics().get(&lease.topic).map_or_else(Limits::default, |entry| entry.topic.limits);
    within("a checkpoint", bytes.len(), limits.checkpoint_bytes)?;
    state.reserve(&tenant, Added { bytes: bytes.len() as u64, ..Added::default() }).await?;
    Ok(Json(wire::Saved { saved: state.store.checkpoint(&lease, &bytes).await? }))
}

/// Settles all of them, or none if one of them is refused.
async fn settle(
    Allowed { over: tenant, state, .. }: Allowed<scope::Work, Name>,
    Document(wire::Settle { settlements }): Document<wire::Settle>,
) -> Result<Json<wire::SettleAnswer>, Problem> {
    let topics = state.topics();
    let mut decided = Vec::with_capacity(settlements.len());
    for (index, asked) in settlements.into_iter().enumerate() {
        let named = |problem: Problem| {
            let detail = format!("nothing was settled: `settlements[{index}]`: {}", problem.detail);
            Problem { detail, ..problem }
        };
        let lease = lease::read(&tenant, &asked.lease).map_err(named)?;
        let entry = topics.get(&lease.claim.lease.topic);
        let limits = entry.map_or_else(Limits::default, |entry| entry.topic.limits);
        let (outcome, follow_ups) = read(asked, &limits, &tenant).map_err(named)?;
        let follow_ups = admit_follow_ups(&lease.claim, entry, follow_ups).map_err(named)?;
        let claim = claim_to_settle(&*state.store, lease, &outcome).await?;
        let settlement = decide(&claim, entry.map(|entry| &entry.topic), outcome, follow_ups);
        // A lease does not say whether its job has a key, whose next job waits for this end.
        decided.push(Settlement { is_keyed: true, ..settlement });
    }
    let jobs: usize = decided.iter().map(more_jobs).sum();
    if jobs > 0 {
        let mut more = Added::default();
        decided.iter().flat_map(|settlement| &settlement.follow_ups).for_each(|job| more.add(job));
        state.reserve(&tenant, Added { jobs: jobs as u64, ..more }).await?;
    }
    let settled = state.store.settle(&decided).await?;
    for (Settlement { lease, verdict, .. }, settled) in decided.iter().zip(&settled) {
        let (job, topic, worker, verdict) = (&lease.job, &lease.topic, &lease.worker, verdict.name());
        tracing::debug!(target: "gristmill::pull", %job, %topic, %worker, verdict, settled = settled.as_str(), "settled");
    }
    Ok(Json(wire::SettleAnswer { settled }))
}

/// How many jobs more the tenant has afterwards: a job that is done makes room for the first of its follow-ups.
fn more_jobs(settlement: &Settlement) -> usize {
    let gone = usize::from(matches!(settlement.verdict, Verdict::Ack(_)));
    settlement.follow_ups.len().saturating_sub(gone)
}

/// The claim as the store knows it, where the end of the attempt depends on more than a worker is believed. A lease that
/// was lost stays what the worker says: the store refuses it anyway.
async fn claim_to_settle(store: &dyn Store, lease: WorkerLease, outcome: &Outcome) -> Result<Claim, StoreError> {
    let WorkerLease { claim, keep_result } = lease;
    let failed = matches!(outcome, Outcome::Retry { .. } | Outcome::Reject(_));
    if !(failed || keep_result) {
        return Ok(claim);
    }
    let view = store.job(&claim.lease.topic.tenant, &claim.lease.job).await?;
    let running = view.and_then(claims::running).filter(|running| running.lease == claim.lease);
    Ok(running.unwrap_or(claim))
}

/// How the attempt ended, as the worker says, and the jobs that follow from it.
fn read(asked: wire::Settlement, limits: &Limits, tenant: &Name) -> Result<(Outcome, Vec<NewJob>), Problem> {
    let outcome = match (asked.ack, asked.retry, asked.snooze_ms, asked.bury, asked.release) {
        (Some(ack), None, None, None, None) => {
            let result = ack.result;
            within("a result", result.as_ref().map_or(0, |result| result.data.len()), limits.output_bytes)?;
            Outcome::Complete(result)
        }
        (None, Some(retry), None, None, None) => {
            let after = retry.after_ms.map(|ms| span("`retry.after_ms`", ms)).transpose()?;
            Outcome::Retry { detail: detail(retry.error, limits)?, after }
        }
        (None, None, Some(ms), None, None) => Outcome::Snooze(span("`snooze_ms`", ms)?),
        (None, None, None, Some(bury), None) => Outcome::Reject(detail(bury.error, limits)?),
        // As when a runner ends: the worker does not want the job, and nothing is known against it.
        (None, None, None, None, Some(_)) => Outcome::ShuttingDown,
        _ => {
            let problem = "say one of `ack`, `retry`, `snooze_ms`, `bury` and `release`";
            return Err(Problem::new(Code::BadRequest, problem));
        }
    };
    let takes_follow_ups = matches!(outcome, Outcome::Complete(_) | Outcome::Snooze(_));
    if !(takes_follow_ups || asked.follow_ups.is_empty()) {
        return Err(Problem::new(Code::BadRequest, "`follow_ups` go with `ack` and `snooze_ms` only"));
    }
    let follow_ups = asked.follow_ups.into_iter().enumerate().map(|(index, job)| {
        let wrong = |wrong: String| Problem::new(Code::BadRequest, format!("follow_ups[{index}]: {wrong}"));
        job.into_addressed(tenant).map_err(wrong)
    });
    Ok((outcome, follow_ups.collect::<Result<_, _>>()?))
}

/// How long a job is to wait before it runs again, as this field says.
fn span(field: &'static str, ms: u64) -> Result<Duration, Problem> {
    let span = Duration::from_millis(ms);
    if span > LONGEST { Err(Refused::Span { field, ms }.into()) } else { Ok(span) }
}

fn detail(error: wire::WorkerError, limits: &Limits) -> Result<FailureDetail, Problem> {
    let wire::WorkerError { code, message, context } = error;
    if code.len() > CODE_BYTES {
        let detail = format!("the code of an error has {} bytes; at most {CODE_BYTES} are allowed", code.len());
        return Err(Problem::new(Code::TooLarge, detail));
    }
    let bytes = code.len() + message.len() + context.as_ref().map_or(0, |context| context.data.len());
    within("an error", bytes, limits.output_bytes)?;
    Ok(FailureDetail { code, message, context })
}

/// Holds follow-ups to the rules that hold for a handler's follow-ups. Without its topic nothing is a target.
fn admit_follow_ups(
    claim: &Claim,
    entry: Option<&Arc<TopicHandler>>,
    jobs: Vec<NewJob>,
) -> Result<Vec<NewJob>, Problem> {
    let (limits, grants, targets) = match entry {
        Some(entry) => (entry.topic.limits, entry.topic.grants.clone(), Arc::clone(&entry.targets)),
        None => Default::default(),
    };
    let tenant = &claim.lease.topic.tenant;
    let rules = FollowUpRules { tenant, grants: &grants, targets: &targets, count: limits.follow_ups, near: None };
    let mut follow_ups = FollowUps::default();
    for (index, job) in jobs.into_iter().enumerate() {
        follow_ups.add(job, &rules).map_err(|no| {
            let problem = match no {
                NoFollowUp::Refused(refused) => Problem::from(refused),
                NoFollowUp::TooMany(_) | NoFollowUp::TooLarge | NoFollowUp::TooManyLinks => {
                    Problem::new(Code::TooLarge, no.to_string())
                }
                NoFollowUp::Denied(_)
                | NoFollowUp::UnknownTopic(_)
                | NoFollowUp::Links(_)
                | NoFollowUp::Foreign(_)
                | NoFollowUp::Ended => Problem::new(Code::BadRequest, no.to_string()),
            };
            Problem { detail: format!("follow_ups[{index}]: {}", problem.detail), ..problem }
        })?;
    }
    Ok(follow_ups.take())
}

fn within(what: &str, bytes: usize, limit: u64) -> Result<(), Problem> {
    if bytes as u64 <= limit {
        return Ok(());
    }
    Err(Problem::new(Code::TooLarge, format!("{what} of {bytes} bytes; the topic allows {limit}")))
}
