//! Core modules that become components as they are loaded, and what stands in for WASI preview 1.

use super::guest::{core, core_module, typed_core_module};
use super::{attempt, listen, load, sandbox};
use crate::{Component, Kind, Report};
use gristmill_core::outcome::Outcome;

const ECHO: &str = "(call $return (call $body (local.get $job)) (call $body_n (local.get $job)))";

/// A core module whose `handle` uses preview 1.
async fn preview1(imports: &str, handle: &str) -> Component {
    load(&core_module(imports, handle)).await
}

fn import(name: &str, parameters: &str) -> String {
    format!("(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param {parameters}) (result i32)))")
}

#[track_caller]
fn result(report: Report) -> Vec<u8> {
    let Outcome::Complete(Some(result)) = report.outcome else { panic!("{report:?}") };
    result.data
}

#[tokio::test]
async fn a_core_module_that_exports_the_handler_becomes_one() {
    let component = load(&core_module("", ECHO)).await;
    assert_eq!(component.kind(), Kind::CoreModule);
    assert_eq!(result(component.invoke(attempt("hello")).await), b"hello");
}

#[tokio::test]
async fn a_core_module_that_carries_its_component_type_becomes_one() {
    let component = load(&typed_core_module(&core("", ECHO))).await;
    assert_eq!(component.kind(), Kind::CoreModule);
    assert_eq!(result(component.invoke(attempt("hello")).await), b"hello");
}

#[tokio::test]
async fn a_core_module_may_have_a_self_test() {
    // err("hi"): the answer is a pointer to a tag, a pointer and a length.
    let check = r#"(func (export "gristmill:job/self-test@0.1.0#check") (result i32)
        (i32.store (i32.const 1024) (i32.const 1))
        (i32.store (i32.const 1028) (i32.const 2103)) (i32.store (i32.const 1032) (i32.const 2))
        (i32.const 1024))"#;
    let component = load(&core_module(check, ECHO)).await;
    let said = component.self_test(&attempt("").limits).await;
    assert_eq!(said.unwrap_err(), "the self-test says: hi");
}

#[tokio::test]
async fn a_core_module_of_the_wrong_type_is_refused_with_what_is_wrong() {
    let wrong = r#"(module (memory (export "memory") 1)
        (func (export "gristmill:job/handler@0.1.0#handle") (param i64)))"#;
    let unknown = core("(import \"acme\" \"query\" (func))", ECHO);
    for (text, part) in [(wrong, "handle"), (unknown.as_str(), "acme")] {
        let cache = tempfile::tempdir().unwrap();
        let error = sandbox(cache.path()).load(&wat::parse_str(text).unwrap()).await.unwrap_err().to_string();
        assert!(error.contains("cannot be made a component") && error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn what_a_core_module_prints_becomes_log_lines() {
    let imports = format!(
        "{}\n(data (i32.const 3000) \"first\\nsecond\\nthird\")
         (func $print (param $fd i32) (param $p i32) (param $n i32)
           (i32.store (i32.const 4000) (local.get $p)) (i32.store (i32.const 4004) (local.get $n))
           (drop (call $fd_write (local.get $fd) (i32.const 4000) (i32.const 1) (i32.const 4008))))",
        import("fd_write", "i32 i32 i32 i32")
    );
    let handle = "(call $print (i32.const 1) (i32.const 3000) (i32.const 8))
        (call $print (i32.const 1) (i32.const 3008) (i32.const 5))
        (call $print (i32.const 2) (i32.const 3013) (i32.const 5))
        (call $return (i32.const 4008) (i32.const 4))";
    let component = preview1(&imports, handle).await;
    let mut attempt = attempt("");
    let lines = listen(&mut attempt);
    assert_eq!(result(component.invoke(attempt).await), [5, 0, 0, 0]);
    let lines = lines.lock();
    let lines: Vec<_> = lines.iter().map(|line| (line.source, line.message.as_str())).collect();
    assert_eq!(lines, [("stdout", "first"), ("stdout", "second"), ("stderr", "third")]);
}

#[tokio::test]
async fn a_long_line_is_written_whole_and_the_modules_memory_is_left_as_it_was() {
    let imports = format!("{}\n(data (i32.const 16) \"twelve bytes\")", import("fd_write", "i32 i32 i32 i32"));
    let handle = "(memory.fill (i32.const 20000) (i32.const 97) (i32.const 10000))
        (i32.store (i32.const 4000) (i32.const 20000)) (i32.store (i32.const 4004) (i32.const 10000))
        (drop (call $fd_write (i32.const 1) (i32.const 4000) (i32.const 1) (i32.const 4008)))
        (call $return (i32.const 16) (i32.const 12))";
    let component = preview1(&imports, handle).await;
    let mut attempt = attempt("");
    let lines = listen(&mut attempt);
    assert_eq!(result(component.invoke(attempt).await), b"twelve bytes");
    assert_eq!(lines.lock().iter().map(|line| line.message.len()).sum::<usize>(), 10_000);
}

#[tokio::test]
async fn the_clock_is_the_stores_and_a_sleep_moves_it_on() {
    let imports = [import("clock_time_get", "i32 i64 i32"), import("poll_oneoff", "i32 i32 i32 i32")].join("\n");
    // The subscription at 3000: to a clock, for an hour. The time before and after it goes to 4000 and 4008.
    let handle = "(drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 4000)))
        (i64.store (i32.const 3024) (i64.const 3600000000000))
        (drop (call $poll_oneoff (i32.const 3000) (i32.const 3100) (i32.const 1) (i32.const 3200)))
        (drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 4008)))
        (call $return (i32.const 4000) (i32.const 16))";
    let mut attempt = attempt("");
    attempt.clock_offset_ms = -1_000_000;
    let before = gristmill_core::time::Timestamp::now().as_millis() - 1_000_000;
    let times = result(preview1(&imports, handle).await.invoke(attempt).await);
    let time = |at: usize| u64::from_le_bytes(times[at..at + 8].try_into().unwrap()) / 1_000_000;
    assert!((before..before + 60_000).contains(&time(0)), "{} after {before}", time(0));
    assert!((3_600_000..3_660_000).contains(&(time(8) - time(0))), "{} then {}", time(0), time(8));
}

#[tokio::test]
async fn random_numbers_are_an_import_and_differ_from_job_to_job() {
    let handle =
        "(drop (call $random_get (i32.const 4001) (i32.const 21))) (call $return (i32.const 4000) (i32.const 23))";
    let component = preview1(&import("random_get", "i32 i32"), handle).await;
    assert!(component.imports().iter().any(|import| import.starts_with("wasi:random/random@")));
    let first = result(component.invoke(attempt("")).await);
    let second = result(component.invoke(attempt("")).await);
    assert_ne!(first, second);
    assert_eq!((first[0], first[22]), (0, 0), "nothing beside the place asked for is written");
    assert!(first[16..22].iter().any(|byte| *byte != 0), "{first:?}");
}

#[tokio::test]
async fn a_core_module_that_exits_says_with_what_code() {
    let exit = "(import \"wasi_snapshot_preview1\" \"proc_exit\" (func $proc_exit (param i32)))";
    let report = preview1(exit, "(call $proc_exit (i32.const 7)) (call $done)").await.invoke(attempt("")).await;
    let Outcome::Trapped { message, .. } = report.outcome else { panic!("{report:?}") };
    assert_eq!(message, "exited with code 7");
}

#[tokio::test]
async fn nothing_is_imported_that_a_core_module_does_not_use() {
    let component = preview1(&import("fd_close", "i32"), "(drop (call $fd_close (i32.const 3))) (call $done)").await;
    let beside_ours: Vec<_> = component.imports().iter().filter(|name| !name.starts_with("gristmill:job/")).collect();
    assert!(beside_ours.is_empty(), "{beside_ours:?}");
}
