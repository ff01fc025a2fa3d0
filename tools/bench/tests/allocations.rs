//! How often a plain job allocates on its way: a budget for each part. Time cannot show on a busy machine what this shows.
//!
//! The counts hardly vary: what is done once falls out, because two runs are compared that differ in nothing but the number of jobs, and what is
//! done for a batch is the same, because the batches are.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gristmill_bench::{BenchSettings, BenchStore, Progress, TestBed, push, sandbox_floor};
use gristmill_config::Manifest;
use gristmill_core::job::{Due, JobSpec, Name, NewJob, Payload, WorkerId};
use gristmill_runner::handlers::{Available, Code, Handler, HandlerRegistry};
use gristmill_runner::native::{HandlerError, NativeHandler, NativeJob};
use gristmill_runner::{Runner, RunnerSettings};
use gristmill_store::embedded::{Durability, EmbeddedStore};
use gristmill_store::prelude::*;
use gristmill_tests::guests;
use gristmill_tests::process::program;
use gristmill_tests::test_runner::sandbox;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Allocations of a plain job: where it is pushed, claimed and settled without a runner; in a sandbox by itself; and where a runner claims it,
/// calls a native handler, and settles it.
const EMBEDDED: f64 = 7.6;
const REDIS: f64 = 10.1;
const SANDBOX: f64 = 23.0;
const RUNNER: f64 = 19.8;

/// How far a count may be from its budget, either way: less than one, and no more than 5 % of any.
const TOLERANCE: f64 = 0.35;
/// Jobs of the shorter run, and by how many the other is longer.
const JOBS: usize = 2_000;
/// What the runner claims at once.
const CONCURRENCY: usize = 500;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Counts what is allocated or grown, on all threads.
struct Counting;

#[expect(unsafe_code, reason = "an allocator is; this one leaves everything to the system's")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations for each of the jobs of which `run` gets the number.
async fn per_job(run: impl AsyncFn(usize)) -> f64 {
    let counted = async |jobs| {
        let before = COUNT.load(Ordering::Relaxed);
        run(jobs).await;
        COUNT.load(Ordering::Relaxed) - before
    };
    // What is made once and kept, such as prepared statements, is there after this.
    run(JOBS).await;
    let few = counted(JOBS).await;
    counted(2 * JOBS).await.saturating_sub(few) as f64 / JOBS as f64
}

async fn test_bed(store: BenchStore) -> TestBed {
    let settings = BenchSettings {
        handler: guests::ECHO.into(),
        simulate: guests::SIMULATE.into(),
        gristmill: program(),
        store,
        concurrency: 64,
        threads: 1,
        body: body().into(),
        journal: false,
        progress: Progress::hidden(),
    };
    TestBed::new(settings, &sandbox()).await.unwrap()
}

fn body() -> Vec<u8> {
    vec![b'x'; 200]
}

/// The topic `work` with a native handler that does nothing.
fn registry() -> HandlerRegistry {
    let manifest = format!("[topics.work]\nconcurrency = {CONCURRENCY}\n");
    let manifest = Manifest::parse(&manifest, Path::new("gristmill.toml")).unwrap();
    let name: Name = "work".parse().unwrap();
    let code = Code::Native(NativeHandler::new(async |_: NativeJob| Ok::<_, HandlerError>(())));
    let handlers = BTreeMap::from([(name.clone(), Handler { name, code })]);
    HandlerRegistry::new(&manifest, &Available { handlers, ..Available::default() }, &HandlerRegistry::default())
}

/// A runner does this many jobs. This runtime has one thread, so all handlers of a claim end before any job of it is settled.
async fn run(store: &Arc<EmbeddedStore>, registry: watch::Receiver<Arc<HandlerRegistry>>, jobs: usize) {
    let spec = || JobSpec::new("work".parse().unwrap(), Payload { data: body(), content_type: None });
    let batch: Vec<NewJob> = (0..jobs).map(|_| NewJob { spec: spec(), due: Due::Now }).collect();
    store.push(&batch).await.unwrap();
    let (remaining, done) = (AtomicUsize::new(jobs), Arc::new(Notify::new()));
    let last_done = Arc::clone(&done);
    let settings = RunnerSettings {
        concurrency: CONCURRENCY,
        observer: Some(Arc::new(move |_| {
            if remaining.fetch_sub(1, Ordering::Relaxed) == 1 {
                last_done.notify_one();
            }
        })),
        ..RunnerSettings::new(WorkerId::new("w"))
    };
    let runner = Runner::start(store.clone(), registry, settings).unwrap();
    done.notified().await;
    runner.shutdown(CancellationToken::new()).await;
}

/// One test, because the allocations of any other would count.
#[tokio::test]
async fn a_plain_job_allocates_no_more_and_no_less_often_than_its_budget_says() {
    let mut wrong = Vec::new();
    let mut check = |what: &str, count: f64, budget: f64| {
        let line = format!("{what}: {count:.2} allocations a job, budget {budget}");
        println!("{line}");
        wrong.extend(((count - budget).abs() > TOLERANCE).then_some(line));
    };
    let bed = test_bed(BenchStore::Embedded(Durability::Process)).await;
    check("embedded", per_job(async |jobs| drop(push(&bed, jobs).await.unwrap())).await, EMBEDDED);
    check("sandbox", per_job(async |jobs| drop(sandbox_floor(&bed, jobs).await.unwrap())).await, SANDBOX);
    let bed = test_bed(BenchStore::PrivateRedis).await;
    check("redis", per_job(async |jobs| drop(push(&bed, jobs).await.unwrap())).await, REDIS);
    let store = Arc::new(EmbeddedStore::in_memory().await.unwrap());
    let registry = watch::Sender::new(Arc::new(registry()));
    // How many jobs a claim and a settlement have depends on the thread that writes: the middle one of three.
    let mut counts = Vec::new();
    for _ in 0..3 {
        counts.push(per_job(async |jobs| run(&store, registry.subscribe(), jobs).await).await);
    }
    counts.sort_by(f64::total_cmp);
    check("runner", counts[1], RUNNER);
    assert!(wrong.is_empty(), "change what allocates, or the budget and say why:\n{}", wrong.join("\n"));
}
