//! What a runner and an HTTP server ask of a store: push, migrate, claim, extend, settle, reap, sweep.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::error::StoreError;
use super::inspect::Inspect;
use super::operations::operations;
use super::tokens::{TokenLookup, Tokens};
use gristmill_core::job::{Claim, JobId, Lease, Name, NewJob, TopicId, Unique, WorkerId};
use gristmill_core::json;

pub use gristmill_core::outcome::Settled;
use gristmill_core::outcome::Verdict;

operations! {
    /// Storing jobs.
    pub trait Push {
        /// Stores jobs: due ones ready, others delayed. Answers in the order given.
        ///
        /// Idempotent by job id while the job waits, runs or is dead: such an id is answered [`Pushed::Exists`] and changes nothing.
        /// Any number of jobs: of each tenant, they are stored in steps of [`STEP_JOBS`](crate::STEP_JOBS) and about
        /// [`STEP_BYTES`](crate::STEP_BYTES), each all or none: [`is_one_step`](crate::is_one_step) tells whether one is enough.
        async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> => announce pushed;
    }
}

operations! {
    /// Wake-ups.
    pub trait Signals {
        /// Wake-ups of these tenants, from now until the receiver is dropped. Best effort: a store may lose some, and says
        /// [`Signal::Lost`] when it knows that it may have.
        async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError>;
    }
}

operations! {
    /// Leasing jobs to workers.
    pub trait Claims {
        /// Takes ready jobs of several topics and leases them to `worker`: by [`Priority::TURNS`](gristmill_core::job::Priority::TURNS),
        /// and among equals the one that became ready first. Of a paused topic nothing is taken; it counts as drained.
        ///
        /// Stops at about 16 MiB of jobs, but takes at least one: a topic of which jobs were left in line does not count as drained.
        ///
        /// Raises each job's delivery and attempt by one, in the same step that moves it: a crash loses no count.
        ///
        /// A topic whose data is damaged, and a tenant's, stops no other: see [`Claimed::refused`]. An error concerns the whole
        /// claim.
        async fn claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> => announce claimed;
    }
}

operations! {
    /// Ending attempts.
    pub trait Settle {
        /// Ends attempts. Answers in the order given. Which of a batch's settlements comes first is not promised.
        ///
        /// One step each: the verdict, the removal from the worker's list and the leases, follow-up jobs (only with
        /// [`Verdict::Ack`] and [`Verdict::Snooze`]), result, counts.
        ///
        /// A job that was cancelled while it ran is gone with any verdict but [`Verdict::Ack`] and [`Verdict::Expire`]: that is
        /// answered [`Settled::Cancelled`], and counted and told as `cancelled`; its follow-ups do not appear.
        ///
        /// A call that failed may have settled some. Settled again through the same store, they are answered as the first time.
        async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> => announce settled;
    }
}

operations! {
    /// What a worker does with its leases.
    pub trait Leases {
        /// Prolongs leases to `lease` from now. False: that lease is lost. Answers in the order given.
        async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError>;

        /// Saves a checkpoint for the job's next attempt. False: the lease is lost and nothing was saved.
        async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError>;

        /// The running jobs of the tenant that `worker` holds, without those of `except`. Changes nothing. A worker that lost
        /// the reply to a claim learns here what it was given, so that it need not keep it until the lease runs out.
        async fn claims_of(
            &self,
            tenant: &Name,
            worker: &WorkerId,
            except: &HashSet<JobId>,
        ) -> Result<Vec<Lease>, StoreError>;
    }
}

operations! {
    /// Which workers are alive, and what dead ones left behind.
    pub trait Workers {
        /// Says that `worker` is alive. A worker that was silent for `dead_after` counts as dead in [`Workers::overdue`].
        async fn heartbeat(&self, worker: &WorkerId) -> Result<(), StoreError>;

        /// Forgets a worker that has given back all its jobs.
        async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError>;

        /// Finds the running jobs of these tenants whose lease ran out or whose worker has been silent for `dead_after`: of
        /// one tenant after the other, at most `limit` in all, and about 16 MiB of each tenant, but at least one: a short answer
        /// does not say that these are all. Changes nothing: who settles them sets [`Settlement::only_if_overdue`].
        async fn overdue(
            &self,
            tenants: &[Name],
            dead_after: Duration,
            limit: usize,
        ) -> Result<OverdueJobs, StoreError>;
    }
}

operations! {
    /// When there is work.
    pub trait Schedule {
        /// Wakes a worker that runs jobs of these topics, from now until the receiver is dropped: for [`Signal::Ready`], of
        /// the workers that wait for a topic one is enough; so whoever hears it claims, or passes it on
        /// ([`Schedule::pass_on`]). A worker waits for all its topics at first, and again for each that its claim has drained.
        /// A claim that leaves jobs in line wakes the next worker. [`Signal::Due`] is for one of them, too: it moves the jobs.
        ///
        /// Best effort, as [`Signals::signals`]: a worker that was woken may have died. [`Schedule::poll_work`] shows its jobs to all.
        async fn wake_ups(
            &self,
            worker: &WorkerId,
            tenants: &[Name],
            topics: &[TopicId],
        ) -> Result<mpsc::Receiver<Signal>, StoreError>;

        /// Wakes another worker for each of these topics that has ready jobs.
        async fn pass_on(&self, topics: &[TopicId]) -> Result<(), StoreError>;

        /// Moves at most `limit` due jobs of the tenant from delayed to ready: of each topic in the order in which they came due,
        /// those of one millisecond by id. Where `limit` is too small for all, topics share it.
        async fn migrate(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError>;

        /// What waits at this moment: the slow safety net under [`Signals::signals`]. Answers in the order given; a tenant
        /// whose data is damaged has an error of its own.
        async fn poll_work(
            &self,
            tenants: &[PollTenant],
        ) -> Result<Vec<Result<PendingWork, StoreError>>, StoreError>;
    }
}

operations! {
    /// Dropping what has outlived its limits.
    pub trait Sweep {
        /// Finds the tenant's topics of which something may have outlived its limits. Changes nothing.
        async fn sweepable(&self, tenant: &Name, idle_for: Duration) -> Result<Sweepable, StoreError>;

        /// Drops what has outlived its limits, a bounded number of each kind a call: dead jobs over age or number, counted as
        /// `discarded`, and whatever else the store keeps for a time only. Returns, for each entry of `limits`, how many dead jobs
        /// it dropped.
        async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError>;
    }
}

operations! {
    primary shard:
    /// Whether the store takes jobs.
    pub trait Probe {
        /// Writes as little as the store can write, and leaves nothing behind. Fails with the error of a push.
        async fn probe(&self) -> Result<(), StoreError>;
    }
}

operations! {
    /// How much room tenants take.
    pub trait Usage {
        /// About how many bytes the tenant has in the store: bodies, headers, failures and checkpoints of its jobs, and unique
        /// values, and results. A SQLite file is counted, which takes time in proportion to the number of jobs. Redis estimates
        /// by a thousand entries of each key and by some thousand of all keys, with what it needs to keep them.
        async fn stored_bytes(&self, tenant: &Name) -> Result<u64, StoreError>;

        /// How full the store is that takes the tenant's new jobs, whichever tenants fill it.
        async fn store_size(&self, tenant: &Name) -> Result<StoreSize, StoreError>;
    }
}

/// How full a store is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Bytes that it takes. Zero if it does not say so.
    pub used: u64,
    /// Bytes that it can take in all; `None` if it does not say so.
    pub capacity: Option<u64>,
}

/// The servers that a store consists of, which fail independently. A store of one server keeps the defaults.
#[async_trait]
pub trait Shards: Probe {
    /// The shards that take no jobs at this moment, each as the error that it gives.
    ///
    /// # Errors
    /// No shard takes jobs.
    async fn unavailable(&self) -> Result<Vec<StoreError>, StoreError> {
        self.probe().await.map(|()| Vec::new())
    }

    /// How many lanes of settlements there are. Settlements of one lane wait for each other; a shard that does not answer
    /// holds up no lane but its own.
    fn lanes(&self) -> usize {
        1
    }

    /// The lane in which this lease is to be settled, below [`Shards::lanes`].
    fn lane(&self, _lease: &Lease) -> usize {
        0
    }
}

/// What a producer and an operator need.
pub trait Produce: Push + Signals + Inspect + Tokens {}

impl<S: Push + Signals + Inspect + Tokens + ?Sized> Produce for S {}

/// Everything that a runner and an HTTP server need: every trait of the contract but [`Transfer`](crate::Transfer). See the
/// [crate](crate) for the rules.
pub trait Store:
    Produce + TokenLookup + Claims + Settle + Leases + Workers + Schedule + Sweep + Usage + Shards
{
}

impl<S: Produce + TokenLookup + Claims + Settle + Leases + Workers + Schedule + Sweep + Usage + Shards + ?Sized> Store
    for S
{
}

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

/// How many idle topics one call of [`Sweep::sweepable`] finds at most.
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
}

/// What a claim got.
#[derive(Debug, Default)]
pub struct Claimed {
    /// The jobs that were claimed.
    pub claims: Vec<Claim>,
    /// The topics that had fewer than asked for: they are empty until a [`Signal::Ready`] names them.
    pub drained: Vec<TopicId>,
    /// The topics whose jobs could not be claimed, or not all of them, each with the reason. The same claim would be refused
    /// again until an operator mends what is stored.
    pub refused: Vec<(TopicId, StoreError)>,
    /// How many ids in a ready List named a job that is running, delayed or dead. The claim moved them to the topic's `strays`.
    pub strays: u64,
    /// How many times a shard has become available again. Claims made on it may have been lost. Zero without shards.
    pub shard_returns: u64,
}

/// The end of one attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The claim that ends.
    pub lease: Lease,
    /// What follows for the job.
    pub verdict: Verdict,
    /// Attempts made at the job, this one included; kept with the result.
    pub attempts: u32,
    /// Stored in the same step. Same tenant as the lease. Only with Ack and Snooze.
    pub follow_ups: Vec<NewJob>,
    /// Keep what became of the job for this long once it is done or dead; zero: not at all.
    pub keep_result: Duration,
    /// The job's unique value, if the end of the job sets it free.
    pub unique: Option<String>,
    /// A client waits for the end of this job: notify it.
    pub notify: bool,
    /// Settle only if the lease has run out, or the worker is dead by `dead_after`. For reap.
    pub only_if_overdue: Option<Duration>,
}

impl Settlement {
    /// A settlement with a verdict and nothing else, for a lease whose job is not known. It says one attempt, keeps no result
    /// and holds on to no unique value; where the claim is known, use [`Settlement::of`].
    pub fn new(lease: Lease, verdict: Verdict) -> Self {
        Self {
            lease,
            verdict,
            attempts: 1,
            follow_ups: Vec::new(),
            keep_result: Duration::ZERO,
            unique: None,
            notify: false,
            only_if_overdue: None,
        }
    }

    /// The follow-ups that count: they become visible with the step that ends or interrupts an attempt that succeeded, or
    /// not at all.
    pub(super) fn visible_follow_ups(&self) -> &[NewJob] {
        match self.verdict {
            Verdict::Ack(_) | Verdict::Snooze(_) => &self.follow_ups,
            _ => &[],
        }
    }

    /// How many bytes it carries, roughly: for stores that bound what they do at once.
    pub(super) fn bytes(&self) -> usize {
        let result = match &self.verdict {
            Verdict::Ack(Some(payload)) => payload.data.len(),
            Verdict::Retry { failure, .. } | Verdict::Bury(failure) => {
                let context = failure.detail.context.as_ref().map_or(0, |payload| payload.data.len());
                context + failure.detail.message.len() + failure.backtrace.as_ref().map_or(0, String::len)
            }
            _ => 0,
        };
        result + self.visible_follow_ups().iter().map(|job| job.spec.body.data.len()).sum::<usize>()
    }

    /// The end of a claimed attempt, with what the producer asked for. The result is kept for as long as the producer or the
    /// topic (`retention`) asks, whichever is longer. Where the retry policy decides the verdict, use `decide` of the runner,
    /// which calls this.
    pub fn of(claim: &Claim, verdict: Verdict, retention: Duration) -> Self {
        let spec = &claim.job.spec;
        Self {
            attempts: claim.attempt,
            keep_result: retention.max(spec.keep_result.unwrap_or_default()),
            notify: spec.keep_result.is_some(),
            unique: spec.unique.as_ref().and_then(Unique::held_until_done).map(str::to_owned),
            ..Self::new(claim.lease.clone(), verdict)
        }
    }
}

/// What a migration did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Jobs that became ready.
    pub moved: usize,
    /// How long until the next job is due; zero if there are due ones left.
    pub next_due_in: Option<Duration>,
}

/// A running job whose lease ran out or whose worker is silent.
#[derive(Debug, Clone)]
pub struct Overdue {
    /// The claim that is over.
    pub claim: Claim,
    /// True: the worker is silent. False: only the lease ran out.
    pub worker_died: bool,
}

/// What [`Workers::overdue`] found.
#[derive(Debug, Default)]
pub struct OverdueJobs {
    /// The jobs.
    pub jobs: Vec<Overdue>,
    /// The tenants whose jobs could not be read, each with the reason.
    pub refused: Vec<(Name, StoreError)>,
}

/// One entry of [`Schedule::poll_work`].
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
    /// Topics with ready jobs, without paused ones. Perhaps one that has been emptied since, and that no claim has found so.
    pub ready: Vec<TopicId>,
    /// How long until the next delayed job is due; `None` if there is none.
    pub next_due_in: Option<Duration>,
    /// Running jobs that have been cancelled.
    pub cancelled: Vec<JobId>,
}

/// A wake-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "signal", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the docs of the variants name their fields")]
pub enum Signal {
    /// The topic was empty and has ready jobs now.
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
    /// Signals may have been lost, or a newer server sent one of a kind that this version does not know: ask the store.
    #[serde(other)]
    Lost,
}
