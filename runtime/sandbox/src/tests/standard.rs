//! Guests that read settings and write log lines by the proposed standards.

use std::sync::Arc;

use super::guest::handler_in;
use super::{attempt, listen, load};
use gristmill_core::outcome::Outcome;

const CONFIG: &str = "package wasi:config@0.2.0-rc.1;
    interface store {
        variant error { upstream(string), io(string) }
        get: func(key: string) -> result<option<string>, error>;
        get-all: func() -> result<list<tuple<string, string>>, error>;
    }";
const LOGGING: &str = "package wasi:logging;
    interface logging {
        enum level { trace, debug, info, warn, error, critical }
        log: func(level: level, context: string, message: string);
    }";
const WORLD: &str = "package test:standard;
    world standard {
        include gristmill:job/job-handler@0.1.0;
        import wasi:config/store@0.2.0-rc.1;
        import wasi:logging/logging;
    }";

fn standard(functions: &str, handle: &str) -> Vec<u8> {
    handler_in(&[CONFIG, LOGGING, WORLD], "standard", functions, handle)
}

#[tokio::test]
async fn settings_are_those_that_the_topic_is_granted() {
    // The answer at 4000: a result of an option of a text, and of a list of pairs.
    let functions = r#"
        (import "wasi:config/store@0.2.0-rc.1" "get" (func $setting (param i32 i32 i32)))
        (import "wasi:config/store@0.2.0-rc.1" "get-all" (func $settings (param i32)))"#;
    let get = "(call $setting (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 4000))
        (if (result i32) (i32.load8_u (i32.const 4004))
          (then (call $return (i32.load (i32.const 4008)) (i32.load (i32.const 4012))))
          (else (call $done)))";
    let count = "(call $settings (i32.const 4000)) (call $return_u64 (i64.load32_u (i32.const 4008)))";
    let said = async |handle: &str, body: &str| {
        let mut attempt = attempt(body);
        Arc::make_mut(&mut attempt.grants).config.insert("colour".into(), "green".into());
        Arc::make_mut(&mut attempt.grants).secrets.insert("key".into(), b"s3cret".to_vec());
        match load(&standard(functions, handle)).await.invoke(attempt).await.outcome {
            Outcome::Complete(result) => result.map(|result| result.data),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(said(get, "colour").await, Some(b"green".to_vec()));
    assert_eq!(said(get, "key").await, None, "a secret is no setting");
    assert_eq!(said(count, "").await, Some(1u64.to_le_bytes().to_vec()));
}

#[tokio::test]
async fn what_is_logged_goes_to_the_jobs_log() {
    let functions = r#"
        (import "wasi:logging/logging" "log" (func $log (param i32 i32 i32 i32 i32)))
        (data (i32.const 3000) "dbout of cheese")"#;
    let handle = "(call $log (i32.const 5) (i32.const 3000) (i32.const 2) (i32.const 3002) (i32.const 13))
        (call $log (i32.const 2) (i32.const 3000) (i32.const 0) (i32.const 3009) (i32.const 6)) unreachable";
    let mut attempt = attempt("");
    let lines = listen(&mut attempt);
    let outcome = load(&standard(functions, handle)).await.invoke(attempt).await.outcome;
    let lines: Vec<_> =
        lines.lock().iter().map(|line| (line.level, line.message.clone(), line.fields.clone())).collect();
    let fields = vec![("context".to_owned(), "db".to_owned())];
    let expected =
        [(tracing::Level::ERROR, "out of cheese".into(), fields), (tracing::Level::INFO, "cheese".into(), Vec::new())];
    assert_eq!(lines, expected);
    let Outcome::Trapped { message, .. } = outcome else { panic!("{outcome:?}") };
    assert!(message.starts_with("out of cheese context=db\n(wasm trap"), "{message}");
}
