//! What a topic allows: its handler, limits, retry policy and grants. Resolved and validated; how it is written down
//! in a manifest is the business of `gristmill-config`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::adapter::{Adapter, CodeMeaning, Program, Proxy};
pub use crate::capability::{Capability, Demands, WrittenAs};
pub use crate::fleet_limits::{FleetLimits, KeyLimits, OnDead, Rate, TenantFleetLimits};
use crate::http_grant::{HttpGrant, Withheld, WithheldKind};
use crate::job::{Name, TopicId};
pub use crate::record_policy::{BadRecordPolicy, RecordPolicy};
use crate::schedule::Schedule;

/// What a manifest says for a topic's handler if pull workers do its jobs; no component has this name.
pub const EXTERNAL: &str = "external";

/// Why a component of that name is not used.
pub const RESERVED: &str =
    "`external` is no handler's name: it says that pull workers do a topic's jobs; rename the file";

/// How long it is remembered how a job ended, unless its topic says otherwise.
pub const ENDED_RETENTION: Duration = Duration::from_secs(3600);

/// One topic, ready to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The tenant and the name.
    pub id: TopicId,
    /// The handler's name: the component's file name without `.wasm`.
    pub handler: Name,
    /// How the handler's component is called.
    pub adapter: Adapter,
    /// Pull workers do the jobs, over HTTP: no component is looked for, and no runner claims them.
    pub external: bool,
    /// At most this many attempts at once in one runner. At least 1.
    pub concurrency: u32,
    /// What all runners may do together.
    pub fleet: FleetLimits,
    /// Jobs that one instance may do, one after the other; 1: a fresh instance for each. At least 1.
    pub reuse: u32,
    /// What an attempt may use.
    pub limits: Limits,
    /// What happens after a failure.
    pub retry: RetryPolicy,
    /// How long what became of a job is kept; zero: not at all.
    pub result_retention: Duration,
    /// How long it is remembered how a job ended, as far as there is room; zero: not at all.
    pub ended_retention: Duration,
    /// How long after it became due a job may still start; none: for ever.
    pub ttl: Option<Duration>,
    /// How many dead jobs are kept, and for how long.
    pub dead: DeadPolicy,
    /// How long the state of a key is kept after the job that set it.
    pub state_ttl: Duration,
    /// Over how many partitions of a Redis the jobs are spread. At least 1.
    pub partitions: u32,
    /// Others write this topic's jobs into the store behind our back, so it must be looked at; see `docs/reference/redis-keys.md`.
    pub raw_producers: bool,
    /// The runner runs a job that died of its handler's code again once another version of the handler serves.
    pub park: bool,
    /// On how many different jobs in a row a version of the handler may trap until the runner pauses the topic; 0: on any number.
    pub pause_after_traps: u32,
    /// A new version of the handler does a share of the jobs until it has shown itself no worse; see [`trial`](crate::trial).
    pub gate: bool,
    /// The runner's own log also has the log lines of the handler.
    pub server_log: bool,
    /// Of which attempts the answers of the host are recorded.
    pub record: RecordPolicy,
    /// What the handler may reach beyond its job.
    pub grants: Arc<Grants>,
    /// When the topic gets jobs without a producer, by name.
    pub schedules: Arc<BTreeMap<Name, Schedule>>,
}

/// Which dead jobs are kept. What is over is dropped and counted as `discarded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadPolicy {
    /// How many, the latest ones.
    pub keep: u64,
    /// For how long.
    pub retention: Duration,
}

/// What one attempt may use. Every one is enforced by the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wasm instructions, roughly; instantiation included.
    pub fuel: u64,
    /// Bytes, over all linear memories of the component together.
    pub memory_bytes: u64,
    /// Wall clock.
    pub timeout: Duration,
    /// Bytes of a job's body.
    pub payload_bytes: u64,
    /// Bytes of a result, and of a failure's text and context together.
    pub output_bytes: u64,
    /// Bytes of log lines; what is over is dropped and counted, the guest runs on.
    pub log_bytes: u64,
    /// Calls of `gristmill:job` imports.
    pub host_calls: u64,
    /// Jobs that one attempt may enqueue.
    pub follow_ups: u32,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of the state of a key.
    pub state_bytes: u64,
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, the first included. At least 1.
    pub attempts: u32,
    /// How long to wait between attempts.
    pub backoff: Backoff,
}

/// How long a failed job waits for its next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// How the wait grows.
    pub kind: BackoffKind,
    /// The wait after the first failure.
    pub base: Duration,
    /// No wait is longer.
    pub max: Duration,
    /// Per cent of the wait that chance may take off: 0 to 100.
    pub jitter: u8,
}

/// How the wait grows from failure to failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackoffKind {
    /// The same wait each time.
    Fixed,
    /// Twice as long each time.
    Exponential,
}

/// What a topic's handler may reach beyond its job. Nothing by default, but for enqueueing within its tenant.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// The capabilities that are either granted or not: `clock` (the machine's clocks, fine enough to time other guests by;
    /// the store's time, to the millisecond, needs no grant), `random` (unpredictable numbers) and `state` (of the job's key).
    pub switches: BTreeSet<Capability>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The settings that the handler reads, by name.
    pub config: BTreeMap<String, String>,
    /// The secrets that the handler reads, by name.
    pub secrets: BTreeMap<String, Vec<u8>>,
    /// The secrets and variables that it gets placeholders for.
    pub withheld: Vec<Arc<Withheld>>,
    /// The topics of the same tenant that it may enqueue to; none: all of them.
    pub enqueue: Option<Vec<Name>>,
    /// The topics of the same tenant of whose jobs it learns the results, if its own job waited for them; none: its own topic and those that may
    /// enqueue to it, by name if it may not enqueue to all itself.
    pub predecessors: Option<Vec<Name>>,
    /// None: no requests at all.
    pub http: Option<Arc<HttpGrant>>,
}

impl Grants {
    /// Whether the topic has the capability.
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Http => self.http.is_some(),
            switch => self.switches.contains(&switch),
        }
    }

    /// The secrets with their bytes, by name, those too that a component gets placeholders for: for handlers whose requests are their own.
    pub fn all_secrets(&self) -> BTreeMap<&str, &[u8]> {
        let own = self.secrets.iter().map(|(name, secret)| (name.as_str(), secret.as_slice()));
        own.chain(self.withheld_as(WithheldKind::Secret)).collect()
    }

    /// The same for the variables of the environment.
    pub fn all_env(&self) -> BTreeMap<&str, &str> {
        let withheld = self.withheld_as(WithheldKind::Variable);
        let withheld = withheld.filter_map(|(name, bytes)| Some((name, std::str::from_utf8(bytes).ok()?)));
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(withheld).collect()
    }

    fn withheld_as(&self, kind: WithheldKind) -> impl Iterator<Item = (&str, &[u8])> {
        let of_kind = self.withheld.iter().filter(move |secret| secret.kind == kind);
        of_kind.map(|secret| (secret.name.as_str(), secret.bytes.as_slice()))
    }
}

impl fmt::Debug for Grants {
    /// Names only, of what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grants")
            .field("switches", &self.switches)
            .field("env", &self.env.keys())
            .field("config", &self.config)
            .field("secrets", &self.secrets.keys())
            .field("withheld", &self.withheld)
            .field("enqueue", &self.enqueue)
            .field("predecessors", &self.predecessors)
            .field("http", &self.http)
            .finish()
    }
}

impl Limits {
    /// The smaller one of each limit that an instance meets before it does a job.
    #[must_use]
    pub fn narrowest(self, other: Self) -> Self {
        Self {
            fuel: self.fuel.min(other.fuel),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            timeout: self.timeout.min(other.timeout),
            ..self
        }
    }
}

impl Default for Limits {
    /// Memory for a real job (an image of some megapixels), and an end within half a minute for a runaway one: a compiled
    /// loop uses some 10 G of fuel in a second, so the time is over before the fuel, also on a machine three times as fast.
    fn default() -> Self {
        Self {
            fuel: 1_000_000_000_000,
            memory_bytes: 64 << 20,
            timeout: Duration::from_secs(30),
            payload_bytes: 1 << 20,
            output_bytes: 1 << 20,
            log_bytes: 64 << 10,
            host_calls: 100_000,
            follow_ups: 100,
            checkpoint_bytes: 64 << 10,
            state_bytes: 64 << 10,
        }
    }
}

impl Default for DeadPolicy {
    /// What Sidekiq keeps, and has kept for ten years.
    fn default() -> Self {
        Self { keep: 10_000, retention: Duration::from_secs(180 * 24 * 3600) }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 5, backoff: Backoff::default() }
    }
}

impl Default for Backoff {
    /// 1 s, 2 s, 4 s, … up to 10 minutes, each shortened by up to a quarter so that failures that came together do not
    /// come back together.
    fn default() -> Self {
        Self { kind: BackoffKind::Exponential, base: Duration::from_secs(1), max: Duration::from_secs(600), jitter: 25 }
    }
}

impl Topic {
    /// A topic with every setting at its default.
    pub fn with_defaults(id: TopicId, handler: Name) -> Self {
        Self {
            id,
            handler,
            adapter: Adapter::default(),
            external: false,
            concurrency: 32,
            fleet: FleetLimits::NONE,
            reuse: 1,
            limits: Limits::default(),
            retry: RetryPolicy::default(),
            result_retention: Duration::ZERO,
            ended_retention: ENDED_RETENTION,
            ttl: None,
            dead: DeadPolicy::default(),
            state_ttl: DeadPolicy::default().retention,
            partitions: 1,
            raw_producers: false,
            park: true,
            pause_after_traps: 0,
            server_log: true,
            gate: false,
            record: RecordPolicy::default(),
            grants: Arc::default(),
            schedules: Arc::default(),
        }
    }

    /// What a component asks for and this topic does not have: grants, and the way to call it.
    pub fn lacks(&self, demands: &Demands) -> Vec<Capability> {
        let Demands { grants, adapters } = demands;
        let mut lacking: Vec<_> = grants.iter().copied().filter(|grant| !self.grants.has(*grant)).collect();
        if !adapters.contains(&self.adapter.needs()) {
            lacking.extend(adapters.first());
        }
        lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_called_by_what_it_exports() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let command = Demands::of(&[], &names(&["wasi:cli/run@0.2.3"]));
        let both = Demands::of(&[], &names(&["wasi:cli/run@0.2.3", "gristmill:job/handler@0.1.0"]));
        let handler = Demands::of(&names(&["wasi:random/random@0.2.0"]), &names(&["gristmill:job/handler@0.1.0"]));
        let mut topic = Topic::with_defaults("mail".parse().unwrap(), "mail".parse().unwrap());
        assert_eq!(topic.lacks(&command), [Capability::CommandAdapter]);
        assert_eq!(topic.lacks(&both), []);
        assert_eq!(topic.lacks(&handler), [Capability::Random]);
        let server = Demands::of(&[], &names(&["wasi:cli/run@0.2.3", "wasi:http/incoming-handler@0.2.3"]));
        assert_eq!(topic.lacks(&server), [Capability::ProxyAdapter]);
        topic.adapter = Adapter::Command(Arc::default());
        assert_eq!(topic.lacks(&command), []);
        assert_eq!(topic.lacks(&both), []);
        assert_eq!(topic.lacks(&handler), [Capability::Random, Capability::HandlerAdapter]);
        assert_eq!(topic.lacks(&Demands::default()), [], "nothing is known of the component");
    }
}
