//! An attempt that is tried without the component model comes to what it comes to with it, or is made again with it.

use std::collections::HashMap;
use std::sync::Arc;

use super::guest::{component, core, core_module, handler, handler_in};
use super::{attempt, listen, load, sandbox};
use crate::direct::{MAIN, export_main};
use crate::{Attempt, Component, LogLine, Record, Report};
use gristmill_core::admission::Rules;
use gristmill_core::outcome::Outcome;
use gristmill_core::topic::{Grants, Limits};

/// A component whose handler ends at once if it gets no body, and that was called so once.
async fn taught(wasm: &[u8]) -> Component {
    let component = load(wasm).await;
    component.invoke(attempt("")).await;
    assert_eq!(misses(&component).await, Some(0), "it cannot be tried");
    component
}

async fn misses(component: &Component) -> Option<u32> {
    component.code().await.unwrap().direct.misses()
}

/// A handler that does this if it gets a body.
fn with_body(functions: &str, handle: &str) -> Vec<u8> {
    handler(
        functions,
        &format!("(if (result i32) (call $body_n (local.get $job)) (then {handle}) (else (call $done)))"),
    )
}

/// What can be seen of an attempt, but for times and random ids.
fn seen(report: &Report, lines: &[LogLine]) -> String {
    let Report { outcome, fuel, memory_peak, host_calls, log_bytes, log_lines_dropped, follow_ups, .. } = report;
    let follow_ups =
        follow_ups.iter().map(|job| (&job.spec.topic, &job.spec.body, &job.spec.metadata, &job.spec.options, job.due));
    let follow_ups: Vec<_> = follow_ups.collect();
    format!("{outcome:?} {fuel} {memory_peak} {host_calls} {log_bytes} {log_lines_dropped} {follow_ups:?} {lines:?}")
}

async fn run(component: &Component, mut attempt: Attempt) -> String {
    let lines = listen(&mut attempt);
    let report = component.invoke(attempt).await;
    let lines = lines.lock();
    seen(&report, &lines)
}

/// What comes of an attempt in an untaught and in a taught component, and whether it was tried in vain.
async fn both(wasm: &[u8], attempt: Attempt) -> (String, String, bool) {
    let (untaught, taught) = (load(wasm).await, taught(wasm).await);
    let (component, tried) = (run(&untaught, attempt.clone()).await, run(&taught, attempt).await);
    (component, tried, misses(&taught).await != Some(0))
}

/// An attempt with something in each field of its job.
fn full(body: &str) -> Attempt {
    let mut attempt = attempt(body);
    let spec = &mut Arc::make_mut(&mut attempt.job).spec;
    spec.body.content_type = Some("text/plain".to_owned());
    spec.metadata = vec![("from".to_owned(), "ada".to_owned()), (String::new(), "ü".to_owned())];
    spec.options.key = Some("key".to_owned());
    attempt.checkpoint = Some(b"saved".to_vec());
    attempt.attempt = 3;
    attempt.limits.fuel = 1_000_000;
    let config = [("region".to_owned(), "eu".to_owned())].into();
    let secrets = [("token".to_owned(), b"s3cret".to_vec())].into();
    attempt.grants = Arc::new(Grants { config, secrets, ..Grants::default() });
    attempt.targets = Arc::new(HashMap::from([("resize".parse().unwrap(), Rules::ANY)]));
    attempt
}

#[tokio::test]
async fn a_try_comes_to_what_the_component_does() {
    let get = "(call $get (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 4000))
        (call $return (i32.const 4000) (i32.const 12))";
    let enqueue = "(i32.store (i32.const 5000) (call $body (local.get $job)))
        (i32.store (i32.const 5004) (call $body_n (local.get $job)))
        (i32.store (i32.const 5008) (call $body (local.get $job))) (i32.store (i32.const 5012) (i32.const 3))
        (i32.store (i32.const 5016) (i32.const 1)) (i32.store (i32.const 5020) (i32.const 2100)) (i32.store (i32.const 5024) (i32.const 3))
        (i32.store (i32.const 5028) (i32.load offset=44 (local.get $job))) (i32.store (i32.const 5032) (i32.const 2))
        (i32.store (i32.const 5036) (i32.const 1)) (i32.store (i32.const 5040) (i32.const 2100)) (i32.store (i32.const 5044) (i32.const 2))
        (i32.store (i32.const 5048) (i32.const 1)) (i64.store (i32.const 5056) (i64.const 1700000000000))
        (i32.store (i32.const 5064) (i32.const 1)) (i32.store (i32.const 5068) (i32.const 2100)) (i32.store (i32.const 5072) (i32.const 1))
        (i32.store8 (i32.const 5076) (i32.const 2))
        (i32.store (i32.const 5080) (i32.const 1)) (i64.store (i32.const 5088) (i64.const 77))
        (call $enqueue (i32.const 5000) (i32.const 4000))
        (i64.store (i32.const 4008) (i64.const 0))
        (call $return (i32.const 4000) (i32.const 24))";
    let emit = "(call $emit (i32.const 3) (call $body (local.get $job)) (call $body_n (local.get $job))
          (i32.load offset=44 (local.get $job)) (i32.load offset=48 (local.get $job)))
        (call $emit (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (call $done)";
    let all = "(i64.store offset=88 (local.get $job) (i64.const 0))
        (call $return (i32.const 8192) (i32.sub (global.get $top) (i32.const 8192)))";
    let enabled = r#"(import "gristmill:job/log@0.1.0" "enabled" (func $enabled (param i32) (result i32)))"#;
    let secret = r#"(import "gristmill:job/config@0.1.0" "secret" (func $secret (param i32 i32 i32)))"#;
    for (name, functions, handle) in [
        ("all", "", all),
        ("emit", "", emit),
        ("get", "", get),
        ("secret", secret, &get.replace("$get", "$secret")),
        ("enqueue", "", enqueue),
        ("enabled", enabled, "(call $return_u64 (i64.extend_i32_u (call $enabled (i32.const 1))))"),
        ("cancelled", "", "(call $return_u64 (i64.extend_i32_u (call $is_cancelled)))"),
        ("now", "", "(drop (call $now)) (call $done)"),
        ("fuel", "", "(call $return_u64 (call $fuel))"),
        ("retry", "", "(call $fail (i32.const 0))"),
        ("reject", "", "(call $fail (i32.const 1))"),
        (
            "snooze",
            "",
            "(i32.store (i32.const 1032) (i32.const 1)) (i64.store (i32.const 1040) (i64.const 9)) (i32.const 1024)",
        ),
        ("grow", "", "(drop (memory.grow (i32.const 3))) (call $done)"),
        ("a start", "(func $begin (global.set $top (i32.const 9000))) (start $begin)", all),
    ] {
        for body in ["region", "token", "resize", "missing"] {
            let (component, tried, in_vain) = both(&with_body(functions, handle), full(body)).await;
            assert_eq!(tried, component, "{name} {body}");
            assert!(!in_vain, "{name} {body}");
        }
    }
}

/// A line with a hundred fields whose names and values are the same 20,000 bytes.
const MANY_TEXTS: &str = "(loop $next
      (i32.store (i32.add (i32.const 3000) (i32.mul (global.get $n) (i32.const 8))) (i32.const 0))
      (i32.store (i32.add (i32.const 3004) (i32.mul (global.get $n) (i32.const 8))) (i32.const 20000))
      (global.set $n (i32.add (global.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (global.get $n) (i32.const 200))))
    (call $emit (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 3000) (i32.const 100)) (call $done)";

#[tokio::test]
async fn what_is_no_answer_is_made_again_in_the_component() {
    let progress = "(call $progress (i32.const 20000) (i32.const 1) (i32.const 2100) (i32.const 3)) (call $done)";
    // A call that ends is no place where a guest sees that its fuel is used up.
    let overshoot = &format!("{} (call $done)", "(drop (i32.const 1))".repeat(104_000));
    let no_memory = "(global.set $top (i32.const 0x7ffffff0)) (call $get (call $body (local.get $job)) (i32.const 6) (i32.const 4000)) (call $done)";
    for (name, functions, handle) in [
        ("trap", "", "unreachable"),
        ("loop", "", "(loop $again (br $again)) (i32.const 0)"),
        ("depth", "(func $deep (call $deep))", "(call $deep) (call $done)"),
        ("another function", "", progress),
        ("an answer outside", "", "(i32.const -8)"),
        ("an answer at the end", "", "(i32.const 65528)"),
        ("an answer that ends outside", "", "(i32.const 65512)"),
        (
            "wild fields of a line that does not fit",
            "",
            "(call $emit (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 65532) (i32.const 200)) (call $done)",
        ),
        ("a long text a hundred times", "(global $n (mut i32) (i32.const 0))", MANY_TEXTS),
        ("more fuel than the slice as it returns", "", overshoot),
        ("a place that is not aligned", "", "(i32.const 1028)"),
        ("no such answer", "", "(i32.store8 (i32.const 1024) (i32.const 2)) (call $done)"),
        ("a result outside", "", "(call $return (i32.const 65000) (i32.const 65000))"),
        (
            "a message outside",
            "",
            "(call $emit (i32.const 2) (i32.const -1) (i32.const 2) (i32.const 0) (i32.const 0)) (call $done)",
        ),
        (
            "fields outside",
            "",
            "(call $emit (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 65532) (i32.const 9)) (call $done)",
        ),
        (
            "no text",
            "(data (i32.const 3000) \"\\ff\\fe\")",
            "(call $emit (i32.const 2) (i32.const 3000) (i32.const 2) (i32.const 0) (i32.const 0)) (call $done)",
        ),
        (
            "no level",
            "",
            "(call $emit (i32.const 9) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (call $done)",
        ),
        ("memory that it has not", "", no_memory),
        ("a job outside", "", "(call $enqueue (i32.const -8) (i32.const 4000)) (call $done)"),
        (
            "more fields than memory",
            "",
            "(call $emit (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1)) (call $done)",
        ),
    ] {
        let before = "(call $emit (i32.const 2) (i32.const 2100) (i32.const 5) (i32.const 0) (i32.const 0))";
        let (component, tried, in_vain) =
            both(&with_body(functions, &format!("{before} {handle}")), full("region")).await;
        assert_eq!(tried, component, "{name}");
        assert!(in_vain, "{name}");
    }
}

const CLOCKS: &str = "package wasi:clocks@0.2.3;
    interface wall-clock { record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime; }
    interface monotonic-clock { type instant = u64; now: func() -> instant; resolution: func() -> u64; }";
const RANDOM: &str = "package wasi:random@0.2.3;
    interface random { get-random-u64: func() -> u64; }
    interface insecure-seed { insecure-seed: func() -> tuple<u64, u64>; }";
const WORLD: &str = "package test:wasi;
    world wasi {
        include gristmill:job/job-handler@0.1.0;
        import wasi:clocks/wall-clock@0.2.3; import wasi:clocks/monotonic-clock@0.2.3;
        import wasi:random/random@0.2.3; import wasi:random/insecure-seed@0.2.3;
    }";

/// A guest that calls these functions if it gets a body, and returns what they left at 4000 if it begins with `r`.
fn with_wasi(calls: &str) -> Vec<u8> {
    let imports = r#"
        (import "wasi:clocks/wall-clock@0.2.3" "now" (func $wall (param i32)))
        (import "wasi:clocks/monotonic-clock@0.2.3" "now" (func $monotonic (result i64)))
        (import "wasi:clocks/monotonic-clock@0.2.3" "resolution" (func $resolution (result i64)))
        (import "wasi:random/random@0.2.3" "get-random-u64" (func $random (result i64)))
        (import "wasi:random/insecure-seed@0.2.3" "insecure-seed" (func $seed (param i32)))"#;
    let handle = format!(
        "(if (result i32) (call $body_n (local.get $job))
          (then {calls}
            (if (result i32) (i32.eq (i32.load8_u (call $body (local.get $job))) (i32.const 114))
              (then (call $return (i32.const 4000) (i32.const 24))) (else (call $done))))
          (else (call $done)))"
    );
    handler_in(&[CLOCKS, RANDOM, WORLD], "wasi", imports, &handle)
}

#[tokio::test]
async fn clocks_and_random_numbers_are_there_and_cost_the_same() {
    let calls = "(call $wall (i32.const 4000)) (drop (call $monotonic)) (i64.store (i32.const 4016) (call $random)) (call $seed (i32.const 5000))";
    let (component, tried, in_vain) = both(&with_wasi(calls), attempt("x")).await;
    assert_eq!((tried, in_vain), (component, false));

    let taught = taught(&with_wasi(calls)).await;
    let mut ahead = attempt("r");
    ahead.clock_offset_ms = 1_000_000_000;
    let before = ahead.now();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let Outcome::Complete(Some(result)) = taught.invoke(ahead.clone()).await.outcome else { panic!("no result") };
        let seconds = u64::from_le_bytes(result.data[..8].try_into().unwrap());
        assert!((before.as_millis() / 1000..=ahead.now().as_millis() / 1000).contains(&seconds), "{seconds}");
        seen.push(result.data[16..].to_vec());
    }
    assert_ne!(seen[0], seen[1]);
    assert_eq!(misses(&taught).await, Some(0));

    let (component, tried, in_vain) = both(&with_wasi("(drop (call $resolution))"), attempt("x")).await;
    assert_eq!((tried, in_vain), (component, true), "another function of the same interface");
}

#[tokio::test]
async fn limits_hold_alike() {
    let work = with_body(
        "",
        "(call $emit (i32.const 2) (i32.const 2100) (i32.const 5) (i32.const 0) (i32.const 0))
         (call $emit (i32.const 2) (i32.const 2100) (i32.const 5) (i32.const 0) (i32.const 0))
         (drop (memory.grow (i32.const 2)))
         (call $return (call $body (local.get $job)) (call $body_n (local.get $job)))",
    );
    type Change = fn(&mut Limits);
    let cases: [(Change, bool); 9] = [
        (|limits| limits.host_calls = 2, false),
        (|limits| limits.host_calls = 1, true),
        (|limits| limits.log_bytes = 5, false),
        (|limits| limits.output_bytes = 6, false),
        (|limits| limits.output_bytes = 5, false),
        (|limits| limits.memory_bytes = 3 << 16, false),
        (|limits| limits.memory_bytes = (3 << 16) - 1, true),
        (|limits| limits.fuel = 500, true),
        (|limits| limits.payload_bytes = 5, false),
    ];
    for (number, (change, is_in_vain)) in cases.into_iter().enumerate() {
        let mut attempt = full("region");
        change(&mut attempt.limits);
        let (component, tried, in_vain) = both(&work, attempt).await;
        assert_eq!((tried, in_vain), (component, is_in_vain), "{number}");
    }
}

#[tokio::test]
async fn what_fails_is_recorded_and_what_is_recorded_anyway_is_not_tried() {
    let taught = taught(&with_body("", "(call $fail (i32.const 0))")).await;
    let with = |record| Attempt { record, ..full("x") };
    let report = taught.invoke(with(Record::Failures)).await;
    assert!(report.recording.is_some() && matches!(report.outcome, Outcome::Retry { .. }), "{report:?}");
    assert_eq!(misses(&taught).await, Some(1));
    assert!(taught.invoke(Attempt { record: Record::All, ..attempt("") }).await.recording.is_some());
    assert!(taught.invoke(Attempt { record: Record::Failures, ..attempt("") }).await.recording.is_none());
    assert_eq!(misses(&taught).await, Some(0), "one hit");
}

#[tokio::test]
async fn a_component_is_tried_no_more_once_that_is_mostly_in_vain() {
    let taught = taught(&with_body("", "unreachable")).await;
    for number in 0..20 {
        taught.invoke(attempt("x")).await;
        taught.invoke(attempt("")).await;
        assert!(misses(&taught).await.unwrap() <= 8, "{number}");
    }
    assert_eq!(misses(&taught).await, Some(8));
    taught.invoke(attempt("")).await;
    assert_eq!(misses(&taught).await, Some(8), "no try, no hit");
}

#[tokio::test]
async fn only_short_attempts_teach() {
    let long = "(local $n i32) (loop $again (br_if $again (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 10000)))) (call $done)";
    for (handle, expected) in
        [(long, None), ("(call $fail (i32.const 0))", Some(0)), ("unreachable", None), ("(call $done)", Some(0))]
    {
        let component = load(&handler("", handle)).await;
        component.invoke(attempt("")).await;
        assert_eq!(misses(&component).await, expected, "{handle}");
    }
    // A core module becomes a component of the usual shape.
    let component = load(&core_module("", "(call $done)")).await;
    component.invoke(attempt("")).await;
    assert_eq!(misses(&component).await, Some(0));
    assert!(component.exports().iter().all(|name| name != MAIN), "{:?}", component.exports());
}

fn exports_main(wasm: &[u8]) -> bool {
    let mut exported = wasm.to_vec();
    export_main(&mut exported);
    if exported == wasm {
        return false;
    }
    wasmparser::Validator::new().validate_all(&exported).unwrap();
    true
}

/// The wiring of a usual component, with one thing changed.
#[test]
fn a_component_of_another_shape_is_left_alone() {
    let usual = handler("", "(call $done)");
    assert!(exports_main(&usual));
    let text = wasmprinter::print_bytes(&usual).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} is not in {text}");
        wat::parse_str(text.replace(from, to)).unwrap()
    };
    for (from, to) in [
        // Another function behind a name, by either way.
        (
            "alias export $gristmill:job/context@0.1.0 \"now\"",
            "alias export $gristmill:job/context@0.1.0 \"fuel-remaining\"",
        ),
        ("alias export $gristmill:job/config@0.1.0 \"get\"", "alias export $gristmill:job/log@0.1.0 \"get\""),
        ("(export \"now\" (func", "(export \"is-cancelled\" (func"),
        // A module that passes calls on elsewhere, or does more.
        ("i32.const 0\n      call_indirect", "i32.const 1\n      call_indirect"),
        ("i32.const 0\n      call_indirect", "nop\n      i32.const 0\n      call_indirect"),
        ("(core module $wit-component-fixup (;2;)", "(core module $wit-component-fixup (;2;) (start 0)"),
        // Memory, allocator and encoding of others.
        ("string-encoding=utf8", "string-encoding=utf16"),
        ("(export \"cabi_realloc\"", "(export \"cabi_import_realloc\""),
        ("(core module $main", "(component (core module)) (core module $main"),
    ] {
        assert!(!exports_main(&changed(from, to)), "{from} -> {to}");
    }
    let initializes = core("(func (export \"_initialize\"))", "(call $done)");
    assert!(!exports_main(&component(&initializes, &[], "gristmill:job/job-handler")));
}

#[tokio::test]
async fn nobody_chooses_the_main_module_of_a_component() {
    let mut chosen = handler("", "(call $done)");
    export_main(&mut chosen);
    let cache = tempfile::tempdir().unwrap();
    let error = sandbox(cache.path()).load(&chosen).await.unwrap_err().to_string();
    assert!(error.contains("`gristmill-main`") && error.contains("rename the export"), "{error}");
    let twice = chosen.clone();
    export_main(&mut chosen);
    assert_eq!(chosen, twice);
}
