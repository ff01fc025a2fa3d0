//! What goes into an attempt, as a recording has it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::digest;
use crate::attempt::{Attempt, Version};
use crate::placeholders::{KeptPlaceholder, Placeholders};
use gristmill_core::job::JobSpec;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Adapter, Capability, CodeMeaning, Grants, Limits, Program, Proxy};

/// What counts the fuel. `Cargo.toml` pins it.
pub(super) const ENGINE: &str = "wasmtime 48.0.8";

/// All that the guest was given but the bytes of the job's body, of which this has the digest: see [`Recording::body`](super::Recording::body).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingHead {
    /// SHA-256 of the component.
    pub component: [u8; 32],
    /// The begin of the SHA-256 over limits, adapter and grants. Secrets and variables count with their digests.
    pub settings: [u8; 8],
    /// The begin of the SHA-256 of the job's body.
    pub body: [u8; 8],
    /// What counted the fuel, such as `wasmtime 48.0.8`.
    pub engine: String,
    /// The job's id.
    pub job: String,
    /// Its tenant.
    pub tenant: String,
    /// Its topic, without the tenant.
    pub topic: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When the attempt's time is over, by the store's clock, in milliseconds.
    pub deadline_ms: u64,
    /// What the attempt might use.
    pub limits: Limits,
    pub(super) max_attempts: u32,
    pub(super) content_type: Option<String>,
    pub(super) metadata: Vec<(String, String)>,
    pub(super) key: Option<String>,
    pub(super) enqueued_ms: u64,
    pub(super) due_ms: u64,
    pub(super) checkpoint: Option<ByteBuf>,
    pub(super) adapter: AdapterParts,
    /// None: no requests at all.
    pub(super) request_bytes: Option<u64>,
    pub(super) keeps_state: bool,
    /// What the guest had instead of secrets that it did not see.
    pub(super) placeholders: Vec<KeptPlaceholder>,
}

/// [`Adapter`], as it can be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AdapterParts {
    Handler,
    Command(Vec<String>, BTreeMap<u16, CodeMeaning>),
    Proxy(String, BTreeMap<u16, CodeMeaning>),
}

impl RecordingHead {
    pub(super) fn of(
        attempt: &Attempt,
        placeholders: Option<&Placeholders>,
        version: Version,
        deadline: Timestamp,
    ) -> Self {
        let Attempt { job, grants, limits, .. } = attempt;
        let spec = &job.spec;
        let adapter = AdapterParts::of(&attempt.adapter);
        Self {
            component: version.0,
            settings: settings(limits, &adapter, grants),
            body: short(&digest(&spec.body.data)),
            engine: ENGINE.to_owned(),
            job: spec.id.as_str().to_owned(),
            tenant: spec.topic.tenant.as_str().to_owned(),
            topic: spec.topic.topic.as_str().to_owned(),
            attempt: attempt.attempt,
            deadline_ms: deadline.as_millis(),
            limits: *limits,
            max_attempts: attempt.max_attempts,
            content_type: spec.body.content_type.clone(),
            metadata: spec.metadata.clone(),
            key: spec.options.key.clone(),
            enqueued_ms: job.enqueued_at.as_millis(),
            due_ms: job.due_at.as_millis(),
            checkpoint: attempt.checkpoint.clone().map(ByteBuf::from),
            adapter,
            request_bytes: grants.http.as_ref().map(|http| http.request_bytes),
            keeps_state: grants.has(Capability::State),
            placeholders: placeholders.map(Placeholders::kept).unwrap_or_default(),
        }
    }

    /// When the attempt began, by the store's clock, in milliseconds.
    pub fn started_ms(&self) -> u64 {
        let timeout = u64::try_from(self.limits.timeout.as_millis()).unwrap_or(u64::MAX);
        self.deadline_ms.saturating_sub(timeout)
    }

    /// The job as it was, with this body.
    pub(super) fn job(&self, body: Vec<u8>) -> Option<JobSpec> {
        let topic = gristmill_core::job::TopicId { tenant: self.tenant.parse().ok()?, topic: self.topic.parse().ok()? };
        let body = gristmill_core::job::Payload { data: body, content_type: self.content_type.clone() };
        let mut spec = JobSpec::new(topic, body);
        spec.id = self.job.parse().ok()?;
        (spec.metadata, spec.options.key) = (self.metadata.clone(), self.key.clone());
        Some(spec)
    }
}

impl AdapterParts {
    fn of(adapter: &Adapter) -> Self {
        match adapter {
            Adapter::Handler => Self::Handler,
            Adapter::Command(program) => Self::Command(program.args.clone(), program.exit_codes.clone()),
            Adapter::Proxy(proxy) => Self::Proxy(proxy.path.clone(), proxy.status_codes.clone()),
        }
    }

    pub(super) fn adapter(&self) -> Adapter {
        match self.clone() {
            Self::Handler => Adapter::Handler,
            Self::Command(args, exit_codes) => Adapter::Command(Arc::new(Program { args, exit_codes })),
            Self::Proxy(path, status_codes) => Adapter::Proxy(Arc::new(Proxy { path, status_codes })),
        }
    }
}

thread_local! {
    /// The settings of the last attempt on this thread, and what is made of them: the next one mostly has the same.
    static LAST: RefCell<Option<LastSettings>> = const { RefCell::new(None) };
}

struct LastSettings {
    limits: Limits,
    adapter: AdapterParts,
    grants: Weak<Grants>,
    digest: [u8; 8],
}

impl LastSettings {
    /// A grants object that is gone keeps its address for as long as this knows of it.
    fn are(&self, limits: &Limits, adapter: &AdapterParts, grants: &Arc<Grants>) -> bool {
        self.grants.as_ptr() == Arc::as_ptr(grants) && self.limits == *limits && self.adapter == *adapter
    }
}

fn settings(limits: &Limits, adapter: &AdapterParts, grants: &Arc<Grants>) -> [u8; 8] {
    LAST.with_borrow_mut(|last| match last {
        Some(last) if last.are(limits, adapter, grants) => last.digest,
        last => {
            let digest = digest_of(limits, adapter, grants);
            *last = Some(LastSettings {
                limits: *limits,
                adapter: adapter.clone(),
                grants: Arc::downgrade(grants),
                digest,
            });
            digest
        }
    })
}

fn digest_of(limits: &Limits, adapter: &AdapterParts, grants: &Grants) -> [u8; 8] {
    let Grants { switches, env, config, secrets, withheld, enqueue, predecessors, http } = grants;
    let env: Vec<_> = env.iter().map(|(name, value)| (name, digest(value.as_bytes()))).collect();
    let secrets: Vec<_> = secrets.iter().map(|(name, value)| (name, digest(value))).collect();
    let withheld: Vec<_> = withheld.iter().map(|secret| (secret, digest(&secret.bytes))).collect();
    let all = format!(
        "{limits:?} {adapter:?} {switches:?} {env:?} {config:?} {secrets:?} {withheld:?} {enqueue:?} {predecessors:?} {http:?}"
    );
    short(&digest(all.as_bytes()))
}

/// The begin of a digest.
pub(super) fn short<const BYTES: usize>(digest: &[u8; 32]) -> [u8; BYTES] {
    digest.first_chunk().copied().unwrap_or([0; BYTES])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_engine_is_the_one_that_is_pinned() {
        let manifest = include_str!("../../../../Cargo.toml");
        let (_, version) = super::ENGINE.split_once(' ').unwrap();
        assert!(manifest.contains(&format!("wasmtime = {{ version = \"={version}\"")), "{version}");
    }
}
