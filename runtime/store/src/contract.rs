//! What a runner and an HTTP server ask of a store: push, migrate, claim, extend, settle, reap, sweep.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

use super::answers::{
    ClaimFrom, Claimed, DeadLimits, Migrated, OverdueJobs, PendingWork, PollTenant, Pushed, Signal, Sweepable,
};
use super::bill::{BillEntries, Bills};
use super::clock::ClockOffset;
use super::deployments::Deployments;
use super::error::StoreError;
use super::fsck::Fsck;
use super::identity::Identity;
use super::inspect::{Inspect, Query};
use super::kept::{Recordings, Results, Uniques};
use super::operations::operations;
use super::schedules::{ManifestSchedules, Schedules};
use super::settlement::Settlement;
use super::tokens::{TokenLookup, Tokens};
use super::waiting_claim::WaitToClaim;
use super::workflows::Workflows;
use gristmill_config::HOME;
use gristmill_core::job::{JobId, Lease, Name, NewJob, Progress, TopicId, WorkerId};
use gristmill_core::time::Timestamp;

pub use gristmill_core::outcome::Settled;

operations! {
    /// Storing jobs.
    pub trait Push {
        /// Stores jobs: due ones ready, others delayed. Answers in the order given.
        ///
        /// Idempotent by job id while the job waits, runs or is dead: such an id is answered [`Pushed::Exists`] and changes nothing.
        /// Any number of jobs: of each tenant, they are stored in steps of [`STEP_JOBS`](crate::STEP_JOBS) and about
        /// [`STEP_BYTES`](crate::STEP_BYTES), each all or none: [`is_one_step`](crate::is_one_step) returns whether one is enough.
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
        /// and among equals the one that became ready first. Takes nothing of a paused topic; it counts as drained.
        ///
        /// Stops at about 2 MiB of jobs, but takes at least one: a topic of which jobs were left in line does not count as drained.
        ///
        /// Takes no more of a topic than its [limits](ClaimFrom::limits) allow. If they keep jobs in line, the topic counts as drained: the store
        /// says [`Signal::Ready`] again when some may start, because a running job has ended or a job was not to start before. Each
        /// claim brings its own limits; what all claims have taken together is in the store. What is claimed counts, whatever becomes of it.
        ///
        /// Limits of a tenant hold for all its topics. Where they keep jobs in line until a job of another topic ends, it may take a
        /// [`FindWork::migrate`] until the store says [`Signal::Ready`]; then it says [`Signal::Due`] at once.
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
        /// [`Ack`](gristmill_core::outcome::Verdict::Ack) and [`Snooze`](gristmill_core::outcome::Verdict::Snooze)), the state of the job's
        /// key (only with `Ack`), result, counts.
        ///
        /// A job that was cancelled while it ran is gone with any verdict but `Ack` and
        /// [`Expire`](gristmill_core::outcome::Verdict::Expire): that is answered [`Settled::Cancelled`], and counted
        /// and emitted as `cancelled`; its follow-ups do not appear.
        ///
        /// A call that failed may have settled some. Settled again through the same store, they are answered as the first time.
        async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> => announce settled;
    }
}

operations! {
    parts:
    /// What the jobs of a key leave for each other: bytes for each key of a topic. [`Settlement::state`](crate::Settlement::state) writes them.
    pub trait States {
        /// The state of a key; `None` if there is none, or its time is over.
        async fn state(&self, topic: &TopicId, key: &str) -> Result<Option<VersionedState>, StoreError>
            [partitions by hand; current topic];

        /// Deletes the state of a key: any, or only this version of it. A job of the key that runs may set it again.
        async fn delete_state(
            &self,
            topic: &TopicId,
            key: &str,
            version: Option<u64>,
        ) -> Result<StateDeleted, StoreError> [partitions by hand; current topic];
    }
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedState {
    /// What a job has set.
    pub value: Vec<u8>,
    /// Grows by one with each change. The first version is the store's time in milliseconds: so a state that was
    /// deleted, or whose time was over, has no version again that it had before. Where the topic was spread over more partitions meanwhile, the
    /// next one also begins so.
    pub version: u64,
}

/// What came of deleting the state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateDeleted {
    /// It is gone.
    Deleted,
    /// There was none.
    Missing,
    /// It has another version than the one that was to be deleted. Nothing was changed.
    OtherVersion,
}

operations! {
    parts:
    /// What a worker does with its leases.
    pub trait Leases {
        /// Prolongs leases to `lease` from now. False: that lease is lost. Answers in the order given.
        async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError>;

        /// Saves a checkpoint for the job's next attempt. False: the lease is lost and nothing was saved.
        async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError>;

        /// Notes how far running attempts are, for [`Query::progress`](crate::Query::progress), in place of what they reported before. A
        /// lease that is lost changes nothing.
        async fn note_progress(&self, progress: &[(Lease, Progress)]) -> Result<(), StoreError>;

        /// The running jobs of the tenant that `worker` holds, without those of `except`. Changes nothing. A worker that lost
        /// the reply to a claim learns here what it was given, so that it need not keep it until the lease runs out.
        async fn claims_of(
            &self,
            tenant: &Name,
            worker: &WorkerId,
            except: &HashSet<JobId>,
        ) -> Result<Vec<Lease>, StoreError> [poll tenant: concat];
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
        /// one tenant after the other, at most `limit` in all, and about 2 MiB of each tenant, but at least one: a short answer
        /// does not mean that these are all. Changes nothing: the caller that settles them sets [`Settlement::only_if_overdue`].
        async fn overdue(
            &self,
            tenants: &[Name],
            dead_after: Duration,
            limit: usize,
        ) -> Result<OverdueJobs, StoreError>;
    }
}

operations! {
    parts:
    /// When there is work.
    pub trait FindWork {
        /// Wakes a worker that runs jobs of these topics, from now until the receiver is dropped: for [`Signal::Ready`], of
        /// the workers that wait for a topic one is enough; so the worker that receives it claims, or passes it on
        /// ([`FindWork::pass_on`]). A worker waits for all its topics at first, and again for each that its claim has drained.
        /// A claim that leaves jobs in line wakes the next worker. [`Signal::Due`] is also for one of them: it moves the jobs.
        ///
        /// No worker is woken for what a [claim that waits](crate::WaitToClaim) has taken.
        ///
        /// Best effort, as [`Signals::signals`]: a worker that was woken may have died. [`FindWork::poll_work`] shows its jobs to all.
        async fn wake_ups(
            &self,
            worker: &WorkerId,
            tenants: &[Name],
            topics: &[TopicId],
        ) -> Result<mpsc::Receiver<Signal>, StoreError>;

        /// Wakes another worker for each of these topics that has ready jobs.
        async fn pass_on(&self, topics: &[TopicId]) -> Result<(), StoreError>;

        /// Says whether the tenant has as much in the store as it may: from then on, ticks of its schedules make no jobs where this process fires
        /// them, and their records say so.
        async fn set_full(&self, tenant: &Name, is_full: bool) -> Result<(), StoreError>
            [partitions by hand; poll tenant: done];

        /// Fires the tenant's schedules that are due, and moves at most `limit` due jobs of the tenant from delayed to ready: of each
        /// topic in the order in which they came due, those of one millisecond by id. Where `limit` is too small for all, topics share
        /// it. And has those topics claimed from whose rate allows more by now, and passes on the ends of jobs that are still to be passed on
        /// those that wait for them: about a thousand links count as a thousand jobs.
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
    parts:
    /// Dropping what has outlived its limits.
    pub trait Sweep {
        /// Finds the tenant's topics of which something may have outlived its limits. Changes nothing.
        async fn sweepable(&self, tenant: &Name, idle_for: Duration) -> Result<Sweepable, StoreError>
            [partitions by hand; poll tenant: sweepable];

        /// Drops what has outlived its limits, a bounded number of each kind a call: dead jobs over age or number, counted as
        /// `discarded`, and whatever else the store keeps for a time only. Returns, for each entry of `limits`, how many dead jobs
        /// it dropped.
        async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError>;

        /// The jobs of a topic that have been dead for longest, which a sweep drops first, each with since when: the oldest first (those of one
        /// millisecond by id), at most `limit`, and never more than a thousand.
        async fn oldest_dead(&self, topic: &TopicId, limit: usize) -> Result<Vec<(Timestamp, JobId)>, StoreError>
            [ask topic: oldest(limit)];
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
    parts:
    /// How much room tenants take.
    pub trait Usage {
        /// About how many bytes the tenant has in the store: bodies, headers, failures and checkpoints of its jobs, and unique
        /// values, and results. A SQLite file is counted, which takes time in proportion to the number of jobs. Redis estimates
        /// by a thousand entries of each key and by some thousand of all keys, with what it needs to keep them.
        async fn stored_bytes(&self, tenant: &Name) -> Result<u64, StoreError> [ask tenant: sum];

        /// How full the store is that takes the tenant's new jobs, whichever tenants fill it.
        async fn store_size(&self, tenant: &Name) -> Result<StoreSize, StoreError> [current tenant];
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
pub trait Shards: Probe + Query {
    /// The shards that take no jobs at this moment, each as the error that it gives.
    ///
    /// # Errors
    /// No shard takes jobs.
    async fn unavailable(&self) -> Result<Vec<StoreError>, StoreError> {
        self.probe().await.map(|()| Vec::new())
    }

    /// How far the clocks of the shards that are available are from this host's, with the shards' names. A store of one server has no name.
    async fn clocks(&self) -> Vec<(Option<Name>, ClockOffset)> {
        let Ok(any) = HOME.parse() else { return Vec::new() };
        let offset = ClockOffset::of(self.clock_time(&any)).await;
        offset.map(|offset| (None, offset)).into_iter().collect()
    }

    /// Changes each time a shard is available again that was not: then claims of it whose replies were lost are looked for. For a store of one
    /// server it never does, because its callers see that themselves.
    fn returns(&self) -> watch::Receiver<u64> {
        watch::Sender::default().subscribe()
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
pub trait Produce: Push + Signals + Inspect + States + Uniques + Workflows + Schedules + Tokens + Bills {}

impl<S: Push + Signals + Inspect + States + Uniques + Workflows + Schedules + Tokens + Bills + ?Sized> Produce for S {}

/// Everything that a runner and an HTTP server need: every trait of the contract but [`Transfer`](crate::Transfer). See the
/// [crate](crate) for the rules.
pub trait Store:
    Produce
    + TokenLookup
    + Claims
    + WaitToClaim
    + Settle
    + Leases
    + Workers
    + FindWork
    + ManifestSchedules
    + BillEntries
    + Results
    + Recordings
    + Deployments
    + Sweep
    + Usage
    + Fsck
    + Identity
    + Shards
{
}

impl<
    S: Produce
        + TokenLookup
        + Claims
        + WaitToClaim
        + Settle
        + Leases
        + Workers
        + FindWork
        + ManifestSchedules
        + BillEntries
        + Results
        + Recordings
        + Deployments
        + Sweep
        + Usage
        + Fsck
        + Identity
        + Shards
        + ?Sized,
> Store for S
{
}
