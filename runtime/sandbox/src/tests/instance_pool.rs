//! Instances that are kept: what the next job finds, and what it must never feel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guest::{handler, handler_in};
use super::{attempt, limited, listen};
use crate::code::Code;
use crate::guest_instance::IdleInstances;
use crate::idle::IdleLimits;
use crate::outbound::Outbound;
use crate::{Attempt, Component, InstancePool, Report, Version, engine, host, validate};
use gristmill_core::admission::Rules;
use gristmill_core::job::{Name, Payload};
use gristmill_core::outcome::{LimitName, Outcome};
use gristmill_core::topic::Limits;

const ROOMY: IdleLimits = IdleLimits { items: 100, bytes: 1 << 30, idle: Duration::from_secs(3600) };
const PAGE: u64 = 64 << 10;
const SOON: Duration = Duration::from_secs(30);

/// Counts its jobs in memory, and does what the first byte of the body says.
fn counter() -> Vec<u8> {
    let functions = r#"
        (func $count (result i32) (i32.load (i32.const 3000)))
        (func $is (param $job i32) (param $act i32) (result i32)
          (if (result i32) (call $body_n (local.get $job))
            (then (i32.eq (i32.load8_u (call $body (local.get $job))) (local.get $act)))
            (else (i32.const 0))))
        (func $grow (param $job i32) (result i32)
          (i32.lt_s (memory.grow (i32.load8_u offset=1 (call $body (local.get $job)))) (i32.const 0)))
        (func $more (loop $again (drop (call $now)) (br $again)))
        (data (i32.const 3100) "other")
        (func $follow_up
          (memory.fill (i32.const 3200) (i32.const 0) (i32.const 200))
          (i32.store (i32.const 3200) (i32.const 3100)) (i32.store (i32.const 3204) (i32.const 5))
          (i32.store8 (i32.const 3272) (i32.const 1))
          (call $enqueue (i32.const 3200) (i32.const 3400)))"#;
    let act = |letter: char, what: &str| {
        format!("(if (call $is (local.get $job) (i32.const {})) (then {what}))", u32::from(letter))
    };
    let acts = [
        act('r', "(return (call $fail (i32.const 0)))"),
        act('j', "(return (call $fail (i32.const 1)))"),
        act('z', "(i32.store (i32.const 1032) (i32.const 1)) (return (call $done))"),
        act('t', "unreachable"),
        act('T', "(if (i32.gt_u (call $count) (i32.const 1)) (then unreachable))"),
        act('l', "(loop $for_ever (br $for_ever))"),
        act('L', "(if (i32.gt_u (call $count) (i32.const 1)) (then (loop $for_ever (br $for_ever))))"),
        act('h', "(call $more)"),
        act('o', "(return (call $return (i32.const 0) (i32.const 60000)))"),
        act('g', "(if (call $grow (local.get $job)) (then unreachable))"),
        act('G', "(if (call $grow (local.get $job)) (then (return (call $fail (i32.const 0)))))"),
        act('f', "(call $follow_up)"),
        act('F', "(call $follow_up) (return (call $fail (i32.const 0)))"),
    ];
    let handle = format!(
        "(memory.fill (i32.const 1024) (i32.const 0) (i32.const 112))
         (i32.store (i32.const 3000) (i32.add (call $count) (i32.const 1)))
         {}
         (call $return_u64 (i64.extend_i32_u (call $count)))",
        acts.join("\n")
    );
    handler(functions, &handle)
}

/// In a sandbox for one attempt at a time, whose idle has these limits.
fn load(wasm: &[u8], limits: IdleLimits) -> Component {
    let engine = engine::running(engine::PoolKind::Usual, 1).unwrap();
    let compiled = wasmtime::component::Component::new(&engine, wasm).unwrap();
    let (linker, idle) = (host::linker(&engine, &Outbound::new()).unwrap(), Arc::new(IdleInstances::new(limits)));
    let (shape, version) = (validate::validate(wasm, u64::MAX).unwrap(), Version::of(wasm));
    let (code, facts) = Code::link(shape, version, &compiled, &linker, &idle, None).unwrap();
    Component::pinned(code, facts)
}

fn kept(component: &Component) -> usize {
    component.0.idle.instances()
}

/// Waits for the idle to be empty.
async fn emptied(component: &Component) {
    let begun = Instant::now();
    while kept(component) > 0 {
        assert!(begun.elapsed() < SOON, "waited in vain for idle instances to be freed");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// How many jobs the instance says it has done.
fn count(report: &Report) -> u64 {
    let Outcome::Complete(Some(Payload { data, .. })) = &report.outcome else { panic!("{report:?}") };
    u64::from_le_bytes(data.as_slice().try_into().unwrap())
}

/// Has the body done in an instance of the pool.
async fn run(pool: &InstancePool, component: &Component, body: &[u8]) -> Report {
    pool.invoke(component, attempt(body)).await
}

async fn run_limited(
    pool: &InstancePool,
    component: &Component,
    body: &[u8],
    change: impl FnOnce(&mut Limits),
) -> Report {
    pool.invoke(component, limited(body, change)).await
}

#[tokio::test]
async fn what_a_guest_remembers_is_seen_by_the_next_job_of_its_pool_alone() {
    let component = load(&counter(), ROOMY);
    let (pool, other) = (component.instance_pool(100), component.instance_pool(100));
    for jobs in 1..=3 {
        assert_eq!(count(&run(&pool, &component, b"").await), jobs);
    }
    assert_eq!(count(&run(&other, &component, b"").await), 1);
    assert_eq!(count(&component.invoke(attempt("")).await), 1);
    assert_eq!(count(&run(&pool, &component, b"").await), 4);
    assert_eq!(kept(&component), 2);
}

#[tokio::test]
async fn an_instance_does_as_many_jobs_as_it_may() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(3);
    for jobs in [1, 2, 3, 1, 2, 3, 1] {
        assert_eq!(count(&run(&pool, &component, b"").await), jobs);
    }
}

#[tokio::test]
async fn an_instance_is_kept_after_whatever_the_handler_decides() {
    for body in ["", "r", "j", "z"] {
        let component = load(&counter(), ROOMY);
        let pool = component.instance_pool(100);
        run(&pool, &component, body.as_bytes()).await;
        assert_eq!(count(&run(&pool, &component, b"").await), 2, "{body}");
    }
}

#[tokio::test]
async fn an_instance_is_dropped_after_any_other_end() {
    let component = load(&counter(), ROOMY);
    type Ends = fn(&Outcome) -> bool;
    let cases: [(&str, Ends); 4] = [
        ("t", |outcome| matches!(outcome, Outcome::Trapped { .. })),
        ("l", |outcome| matches!(outcome, Outcome::OutOfFuel { .. })),
        ("h", |outcome| matches!(outcome, Outcome::LimitExceeded { limit: LimitName::HostCalls, .. })),
        ("o", |outcome| matches!(outcome, Outcome::LimitExceeded { limit: LimitName::Output, .. })),
    ];
    for (body, ends) in cases {
        // Fresh, and used before.
        for jobs_before in [0, 1] {
            let pool = component.instance_pool(100);
            for _ in 0..jobs_before {
                run(&pool, &component, b"").await;
            }
            let small = |limits: &mut Limits| {
                (limits.fuel, limits.host_calls, limits.output_bytes) = (3_000_000, 1_000, 50_000);
            };
            let report = run_limited(&pool, &component, body.as_bytes(), small).await;
            assert!(ends(&report.outcome), "{body}: {report:?}");
            assert_eq!(kept(&component), 0, "{body}");
        }
    }
    let pool = component.instance_pool(100);
    let hasty = |limits: &mut Limits| (limits.fuel, limits.timeout) = (u64::MAX, Duration::from_millis(5));
    let report = run_limited(&pool, &component, b"l", hasty).await;
    assert!(matches!(report.outcome, Outcome::TimedOut { .. }), "{report:?}");
    assert_eq!(kept(&component), 0);
}

#[tokio::test]
async fn a_dropped_attempt_takes_its_instance_with_it() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    run(&pool, &component, b"").await;
    let running = run_limited(&pool, &component, b"l", |limits| limits.fuel = u64::MAX);
    assert!(tokio::time::timeout(Duration::ZERO, running).await.is_err());
    assert_eq!(kept(&component), 0);
    assert_eq!(count(&run(&pool, &component, b"").await), 1);
}

#[tokio::test]
async fn a_trap_in_a_used_instance_is_tried_again_in_a_fresh_one() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    run(&pool, &component, b"").await;
    let alone = run(&component.instance_pool(100), &component, b"T").await;
    let report = run(&pool, &component, b"T").await;
    assert_eq!(count(&report), 1);
    assert!(report.fuel > alone.fuel, "both tries are paid for: {} and {}", report.fuel, alone.fuel);
    assert_eq!(count(&run(&pool, &component, b"").await), 2, "the fresh one is kept in its place");
}

#[tokio::test]
async fn a_trap_in_a_fresh_instance_too_is_the_jobs_own() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    run(&pool, &component, b"").await;
    let report = run(&pool, &component, b"t").await;
    assert!(matches!(report.outcome, Outcome::Trapped { .. }), "{report:?}");
    assert_eq!(kept(&component), 0);
}

#[tokio::test]
async fn fuel_and_time_are_the_jobs_own_in_a_used_instance_too() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    run(&pool, &component, b"").await;
    let report = run_limited(&pool, &component, b"L", |limits| limits.fuel = 250_000).await;
    assert_eq!((report.outcome, report.fuel), (Outcome::OutOfFuel { limit: 250_000 }, 250_000));
    run(&pool, &component, b"").await;
    let timeout = Duration::from_millis(5);
    let report = run_limited(&pool, &component, b"L", |limits| (limits.fuel, limits.timeout) = (u64::MAX, timeout));
    assert_eq!(report.await.outcome, Outcome::TimedOut { limit: timeout });
}

#[tokio::test]
async fn an_instance_that_holds_more_than_half_of_its_memory_is_not_kept() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    let four_pages = |limits: &mut Limits| limits.memory_bytes = 4 * PAGE;
    let report = run_limited(&pool, &component, b"g\x01", four_pages).await;
    assert_eq!((count(&report), report.memory_peak, kept(&component)), (1, 2 * PAGE, 1));
    let report = run_limited(&pool, &component, b"g\x01", four_pages).await;
    assert_eq!((count(&report), report.memory_peak, kept(&component)), (2, 3 * PAGE, 0));
}

#[tokio::test]
async fn memory_that_earlier_jobs_hold_is_no_jobs_end() {
    let component = load(&counter(), ROOMY);
    let four_pages = |limits: &mut Limits| limits.memory_bytes = 4 * PAGE;
    // One guest traps when it gets no memory, another one makes a failure of it.
    for body in [b"g\x03", b"G\x03"] {
        let pool = component.instance_pool(100);
        run_limited(&pool, &component, b"g\x01", four_pages).await;
        let report = run_limited(&pool, &component, body, four_pages).await;
        assert_eq!((count(&report), report.memory_peak), (1, 4 * PAGE));
    }
    // What it would not get in a fresh one either is its own fault.
    let pool = component.instance_pool(100);
    run(&pool, &component, b"").await;
    let report = run_limited(&pool, &component, b"g\x04", four_pages).await;
    assert_eq!(report.outcome, Outcome::MemoryExceeded { limit: 4 * PAGE, peak: PAGE });
}

#[tokio::test]
async fn a_second_attempt_begins_in_a_fresh_instance_and_leaves_it_for_others() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    run(&pool, &component, b"").await;
    let second = Attempt { attempt: 2, ..attempt("") };
    assert_eq!(count(&pool.invoke(&component, second).await), 1);
    assert_eq!(kept(&component), 2);
}

#[tokio::test]
async fn a_body_over_its_limit_needs_no_instance() {
    let component = load(&counter(), ROOMY);
    let report =
        run_limited(&component.instance_pool(100), &component, b"12345", |limits| limits.payload_bytes = 4).await;
    assert_eq!(report.outcome, Outcome::LimitExceeded { limit: LimitName::Payload, allowed: 4 });
    assert_eq!(kept(&component), 0);
}

#[tokio::test]
async fn a_report_counts_what_its_own_job_used() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    let first = run(&pool, &component, b"").await;
    let (second, third) = (run(&pool, &component, b"").await, run(&pool, &component, b"").await);
    assert_eq!(second.fuel, third.fuel);
    assert!(second.fuel > 0 && second.fuel <= first.fuel, "{} after {}", second.fuel, first.fuel);
    assert_eq!((first.memory_peak, third.memory_peak), (PAGE, PAGE));
    // More would be used up by three jobs together.
    for _ in 0..3 {
        let report = run_limited(&pool, &component, b"", |limits| limits.fuel = first.fuel + second.fuel).await;
        assert_eq!(report.fuel, second.fuel);
    }
}

#[tokio::test]
async fn follow_ups_stay_with_their_job() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    let with_a_target = |body: &str| {
        let rule = Rules::ANY;
        let targets = [("other".parse::<Name>().unwrap(), rule)].into_iter().collect();
        Attempt { targets: Arc::new(targets), ..limited(body, |limits| limits.follow_ups = 1) }
    };
    for (body, follow_ups) in [("f", 1), ("", 0), ("F", 0), ("", 0), ("f", 1)] {
        let report = pool.invoke(&component, with_a_target(body)).await;
        assert_eq!(report.follow_ups.len(), follow_ups, "{body}: {report:?}");
    }
    assert_eq!(count(&run(&pool, &component, b"").await), 6, "all in the same instance");
}

const WASI_IO: &str = "package wasi:io@0.2.0;
    interface error { resource error; }
    interface streams {
        use error.{error};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
    }";
const WASI_CLI: &str = "package wasi:cli@0.2.0;
    interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }";
const WASI_CLOCKS: &str = "package wasi:clocks@0.2.0;
    interface wall-clock { record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime; }";
const WASI_WORLD: &str = "package test:wasi;
    world wasi {
        include gristmill:job/job-handler@0.1.0; import wasi:cli/stdout@0.2.0; import wasi:clocks/wall-clock@0.2.0;
    }";

#[tokio::test]
async fn a_stream_that_a_guest_holds_on_to_writes_each_jobs_lines_into_its_own_log() {
    // Asks for the stream once, keeps it, and never ends a line. Answers with the time.
    let functions = r#"
        (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
        (import "wasi:clocks/wall-clock@0.2.0" "now" (func $wall (param i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
        (global $held (mut i32) (i32.const -1))"#;
    let handle = "(if (i32.lt_s (global.get $held) (i32.const 0)) (then (global.set $held (call $stdout))))
        (call $write (global.get $held) (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 4000))
        (call $wall (i32.const 4104))
        (call $return_u64 (i64.load (i32.const 4104)))";
    let packages = [WASI_IO, WASI_CLI, WASI_CLOCKS, WASI_WORLD];
    let component = load(&handler_in(&packages, "wasi", functions, handle), ROOMY);
    let pool = component.instance_pool(100);
    let mut times = Vec::new();
    for (body, clock_offset_ms) in [("first", 0), ("second", 500_000_000)] {
        let mut attempt = Attempt { clock_offset_ms, ..attempt(body) };
        let lines = listen(&mut attempt);
        times.push(count(&pool.invoke(&component, attempt).await));
        let lines: Vec<_> = lines.lock().iter().map(|line| (line.source, line.message.clone())).collect();
        assert_eq!(lines, [("stdout", body.to_owned())]);
    }
    assert!(times[1] - times[0] >= 400_000, "the clock is the attempt's: {times:?}");
    assert_eq!(kept(&component), 1);
}

#[tokio::test]
async fn too_many_idle_instances_are_freed_the_oldest_first() {
    for limits in [IdleLimits { items: 2, ..ROOMY }, IdleLimits { bytes: 2 * PAGE, ..ROOMY }] {
        let component = load(&counter(), limits);
        let stashes: Vec<InstancePool> = (0..5).map(|_| component.instance_pool(100)).collect();
        for pool in &stashes {
            run(pool, &component, b"").await;
        }
        assert_eq!(kept(&component), 2);
        assert_eq!(count(&run(&stashes[4], &component, b"").await), 2);
        assert_eq!(count(&run(&stashes[3], &component, b"").await), 2);
        assert_eq!(count(&run(&stashes[0], &component, b"").await), 1);
    }
}

#[tokio::test]
async fn idle_instances_never_fill_the_pool() {
    // Its idle would keep far more than its pool has room for.
    let component = load(&counter(), ROOMY);
    let stashes: Vec<InstancePool> = (0..50).map(|_| component.instance_pool(100)).collect();
    for pool in &stashes {
        assert_eq!(count(&run(pool, &component, b"").await), 1);
        assert_eq!(count(&component.invoke(attempt("")).await), 1);
    }
    assert!((2..50).contains(&kept(&component)), "{}", kept(&component));
    assert_eq!(count(&run(&stashes[49], &component, b"").await), 2);
}

#[tokio::test]
async fn a_pool_that_is_full_of_running_attempts_is_full() {
    let component = load(&counter(), ROOMY);
    let pool = component.instance_pool(100);
    let mut running = Vec::new();
    let refused = loop {
        let mut next = Box::pin(run_limited(&pool, &component, b"l", |limits| limits.fuel = u64::MAX));
        match tokio::time::timeout(Duration::ZERO, &mut next).await {
            Err(_elapsed) => running.push(next),
            Ok(report) => break report,
        }
        assert!(running.len() < 100);
    };
    assert_eq!(refused.outcome, Outcome::PoolFull);
}

#[tokio::test]
async fn an_idle_instance_is_freed_after_a_while() {
    let component = load(&counter(), IdleLimits { idle: Duration::from_millis(5), ..ROOMY });
    let pool = component.instance_pool(100);
    // Again and again: the watch ends when there is nothing to watch.
    for _ in 0..3 {
        assert_eq!(count(&run(&pool, &component, b"").await), 1);
        emptied(&component).await;
    }
}

#[test]
fn a_runtime_that_ends_takes_no_watch_with_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let component = load(&counter(), IdleLimits { idle: Duration::from_millis(5), ..ROOMY });
    let (pool, other) = (component.instance_pool(100), component.instance_pool(100));
    runtime().block_on(run(&pool, &component, b""));
    assert_eq!(kept(&component), 1, "no runtime was there to free it");
    runtime().block_on(async {
        run(&other, &component, b"").await;
        emptied(&component).await;
    });
}

#[tokio::test]
async fn a_stash_takes_its_instances_with_it() {
    let component = load(&counter(), ROOMY);
    let (pool, other) = (component.instance_pool(100), component.instance_pool(100));
    run(&pool, &component, b"").await;
    run(&other, &component, b"").await;
    drop(pool);
    assert_eq!(kept(&component), 1);
    other.clear();
    assert_eq!(kept(&component), 0);
}
