//! Guests that have the host work for them: it counts, it costs fuel, and no deadline and no other guest waits for it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::guest::{handler, handler_in};
use super::{limited, listen, load};
use crate::{Attempt, Component};
use gristmill_core::outcome::{LimitName, Outcome};
use gristmill_core::topic::Limits;

/// How long one host call may take here, in a build for tests: the processor's time, since the machine may be busy.
const LATE: Duration = Duration::from_millis(250);
const TIMEOUT: Duration = Duration::from_millis(200);

/// Of this thread, which guest and host share here.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

const WASI_IO: &str = "package wasi:io@0.2.0;
    interface error { resource error; }
    interface poll { resource pollable; poll: func(in: list<borrow<pollable>>) -> list<u32>; }
    interface streams {
        use error.{error};
        use poll.{pollable};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream {
            write: func(contents: list<u8>) -> result<_, stream-error>;
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
            subscribe: func() -> pollable;
        }
    }";
const WASI_CLI: &str = "package wasi:cli@0.2.0;
    interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }";
const WASI_WORLD: &str = "package test:wasi;
    world wasi {
        include gristmill:job/job-handler@0.1.0;
        import wasi:cli/stdout@0.2.0; import wasi:io/poll@0.2.0;
    }";
const WASI_IMPORTS: &str = r#"
    (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write_all (param i32 i32 i32 i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.subscribe" (func $subscribe (param i32) (result i32)))
    (import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))
    (global $out (mut i32) (i32.const 0))
    (func $newlines (memory.fill (i32.const 65536) (i32.const 10) (i32.const 65536)))"#;

/// A guest with WASI, and 64 KiB of newlines from 65,536 on.
fn with_wasi(functions: &str, handle: &str) -> Vec<u8> {
    let start = "(drop (memory.grow (i32.const 33))) (call $newlines) (global.set $out (call $stdout))";
    let functions = format!("{WASI_IMPORTS}\n{functions}");
    handler_in(&[WASI_IO, WASI_CLI, WASI_WORLD], "wasi", &functions, &format!("{start} {handle}"))
}

fn for_ever(call: &str) -> String {
    format!("(loop $for_ever {call} (br $for_ever)) (call $done)")
}

/// An attempt that only its time limits.
fn timed(timeout: Duration) -> Attempt {
    limited("", |limits| {
        (limits.fuel, limits.host_calls, limits.timeout) = (u64::MAX, u64::MAX, timeout);
    })
}

async fn ends_in_time(what: &str, component: &Component) {
    let begun = processor_time();
    let report = component.invoke(timed(TIMEOUT)).await;
    assert_eq!(report.outcome, Outcome::TimedOut { limit: TIMEOUT });
    let took = processor_time() - begun;
    assert!(took < TIMEOUT + LATE, "{what}: {took:?} instead of {TIMEOUT:?}");
}

/// How long the guest keeps its thread at most, over two hundred turns.
async fn longest_turn(component: &Component) -> Duration {
    let mut running = Box::pin(component.invoke(timed(Duration::from_secs(60))));
    let mut longest = Duration::ZERO;
    for _ in 0..200 {
        let begun = processor_time();
        let turn = poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
        assert!(turn.is_pending(), "{turn:?}");
        longest = longest.max(processor_time() - begun);
        // A timer or an answer may have to come first.
        tokio::task::yield_now().await;
    }
    longest
}

/// A handler with two components inside, one of which passes the other a string of so many bytes with each `$take`. Runs `run`
/// when it starts.
fn of_components(bytes: u32, run: &str) -> Vec<u8> {
    let inside = include_str!("two_components.wat")
        .replace("PAGES", &bytes.div_ceil(1 << 16).to_string())
        .replace("BYTES", &bytes.to_string())
        .replace("RUN", run);
    let plain = wasmprinter::print_bytes(handler("", "(call $done)")).unwrap();
    let (plain, end) = plain.trim_end().split_at(plain.trim_end().len() - 1);
    wat::parse_str(format!("{plain} {inside} {end}")).unwrap()
}

const PRINT: &str = "(call $write_all (global.get $out) (i32.const 65536) (i32.const 4096) (i32.const 4000))";
const EMIT_FIELDS: &str =
    "(call $emit (i32.const 2) (i32.const 5000) (i32.const 0) (i32.const 131072) (i32.const 20000))";
const GET_LONG_NAME: &str = "(call $get (i32.const 131072) (i32.const 1000000) (i32.const 4000))";

fn hogs() -> [(&'static str, Vec<u8>); 6] {
    let grow = "(drop (memory.grow (i32.const 33)))";
    let poll = "(loop $fill
          (i32.store (i32.add (i32.const 131072) (local.get $job)) (global.get $out))
          (local.set $job (i32.add (local.get $job) (i32.const 4)))
          (br_if $fill (i32.lt_u (local.get $job) (i32.const 3600))))";
    let poll = format!(
        "(global.set $out (call $subscribe (global.get $out))) (local.set $job (i32.const 0)) {poll} {}",
        for_ever("(global.set $top (i32.const 8192)) (call $poll (i32.const 131072) (i32.const 900) (i32.const 4000))")
    );
    [
        ("newlines", with_wasi("", &for_ever(PRINT))),
        ("fields", handler("", &format!("{grow} {}", for_ever(EMIT_FIELDS)))),
        ("names", handler("", &format!("{grow} {}", for_ever(GET_LONG_NAME)))),
        ("pollables", with_wasi("", &poll)),
        ("calls in a row", with_wasi("", &format!("{} (call $done)", PRINT.repeat(20_000)))),
        ("strings between components", of_components(16 << 20, "(loop $for_ever (call $take) (br $for_ever))")),
    ]
}

#[tokio::test]
async fn a_deadline_holds_whatever_the_guest_calls() {
    for (what, hog) in hogs() {
        ends_in_time(what, &load(&hog).await).await;
    }
}

#[tokio::test]
async fn a_guest_gives_its_thread_back_whatever_it_calls() {
    for (what, hog) in hogs() {
        let longest = longest_turn(&load(&hog).await).await;
        assert!(longest < LATE, "{what}: {longest:?}");
    }
}

#[tokio::test]
async fn bytes_cost_fuel_wherever_they_go() {
    let emit = "(call $emit (i32.const 2) (i32.const 32768) (i32.const 30000) (i32.const 0) (i32.const 0))";
    let get = "(call $get (i32.const 32768) (i32.const 30000) (i32.const 4000))";
    let progress = "(call $progress (i32.const 1) (i32.const 1) (i32.const 32768) (i32.const 30000))";
    let write = "(call $write (global.get $out) (i32.const 65536) (i32.const 30000) (i32.const 4000))";
    for (call, wasi) in [(emit, false), (get, false), (progress, false), (write, true)] {
        let guest = |calls: usize| {
            let handle = format!("{} (call $done)", call.repeat(calls));
            if wasi { with_wasi("", &handle) } else { handler("", &handle) }
        };
        let fuel = async |calls| load(&guest(calls)).await.invoke(limited("", |_| {})).await.fuel;
        let (once, twice) = (fuel(1).await, fuel(2).await);
        assert!((30_000..31_000).contains(&(twice - once)), "{call}: {}", twice - once);
    }
}

#[tokio::test]
async fn what_the_host_charges_ends_a_guest_as_its_own_work_does() {
    let emit = "(call $emit (i32.const 2) (i32.const 32768) (i32.const 30000) (i32.const 0) (i32.const 0))";
    let component = load(&handler("", &for_ever(emit))).await;
    let report = component.invoke(limited("", |limits| limits.fuel = 1_000_000)).await;
    assert_eq!((report.outcome, report.fuel), (Outcome::OutOfFuel { limit: 1_000_000 }, 1_000_000));
}

#[tokio::test]
async fn calls_of_wasi_count_as_host_calls() {
    let component = load(&with_wasi("", &for_ever(PRINT))).await;
    let outcome = component.invoke(limited("", |limits| limits.host_calls = 100)).await.outcome;
    assert_eq!(outcome, Outcome::LimitExceeded { limit: LimitName::HostCalls, allowed: 100 });
}

#[tokio::test]
async fn strings_between_the_components_of_a_file_count_as_host_calls() {
    let three = load(&of_components(5, "(call $take) (call $take) (call $take)")).await;
    let outcome = three.invoke(limited("", |limits| limits.host_calls = 3)).await.outcome;
    assert_eq!(outcome, Outcome::Complete(None));
    let outcome = three.invoke(limited("", |limits| limits.host_calls = 2)).await.outcome;
    assert_eq!(outcome, Outcome::LimitExceeded { limit: LimitName::HostCalls, allowed: 2 });
}

#[tokio::test]
async fn fuel_is_the_same_however_often_the_guest_yields() {
    // Between two calls there is about as much work as between two yields, so that either may come first.
    let work = "(local.set $job (i32.const 0))
        (loop $work (local.set $job (i32.add (local.get $job) (i32.const 1)))
          (br_if $work (i32.lt_u (local.get $job) (i32.const 14000))))";
    let handle = format!("{} (call $done)", format!("{work} {PRINT}").repeat(200));
    let component = load(&with_wasi("", &handle)).await;
    let first = component.invoke(limited("", |_| {})).await;
    assert_eq!(first.outcome, Outcome::Complete(None));
    for _ in 0..5 {
        let again = component.invoke(limited("", |_| {})).await;
        assert_eq!((again.outcome, again.fuel), (Outcome::Complete(None), first.fuel));
    }
    let exact = component.invoke(limited("", |limits| limits.fuel = first.fuel)).await;
    assert_eq!((exact.outcome, exact.fuel), (Outcome::Complete(None), first.fuel));
    let short = component.invoke(limited("", |limits| limits.fuel = first.fuel - 20_000)).await;
    assert_eq!(short.outcome, Outcome::OutOfFuel { limit: first.fuel - 20_000 });
}

#[tokio::test]
async fn a_write_over_the_permit_is_a_trap() {
    let write = "(call $write (global.get $out) (i32.const 65536) (i32.const 65537) (i32.const 4000)) (call $done)";
    let outcome = load(&with_wasi("", write)).await.invoke(limited("", |_| {})).await.outcome;
    assert!(matches!(&outcome, Outcome::Trapped { message, .. } if message.contains("check-write")), "{outcome:?}");
}

#[tokio::test]
async fn lines_printed_into_a_full_log_are_counted() {
    let write = "(call $write (global.get $out) (i32.const 65536) (i32.const 65536) (i32.const 4000))";
    let component = load(&with_wasi("", &format!("{} (call $done)", write.repeat(3)))).await;
    let report = component.invoke(limited("", |limits| limits.log_bytes = 65_536)).await;
    assert_eq!((report.outcome, report.log_lines_dropped), (Outcome::Complete(None), 2 * 65_536));
}

#[tokio::test]
async fn a_line_with_too_many_fields_is_dropped() {
    let emit = |fields: u32| {
        format!("(call $emit (i32.const 2) (i32.const 2100) (i32.const 5) (i32.const 16384) (i32.const {fields}))")
    };
    let component = load(&handler("", &format!("{} {} (call $done)", emit(100), emit(101)))).await;
    let mut attempt = limited("", |_| {});
    let lines = listen(&mut attempt);
    assert_eq!(component.invoke(attempt).await.log_lines_dropped, 1);
    assert_eq!(lines.lock().first().map(|line| line.fields.len()), Some(100));
}

#[tokio::test]
async fn the_fields_of_a_line_that_is_dropped_are_not_read() {
    // Its fields are no strings: they begin at the end of memory.
    let fields = "(memory.fill (i32.const 16384) (i32.const 0xff) (i32.const 16384))";
    let emit = |fields: u32| {
        format!("(call $emit (i32.const 2) (i32.const 2100) (i32.const 5) (i32.const 16384) (i32.const {fields}))")
    };
    let invoke = async |fields_of_line: u32, log_bytes: u64| {
        let component = load(&handler("", &format!("{fields} {} (call $done)", emit(fields_of_line)))).await;
        component.invoke(limited("", |limits| limits.log_bytes = log_bytes)).await
    };
    let read = invoke(100, 1 << 20).await;
    assert!(matches!(read.outcome, Outcome::Trapped { .. }), "{read:?}");
    for (fields, log_bytes) in [(101, 1 << 20), (100, 1004)] {
        let dropped = invoke(fields, log_bytes).await;
        assert_eq!((dropped.outcome, dropped.log_lines_dropped), (Outcome::Complete(None), 1), "{fields} fields");
        assert!(dropped.fuel >= u64::from(fields) * 10, "{} fuel", dropped.fuel);
    }
}

/// A component that never comes to the end of its start.
async fn endless_start() -> (Component, Limits) {
    let component = load(&of_components(1, "(loop $for_ever (br $for_ever))")).await;
    (component, Limits { fuel: u64::MAX, timeout: Duration::from_millis(500), ..Limits::default() })
}

#[tokio::test]
async fn a_component_is_tried_on_a_thread_of_its_own() {
    let (component, limits) = endless_start().await;
    let begun = processor_time();
    let problem = component.try_start(&limits).await.unwrap_err();
    assert!(problem.contains("took longer than 500ms"), "{problem}");
    assert!(processor_time() - begun < limits.timeout / 2, "{:?} on this thread", processor_time() - begun);
}

#[tokio::test]
async fn a_trial_ends_with_its_caller() {
    let (component, limits) = endless_start().await;
    let limits = Limits { timeout: Duration::from_secs(600), ..limits };
    let mut trial = Box::pin(component.try_start(&limits));
    assert!(poll_fn(|context| Poll::Ready(trial.as_mut().poll(context))).await.is_pending());
    drop(trial);
    let ended = async {
        while Arc::strong_count(&component.0) > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the guest runs on without its caller");
}
