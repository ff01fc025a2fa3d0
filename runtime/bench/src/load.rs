//! The jobs that are measured with: all alike, and into the store by the thousand.

use std::time::Duration;

use super::rig::{Rig, RigError};
use gristmill_core::job::{Due, JobSpec, NewJob, Payload, TopicId, WorkerId};
use gristmill_core::outcome::Verdict;
use gristmill_store::{ClaimFrom, Settlement};

/// Jobs in one push.
const PUSH: usize = 1000;
/// Jobs in one claim and in one settle: what a runner does under load.
const CLAIM: usize = 256;

/// Makes this many jobs ready.
pub(super) async fn fill(rig: &Rig, jobs: usize) -> Result<(), RigError> {
    fill_topics(rig, std::slice::from_ref(&rig.topic), jobs, Due::Now).await
}

/// Pushes this many jobs, dealt out to the topics in turn.
pub(super) async fn fill_topics(rig: &Rig, topics: &[TopicId], jobs: usize, due: Due) -> Result<(), RigError> {
    let mut turn = topics.iter().cycle();
    for chunk in (0..jobs).step_by(PUSH) {
        let batch = turn.by_ref().take(PUSH.min(jobs - chunk)).map(|topic| job_of(rig, topic, due));
        rig.place.store.push(&batch.collect::<Vec<_>>()).await?;
        rig.settings.progress.add(PUSH.min(jobs - chunk));
    }
    Ok(())
}

pub(super) fn job(rig: &Rig, due: Due) -> NewJob {
    job_of(rig, &rig.topic, due)
}

fn job_of(rig: &Rig, topic: &TopicId, due: Due) -> NewJob {
    job_with(topic, rig.settings.body.to_vec(), due)
}

pub(super) fn job_with(topic: &TopicId, data: Vec<u8>, due: Due) -> NewJob {
    NewJob { spec: JobSpec::new(topic.clone(), Payload { data, content_type: None }), due }
}

/// Claims and acks until nothing is ready in the topic; tells how many jobs that were.
pub(super) async fn drain(rig: &Rig, topic: &TopicId) -> Result<usize, RigError> {
    let worker = WorkerId::new("bench-drain");
    let from = [ClaimFrom { topic: topic.clone(), max: CLAIM, lease: Duration::from_secs(60) }];
    let mut done = 0;
    loop {
        let claims = rig.place.store.claim(&worker, &from).await?.claims;
        if claims.is_empty() {
            return Ok(done);
        }
        done += claims.len();
        rig.settings.progress.add(claims.len());
        let acks: Vec<Settlement> =
            claims.into_iter().map(|claim| Settlement::new(claim.lease, Verdict::Ack(None))).collect();
        rig.place.store.settle(&acks).await?;
    }
}
