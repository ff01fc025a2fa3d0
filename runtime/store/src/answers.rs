//! What operations of a store take, and what they answer.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use gristmill_core::fleet_limits::FleetLimits;
use gristmill_core::job::{Claim, JobId, Name, NoLink, TopicId};
use gristmill_core::json;
use gristmill_core::topic::Topic;

/// How many dead jobs a topic may have, and how old they may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLimits {
    /// The topic.
    pub topic: TopicId,
    /// The latest ones stay.
    pub keep: u64,
    /// How long a dead job is kept.
    pub retention: Duration,
}

/// How many idle topics one call of [`Sweep::sweepable`](crate::Sweep::sweepable) finds at most.
#[cfg(any(feature = "redis", feature = "embedded"))]
pub(crate) const IDLE_TOPICS: usize = 1000;

/// Topics of a tenant of which something may have outlived its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweepable {
    /// They may have dead jobs.
    pub perishable: Vec<TopicId>,
    /// Topics that are not paused and that were not in use for the time that was asked for, at most 1,000. Some may have jobs
    /// that waited for all that time; [`Control::forget_topic`](crate::Control::forget_topic) forgets the others.
    pub idle: Vec<TopicId>,
}

/// What a push did with a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", content = "of", rename_all = "kebab-case")]
pub enum Pushed {
    /// Stored.
    Stored,
    /// A job with this id is stored already.
    Exists,
    /// A job of the topic holds the same unique value; it is named. Counted as `duplicate`.
    Duplicate(JobId),
    /// Not stored: it cannot wait for a job that it names, or be a member of its batch.
    Refused(NoLink),
}

/// One entry of a claim: up to `max` jobs of `topic`, each for `lease`.
#[derive(Debug, Clone)]
pub struct ClaimFrom {
    /// The topic.
    pub topic: TopicId,
    /// The most jobs.
    pub max: usize,
    /// How long each claim holds.
    pub lease: Duration,
    /// What all claims of the topic may take together, by the manifest of this one.
    pub limits: FleetLimits,
    /// Whether raw producers write to the topic, by the same manifest: then an element of its ready List that is no known id is a job.
    pub raw_producers: bool,
}

impl ClaimFrom {
    /// Up to `max` jobs of a topic without limits and raw producers, each for `lease`.
    pub const fn new(topic: TopicId, max: usize, lease: Duration) -> Self {
        Self { topic, max, lease, limits: FleetLimits::NONE, raw_producers: false }
    }

    /// The same by what the manifest says of the topic.
    #[must_use]
    pub fn by_manifest(self, Topic { fleet, raw_producers, .. }: &Topic) -> Self {
        Self { limits: *fleet, raw_producers: *raw_producers, ..self }
    }

    /// The same within the limits of the topic.
    #[must_use]
    pub fn within(self, limits: FleetLimits) -> Self {
        Self { limits, ..self }
    }
}

/// What a claim got.
#[derive(Debug, Default)]
pub struct Claimed {
    /// The jobs that were claimed.
    pub claims: Vec<Claim>,
    /// The topics that had fewer than asked for: they are empty, or their limits are reached, until a [`Signal::Ready`] names them.
    pub drained: Vec<TopicId>,
    /// The topics whose jobs could not be claimed, or not all of them, each with the reason. The same claim would be refused
    /// again until an operator mends what is stored; or, if the reason is [`StoreError::Unavailable`], until their server is available again.
    pub refused: Vec<(TopicId, StoreError)>,
    /// How many ids in a ready List named a job that is running, delayed or dead. The claim moved them to the topic's `strays`.
    pub strays: u64,
    /// How many times a shard has become available again. Claims made on it may have been lost. Zero without shards.
    pub shard_returns: u64,
}

/// What a migration did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Jobs that became ready, but for those that schedules made; topics whose rate allows more; and links of jobs that ended, which were passed
    /// on to those that wait.
    pub moved: usize,
    /// Schedules that fired.
    pub fired: usize,
    /// How long until the next job or schedule is due, or a topic's rate allows more; zero if there are due ones left.
    pub next_due_in: Option<Duration>,
}

/// For stores that are made of several.
#[cfg(any(feature = "redis", feature = "sharding"))]
impl Migrated {
    /// Adds what a migration did in another store.
    pub(super) fn add(&mut self, more: Self) {
        self.moved += more.moved;
        self.fired += more.fired;
        self.next_due_in = earlier(self.next_due_in, more.next_due_in);
    }
}

#[cfg(any(feature = "redis", feature = "sharding"))]
impl Sweepable {
    /// Adds what was found in another store.
    pub(super) fn add(&mut self, more: Self) {
        for (topics, more) in [(&mut self.perishable, more.perishable), (&mut self.idle, more.idle)] {
            topics.extend(more);
            topics.sort();
            topics.dedup();
        }
    }
}

#[cfg(any(feature = "redis", feature = "sharding"))]
impl PendingWork {
    /// Adds what was found of the same tenant in another store. An error of one store is the tenant's.
    pub(super) fn add(total: &mut Result<Self, StoreError>, found: Result<Self, StoreError>) {
        match (total.as_mut(), found) {
            (Ok(total), Ok(found)) => {
                total.ready.extend(found.ready);
                total.ready.sort();
                total.ready.dedup();
                total.cancelled.extend(found.cancelled);
                total.killed.extend(found.killed);
                total.next_due_in = earlier(total.next_due_in, found.next_due_in);
            }
            (Ok(_), Err(error)) => *total = Err(error),
            (Err(_), _) => {}
        }
    }
}

#[cfg(any(feature = "redis", feature = "sharding"))]
fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// A running job whose lease ran out or whose worker is silent.
#[derive(Debug, Clone)]
pub struct Overdue {
    /// The claim that is over.
    pub claim: Claim,
    /// True: the worker is silent. False: only the lease ran out.
    pub worker_died: bool,
}

/// What [`Workers::overdue`](crate::Workers::overdue) found.
#[derive(Debug, Default)]
pub struct OverdueJobs {
    /// The jobs.
    pub jobs: Vec<Overdue>,
    /// The tenants whose jobs could not be read, each with the reason: their data are damaged, or their server, of several, is unavailable.
    pub refused: Vec<(Name, StoreError)>,
    /// No job of these tenants was running. `false` where the store does not know.
    pub none_run: bool,
}

/// One entry of [`FindWork::poll_work`](crate::FindWork::poll_work).
#[derive(Debug, Clone)]
pub struct PollTenant {
    /// The tenant.
    pub tenant: Name,
    /// Topics into which other programs write behind the store's back; looked at one by one.
    pub raw: Vec<Name>,
}

/// What waits in a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingWork {
    /// Topics with ready jobs, without paused ones and those whose limits are reached. Perhaps one that has been emptied since, and that no claim has found so.
    pub ready: Vec<TopicId>,
    /// How long until the next delayed job or schedule is due, or a topic's rate allows more; `None` if there is no such thing.
    pub next_due_in: Option<Duration>,
    /// Running jobs that have been cancelled.
    pub cancelled: Vec<JobId>,
    /// Those of them that have been killed: their attempts are to end now.
    pub killed: Vec<JobId>,
}

/// A wake-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "signal", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the docs of the variants name their fields")]
pub enum Signal {
    /// The topic has jobs that may start: it was empty, or its limits were reached.
    Ready(TopicId),
    /// A job of the tenant is due earlier than any before: after this wait.
    Due {
        /// The tenant of the job.
        tenant: Name,
        /// How long until it is due.
        #[serde(rename = "in_ms", with = "json::WaitMs")]
        wait: Duration,
    },
    /// The job is over or dead. Only for jobs pushed with `keep_result`.
    Finished { tenant: Name, id: JobId },
    /// The job is running and has been cancelled.
    Cancelled { tenant: Name, id: JobId },
    /// The job is running and has been killed: its attempt is to end now. Comes after [`Signal::Cancelled`] of the same job.
    Killed { tenant: Name, id: JobId },
    /// It was decided which versions of its handler do the topic's jobs: [`Deployments::deployments`](crate::Deployments::deployments) says it.
    Deployed(TopicId),
    /// Signals may have been lost, or a newer server sent one of a kind that this version does not know: ask the store.
    #[serde(other)]
    Lost,
}
