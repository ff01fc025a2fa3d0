//! Jobs that waited for other jobs: whether they may start, and what their handlers learn of the others.

use std::sync::Arc;

use serde::Serialize;

use super::error::StoreError;
use super::inspect::{Query, ResultView};
use super::workflows::{Predecessor, WaitsFor, Workflows};
use gristmill_core::job::{
    AfterFailed, Claim, Ended, Job, JobId, JobSpec, MEMBERS, Name, PREDECESSORS, PREDECESSORS_FAILED,
    PREDECESSORS_TOTAL, Payload, reserved,
};
use gristmill_core::outcome::Outcome;

/// How many of these jobs a handler learns of.
const LISTED: usize = 100;

/// Bytes of their results in all, as they are. A result that does not fit is left out.
const RESULT_BYTES: usize = 32 << 10;

/// What a handler learns of a job that its job waited for.
#[derive(Debug, Serialize)]
struct PredecessorResult {
    id: JobId,
    /// `None`: it runs again.
    ended: Option<Ended>,
    /// The result, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The result with its media type, if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Payload>,
}

/// What to do with a claimed job before an attempt begins: one that waited for others gets what became of them, as metadata
/// [`PREDECESSORS`], [`PREDECESSORS_TOTAL`] and [`PREDECESSORS_FAILED`]. `None`: it is as it was claimed. Costs nothing for a job that waited for none.
///
/// `may_learn`: whether its handler learns the results of a topic's jobs. For others it learns how they ended.
///
/// # Errors
/// How the job ends without an attempt: one of those that it waited for was not done, or the store does not answer.
pub async fn before_start<S: Workflows + Query + ?Sized>(
    store: &S,
    claim: &Claim,
    may_learn: &(dyn Fn(&Name) -> bool + Sync),
) -> Result<Option<Arc<Job>>, Outcome> {
    let spec = &claim.job.spec;
    let is_reserved = |(name, _): &(String, String)| reserved(name).is_some();
    // No admission has refused it where a raw producer wrote it.
    let forged = || spec.metadata.iter().any(is_reserved);
    if !spec.options.waits() && !forged() {
        return Ok(None);
    }
    let mut job = Job::clone(&claim.job);
    job.spec.metadata.retain(|pair| !is_reserved(pair));
    if !spec.options.waits() {
        return Ok(Some(Arc::new(job)));
    }
    let fault = |error: StoreError| Outcome::HostFault(format!("{:#}", anyhow::Error::from(error)));
    let Some(waits_for) = store.waits_for(&spec.topic.tenant, &spec.id, LISTED).await.map_err(fault)? else {
        return Ok(forged().then(|| Arc::new(job)));
    };
    if spec.options.after_failed == AfterFailed::Dead
        && waits_for.failed > 0
        && let Some(outcome) = first_failed(store, spec, &waits_for).await.map_err(fault)?
    {
        return Err(outcome);
    }
    let (total, failed) = (waits_for.total.to_string(), waits_for.failed.to_string());
    let entries = entries_of(store, spec, waits_for.jobs, may_learn).await.map_err(fault)?;
    let written = serde_json::to_string(&entries).map_err(|error| Outcome::HostFault(error.to_string()))?;
    let learned = [(PREDECESSORS, written), (PREDECESSORS_TOTAL, total), (PREDECESSORS_FAILED, failed)];
    job.spec.metadata.extend(learned.map(|(name, value)| (name.to_owned(), value)));
    Ok(Some(Arc::new(job)))
}

/// Those that were not done stand first in a list, but for those that run again.
async fn first_failed<S: Workflows + ?Sized>(
    store: &S,
    spec: &JobSpec,
    listed: &WaitsFor,
) -> Result<Option<Outcome>, StoreError> {
    let outcome = |waits_for: &WaitsFor| {
        let (job, ended) = waits_for.first_failed()?;
        Some(Outcome::PredecessorFailed { job: job.clone(), ended })
    };
    if let Some(outcome) = outcome(listed) {
        return Ok(Some(outcome));
    }
    Ok(store.waits_for(&spec.topic.tenant, &spec.id, MEMBERS).await?.as_ref().and_then(outcome))
}

/// What the handler learns of these jobs, in their order. One question to the store for each that is complete.
async fn entries_of<S: Query + ?Sized>(
    store: &S,
    spec: &JobSpec,
    jobs: Vec<Predecessor>,
    may_learn: &(dyn Fn(&Name) -> bool + Sync),
) -> Result<Vec<PredecessorResult>, StoreError> {
    let (mut entries, mut bytes_left) = (Vec::with_capacity(jobs.len()), RESULT_BYTES);
    for Predecessor { id, ended } in jobs {
        let mut entry = PredecessorResult { id, ended, text: None, result: None };
        if ended == Some(Ended::Complete)
            && let Some(view) = store.job(&spec.topic.tenant, &entry.id).await?
            && view.result_topic.as_ref().is_some_and(may_learn)
            && let Some(ResultView::Complete(Some(payload))) = view.result
            && payload.data.len() <= bytes_left
        {
            bytes_left -= payload.data.len();
            match String::from_utf8(payload.data) {
                Ok(text) => entry.text = Some(text),
                Err(error) => {
                    entry.result = Some(Payload { data: error.into_bytes(), content_type: payload.content_type });
                }
            }
        }
        entries.push(entry);
    }
    Ok(entries)
}
