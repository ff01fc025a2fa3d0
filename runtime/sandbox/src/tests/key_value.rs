//! Guests that keep keys and values by `wasi:keyvalue`.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::guest::handler_in;
use super::{attempt, load};
use crate::{Report, StateReader, StateRequest};
use gristmill_core::outcome::{Outcome, StateChange};
use gristmill_core::topic::Capability;

const FIRST: &str = "0.2.0-draft";
const SECOND: &str = "0.2.0-draft2";
const DRAFTS: [(&str, &str, &str); 2] = [(FIRST, "u64", "u64"), (SECOND, "string", "s64")];

const CAS: &str = "
            variant cas-error { store-error(error), cas-failed(cas) }
            resource cas {
                new: static func(bucket: borrow<bucket>, key: string) -> result<cas, error>;
                current: func() -> result<option<list<u8>>, error>;
            }
            swap: func(cas: cas, value: list<u8>) -> result<_, cas-error>;";
const CAS_IMPORTS: &str = r#"
        (import "wasi:keyvalue/atomics@0.2.0-draft2" "[static]cas.new" (func $cas (param i32 i32 i32 i32)))
        (import "wasi:keyvalue/atomics@0.2.0-draft2" "[method]cas.current" (func $current (param i32 i32)))
        (import "wasi:keyvalue/atomics@0.2.0-draft2" "[resource-drop]cas" (func $drop (param i32)))
        (import "wasi:keyvalue/atomics@0.2.0-draft2" "swap" (func $swap (param i32 i32 i32 i32)))"#;

/// Numbers as data of a module.
fn words(words: &[u32]) -> String {
    words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("\\{byte:02x}")).collect()
}

/// A handler that imports a draft of `wasi:keyvalue`, whose cursors and numbers have these types.
fn keeper(version: &str, cursor: &str, number: &str, handle: &str) -> Vec<u8> {
    // Only the second draft has handles.
    let (cas, cas_imports) = if version == SECOND { (CAS, CAS_IMPORTS) } else { ("", "") };
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
            {cas}
        }}
        interface batch {{
            use store.{{bucket, error}};
            get-many: func(bucket: borrow<bucket>, keys: list<string>)
                -> result<list<option<tuple<string, list<u8>>>>, error>;
            set-many: func(bucket: borrow<bucket>, key-values: list<tuple<string, list<u8>>>) -> result<_, error>;
            delete-many: func(bucket: borrow<bucket>, keys: list<string>) -> result<_, error>;
        }}"
    );
    let world = format!(
        "package test:keeper;
        world keeper {{
            include gristmill:job/job-handler@0.1.0;
            import wasi:keyvalue/store@{version};
            import wasi:keyvalue/atomics@{version};
            import wasi:keyvalue/batch@{version};
        }}"
    );
    // The texts n, x, y and n; the pairs n and 42, and x and the text y.
    let keys = words(&[3010, 1, 3011, 1, 3012, 1, 3010, 1]);
    let pairs = words(&[3010, 1, 3013, 2, 3011, 1, 3012, 1]);
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
        {cas_imports}
        (import "wasi:keyvalue/batch@{version}" "get-many" (func $read_many (param i32 i32 i32 i32)))
        (import "wasi:keyvalue/batch@{version}" "set-many" (func $set_many (param i32 i32 i32 i32)))
        (import "wasi:keyvalue/batch@{version}" "delete-many" (func $delete_many (param i32 i32 i32 i32)))
        (data (i32.const 3000) "default")
        (data (i32.const 3010) "nxy42")
        (data (i32.const 3100) "{keys}")
        (data (i32.const 3200) "{pairs}")
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
    Arc::make_mut(&mut attempt.job).spec.options.key = Some(key.to_owned());
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
    for (version, cursor, number) in DRAFTS {
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
    let first = keeper(FIRST, "u64", "u64", &list("(i64.const 0)").replace("OFFSET", "8"));
    let second = keeper(SECOND, "string", "s64", &list("(i32.const 0) (i32.const 0)").replace("OFFSET", "4"));
    for wasm in [first, second] {
        let report = kept(&wasm, "cart", Some(r#"{"a":"1","b":"2","c":{"base64":"AA=="}}"#)).await;
        let Outcome::Complete(Some(result)) = &report.outcome else { panic!("{report:?}") };
        assert_eq!((result.data.as_slice(), &report.state), (&3u64.to_le_bytes()[..], &None));
    }
}

/// What the guest returned.
fn said(report: &Report) -> &str {
    let Outcome::Complete(Some(result)) = &report.outcome else { panic!("{report:?}") };
    std::str::from_utf8(&result.data).unwrap()
}

#[tokio::test]
async fn several_keys_are_set_deleted_and_read_with_one_call_each() {
    // Sets `n` and `x`, deletes `y`, and returns what `n` has, of `n`, `x` and `y`.
    let handle = "(call $begin)
        (call $set_many (global.get $bucket) (i32.const 3200) (i32.const 2) (i32.const 4000))
        (if (i32.load8_u (i32.const 4000)) (then (return (call $text (i32.const 4008)))))
        (call $delete_many (global.get $bucket) (i32.const 3116) (i32.const 1) (i32.const 4000))
        (if (i32.load8_u (i32.const 4000)) (then unreachable))
        (call $read_many (global.get $bucket) (i32.const 3100) (i32.const 3) (i32.const 4000))
        (if (i32.ne (i32.load (i32.const 4008)) (i32.const 3)) (then unreachable))
        (local.set $job (i32.load (i32.const 4004)))
        (if (i32.eqz (i32.load8_u offset=20 (local.get $job))) (then unreachable))
        (if (i32.load8_u offset=40 (local.get $job)) (then unreachable))
        (call $text (i32.add (local.get $job) (i32.const 12)))";
    for (version, cursor, number) in DRAFTS {
        let wasm = keeper(version, cursor, number, handle);
        let report = kept(&wasm, "cart", Some(r#"{"a":"1","y":"old"}"#)).await;
        assert_eq!((said(&report), &report.state), ("42", &set(r#"{"a":"1","n":"42","x":"y"}"#)));
        let refused = kept(&wasm, "", None).await;
        assert!(said(&refused).contains("the job has no key") && refused.state.is_none(), "{refused:?}");
    }
}

#[tokio::test]
async fn a_key_that_is_asked_for_often_is_refused_if_the_answer_is_too_large() {
    let handle = "(call $begin)
        (call $read_many (global.get $bucket) (i32.const 3100) (i32.const COUNT) (i32.const 4000))
        (if (i32.eqz (i32.load8_u (i32.const 4000))) (then (return (call $done))))
        (call $text (i32.const 4008))";
    let state = format!(r#"{{"n":"{}"}}"#, "x".repeat(40_000));
    for (version, cursor, number) in DRAFTS {
        let run = async |count: &str| {
            kept(&keeper(version, cursor, number, &handle.replace("COUNT", count)), "cart", Some(&state)).await
        };
        assert_eq!(run("3").await.outcome, Outcome::Complete(None));
        assert!(said(&run("4").await).contains("asks for more than 65536 bytes"));
    }
}

#[tokio::test]
async fn a_value_is_swapped_if_it_is_what_it_was() {
    // Between the handle and its swap `n` is set. The handle that comes with the refusal swaps.
    let handle = "(call $begin)
        (call $cas (global.get $bucket) (i32.const 3010) (i32.const 1) (i32.const 4000))
        (if (i32.load8_u (i32.const 4000)) (then (return (call $text (i32.const 4008)))))
        (local.set $job (i32.load (i32.const 4004)))
        (call $cas (global.get $bucket) (i32.const 3011) (i32.const 1) (i32.const 4000))
        (call $drop (i32.load (i32.const 4004)))
        (call $set (global.get $bucket) (i32.const 3010) (i32.const 1) (i32.const 3012) (i32.const 1) (i32.const 4000))
        (call $swap (local.get $job) (i32.const 3013) (i32.const 2) (i32.const 4000))
        (if (i32.ne (i32.load8_u (i32.const 4000)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load8_u (i32.const 4004)) (i32.const 1)) (then unreachable))
        (local.set $job (i32.load (i32.const 4008)))
        (call $current (local.get $job) (i32.const 4100))
        (if (i32.eqz (i32.load8_u (i32.const 4104))) (then unreachable))
        (call $swap (local.get $job) (i32.const 3013) (i32.const 2) (i32.const 4000))
        (if (i32.load8_u (i32.const 4000)) (then unreachable))
        (call $text (i32.const 4108))";
    let wasm = keeper(SECOND, "string", "s64", handle);
    for state in [None, Some(r#"{"n":"1"}"#)] {
        let report = kept(&wasm, "cart", state).await;
        assert_eq!((said(&report), &report.state), ("y", &set(r#"{"n":"42"}"#)));
    }
    let refused = kept(&wasm, "", None).await;
    assert!(said(&refused).contains("the job has no key") && refused.state.is_none(), "{refused:?}");
}

#[tokio::test]
async fn a_handle_has_no_long_key_and_a_value_that_is_swapped_in_has_its_limit() {
    let handle = "(call $begin)
        (call $cas (global.get $bucket) (i32.const 6000) (i32.const SIZE) (i32.const 4000))
        (if (i32.load8_u (i32.const 4000)) (then (return (call $text (i32.const 4008)))))
        (call $swap (i32.load (i32.const 4004)) (i32.const 0) (i32.const 65000) (i32.const 4000))
        (if (i32.load8_u (i32.const 4000)) (then (return (call $text (i32.const 4012)))))
        (call $done)";
    let run = async |size: &str| {
        let wasm = keeper(SECOND, "string", "s64", &handle.replace("SIZE", size));
        let report = kept(&wasm, "cart", None).await;
        assert_eq!(report.state, None);
        said(&report).to_owned()
    };
    assert!(run("1024").await.contains("at most 65536 bytes"));
    assert!(run("1025").await.contains("at most 1024 bytes"));
}
