//! The jobs that are measured with: all alike, and into the store by the thousand.

use super::rig::{Rig, RigError};
use crate::job::{Due, JobSpec, NewJob, Payload};

/// Jobs in one push.
const CHUNK: usize = 1000;

/// Makes this many jobs ready.
pub(super) async fn fill(rig: &Rig, jobs: usize) -> Result<(), RigError> {
    for chunk in (0..jobs).step_by(CHUNK) {
        let batch: Vec<NewJob> = (chunk..jobs.min(chunk + CHUNK)).map(|_| job(rig, Due::Now)).collect();
        rig.place.store.push(&batch).await?;
    }
    Ok(())
}

pub(super) fn job(rig: &Rig, due: Due) -> NewJob {
    let body = Payload { data: vec![b'x'; rig.settings.payload_bytes], content_type: None };
    NewJob { spec: JobSpec::new(rig.topic.clone(), body), due }
}
