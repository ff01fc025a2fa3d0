//! What guests have the host keep for them: unread bodies, headers, requests.

use super::guest::handler_in;
use super::{attempt, limited, load};
use crate::{Component, Report};
use gristmill_core::outcome::Outcome;

const IO: &str = "package wasi:io@0.2.0;
    interface error { resource error; }
    interface streams {
        use error.{error};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream {
            check-write: func() -> result<u64, stream-error>;
            write: func(contents: list<u8>) -> result<_, stream-error>;
        }
    }";
const HTTP: &str = "package wasi:http@0.2.0;
    interface types {
        use wasi:io/streams@0.2.0.{output-stream};
        variant header-error { invalid-syntax, forbidden, immutable }
        variant method { get, head, post, put, delete, connect, options, trace, patch, other(string) }
        resource fields {
            constructor();
            append: func(name: string, value: list<u8>) -> result<_, header-error>;
        }
        resource outgoing-request {
            constructor(headers: fields);
            set-method: func(method: method) -> result;
            body: func() -> result<outgoing-body>;
        }
        resource outgoing-response { constructor(headers: fields); body: func() -> result<outgoing-body>; }
        resource outgoing-body { write: func() -> result<output-stream>; }
    }";
const WORLD: &str = "package test:hog;
    world hog {
        include gristmill:job/job-handler@0.1.0;
        import wasi:http/types@0.2.0; import wasi:io/streams@0.2.0;
    }";
const FUNCTIONS: &str = r#"
    (import "wasi:http/types@0.2.0" "[constructor]fields" (func $fields (result i32)))
    (import "wasi:http/types@0.2.0" "[method]fields.append" (func $append (param i32 i32 i32 i32 i32 i32)))
    (import "wasi:http/types@0.2.0" "[constructor]outgoing-request" (func $request (param i32) (result i32)))
    (import "wasi:http/types@0.2.0" "[method]outgoing-request.set-method" (func $method (param i32 i32 i32 i32) (result i32)))
    (import "wasi:http/types@0.2.0" "[method]outgoing-request.body" (func $request_body (param i32 i32)))
    (import "wasi:http/types@0.2.0" "[constructor]outgoing-response" (func $response (param i32) (result i32)))
    (import "wasi:http/types@0.2.0" "[method]outgoing-response.body" (func $response_body (param i32 i32)))
    (import "wasi:http/types@0.2.0" "[resource-drop]outgoing-request" (func $drop_request (param i32)))
    (import "wasi:http/types@0.2.0" "[method]outgoing-body.write" (func $stream (param i32 i32)))
    (import "wasi:http/types@0.2.0" "[resource-drop]outgoing-body" (func $drop_body (param i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.check-write" (func $check (param i32 i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
    (import "wasi:io/streams@0.2.0" "[resource-drop]output-stream" (func $drop_stream (param i32)))
    (global $handle (mut i32) (i32.const 0))
    (func $fill (param $body i32) (local $stream i32)
      (call $stream (local.get $body) (i32.const 4096)) (local.set $stream (i32.load (i32.const 4100)))
      (loop $more
        (call $check (local.get $stream) (i32.const 4096))
        (if (i64.gt_u (i64.load (i32.const 4104)) (i64.const 0))
          (then
            (call $write (local.get $stream) (i32.const 65536) (i32.wrap_i64 (i64.load (i32.const 4104))) (i32.const 4200))
            (br $more))))
      (call $drop_stream (local.get $stream)) (call $drop_body (local.get $body)))"#;

/// A guest that does this eight times as often as the first byte of the job's body says.
async fn hog(again: &str) -> Component {
    let handle = format!(
        "(local $times i32)
         (drop (memory.grow (i32.const 33)))
         (memory.fill (i32.const 65536) (i32.const 97) (i32.const 2097152))
         (local.set $times (i32.shl (i32.load8_u (call $body (local.get $job))) (i32.const 3)))
         (loop $again {again} (br_if $again (local.tee $times (i32.sub (local.get $times) (i32.const 1)))))
         (call $done)"
    );
    load(&handler_in(&[IO, HTTP, WORLD], "hog", FUNCTIONS, &handle)).await
}

const REQUEST: &str = "(global.set $handle (call $request (call $fields)))";

fn body_of(kind: &str) -> String {
    format!(
        "(global.set $handle (call ${kind} (call $fields)))
         (call ${kind}_body (global.get $handle) (i32.const 4096)) (call $fill (i32.load (i32.const 4100)))"
    )
}

fn held(report: &Report) -> u64 {
    report.memory_peak >> 20
}

#[tokio::test]
async fn what_the_host_keeps_for_a_guest_is_bounded() {
    let headers = "(call $append (call $fields) (i32.const 65536) (i32.const 8) (i32.const 65600) (i32.const 60000) (i32.const 4096))";
    let method = format!(
        "{REQUEST} (drop (call $method (global.get $handle) (i32.const 9) (i32.const 65536) (i32.const 1000000)))"
    );
    for again in [&body_of("request"), &body_of("response"), headers, &method] {
        let report = hog(again).await.invoke(limited([120], |limits| limits.fuel = u64::MAX)).await;
        assert!(matches!(report.outcome, Outcome::MemoryExceeded { .. }), "{again}: {report:?}");
        assert!((16..40).contains(&held(&report)), "{again}: {report:?}");
    }
}

#[tokio::test]
async fn what_is_dropped_is_not_counted() {
    let again = format!("{} (call $drop_request (global.get $handle))", body_of("request"));
    let report = hog(&again).await.invoke(limited([200], |limits| limits.fuel = u64::MAX)).await;
    assert!(matches!(report.outcome, Outcome::Complete(_)), "{report:?}");
    assert!(held(&report) < 4, "{report:?}");
}

#[tokio::test]
async fn an_instance_that_holds_bodies_is_not_kept() {
    for (again, is_kept) in [(body_of("request"), false), (REQUEST.to_owned(), true)] {
        let component = hog(&again).await;
        let pool = component.instance_pool(4);
        for _ in 0..2 {
            let report = pool.invoke(&component, attempt([1])).await;
            assert!(matches!(report.outcome, Outcome::Complete(_)), "{report:?}");
        }
        assert_eq!(component.0.idle.kept().0, u64::from(is_kept), "{again}");
    }
}
