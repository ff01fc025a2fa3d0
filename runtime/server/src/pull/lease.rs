//! A lease as a worker holds it: a text that says which delivery of which job is meant, and what settling it takes.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::problem::{Code, Problem};
use gristmill_core::job::{Claim, Job, JobId, JobSpec, Lease, Name, Payload, TopicId, Unique, WorkerId};
use gristmill_core::time::{Timestamp, millis};

/// What every pull worker's name begins with. No runner's does: it begins with a host's name, which has no colon.
const PREFIX: &str = "pull:";

/// A new worker, as the store knows it. `named`: as it calls itself, so that people find it.
pub(super) fn worker(named: Option<&Name>) -> WorkerId {
    let named = named.map_or("worker", Name::as_str);
    WorkerId::new(&format!("{PREFIX}{named}:{:016x}", fastrand::u64(..)))
}

/// What the text says. A tenant is no part of it: the path names that, and who asks may be held to it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    job: JobId,
    topic: Name,
    /// Without the prefix: nobody gets at a runner's jobs by it.
    worker: String,
    delivery: u64,
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_result_ms: Option<u64>,
    /// The unique value that the end of the job sets free. The store makes sure that it is the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique: Option<String>,
}

pub(super) fn write(claim: &Claim) -> String {
    let spec = &claim.job.spec;
    let worker = claim.lease.worker.as_str();
    let written = Written {
        job: claim.lease.job.clone(),
        topic: claim.lease.topic.topic.clone(),
        worker: worker.strip_prefix(PREFIX).unwrap_or(worker).to_owned(),
        delivery: claim.lease.delivery,
        attempt: claim.attempt,
        attempts_max: spec.max_attempts,
        keep_result_ms: spec.keep_result.map(millis),
        unique: spec.unique.as_ref().and_then(Unique::held_until_done).map(str::to_owned),
    };
    // Nothing in it can fail to be written as JSON.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&written).unwrap_or_default())
}

/// The claim that the text stands for, of this tenant: all that settling it takes, and nothing of what the job brought.
///
/// # Errors
/// [`Code::BadRequest`]: no claim of this server or of another version came with such a text.
pub(super) fn read(tenant: &Name, text: &str) -> Result<Claim, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let written: Option<Written> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let written = written.ok_or_else(|| {
        Problem::new(Code::BadRequest, "this is no lease: give back what the claim came with, and nothing else")
    })?;
    let topic = TopicId { tenant: tenant.clone(), topic: written.topic };
    let spec = JobSpec {
        id: written.job.clone(),
        unique: written.unique.map(|value| Unique { value, window: None }),
        max_attempts: written.attempts_max,
        keep_result: written.keep_result_ms.map(Duration::from_millis),
        ..JobSpec::new(topic.clone(), Payload::default())
    };
    let unknown = Timestamp::default();
    Ok(Claim {
        job: Arc::new(Job { spec, enqueued_at: unknown, due_at: unknown }),
        lease: Lease {
            job: written.job,
            topic,
            worker: WorkerId::new(&format!("{PREFIX}{}", written.worker)),
            delivery: written.delivery,
        },
        attempt: written.attempt,
        claimed_at: unknown,
        lease_until: unknown,
        previous: None,
        checkpoint: None,
    })
}
