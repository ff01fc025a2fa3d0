//! A store of any kind, and a clock that stands still until it is told: what every rule of the contract is tried on.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gristmill_core::job::{Claim, Due, JobId, JobSpec, Name, NewJob, Payload, Priority, TopicId, Unique, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_core::token::TokenId;
use gristmill_core::topic::Rate;
use gristmill_store::embedded::{Durability, EmbeddedStore};
use gristmill_store::redis::RedisStore;
use gristmill_store::sharded::{ShardSpec, ShardedStore};
use gristmill_store::{
    ClaimFrom, Claimed, Clock, FindWork, JobState, JobView, ManualClock, Migrated, PendingWork, PollTenant, Pushed,
    Settled, Settlement, Signal, StoreError, TopicCounts, Transfer,
};
use gristmill_test_servers::wait::{SOON, until};
use tempfile::TempDir;
use tokio::sync::mpsc::Receiver;

use crate::deployment::{Deployment, RedisKind};

pub const LEASE: Duration = Duration::from_secs(30);
pub const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Sunday 2027-01-17, 08:00: late enough that no test reaches back to the epoch.
const BEGIN_MS: u64 = 1_800_000_000_000;

/// The stores that must not be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Redis(RedisKind),
    /// A plain Redis in which every topic is spread over so many partitions, besides the one that it was in before.
    Spread(u32),
    /// The embedded store in a file.
    File,
    /// The embedded store in memory.
    Memory,
    /// Two shards of different kinds: [`tenant`] lives in a file, and the primary shard, with the other tenants, is a Redis.
    ShardedStore,
}

impl Kind {
    /// A plain Redis.
    pub const REDIS: Self = Self::Redis(RedisKind::Plain);
}

/// An empty store of its own, with the clock that it goes by.
#[derive(Debug)]
pub struct TestStore {
    pub store: Arc<dyn Transfer>,
    kind: Kind,
    home: Home,
    clock: Arc<ManualClock>,
}

/// What a store lies in, for as long as it is used.
#[derive(Debug)]
enum Home {
    /// A part of the servers that all tests of this process share.
    Redis {
        deployment: Arc<Deployment>,
        prefix: String,
        /// Over how many partitions each topic is spread.
        partitions: Option<u32>,
    },
    /// A database that no other test has.
    File(TempDir),
    Memory,
    ShardedStore {
        deployment: Arc<Deployment>,
        prefix: String,
        folder: TempDir,
    },
}

impl Home {
    async fn new(kind: Kind) -> Self {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let prefix = || format!("gm:q{}", LAST.fetch_add(1, Ordering::Relaxed));
        let folder = || TempDir::with_prefix_in("gristmill-store-", quick_disk()).unwrap();
        match kind {
            Kind::Redis(kind) => {
                Self::Redis { deployment: Deployment::shared(kind).await, prefix: prefix(), partitions: None }
            }
            Kind::Spread(partitions) => {
                let deployment = Deployment::shared(RedisKind::Plain).await;
                Self::Redis { deployment, prefix: prefix(), partitions: Some(partitions) }
            }
            Kind::File => Self::File(folder()),
            Kind::Memory => Self::Memory,
            Kind::ShardedStore => {
                let deployment = Deployment::shared(RedisKind::Plain).await;
                Self::ShardedStore { deployment, prefix: prefix(), folder: folder() }
            }
        }
    }

    async fn open(&self, clock: Clock) -> Result<Arc<dyn Transfer>, StoreError> {
        Ok(match self {
            Self::Redis { deployment, prefix, partitions } => {
                let store = open_redis(deployment, prefix, clock).await;
                Arc::new(match partitions {
                    Some(partitions) => store.all_spread(*partitions),
                    None => store,
                })
            }
            Self::File(folder) => Arc::new(open_file(folder, clock).await?),
            Self::Memory => Arc::new(EmbeddedStore::in_memory().await?.with_clock(clock)),
            Self::ShardedStore { deployment, prefix, folder } => {
                let primary = open_redis(deployment, prefix, clock.clone()).await;
                let other = part("other", &open_file(folder, clock).await?);
                let placements = [tenant(), tenant_beside()].map(|tenant| (tenant, other.name.clone()));
                let shards = ShardedStore::open(
                    part("home", &primary),
                    Arc::new(primary),
                    vec![other],
                    BTreeMap::from(placements),
                );
                Arc::new(shards.await?)
            }
        })
    }
}

async fn open_redis(deployment: &Deployment, prefix: &str, clock: Clock) -> RedisStore {
    let connected = async || RedisStore::open(deployment.url(), &deployment.settings(prefix)).await;
    patiently("a connection", connected).await.with_clock(clock)
}

async fn open_file(folder: &TempDir, clock: Clock) -> Result<EmbeddedStore, StoreError> {
    let file = folder.path().join("jobs.db");
    Ok(EmbeddedStore::open(&file, Durability::Process).await?.with_clock(clock))
}

/// Asks until the store is not away; for what may be asked twice. Stores give up sooner than a busy machine comes round.
async fn patiently<T>(what: &str, ask: impl AsyncFn() -> Result<T, StoreError>) -> T {
    let answer = async || match ask().await {
        Err(StoreError::Unavailable { .. }) => None,
        answer => Some(answer.unwrap()),
    };
    until(what, SOON, answer).await
}

/// What waits in a tenant.
pub async fn poll(store: &(impl FindWork + ?Sized), tenant: &Name) -> PendingWork {
    let polled = store.poll_work(&[PollTenant { tenant: tenant.clone(), raw: Vec::new() }]).await.unwrap();
    polled.into_iter().next().expect("an answer for each").unwrap()
}

/// A store by its name among several; as if it were on this machine.
pub fn part(name: &str, store: &(impl Transfer + Clone)) -> ShardSpec {
    ShardSpec { name: name.parse().unwrap(), store: Arc::new(store.clone()), is_remote: false }
}

/// In memory, where the system has such a folder: making a thousand files takes its time elsewhere, and what a disk does
/// is not what these tests are about.
fn quick_disk() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// The clock that it goes by.
impl Deref for TestStore {
    type Target = ManualClock;

    fn deref(&self) -> &ManualClock {
        &self.clock
    }
}

impl TestStore {
    pub async fn new(kind: Kind) -> Self {
        let (home, clock) = (Home::new(kind).await, Arc::new(ManualClock::new(BEGIN_MS)));
        let store = home.open(Clock::Manual(Arc::clone(&clock))).await.unwrap();
        Self { store, kind, home, clock }
    }

    /// Another one of the same kind, empty, by the same clock.
    pub async fn another(&self) -> Self {
        self.another_of(self.kind).await
    }

    /// An empty store of any kind, by the same clock.
    pub async fn another_of(&self, kind: Kind) -> Self {
        let (home, clock) = (Home::new(kind).await, Arc::clone(&self.clock));
        let store = home.open(Clock::Manual(Arc::clone(&clock))).await.unwrap();
        Self { store, kind, home, clock }
    }

    /// An empty store of this kind that goes by the clock that it has by nature.
    pub async fn by_its_own_clock(&self) -> Self {
        let home = Home::new(self.kind).await;
        let store = home.open(Clock::Own).await.unwrap();
        Self { store, kind: self.kind, home, clock: Arc::default() }
    }

    /// A tenant of each shard that the store consists of, and of each server of a cluster; none of them is [`tenant`].
    pub fn a_tenant_of_each_shard(&self) -> Vec<Name> {
        match self.kind {
            Kind::Redis(RedisKind::Cluster) => ["elsewhere", "gamma", "third"].map(|name| name.parse().unwrap()).into(),
            Kind::Redis(_) | Kind::Spread(_) | Kind::File | Kind::Memory => vec![tenant_beside()],
            Kind::ShardedStore => vec![tenant_beside(), "elsewhere".parse().unwrap()],
        }
    }

    /// The point in time that is so many milliseconds ahead.
    pub fn in_ms(&self, ms: u64) -> Timestamp {
        self.now().plus(Duration::from_millis(ms))
    }

    pub async fn push(&self, jobs: &[NewJob]) -> Vec<Pushed> {
        self.store.push(jobs).await.unwrap()
    }

    /// Takes jobs of the topic `mail`.
    pub async fn claim(&self, max: usize) -> Vec<Claim> {
        self.claim_as(&worker(), "mail", max).await.claims
    }

    pub async fn claim_as(&self, worker: &WorkerId, of: &str, max: usize) -> Claimed {
        self.store.claim(worker, &[line(of, max)]).await.unwrap()
    }

    /// Takes the one job of `mail` that is ready.
    pub async fn claim_one(&self) -> Claim {
        let mut claims = self.claim(1).await;
        claims.pop().expect("a ready job")
    }

    /// Pushes one job and claims it.
    pub async fn running(&self) -> Claim {
        self.push(&[job("mail")]).await;
        self.claim_one().await
    }

    /// Pushes one job, claims it and buries it.
    pub async fn dead(&self) -> Claim {
        let claim = self.running().await;
        assert_eq!(self.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await, Settled::Done);
        claim
    }

    /// Takes jobs within limits. Where each partition has a share of a limit, that of one partition is what `from` says.
    pub async fn claim_within(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        let parts = if let Kind::Spread(partitions) = self.kind { partitions + 1 } else { 1 };
        let whole = |from: &ClaimFrom| {
            let mut limits = from.limits;
            limits.max_running = limits.max_running.map(|most| most * parts);
            limits.rate = limits.rate.map(|rate| Rate { jobs: rate.jobs * parts, burst: rate.burst * parts, ..rate });
            limits.tenant.max_running = limits.tenant.max_running.map(|most| most * parts);
            limits.tenant.jobs_per_day = limits.tenant.jobs_per_day.map(|most| most * u64::from(parts));
            limits.tenant.fuel_per_hour = limits.tenant.fuel_per_hour.map(|most| most * u64::from(parts));
            from.clone().within(limits)
        };
        self.store.claim(worker, &from.iter().map(whole).collect::<Vec<_>>()).await
    }

    pub async fn settle(&self, claim: &Claim, verdict: Verdict) -> Settled {
        self.settle_with(Settlement::new(claim.lease.clone(), verdict)).await
    }

    pub async fn settle_with(&self, settlement: Settlement) -> Settled {
        let mut settled = self.store.settle(&[settlement]).await.unwrap();
        settled.pop().expect("an answer for each")
    }

    pub async fn heartbeat(&self, worker: &WorkerId) {
        patiently("the heartbeat to be heard", async || self.store.heartbeat(worker).await).await;
    }

    /// What is told of these tenants from now on.
    pub async fn signals(&self, tenants: &[Name]) -> Receiver<Signal> {
        patiently("the subscription", async || self.store.signals(tenants).await).await
    }

    /// Which tokens change from now on.
    pub async fn token_changes(&self) -> Receiver<TokenId> {
        patiently("the subscription", async || self.store.token_changes().await).await
    }

    /// Moves whatever is due.
    pub async fn migrate(&self) -> Migrated {
        self.store.migrate(&tenant(), 10_000).await.unwrap()
    }

    pub async fn counts(&self, of: &str) -> TopicCounts {
        let counts = patiently("the counts", async || self.store.counts(&tenant()).await).await;
        counts.into_iter().find(|counts| counts.topic == topic(of)).unwrap_or_else(|| panic!("{of} is not counted"))
    }

    /// Ready, delayed, running and dead jobs of `mail`.
    pub async fn places(&self) -> [u64; 4] {
        let counts = self.counts("mail").await;
        [counts.ready, counts.delayed, counts.running, counts.dead]
    }

    /// How often this happened to jobs of `mail`.
    pub async fn total(&self, what: &str) -> u64 {
        self.counts("mail").await.totals.get(what).copied().unwrap_or(0)
    }

    pub async fn view(&self, id: &JobId) -> Option<JobView> {
        patiently("the view of a job", async || self.store.job(&tenant(), id).await).await
    }

    pub async fn state(&self, id: &JobId) -> Option<JobState> {
        self.view(id).await.map(|view| view.state)
    }

    /// Writes past the store what it cannot read: in Redis a job in a later format, in a file a row that makes no sense.
    pub async fn make_unreadable(&self, id: &JobId) {
        match &self.home {
            Home::Redis { .. } => {
                let stored = [&self.stored_form(id).await[..16], b"\x83\xa1v\x02\xa12\xa4mail\xa14\xc4\x02hi"].concat();
                let mut command = redis::cmd("HSET");
                let key = self.jobs_key(id).await;
                self.past_the_store::<i64>(command.arg(key).arg(id.as_str()).arg(stored)).await;
            }
            Home::File(_) => self.sql(&format!("UPDATE job_rows SET metadata = 'no JSON' WHERE id = '{id}'")),
            home => panic!("nothing can be written past {home:?}"),
        }
    }

    /// What is stored of a job that its producer brought, byte by byte.
    pub async fn stored_form(&self, id: &JobId) -> Vec<u8> {
        match &self.home {
            Home::Redis { .. } => {
                let key = self.jobs_key(id).await;
                self.past_the_store(redis::cmd("HGET").arg(key).arg(id.as_str())).await
            }
            Home::File(_) => {
                let file = rusqlite::Connection::open(self.file()).unwrap();
                let columns = "enqueued_at, due_at, priority, unique_value, unique_window_ms, key, content_type, \
                               metadata, options, body";
                let sql = format!("SELECT {columns} FROM jobs WHERE id = ?1");
                let values = file.query_row(&sql, [id.as_str()], |row| {
                    (0..10).map(|column| row.get::<_, rusqlite::types::Value>(column)).collect::<Result<Vec<_>, _>>()
                });
                format!("{:?}", values.unwrap()).into_bytes()
            }
            home => panic!("nothing can be read past {home:?}"),
        }
    }

    /// The key with the job, of the tenant's partitions.
    async fn jobs_key(&self, id: &JobId) -> String {
        let Home::Redis { prefix, .. } = &self.home else { panic!("{:?} has no keys", self.home) };
        for partition in 0..4 {
            let key = format!("{prefix}:{{{}/{partition}}}:jobs", tenant());
            if self.past_the_store(redis::cmd("HEXISTS").arg(&key).arg(id.as_str())).await {
                return key;
            }
        }
        panic!("no partition has the job {id}")
    }

    /// Runs a command in the Redis past the store. In its arguments, `P` and a space stand for what the keys of [`tenant`]'s first partition begin with, `G` and
    /// a space for what all keys begin with.
    pub async fn redis<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let Home::Redis { prefix, .. } = &self.home else { panic!("{:?} takes no commands", self.home) };
        let command =
            command.replace("P ", &format!("{prefix}:{{{}/0}}:", tenant())).replace("G ", &format!("{prefix}:"));
        let mut words = command.split('|');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>());
        self.past_the_store(&command).await
    }

    /// Runs SQL in the file past the store, without the schema's checks.
    pub fn sql(&self, sql: &str) {
        let file = rusqlite::Connection::open(self.file()).unwrap();
        file.busy_timeout(SOON).unwrap();
        file.pragma_update(None, "ignore_check_constraints", true).unwrap();
        file.execute_batch(sql).unwrap();
    }

    /// Where the file is.
    pub fn file(&self) -> PathBuf {
        let Home::File(folder) = &self.home else { panic!("{:?} is no file", self.home) };
        folder.path().join("jobs.db")
    }

    async fn past_the_store<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let Home::Redis { deployment, .. } = &self.home else { panic!("{:?} takes no commands", self.home) };
        command.query_async(&mut deployment.server.connect().await.unwrap()).await.unwrap()
    }

    /// The same store, opened anew as by another process; one in memory stays as it is.
    pub async fn reopen(&mut self) {
        let clock = || Clock::Manual(Arc::clone(&self.clock));
        if let Home::Memory = self.home {
            return;
        }
        // A file has one owner, which must be gone first.
        self.store = Arc::new(EmbeddedStore::in_memory().await.unwrap());
        let opened = async || match self.home.open(clock()).await {
            Err(StoreError::Owned { .. }) => None,
            opened => Some(opened.unwrap()),
        };
        self.store = until("the old owner to be gone", SOON, opened).await;
    }
}

pub fn tenant() -> Name {
    "acme".parse().unwrap()
}

/// A tenant that is always in the same shard as [`tenant`].
pub fn tenant_beside() -> Name {
    "acme-beside".parse().unwrap()
}

pub fn topic(name: &str) -> TopicId {
    TopicId { tenant: tenant(), topic: name.parse().unwrap() }
}

pub fn worker() -> WorkerId {
    WorkerId::new("host-1-abc")
}

pub fn line(of: &str, max: usize) -> ClaimFrom {
    ClaimFrom::new(topic(of), max, LEASE)
}

pub fn job(of: &str) -> NewJob {
    NewJob { spec: JobSpec::new(topic(of), Payload { data: b"hello".to_vec(), content_type: None }), due: Due::Now }
}

/// A job of another tenant.
pub fn foreign(of: &str) -> NewJob {
    let mut job = job(of);
    job.spec.topic.tenant = "other".parse().unwrap();
    job
}

pub fn delayed(of: &str, ms: u64) -> NewJob {
    NewJob { due: Due::After(Duration::from_millis(ms)), ..job(of) }
}

pub fn of_priority(priority: Priority) -> NewJob {
    let mut job = job("mail");
    job.spec.options.priority = priority;
    job
}

/// A job of `mail` with a key.
pub fn keyed(key: &str) -> NewJob {
    let mut job = job("mail");
    job.spec.options.key = Some(key.into());
    job
}

/// A job that holds `value` until it is done.
pub fn unique(of: &str, value: &str) -> NewJob {
    let mut job = job(of);
    job.spec.options.unique = Some(Unique { value: value.into(), window: None });
    job
}

/// A job that holds `value` for a time.
pub fn unique_for(of: &str, value: &str, ms: u64) -> NewJob {
    let mut job = job(of);
    job.spec.options.unique = Some(Unique { value: value.into(), window: Some(Duration::from_millis(ms)) });
    job
}

pub fn failure(reason: Reason) -> Failure {
    let detail = FailureDetail { code: "c".into(), message: "m".into(), context: None };
    Failure::new(reason, detail)
}

pub fn retry(after_ms: u64) -> Verdict {
    Verdict::Retry { after: Duration::from_millis(after_ms), failure: failure(Reason::Failed) }
}

/// What the settlement of a claimed attempt is in a runner: with what the producer asked for.
pub fn settlement(claim: &Claim, verdict: Verdict) -> Settlement {
    Settlement::of(claim, verdict, Duration::ZERO)
}

/// The ids of jobs or claims.
pub fn ids<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Vec<JobId> {
    jobs.into_iter().map(|job| job.spec.id.clone()).collect()
}

pub fn claimed<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Vec<JobId> {
    claims.into_iter().map(|claim| claim.lease.job.clone()).collect()
}
