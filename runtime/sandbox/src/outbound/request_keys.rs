//! `Idempotency-Key`: the same for a request of a job in all its attempts, so that a server which did what was asked, and whose answer was
//! lost, does it once.
//!
//! What distinguishes requests is what they are, and the how-manieth of those that are alike an attempt sends: not their place among all, since an
//! attempt that goes on from a checkpoint leaves earlier ones out.

use std::collections::HashMap;

use hyper::header::{HeaderName, HeaderValue};
use hyper::http::Method;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::super::placeholders::Placeholders;
use super::outgoing::Outgoing;
use super::request_body::BEGIN_BYTES;
use gristmill_core::job::JobSpec;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Of the digest; in hexadecimal twice as many characters.
const KEY_BYTES: usize = 16;

/// The keys of one attempt.
#[derive(Debug)]
pub(in super::super) struct RequestKeys {
    /// Over tenant, topic and job.
    job: Sha256,
    /// How many there were of each request. As many as an attempt may send, at most.
    sent: Mutex<HashMap<[u8; 32], u32>>,
}

impl RequestKeys {
    pub(in super::super) fn of(spec: &JobSpec) -> Self {
        let mut job = Sha256::new();
        for part in [spec.topic.tenant.as_str(), spec.topic.topic.as_str(), spec.id.as_str()] {
            add(&mut job, part.as_bytes());
        }
        Self { job, sent: Mutex::default() }
    }

    /// Sets the key of a POST or PATCH that has none. Other methods do the same however often they are sent.
    pub(super) fn add_to(&self, request: &mut Outgoing, is_whole: bool, placeholders: Option<&Placeholders>) {
        let Outgoing { method, url, headers, body, .. } = request;
        if !matches!(*method, Method::POST | Method::PATCH) || headers.contains_key(IDEMPOTENCY_KEY) {
            return;
        }
        // Placeholders are other ones in each attempt.
        let by_name = placeholders.map(Placeholders::by_name).unwrap_or_default();
        let mut digest = self.job.clone();
        add(&mut digest, method.as_str().as_bytes());
        // Where its first part ends is chance.
        let body = if is_whole { body } else { body.get(..BEGIN_BYTES).unwrap_or(body) };
        for part in [url.as_str().as_bytes(), body] {
            match by_name.apply(part, usize::MAX) {
                Ok(Some(named)) => add(&mut digest, &named),
                _ => add(&mut digest, part),
            }
        }
        let digest: [u8; 32] = digest.finalize().into();
        let number = {
            let mut sent = self.sent.lock();
            let number = sent.entry(digest).or_default();
            *number += 1;
            *number
        };
        let key = Sha256::new().chain_update(digest).chain_update(number.to_le_bytes()).finalize();
        let key = hex::encode(key.get(..KEY_BYTES).unwrap_or_default());
        if let Ok(key) = HeaderValue::try_from(key) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
    }
}

fn add(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}
