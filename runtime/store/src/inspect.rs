//! The onlooker's side of a store: what people ask about jobs and topics, and what they do with dead ones.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(any(feature = "redis", feature = "embedded"))]
use super::clock::NEVER;
use super::counts::TopicCounts;
use super::ended::JobEnd;
use super::error::StoreError;
use super::list::{Cursor, Page, StateFilter};
use super::operations::operations;
use super::workflows::WaitsFor;
use gristmill_core::job::{Job, JobId, Name, Payload, Progress, TopicId, WorkerId};
use gristmill_core::outcome::Failure;
use gristmill_core::time::Timestamp;

/// As far as a job's place in line is counted: a place farther behind is of little use, and would cost the store its time.
pub const AHEAD: u64 = 10_000;

operations! {
    parts:
    /// What is known about jobs, topics and tenants.
    pub trait Query {
        /// Every topic of the tenant that ever held a job or is paused, with its counts, ordered by name.
        async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError>
            [shards by hand; ask tenant: counts];

        /// The job and where it is. A finished one only as long as its result is kept; none: unknown or gone.
        async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError>
            [shards by hand; ask tenant: prefer];

        /// A job that is over, with how and when it ended ([`JobView::ended`]) and its attempts: as long as that is remembered, which is not
        /// less than [`REMEMBERED`](crate::REMEMBERED) jobs of a topic with ids as long as ours, for as long as its settlement
        /// asked for. One that was cancelled while it waited, and a dead one that was deleted, for
        /// [`ENDED_RETENTION`](gristmill_core::topic::ENDED_RETENTION). `None`: it never was, it is not over, or it is no longer
        /// remembered. Looks at what is remembered of all topics of the tenant.
        async fn ended(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError>
            [ask tenant: latest_end];

        /// The jobs of the topic that [`Query::ended`] knows, the latest first, at most `limit`: one that ended twice may be listed twice.
        async fn ended_jobs(&self, topic: &TopicId, limit: usize) -> Result<Vec<JobView>, StoreError>
            [ask topic: latest_ends(limit)];

        /// How far the attempts at these deliveries are, as their handlers last reported. `None`: they have reported nothing, or more than
        /// a day ago, or the attempt is over. Answers in the order given. A store by way of a server reports it with the job alone.
        async fn progress(
            &self,
            tenant: &Name,
            deliveries: &[(JobId, u64)],
        ) -> Result<Vec<Option<Progress>>, StoreError> [ask tenant: first_of_each];

        /// The ready and running jobs of the topic with this key, by id: those that hold its slots or wait for one. Jobs in other states that hold a slot are
        /// among them, such as those that wait for their next attempt. `None`: there are more than `limit`, or the store cannot look them up.
        async fn jobs_of_key(
            &self,
            topic: &TopicId,
            key: &str,
            limit: usize,
        ) -> Result<Option<Vec<JobId>>, StoreError> [ask topic: at_most(limit)];

        /// The job that holds a unique value of the topic, or held it last, as long as the store knows that. Others may have the same value: dead jobs, and those
        /// whose window is over.
        async fn unique_holder(&self, topic: &TopicId, value: &str) -> Result<Option<JobId>, StoreError>
            [ask topic: first];

        /// How many ready jobs of the topic claims take before this one, by the [turns](gristmill_core::job::Priority::TURNS) of the priorities, if none
        /// comes meanwhile.
        ///
        /// Returns `None` if more than [`AHEAD`] do, or the job is not ready in this topic, or waits for its key ([`JobView::behind`]).
        async fn jobs_ahead(&self, topic: &TopicId, id: &JobId) -> Result<Option<u64>, StoreError> [ask topic: first];

        /// What the clock shows by which the tenant's new jobs come due. A store by way of a server refuses.
        async fn clock_time(&self, tenant: &Name) -> Result<Timestamp, StoreError> [current tenant];

        /// Every tenant that has or had jobs, ordered by name.
        async fn tenants(&self) -> Result<Vec<Name>, StoreError>;

        /// The workers whose heartbeats are kept, by id, each with the last one; at most 1,000 of each server of the store, those that
        /// sent it last. Workers that were not retired are among them for an hour after their death. A store by way of a server refuses.
        async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError>;
    }
}

operations! {
    /// Lists of a topic's jobs, page by page.
    pub trait ListJobs {
        /// A page of a topic's jobs of one place: the first one, or the one behind a cursor of that place, which is refused in
        /// another. At most `limit` jobs, and never more than a thousand or a few MiB; only [`Page::next`] says that there are no
        /// more.
        ///
        /// - ready: high priority first, then normal, then low; of each in the order in which they will be claimed; then those that wait
        ///   for another job of their key, key by key, of each in the order in which they get its slots;
        /// - delayed: as they come due, those of one millisecond by id;
        /// - running: by id;
        /// - dead: the latest first, those of one millisecond by id, the greatest first.
        ///
        /// Jobs may come and go between pages. One that stays where it is, from the first page to the last, is listed once; one
        /// that came back to the place may be listed again. What comes is listed if it stands behind the cursor. A store whose
        /// lines have no numbers (Redis) finds its place again by the last eight jobs of a page: if all of these were cancelled,
        /// or ten thousand jobs in front of them are gone, the line is listed from its front again, and a ready job may be listed
        /// twice; none is left out, unless one of these eight has been moved to the tail of its line meanwhile. A store made of several
        /// lists one after the other, each in this order; a job that moves from one to another between two pages may also be listed twice.
        ///
        /// A page costs what its jobs cost, and a few steps for each doubling of the place's length. That of the running jobs
        /// looks at the ids of all that run, of which there are no more than workers have room for.
        async fn jobs(
            &self,
            topic: &TopicId,
            place: StateFilter,
            after: Option<&Cursor>,
            limit: usize,
        ) -> Result<Page, StoreError>;
    }
}

operations! {
    parts:
    /// What an operator does with dead jobs.
    pub trait DeadJobs {
        /// Makes dead jobs ready again, with all their attempts before them, due now, their failures and results forgotten. Their
        /// checkpoints stay, and deliveries go on counting. Returns for each whether it was dead; also `false` if another job
        /// holds its unique value.
        async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError>
            [partitions by hand; change topic: any_of_each] => announce respawned;

        /// Deletes dead jobs. Returns for each whether it was dead.
        async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError>
            [change topic: any_of_each] => announce deleted;
    }
}

operations! {
    parts:
    /// Cancelling and changing jobs, and pausing topics.
    pub trait Control {
        /// Cancels jobs: waiting ones are gone at once, counted as `cancelled`, their results kept and their waiters notified as
        /// with every other end; running ones are marked, and their workers notified. Answers in the order given.
        async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError>
            [change tenant: ended_of_each] => announce cancelled;

        /// Cancels jobs as [`Control::cancel`] does, and ends the attempts at running ones: their runners are asked to stop them now. A
        /// job that a pull worker holds, which nothing can stop, is gone at once: the worker's lease is lost, as if it had been
        /// released. Answers in the order given.
        async fn kill(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError>
            [partitions by hand; change tenant: ended_of_each] => announce killed;

        /// Changes when jobs are due, and their priorities, while they wait. Answers in the order given; each job is one step. Whatever else
        /// there is of a job stays: attempts, failure, checkpoint, unique value, links.
        ///
        /// - due: the job is ready or delayed from then on, as if it had been pushed with that time, and its time to live counts from then. A job
        ///   that is ready already, or waits for its key, stays where it is if it is to be due now. One that waits for other jobs goes on
        ///   waiting for them, and is due then or later. Limits and rates hold as ever.
        /// - priority: a ready job goes to the tail of its new line. One that waits for its key keeps its place among the jobs of the key.
        /// - A job that has never run and is delayed gives up the slot of its key, so the next one of the key may start; it takes its place
        ///   behind the others when it is due. One that has run keeps its slot, as between two attempts.
        async fn change(
            &self,
            tenant: &Name,
            ids: &[JobId],
            change: &gristmill_core::job::JobChange,
        ) -> Result<Vec<crate::JobChanged>, StoreError> [change tenant: most_of_each] => announce changed;

        /// Stops or starts the handing out of a topic's jobs, in every runner, until the next call. Pushes are taken,
        /// due jobs become ready, running jobs go on. Returns whether it was otherwise before. If it was not paused before, the store notes
        /// since when it is, and by whom: the [actor](gristmill_metrics::as_actor) for whom the call is made. See [`TopicCounts::pause`].
        async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> => announce paused;

        /// Forgets a topic without jobs: its totals, whether it is paused, its strays and its recordings. [`Query::counts`] lists it no longer
        /// until it gets a job again. Unique values that are held for a time stay held.
        ///
        /// Returns `false`, and forgets nothing, if the topic has jobs: waiting, running or dead. Returns `true` for a topic that
        /// the store does not know.
        async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError>;
    }
}

/// What an operator asks of a store.
pub trait Inspect: Query + ListJobs + DeadJobs + Control {}

impl<S: Query + ListJobs + DeadJobs + Control + ?Sized> Inspect for S {}

/// A worker, and when the store received its last heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The worker.
    pub worker: WorkerId,
    /// The time of its last heartbeat, by the store's clock.
    pub at: Timestamp,
    /// For how long it has been silent, by the store's clock.
    pub silent_for: Duration,
}

/// What a cancellation did with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cancelled {
    /// It waited, or it was killed and a pull worker had it; it is gone.
    Gone,
    /// It is running: its handler can see that it is no longer wanted, and its deadline stops it, or, if it was killed, its runner does so
    /// now. Unless the attempt is acked, the job is gone with it.
    Stopping,
    /// It is dead, over, or unknown. Nothing was changed.
    TooLate,
}

/// What a change did with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobChanged {
    /// It is running, dead, over, unknown, or cannot be read. Nothing was changed.
    TooLate,
    /// It was so before.
    Unchanged,
    /// It is as it was to be.
    Changed,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum JobState {
    /// A claim may take it, unless it waits for another job of its key.
    Ready,
    /// It is not due yet.
    Delayed {
        /// When it is due, in milliseconds since 1970.
        #[serde(rename = "until_ms")]
        until: Timestamp,
    },
    /// It waits for other jobs. Lists have it among the delayed ones.
    Waiting,
    /// A worker holds it.
    Running {
        /// The worker.
        worker: String,
        /// How often the job has been claimed, this time included.
        delivery: u64,
        /// When the lease ends unless it is extended, in milliseconds since 1970.
        #[serde(rename = "lease_until_ms")]
        lease_until: Timestamp,
        /// The job has been cancelled.
        cancelled: bool,
    },
    /// It was given up.
    Dead {
        /// When it was given up, in milliseconds since 1970.
        #[serde(rename = "since_ms")]
        since: Timestamp,
    },
    /// Done, cancelled, or dead and deleted; but its result is kept.
    Finished,
}

impl JobState {
    /// The name, in lower case, as queries have it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed { .. } => "delayed",
            Self::Waiting => "waiting",
            Self::Running { .. } => "running",
            Self::Dead { .. } => "dead",
            Self::Finished => "finished",
        }
    }

    /// Of a job that is delayed until some time, or waits for others.
    #[cfg(any(feature = "redis", feature = "embedded"))]
    pub(crate) fn delayed(until: Timestamp) -> Self {
        if until < NEVER { Self::Delayed { until } } else { Self::Waiting }
    }
}

/// A job, where it is, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Where it is.
    #[serde(flatten)]
    pub state: JobState,
    /// `None` once the job is finished.
    pub job: Option<Job>,
    /// Attempts made so far.
    pub attempts: u32,
    /// Why the last attempt failed, if one did.
    pub last_failure: Option<Failure>,
    /// What became of it; where an id was pushed again, perhaps still what became of the earlier job.
    pub result: Option<ResultView>,
    /// Of a result: the topic of its job, if that is known. Not for clients.
    #[serde(skip)]
    pub result_topic: Option<Name>,
    /// Of a ready job that no claim may take: what it waits for. Lists do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<BehindKey>,
    /// Of a delayed job: whether the rate of its key holds it back. Lists do not say it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rate_of_key: bool,
    /// Of a job that waits for others, or has waited: these. Lists do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    /// What its handler saved for the next attempt, if it did. `None` once the job is finished. Lists do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Payload>,
    /// Of a running job: when it was claimed, to the millisecond of the clock that numbers the claims of its store.
    #[serde(default, rename = "claimed_at_ms", skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Timestamp>,
    /// Of a running job: how far its handler says that it is. [`show_progress`](crate::show_progress) puts it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Of a finished job: how and when it ended, as long as that is remembered. Lists, [`Query::job`] and the kept result do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<JobEnd>,
}

impl JobView {
    /// Its topic; `None` if only its result is left.
    pub fn topic(&self) -> Option<&TopicId> {
        self.job.as_ref().map(|job| &job.spec.topic).or_else(|| self.ended.as_ref().map(|ended| &ended.topic))
    }

    /// What the store knows of it, without what its producer and its handler gave: body, checkpoint, failure and result.
    #[must_use]
    pub fn brief(&self) -> Self {
        Self {
            state: self.state.clone(),
            behind: self.behind.clone(),
            rate_of_key: self.rate_of_key,
            waits_for: self.waits_for.clone(),
            claimed_at: self.claimed_at,
            progress: self.progress.clone(),
            ..Self::over(self.id.clone(), self.attempts, self.ended.clone())
        }
    }

    /// Nothing of it but its id and the name of its state, for a client that may not read jobs.
    #[must_use]
    pub fn state_only(self) -> Self {
        let state = match self.state {
            JobState::Ready | JobState::Waiting | JobState::Finished => self.state,
            JobState::Delayed { .. } => JobState::Delayed { until: Timestamp::default() },
            JobState::Running { .. } => JobState::Running {
                worker: String::new(),
                delivery: 0,
                lease_until: Timestamp::default(),
                cancelled: false,
            },
            JobState::Dead { .. } => JobState::Dead { since: Timestamp::default() },
        };
        Self { state, ..Self::over(self.id, 0, None) }
    }

    /// Why the last attempt failed; of a job that is over, as its result says.
    pub fn failure(&self) -> Option<&Failure> {
        match (&self.last_failure, &self.result) {
            (Some(failure), _) | (None, Some(ResultView::Dead(failure))) => Some(failure),
            _ => None,
        }
    }

    /// The bytes of its body; of a job that is over, of its result.
    pub(crate) fn body(&self) -> &[u8] {
        match (&self.job, &self.result) {
            (Some(job), _) => &job.spec.body.data,
            (None, Some(ResultView::Complete(Some(output)))) => &output.data,
            _ => &[],
        }
    }

    /// A job that is over: nothing but how it ended is known.
    pub const fn over(id: JobId, attempts: u32, ended: Option<JobEnd>) -> Self {
        Self {
            id,
            state: JobState::Finished,
            job: None,
            attempts,
            last_failure: None,
            result: None,
            result_topic: None,
            behind: None,
            rate_of_key: false,
            waits_for: None,
            checkpoint: None,
            claimed_at: None,
            progress: None,
            ended,
        }
    }
}

/// The jobs that a ready job waits for, because they have the same key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BehindKey {
    /// Those that hold the slots of the key, by id: they are ready, are delayed between two attempts, run, or are dead and halt their key.
    pub holders: Vec<JobId>,
    /// How many others wait for the key and get a slot before this one.
    pub ahead: u64,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "JsonResult", into = "JsonResult")]
pub enum ResultView {
    /// Done, with the handler's result if it gave one.
    Complete(Option<Payload>),
    /// Given up, for this reason.
    Dead(Failure),
    /// Its time to live ended before an attempt began.
    Expired,
    /// It was cancelled.
    Cancelled,
}

/// A [`ResultView`] in JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
enum JsonResult {
    Complete { output: Option<Payload> },
    Dead { failure: Failure },
    Expired,
    Cancelled,
}

impl From<ResultView> for JsonResult {
    fn from(result: ResultView) -> Self {
        match result {
            ResultView::Complete(output) => Self::Complete { output },
            ResultView::Dead(failure) => Self::Dead { failure },
            ResultView::Expired => Self::Expired,
            ResultView::Cancelled => Self::Cancelled,
        }
    }
}

impl From<JsonResult> for ResultView {
    fn from(result: JsonResult) -> Self {
        match result {
            JsonResult::Complete { output } => Self::Complete(output),
            JsonResult::Dead { failure } => Self::Dead(failure),
            JsonResult::Expired => Self::Expired,
            JsonResult::Cancelled => Self::Cancelled,
        }
    }
}
