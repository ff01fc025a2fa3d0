//! A lease as a worker holds it: a text that says which delivery of which job is meant.
//!
//! Nothing keeps a worker from changing the text. So it says only what the store checks when the lease is settled, and what
//! matters to nothing but the worker's own job. What decides about retries and about how long a result is kept is read from
//! the store.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::claims;
use crate::problem::{Code, Problem};
use gristmill_core::job::{Claim, Job, JobId, JobOptions, JobSpec, Lease, Name, Payload, TopicId, Unique, WorkerId};
use gristmill_core::time::Timestamp;

/// The text. It has no tenant: the path names that, and the token must be for it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    job: JobId,
    /// Without the prefix of pull workers, so that the text cannot name a runner's job. It names the topic.
    worker: String,
    delivery: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<u64>,
    /// Only shown with a result.
    attempt: u32,
    /// The job's producer wants the result kept for longer than the topic does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keep_result: bool,
    /// The unique value that the end of the job sets free. The store checks that it is the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique: Option<String>,
}

/// A lease that a worker gave back.
pub(super) struct WorkerLease {
    /// What the text says of the claim. Its job has no body and no settings but the unique value.
    pub(super) claim: Claim,
    /// The store knows how long to keep the result.
    pub(super) keep_result: bool,
}

pub(super) fn write(claim: &Claim) -> String {
    let (spec, worker) = (&claim.job.spec, &claim.lease.worker);
    let text = Text {
        job: claim.lease.job.clone(),
        worker: worker.pull_name().unwrap_or(worker.as_str()).to_owned(),
        delivery: claim.lease.delivery,
        batch: claim.lease.batch,
        attempt: claim.attempt,
        keep_result: spec.options.keep_result.is_some(),
        unique: spec.options.unique.as_ref().and_then(Unique::held_until_done).map(str::to_owned),
    };
    // Nothing in it can fail to be written as JSON.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&text).unwrap_or_default())
}

/// Reads a lease of this tenant.
///
/// # Errors
/// [`Code::BadRequest`]: no claim of this version of the server came with such a text.
pub(super) fn read(tenant: &Name, text: &str) -> Result<WorkerLease, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let text: Option<Text> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let named = text.and_then(|text| Some((claims::topic_of(&text.worker)?, text)));
    let (topic, text) = named.ok_or_else(|| {
        Problem::new(Code::BadRequest, "this is not a lease: give back the text that the claim came with")
    })?;
    let Text { job, worker, delivery, batch, attempt, keep_result, unique } = text;
    let topic = TopicId { tenant: tenant.clone(), topic };
    let unique = unique.map(|value| Unique { value, window: None });
    let options = JobOptions { unique, ..JobOptions::default() };
    let spec = JobSpec { id: job.clone(), options, ..JobSpec::new(topic.clone(), Payload::default()) };
    let unknown = Timestamp::default();
    let claim = Claim {
        job: Arc::new(Job { spec, enqueued_at: unknown, due_at: unknown }),
        lease: Lease { job, topic, worker: WorkerId::pull(&worker), delivery, batch },
        attempt,
        claimed_at: unknown,
        lease_until: unknown,
        previous: None,
        checkpoint: None,
    };
    Ok(WorkerLease { claim, keep_result })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use serde_json::{Value, json};

    fn claim() -> Claim {
        let topic: TopicId = "acme/mail".parse().unwrap();
        let options = JobOptions {
            max_attempts: Some(7),
            keep_result: Some(Duration::from_millis(1500)),
            unique: Some(Unique { value: "ü/1".into(), window: None }),
            ..JobOptions::default()
        };
        let spec = JobSpec { options, ..JobSpec::new(topic.clone(), Payload::default()) };
        let lease = Lease {
            job: spec.id.clone(),
            topic,
            worker: WorkerId::pull("press:1:mail"),
            delivery: 3,
            batch: Some(u64::MAX),
        };
        let now = Timestamp::default();
        let job = Arc::new(Job { spec, enqueued_at: now, due_at: now });
        Claim { job, lease, attempt: 2, claimed_at: now, lease_until: now, previous: None, checkpoint: None }
    }

    /// The text of a lease with another value at `key`.
    fn edited(text: &str, key: &str, value: Value) -> String {
        let mut document: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        document[key] = value;
        URL_SAFE_NO_PAD.encode(document.to_string())
    }

    #[test]
    fn a_lease_reads_as_it_was_written() {
        let (claim, tenant) = (claim(), "acme".parse().unwrap());
        let text = write(&claim);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')), "{text}");
        let read = read(&tenant, &text).unwrap();
        assert_eq!((&read.claim.lease, read.claim.attempt, read.keep_result), (&claim.lease, 2, true));
        assert_eq!(read.claim.job.spec.options.unique, claim.job.spec.options.unique);
    }

    #[test]
    fn a_lease_is_of_the_callers_tenant_and_of_a_pull_worker_whatever_it_says() {
        let text = edited(&write(&claim()), "worker", json!("host-1:abcdef:mail"));
        let other: Name = "other".parse().unwrap();
        let lease = read(&other, &text).unwrap().claim.lease;
        assert_eq!(lease.topic.tenant, other);
        assert!(lease.worker.is_pull());
    }

    #[test]
    fn a_text_that_is_not_a_lease_is_refused() {
        let (text, tenant) = (write(&claim()), "acme".parse().unwrap());
        let more = edited(&text, "attempts_max", json!(1_000_000));
        for bad in ["", "e30", "!", &text[1..], &more, &edited(&text, "worker", json!("press"))] {
            assert!(read(&tenant, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn made_up_leases_are_refused_or_name_a_pull_worker() {
        let whole = write(&claim());
        let known = URL_SAFE_NO_PAD.decode(&whole).unwrap();
        gristmill_fuzz::check("lease", &[&known, whole.as_bytes()], |input| {
            // Both as the text itself, and as what is in it.
            let inside = read(&"acme".parse().unwrap(), &URL_SAFE_NO_PAD.encode(input));
            let outside = read(&"acme".parse().unwrap(), &String::from_utf8_lossy(input));
            inside.or(outside).map(|lease| {
                assert_eq!(lease.claim.lease.topic.tenant.as_str(), "acme");
                assert!(lease.claim.lease.worker.pull_name().is_some());
                (lease.keep_result, lease.claim.job.spec.options.unique.is_some())
            })
        });
    }
}
