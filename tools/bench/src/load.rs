//! The jobs that are measured with: all alike, and into the store by the thousand.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;

use super::test_bed::TestBed;
use gristmill_core::admission::Rules;
use gristmill_core::job::{Claim, Due, JobSpec, NewJob, Payload, TopicId, WorkerId};
use gristmill_core::outcome::{Outcome, Verdict};
use gristmill_core::topic::Limits;
use gristmill_sandbox::Attempt;
use gristmill_store::{ClaimFrom, Settlement};

/// Jobs in one push.
const PUSH: usize = 1000;
/// Jobs in one claim and in one settle: what a runner does under load.
const CLAIM: usize = 256;

/// Makes this many jobs ready.
pub(super) async fn fill(bed: &TestBed, jobs: usize) -> anyhow::Result<()> {
    fill_topics(bed, std::slice::from_ref(&bed.topic), jobs, Due::Now).await
}

/// Pushes this many jobs, dealt out to the topics in turn.
pub(super) async fn fill_topics(bed: &TestBed, topics: &[TopicId], jobs: usize, due: Due) -> anyhow::Result<()> {
    fill_with(bed, jobs, topics.iter().cycle().map(|topic| job_of(bed, topic, due))).await
}

/// Pushes the first of these jobs, so many.
pub(super) async fn fill_with(bed: &TestBed, jobs: usize, mut of: impl Iterator<Item = NewJob>) -> anyhow::Result<()> {
    for chunk in (0..jobs).step_by(PUSH) {
        let batch: Vec<_> = of.by_ref().take(PUSH.min(jobs - chunk)).collect();
        bed.store.store.push(&batch).await?;
        bed.settings.progress.add(batch.len());
    }
    Ok(())
}

pub(super) fn job(bed: &TestBed, due: Due) -> NewJob {
    job_of(bed, &bed.topic, due)
}

fn job_of(bed: &TestBed, topic: &TopicId, due: Due) -> NewJob {
    job_with(topic, bed.settings.body.to_vec(), due)
}

pub(super) fn job_with(topic: &TopicId, data: Vec<u8>, due: Due) -> NewJob {
    NewJob { spec: JobSpec::new(topic.clone(), Payload { data, content_type: None }), due }
}

/// Claims and acks until nothing is ready in the topic; returns how many jobs that were.
pub(super) async fn drain(bed: &TestBed, topic: &TopicId) -> anyhow::Result<usize> {
    drain_with(bed, topic, |claim| Settlement::of(claim, Verdict::Ack(None), Duration::ZERO)).await
}

/// The same with settlements that may do more.
pub(super) async fn drain_with(
    bed: &TestBed,
    topic: &TopicId,
    settlement: impl Fn(&Claim) -> Settlement,
) -> anyhow::Result<usize> {
    let worker = WorkerId::new("bench-drain");
    let from = [ClaimFrom::new(topic.clone(), CLAIM, Duration::from_secs(60))];
    let mut done = 0;
    loop {
        let claims = bed.store.store.claim(&worker, &from).await?.claims;
        if claims.is_empty() {
            return Ok(done);
        }
        done += claims.len();
        bed.settings.progress.add(claims.len());
        bed.store.store.settle(&claims.iter().map(&settlement).collect::<Vec<_>>()).await?;
    }
}

/// One attempt at the measured job outside of a runner.
pub(super) fn attempt(bed: &TestBed) -> Attempt {
    // As under a runner: it may enqueue to its own topic.
    let itself = Rules::default();
    let targets = Arc::new(HashMap::from([(bed.topic.topic.clone(), itself)]));
    Attempt { targets, ..Attempt::at(job(bed, Due::Now).spec, Limits::default()) }
}

/// Runs one attempt, which must complete.
pub(super) async fn complete(bed: &TestBed, attempt: Attempt) -> anyhow::Result<()> {
    match bed.component.invoke(attempt).await.outcome {
        Outcome::Complete(_) => Ok(()),
        outcome => bail!("a part of the measurement failed, which measures nothing: {outcome:?}"),
    }
}

/// Checks that the measured component completes the job: what fails measures nothing.
pub(super) async fn try_out(bed: &TestBed) -> anyhow::Result<()> {
    complete(bed, attempt(bed)).await
}
