//! Limits that hold for several runners together, with runners that run and the store's own clock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use gristmill::config::Manifest;
use gristmill::handlers::Reloader;
use gristmill::job::{Due, JobId, JobSpec, NewJob, Payload, WorkerId};
use gristmill::metrics::Metrics;
use gristmill::runner::native::{HandlerError, NativeHandler, NativeJob};
use gristmill::runner::{AttemptRecord, Runner, RunnerSettings};
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use gristmill_tests::redis::Redis;
use gristmill_tests::test_runner::sandbox;
use gristmill_tests::wait::{SOON, until};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

type Records = Arc<Mutex<Vec<AttemptRecord>>>;

/// Several runners of one manifest on a Redis of their own. The topic `mail` has a handler that does nothing.
struct RunnerGroup {
    store: RedisStore,
    runners: Vec<Runner>,
    records: Records,
    stop: CancellationToken,
    redis: Redis,
    folder: TempDir,
}

impl RunnerGroup {
    async fn of(runners: usize, limits: &str) -> Self {
        let redis = Redis::start().await;
        let store = RedisStore::connect(&redis.url(), "gm").await.unwrap();
        let (folder, records, stop) =
            (TempDir::with_prefix("gristmill-").unwrap(), Records::default(), CancellationToken::new());
        let mut group = Self { store, runners: Vec::new(), records, stop, redis, folder };
        std::fs::write(group.manifest(), format!("[topics.mail]\n{limits}")).unwrap();
        for number in 0..runners {
            let runner = group.runner(&group.redis.url(), number).await;
            group.runners.push(runner);
        }
        group
    }

    fn manifest(&self) -> PathBuf {
        self.folder.path().join("gristmill.toml")
    }

    async fn runner(&self, url: &str, number: usize) -> Runner {
        let manifest = Manifest::load(&self.manifest()).unwrap();
        let native = NativeHandler::new(async |_: NativeJob| Ok::<_, HandlerError>(()));
        let native = BTreeMap::from([("mail".parse().unwrap(), native)]);
        let reloader = Reloader::start(manifest, native, sandbox(), Arc::<Metrics>::default()).await.unwrap();
        let registry = reloader.registry();
        tokio::spawn(reloader.run(self.stop.clone()));
        let records = Arc::clone(&self.records);
        let settings = RunnerSettings {
            observer: Some(Arc::new(move |record: &AttemptRecord| records.lock().push(record.clone()))),
            ..RunnerSettings::new(WorkerId::new(&format!("runner-{number}")))
        };
        Runner::start(Arc::new(RedisStore::connect(url, "gm").await.unwrap()), registry, settings).unwrap()
    }

    /// Pushes so many jobs of `mail`, in this order.
    async fn push(&self, jobs: usize) -> Vec<JobId> {
        self.push_with(jobs, |_| None).await
    }

    /// The same with keys, by the jobs' numbers.
    async fn push_with(&self, jobs: usize, key: impl Fn(usize) -> Option<String>) -> Vec<JobId> {
        let body = Payload { data: Vec::new(), content_type: None };
        let job = |number| {
            let mut spec = JobSpec::new("mail".parse().unwrap(), body.clone());
            spec.options.key = key(number);
            NewJob { spec, due: Due::Now }
        };
        let jobs: Vec<NewJob> = (0..jobs).map(job).collect();
        self.store.push(&jobs).await.unwrap();
        jobs.into_iter().map(|job| job.spec.id).collect()
    }

    /// Waits until so many attempts have ended, and stops the runners.
    async fn end(self, attempts: usize) -> Vec<AttemptRecord> {
        let all = || (self.records.lock().len() >= attempts).then_some(());
        until(format!("{attempts} attempts"), 8 * SOON, async || all()).await;
        for runner in self.runners {
            runner.shutdown(CancellationToken::new()).await;
        }
        self.stop.cancel();
        std::mem::take(&mut *self.records.lock())
    }
}

/// By the store's clock, when each attempt was claimed, ms.
fn claimed_at(record: &AttemptRecord) -> u64 {
    record.claim.claimed_at.as_millis()
}

/// Asserts that in no span of time more attempts start than a burst and one for each `each_ms`. Returns when they start, in order.
fn assert_rate<'a>(records: impl Iterator<Item = &'a AttemptRecord>, burst: u64, each_ms: u64) -> Vec<u64> {
    let mut starts: Vec<u64> = records.map(claimed_at).collect();
    starts.sort_unstable();
    assert_starts(&starts, burst, each_ms);
    starts
}

/// The same of starts in order, ms.
pub(crate) fn assert_starts(starts: &[u64], burst: u64, each_ms: u64) {
    for (before, from) in starts.iter().enumerate() {
        for (position, until) in starts.iter().enumerate().skip(before) {
            // The store's clock is finer than what it says: one more millisecond may have passed.
            let (started, span_ms) = ((position - before + 1) as u64, until - from + 1);
            assert!(started <= burst + span_ms / each_ms, "{started} in {span_ms} ms");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_runners_together_keep_the_rate_of_each_key_and_its_order() {
    const KEYS: usize = 5;
    let group = RunnerGroup::of(3, "per-key = { rate = \"50/s\", burst = 3 }").await;
    let pushed = group.push_with(40 * KEYS, |number| Some(format!("k{}", number % KEYS))).await;
    let records = group.end(40 * KEYS).await;
    let by_job: BTreeMap<&JobId, &AttemptRecord> =
        records.iter().map(|record| (&record.claim.lease.job, record)).collect();
    assert_eq!((by_job.len(), records.len()), (40 * KEYS, 40 * KEYS));
    for key in 0..KEYS {
        let of_key: Vec<&AttemptRecord> = pushed.iter().skip(key).step_by(KEYS).map(|job| by_job[job]).collect();
        assert!(of_key.is_sorted_by_key(|record| claimed_at(record)), "in their order");
        assert!(of_key.iter().all(|record| record.claim.attempt == 1), "waiting is no attempt");
        assert_rate(of_key.into_iter(), 3, 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_runners_together_never_start_more_than_the_rate_and_its_burst() {
    const JOBS: usize = 3000;
    const BURST: u64 = 50;
    let group = RunnerGroup::of(3, "rate = \"1000/s\"\nburst = 50").await;
    let pushed = group.push(JOBS).await;
    let records = group.end(JOBS).await;

    let starts = assert_rate(records.iter(), BURST, 1);
    let by_job: BTreeMap<&JobId, u64> =
        records.iter().map(|record| (&record.claim.lease.job, claimed_at(record))).collect();
    assert_eq!(by_job.len(), JOBS);
    let in_line: Vec<u64> = pushed.iter().map(|job| by_job[job]).collect();
    assert!(in_line.is_sorted(), "they start in the order in which they stand in line");
    assert!(records.iter().all(|record| record.claim.attempt == 1), "waiting is no attempt");
    let span = starts.last().unwrap() - starts.first().unwrap();
    println!("{JOBS} jobs in {span} ms: {} a second", (JOBS as u64 - BURST) * 1000 / span.max(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_with_one_job_at_a_time_never_stalls_between_three_runners() {
    one_at_a_time_never_stalls("max-running = 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_one_job_at_a_time_never_stalls_between_three_runners() {
    one_at_a_time_never_stalls("[limits]\nmax-running = 1").await;
}

async fn one_at_a_time_never_stalls(limits: &str) {
    const JOBS: usize = 1000;
    let group = RunnerGroup::of(3, limits).await;
    let pushed = group.push(JOBS).await;
    let records = group.end(JOBS).await;
    let starts: BTreeMap<&JobId, u64> =
        records.iter().map(|record| (&record.claim.lease.job, claimed_at(record))).collect();
    assert_eq!(starts.len(), JOBS);
    let starts: Vec<u64> = pushed.iter().map(|job| starts[job]).collect();
    assert!(starts.is_sorted());
    // A poll would come to the rescue after 0.75 s at the soonest. A machine may stand still now and then.
    let stalls = starts.windows(2).filter(|pair| pair[1] - pair[0] > 700).count();
    assert!(stalls <= 3, "{stalls} pauses between jobs that were all ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_runners_keep_the_order_of_every_key() {
    const KEYS: usize = 200;
    const JOBS: usize = 20 * KEYS;
    let group = RunnerGroup::of(3, "").await;
    let pushed = group.push_with(JOBS, |number| Some((number % KEYS).to_string())).await;
    let records = group.end(JOBS).await;
    let ended: BTreeMap<&JobId, usize> =
        records.iter().enumerate().map(|(place, record)| (&record.claim.lease.job, place)).collect();
    assert_eq!((ended.len(), records.len()), (JOBS, JOBS), "each job has one attempt");
    for key in 0..KEYS {
        let starts: Vec<_> = pushed.iter().skip(key).step_by(KEYS).map(|job| ended[job]).collect();
        let times: Vec<_> = starts.iter().map(|place| claimed_at(&records[*place])).collect();
        assert!(times.is_sorted(), "key {key}: {times:?}");
    }
}
