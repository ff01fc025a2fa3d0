//! An attempt from its beginning to each of its ends.

use std::sync::Arc;
use std::time::Duration;

use super::guest::{handler, handler_in};
use super::{attempt, limited, listen, load, sandbox};
use crate::{CheckpointSender, LogLine};
use gristmill_core::outcome::{FailureDetail, Outcome};

const ECHO: &str = "(call $return (call $body (local.get $job)) (call $body_n (local.get $job)))";

#[tokio::test]
async fn a_body_goes_in_and_a_result_comes_out() {
    let report = load(&handler("", ECHO)).await.invoke(attempt("hello")).await;
    let Outcome::Complete(Some(result)) = report.outcome else { panic!("{report:?}") };
    assert_eq!(result.data, b"hello");
    assert!((1..1000).contains(&report.fuel), "{}", report.fuel);
    assert_eq!(report.memory_peak, 64 << 10);
}

#[tokio::test]
async fn what_a_handler_decides_is_the_outcome() {
    let detail = || FailureDetail { code: "abc".into(), message: "hi".into(), context: None };
    let snooze = "(i32.store (i32.const 1032) (i32.const 1)) (i64.store (i32.const 1040) (i64.const 250)) (call $done)";
    let retry_after = "(i32.store (i32.const 1080) (i32.const 1)) (i64.store (i32.const 1088) (i64.const 9))
        (call $fail (i32.const 0))";
    let cases = [
        ("(call $done)", Outcome::Complete(None)),
        (snooze, Outcome::Snooze(Duration::from_millis(250))),
        ("(call $fail (i32.const 0))", Outcome::Retry { detail: detail(), after: None }),
        (retry_after, Outcome::Retry { detail: detail(), after: Some(Duration::from_millis(9)) }),
        ("(call $fail (i32.const 1))", Outcome::Reject(detail())),
    ];
    for (handle, outcome) in cases {
        assert_eq!(load(&handler("", handle)).await.invoke(attempt("")).await.outcome, outcome);
    }
}

#[tokio::test]
async fn a_trap_is_reported_with_its_backtrace() {
    let functions = "(func $inner unreachable) (func $outer (call $inner))";
    let report = load(&handler(functions, "(call $outer) (call $done)")).await.invoke(attempt("")).await;
    let Outcome::Trapped { message, backtrace } = report.outcome else { panic!("{report:?}") };
    assert!(message.contains("unreachable"), "{message}");
    let lines: Vec<&str> = backtrace.lines().collect();
    assert_eq!(lines.len(), 3, "{backtrace}");
    for (line, function) in lines.iter().zip(["inner", "outer", "handle"]) {
        assert!(line.ends_with(&format!("!{function}")) || line.ends_with(&format!(" {function}")), "{backtrace}");
    }
}

#[tokio::test]
async fn guest_faults_are_traps() {
    let cases = [
        ("(func $deep (call $deep))", "(call $deep) (call $done)", "stack exhausted"),
        ("", "(drop (i32.load (i32.const -8))) (call $done)", "out of bounds"),
        ("", "(drop (i32.div_u (i32.const 1) (i32.const 0))) (call $done)", "divide by zero"),
        // Nonsense instead of a result, and instead of a host call's argument.
        ("", "(call $return (i32.const -8) (i32.const 16))", "out of bounds"),
        (
            "",
            "(call $emit (i32.const 77) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (call $done)",
            "discriminant",
        ),
    ];
    for (functions, handle, text) in cases {
        let outcome = load(&handler(functions, handle)).await.invoke(attempt("")).await.outcome;
        assert!(matches!(&outcome, Outcome::Trapped { message, .. } if message.contains(text)), "{outcome:?}");
    }
}

const WASI_IO: &str = "package wasi:io@0.2.0;
    interface error { resource error; }
    interface streams {
        use error.{error};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
    }";
const WASI_CLI: &str = "package wasi:cli@0.2.0;
    interface exit { exit: func(status: result); }
    interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }";
const WASI_WORLD: &str = "package test:wasi;
    world wasi { include gristmill:job/job-handler@0.1.0; import wasi:cli/exit@0.2.0; import wasi:cli/stderr@0.2.0; }";

#[tokio::test]
async fn an_exit_is_a_trap_with_the_guests_last_words() {
    let functions = r#"
        (import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))
        (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
        (data (i32.const 3000) "first\npanicked at x.rs")"#;
    let handle = "(call $write (call $stderr) (i32.const 3000) (i32.const 22) (i32.const 4000))
        (call $exit (i32.const 1)) (call $done)";
    let component = load(&handler_in(&[WASI_IO, WASI_CLI, WASI_WORLD], "wasi", functions, handle)).await;
    assert!(component.imports().iter().any(|name| name == "wasi:cli/exit@0.2.0"));
    let mut attempt = attempt("");
    let lines = listen(&mut attempt);
    let report = component.invoke(attempt).await;
    let Outcome::Trapped { message, .. } = &report.outcome else { panic!("{report:?}") };
    assert_eq!(message, "panicked at x.rs\nfirst\n(exited with code 1)");
    let line = |message: &str| LogLine {
        level: tracing::Level::WARN,
        source: "stderr",
        message: message.into(),
        fields: Vec::new(),
    };
    assert_eq!(*lines.lock(), [line("first"), line("panicked at x.rs")]);
}

#[tokio::test]
async fn a_stopped_attempt_frees_its_place() {
    let component = load(&handler("", "(loop $for_ever (br $for_ever)) (call $done)")).await;
    for _ in 0..50 {
        let attempt = limited("", |limits| limits.timeout = Duration::from_millis(2));
        assert!(matches!(component.invoke(attempt).await.outcome, Outcome::TimedOut { .. }));
    }
    for _ in 0..50 {
        let mut running = Box::pin(component.invoke(limited("", |limits| limits.fuel = u64::MAX)));
        assert!(poll_once(&mut running).await.is_none());
    }
}

#[tokio::test]
async fn a_full_pool_is_no_fault_of_the_job() {
    let cache = tempfile::tempdir().unwrap();
    let wasm = handler("", "(call $checkpoint (i32.const 0) (i32.const 1) (i32.const 4000)) (call $done)");
    let component = sandbox(cache.path()).load(&wasm).await.unwrap();
    let (requests, _kept_open) = tokio::sync::mpsc::channel(100);
    let requests = Arc::new(requests);
    let waiting = || {
        let mut attempt = attempt("");
        let claim = super::host_calls::claim(&attempt);
        attempt.checkpoints = Some(CheckpointSender { claim, requests: Arc::clone(&requests) });
        Box::pin(component.invoke(attempt))
    };
    let mut running = Vec::new();
    let refused = loop {
        let mut next = waiting();
        match poll_once(&mut next).await {
            None => running.push(next),
            Some(report) => break report,
        }
    };
    assert_eq!(refused.outcome, Outcome::PoolFull);
    assert!((1..100).contains(&running.len()), "{}", running.len());
    drop(running);
    assert!(poll_once(&mut waiting()).await.is_none());
}

/// What a future answers when it is polled just once.
async fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
