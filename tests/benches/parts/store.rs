//! A batch claimed, and a batch settled, as a runner under load does it.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};
use gristmill::job::{Claim, Due, NewJob, WorkerId};
use gristmill::outcome::Verdict;
use gristmill::store::embedded::EmbeddedStore;
use gristmill::store::redis::RedisStore;
use gristmill::store::{ClaimFrom, Settled, Settlement, Store};
use gristmill_tests::parts;
use gristmill_tests::redis::Redis;

/// Jobs in one claim and in one settle.
const BATCHES: [usize; 2] = [1, 256];

pub(crate) fn bench(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let memory = runtime.block_on(EmbeddedStore::in_memory()).unwrap();
    of_store(criterion, &runtime, "embedded, in memory", &StoreUnderTest::of(memory));
    if !installed("redis-server") {
        eprintln!("there is no redis-server: the Redis store is not measured; scripts/setup.sh --tests installs one");
        return;
    }
    let server = runtime.block_on(Redis::start_without_log());
    let redis = runtime.block_on(RedisStore::connect(&server.url(), "gm")).unwrap();
    of_store(criterion, &runtime, "redis", &StoreUnderTest::of(redis));
}

fn of_store(criterion: &mut Criterion, runtime: &tokio::runtime::Runtime, name: &str, store: &StoreUnderTest) {
    let mut group = criterion.benchmark_group(name);
    // Most of the time goes into what is not measured: jobs have to be pushed before they can be claimed.
    group.sample_size(20).sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(2));
    for batch in BATCHES {
        group.throughput(Throughput::Elements(batch as u64));
        group.bench_function(format!("claim/batch of {batch}, 200 bytes"), |b| {
            b.to_async(runtime).iter_custom(|batches| store.work(batches, batch, |took| took.claim));
        });
        group.bench_function(format!("settle/batch of {batch}, 200 bytes"), |b| {
            b.to_async(runtime).iter_custom(|batches| store.work(batches, batch, |took| took.settle));
        });
    }
    group.finish();
}

/// One worker at one store.
struct StoreUnderTest {
    store: Arc<dyn Store>,
    worker: WorkerId,
}

/// What a batch took.
struct Took {
    claim: Duration,
    settle: Duration,
}

impl StoreUnderTest {
    fn of(store: impl Store + 'static) -> Self {
        Self { store: Arc::new(store), worker: WorkerId::new("bench") }
    }

    /// Pushes, claims and settles so many batches, and adds up the part of it that is asked for.
    async fn work(&self, batches: u64, batch: usize, part: fn(Took) -> Duration) -> Duration {
        let mut took = Duration::ZERO;
        for _ in 0..batches {
            took += part(self.batch(batch).await);
        }
        took
    }

    async fn batch(&self, jobs: usize) -> Took {
        let batch: Vec<NewJob> = (0..jobs).map(|_| NewJob { spec: parts::job().spec, due: Due::Now }).collect();
        self.store.push(&batch).await.unwrap();
        let from = [ClaimFrom::new(batch[0].spec.topic.clone(), jobs, Duration::from_secs(60))];

        let begun = Instant::now();
        let claims = self.store.claim(&self.worker, &from).await.unwrap().claims;
        let claim = begun.elapsed();
        assert_eq!(claims.len(), jobs);

        let acks: Vec<Settlement> = claims.into_iter().map(ack).collect();
        let begun = Instant::now();
        let settled = self.store.settle(&acks).await.unwrap();
        let settle = begun.elapsed();
        assert!(settled.iter().all(|settled| *settled == Settled::Done));
        Took { claim, settle }
    }
}

fn ack(claim: Claim) -> Settlement {
    Settlement::new(claim.lease, Verdict::Ack(None))
}

fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}
