//! Guests that read settings, write log lines and keep values by the proposed standards.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::guest::handler_in;
use super::{attempt, listen, load};
use crate::{Report, StateReader, StateRequest};
use gristmill_core::outcome::{Outcome, StateChange};
use gristmill_core::topic::Capability;

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

/// A handler that imports a draft of `wasi:keyvalue`, whose cursors and numbers have these types.
fn keeper(version: &str, cursor: &str, number: &str, handle: &str) -> Vec<u8> {
    let package = format!(
        "package wasi:keyvalue@{version};
        interface store {{
            variant error {{ no-such-store, access-denied, other(string) }}
            record key-response {{ keys: list<string>, cursor: option<{cursor}> }}
            open: func(identifier: string) -> result<bucket, error>;
            resource bucket {{
                get: func(key: string) -> result<option<list<u8>>, error>;
                set: func(key: string, value: list<u8>) -> result<_, error>;
                delete: func(key: string) -> result<_, error>;
                exists: func(key: string) -> result<bool, error>;
                list-keys: func(cursor: option<{cursor}>) -> result<key-response, error>;
            }}
        }}
        interface atomics {{
            use store.{{bucket, error}};
            increment: func(bucket: borrow<bucket>, key: string, delta: {number}) -> result<{number}, error>;
        }}"
    );
    let world = format!(
        "package test:keeper;
        world keeper {{
            include gristmill:job/job-handler@0.1.0;
            import wasi:keyvalue/store@{version};
            import wasi:keyvalue/atomics@{version};
        }}"
    );
    // A cursor is an option of a number, or of a pointer and a length.
    let cursor = if cursor == "u64" { "i32 i64" } else { "i32 i32 i32" };
    let functions = format!(
        r#"
        (import "wasi:keyvalue/store@{version}" "open" (func $open (param i32 i32 i32)))
        (import "wasi:keyvalue/store@{version}" "[method]bucket.get" (func $read (param i32 i32 i32 i32)))
        (import "wasi:keyvalue/store@{version}" "[method]bucket.exists" (func $exists (param i32 i32 i32 i32)))
        (import "wasi:keyvalue/store@{version}" "[method]bucket.set" (func $set (param i32 i32 i32 i32 i32 i32)))
        (import "wasi:keyvalue/store@{version}" "[method]bucket.delete" (func $delete (param i32 i32 i32 i32)))
        (import "wasi:keyvalue/store@{version}" "[method]bucket.list-keys" (func $list (param i32 {cursor} i32)))
        (import "wasi:keyvalue/atomics@{version}" "increment" (func $increment (param i32 i32 i32 i64 i32)))
        (data (i32.const 3000) "default")
        (data (i32.const 3010) "nxy")
        (global $bucket (mut i32) (i32.const 0))
        (func $begin
          (call $open (i32.const 3000) (i32.const 7) (i32.const 4000))
          (if (i32.load8_u (i32.const 4000)) (then unreachable))
          (global.set $bucket (i32.load (i32.const 4004))))
        (func $text (param $at i32) (result i32) (call $return (i32.load (local.get $at)) (i32.load offset=4 (local.get $at))))"#
    );
    handler_in(&[package.as_str(), world.as_str()], "keeper", &functions, handle)
}

/// One attempt at a job of a key with this state.
async fn kept(wasm: &[u8], key: &str, state: Option<&str>) -> Report {
    let (requests, mut received) = mpsc::channel::<StateRequest>(1);
    let state = state.map(|state| state.as_bytes().to_vec());
    tokio::spawn(async move {
        while let Some(request) = received.recv().await {
            request.reply.send(Ok(state.clone())).unwrap();
        }
    });
    let mut attempt = attempt(b"\xff\0".to_vec());
    Arc::make_mut(&mut attempt.job).spec.key = Some(key.to_owned());
    Arc::make_mut(&mut attempt.grants).switches.insert(Capability::State);
    attempt.states = Some(StateReader(requests));
    load(wasm).await.invoke(attempt).await
}

fn set(state: &str) -> Option<StateChange> {
    Some(StateChange::Set(state.as_bytes().to_vec()))
}

#[tokio::test]
async fn keys_and_values_are_the_state_of_the_jobs_key() {
    // Adds 5 to `n`, sets `x` to the body, deletes `y`, and returns `n`.
    let handle = "(call $begin)
        (call $increment (global.get $bucket) (i32.const 3010) (i32.const 1) (i64.const 5) (i32.const 4000))
        (call $set (global.get $bucket) (i32.const 3011) (i32.const 1)
            (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 4000))
        (call $delete (global.get $bucket) (i32.const 3012) (i32.const 1) (i32.const 4000))
        (call $exists (global.get $bucket) (i32.const 3012) (i32.const 1) (i32.const 4000))
        (if (i32.and (i32.eqz (i32.load8_u (i32.const 4000))) (i32.load8_u (i32.const 4004))) (then unreachable))
        (call $read (global.get $bucket) (i32.const 3010) (i32.const 1) (i32.const 4000))
        (if (i32.load8_u (i32.const 4000)) (then (return (call $text (i32.const 4008)))))
        (if (i32.eqz (i32.load8_u (i32.const 4004))) (then unreachable))
        (call $text (i32.const 4008))";
    for (version, cursor, number) in [("0.2.0-draft", "u64", "u64"), ("0.2.0-draft2", "string", "s64")] {
        let wasm = keeper(version, cursor, number, handle);
        for (state, sum) in [(None, "5"), (Some(r#"{"n":"37","y":"old"}"#), "42")] {
            let report = kept(&wasm, "cart", state).await;
            let Outcome::Complete(Some(result)) = &report.outcome else { panic!("{version}: {report:?}") };
            assert_eq!(String::from_utf8_lossy(&result.data), sum);
            assert_eq!(report.state, set(&format!(r#"{{"n":"{sum}","x":{{"base64":"/wA="}}}}"#)));
        }
        for (key, state, problem) in [("", None, "the job has no key"), ("cart", Some("plain"), "is no JSON object")] {
            let report = kept(&wasm, key, state).await;
            let Outcome::Complete(Some(result)) = &report.outcome else { panic!("{version}: {report:?}") };
            let said = String::from_utf8_lossy(&result.data);
            assert!(said.contains(problem) && report.state.is_none(), "{said} {:?}", report.state);
        }
    }
}

#[tokio::test]
async fn all_keys_are_listed_at_once_and_there_is_one_bucket() {
    let list = |none: &str| {
        format!(
            "(call $open (i32.const 3001) (i32.const 2) (i32.const 4000))
            (if (i32.ne (i32.load16_u (i32.const 4000)) (i32.const 1)) (then unreachable))
            (call $begin)
            (call $list (global.get $bucket) (i32.const 0) {none} (i32.const 4000))
            (call $return_u64 (i64.extend_i32_u (i32.load (i32.add (i32.const 4004) (i32.const OFFSET)))))"
        )
    };
    // The keys stand behind the sign of the result, aligned like the cursor.
    let first = keeper("0.2.0-draft", "u64", "u64", &list("(i64.const 0)").replace("OFFSET", "8"));
    let second = keeper("0.2.0-draft2", "string", "s64", &list("(i32.const 0) (i32.const 0)").replace("OFFSET", "4"));
    for wasm in [first, second] {
        let report = kept(&wasm, "cart", Some(r#"{"a":"1","b":"2","c":{"base64":"AA=="}}"#)).await;
        let Outcome::Complete(Some(result)) = &report.outcome else { panic!("{report:?}") };
        assert_eq!((result.data.as_slice(), &report.state), (&3u64.to_le_bytes()[..], &None));
    }
}
