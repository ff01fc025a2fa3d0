//! Programs: components that export `wasi:cli/run` and know nothing of a job.

use std::sync::Arc;

use super::guest::{foreign, handler};
use super::{attempt, listen, load};
use crate::{Attempt, Component};
use gristmill_core::job::Payload;
use gristmill_core::outcome::{FailureDetail, LimitName, Outcome};
use gristmill_core::topic::{Adapter, Capability, CodeMeaning, Program};

const WASI: &str = "package test:program;
    world program {
        import wasi:cli/exit@0.2.0;
        import wasi:cli/stdin@0.2.0;
        import wasi:cli/stdout@0.2.0;
        import wasi:cli/stderr@0.2.0;
        export wasi:cli/run@0.2.0;
    }
    package wasi:cli@0.2.0 {
        interface exit { exit: func(status: result); exit-with-code: func(status-code: u8); }
        interface stdin { use wasi:io/streams@0.2.0.{input-stream}; get-stdin: func() -> input-stream; }
        interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }
        interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }
        interface run { run: func() -> result; }
    }
    package wasi:io@0.2.0 {
        interface error { resource error; }
        interface streams {
            use error.{error};
            variant stream-error { last-operation-failed(error), closed }
            resource input-stream { blocking-read: func(len: u64) -> result<list<u8>, stream-error>; }
            resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
        }
    }";

/// A program in WebAssembly text: `run` is the body of its function, whose result is 0 (success) or 1.
fn program(run: &str) -> Vec<u8> {
    let core = format!(
        r#"(module
          (import "wasi:cli/exit@0.2.0" "exit-with-code" (func $exit (param i32)))
          (import "wasi:cli/stdin@0.2.0" "get-stdin" (func $stdin (result i32)))
          (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
          (import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
          (import "wasi:io/streams@0.2.0" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))
          (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
            (func $write (param i32 i32 i32 i32)))
          (memory (export "memory") 4)
          (data (i32.const 3000) "no such file")
          (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536))
          ;; The next bytes of the input go to 65536; returns how many.
          (func $next (param $most i64) (result i32)
            (call $read (call $stdin) (local.get $most) (i32.const 1024))
            (if (result i32) (i32.load8_u (i32.const 1024)) (then (i32.const 0)) (else (i32.load (i32.const 1032)))))
          (func (export "wasi:cli/run@0.2.0#run") (result i32) (local $n i32) {run}))"#
    );
    foreign(&core, WASI, "program")
}

const CAT: &str = "(loop $more
      (local.set $n (call $next (i64.const 4)))
      (if (local.get $n) (then
        (call $write (call $stdout) (i32.const 65536) (local.get $n) (i32.const 2048))
        (br $more))))
    (i32.const 0)";

pub(super) fn command(body: &str, program: Program) -> Attempt {
    Attempt { adapter: Adapter::Command(Arc::new(program)), ..attempt(body) }
}

async fn ended(component: &Component, body: &str) -> Outcome {
    component.invoke(command(body, Program::default())).await.outcome
}

#[tokio::test]
async fn a_program_reads_the_body_and_writes_the_result() {
    let component = load(&program(CAT)).await;
    assert_eq!(component.demands().adapters, [Capability::CommandAdapter]);
    let result = Payload { data: b"hello world".to_vec(), content_type: None };
    assert_eq!(ended(&component, "hello world").await, Outcome::Complete(Some(result)));
    assert_eq!(ended(&component, "").await, Outcome::Complete(None), "what is empty is no result");
}

#[tokio::test]
async fn more_output_than_a_result_may_have_ends_the_program() {
    let component = load(&program(CAT)).await;
    let mut attempt = command("hello world", Program::default());
    attempt.limits.output_bytes = 10;
    let outcome = component.invoke(attempt).await.outcome;
    assert_eq!(outcome, Outcome::LimitExceeded { limit: LimitName::Output, allowed: 10 });
}

#[tokio::test]
async fn what_passes_through_a_programs_streams_costs_fuel() {
    let component = load(&program(CAT)).await;
    let fuel = async |bytes: usize| {
        let report = component.invoke(command(&"x".repeat(bytes), Program::default())).await;
        assert!(matches!(report.outcome, Outcome::Complete(Some(_))), "{report:?}");
        report.fuel
    };
    let (few, many) = (fuel(4).await, fuel(4 + 400).await);
    assert!(many - few >= 400 * 2 + 100 * 4 * 200, "{few} and {many}: in and out, and four calls for each four bytes");
}

#[tokio::test]
async fn the_exit_code_says_what_becomes_of_the_job() {
    let component = load(&program(
        "(drop (call $next (i64.const 1)))
         (call $write (call $stderr) (i32.const 3000) (i32.const 12) (i32.const 2048))
         (call $exit (i32.sub (i32.load8_u (i32.const 65536)) (i32.const 32)))
         (i32.const 0)",
    ))
    .await;
    let code = |code: u8| char::from(code + 32).to_string();
    let detail = |code: &str| FailureDetail { code: code.into(), message: "no such file".into(), context: None };
    assert_eq!(ended(&component, &code(0)).await, Outcome::Complete(None));
    assert_eq!(ended(&component, &code(1)).await, Outcome::Retry { detail: detail("exit-1"), after: None });
    assert_eq!(ended(&component, &code(65)).await, Outcome::Reject(detail("exit-65")));
    let changed = || Program { exit_codes: [(1, CodeMeaning::Dead), (3, CodeMeaning::Ack)].into(), args: Vec::new() };
    let with = async |exit_code| component.invoke(command(&code(exit_code), changed())).await.outcome;
    assert_eq!(with(1).await, Outcome::Reject(detail("exit-1")));
    assert_eq!(with(3).await, Outcome::Complete(None));
}

#[tokio::test]
async fn an_error_without_words_names_its_exit_code() {
    let component = load(&program("(i32.const 1)")).await;
    let detail = FailureDetail { code: "exit-1".into(), message: "exited with code 1".into(), context: None };
    assert_eq!(ended(&component, "").await, Outcome::Retry { detail, after: None });
}

#[tokio::test]
async fn standard_error_is_the_log_and_a_trap_is_a_trap() {
    let write = "(call $write (call $stderr) (i32.const 3000) (i32.const 12) (i32.const 2048)) unreachable";
    let component = load(&program(write)).await;
    let mut attempt = command("", Program::default());
    let lines = listen(&mut attempt);
    let outcome = component.invoke(attempt).await.outcome;
    assert!(matches!(&outcome, Outcome::Trapped { message, .. } if message.contains("no such file")), "{outcome:?}");
    let said: Vec<_> = lines.lock().iter().map(|line| (line.source, line.message.clone())).collect();
    assert_eq!(said, [("stderr", "no such file".to_owned())]);
}

#[tokio::test]
async fn a_component_is_not_called_by_what_it_does_not_export() {
    let program = load(&program(CAT)).await.invoke(attempt("")).await.outcome;
    assert!(matches!(&program, Outcome::HostFault(fault) if fault.contains("Handler")), "{program:?}");
    let handler = ended(&load(&handler("", "(call $done)")).await, "").await;
    assert!(matches!(&handler, Outcome::HostFault(fault) if fault.contains("Command")), "{handler:?}");
}

/// A program of preview 1: `start` is the body of its `_start`.
pub(super) fn preview1(start: &str) -> Vec<u8> {
    let import = |name: &str, parameters: &str| {
        format!("(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param {parameters}) (result i32)))")
    };
    let core = format!(
        r#"(module {} {} {} {} {} {}
          (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
          (memory (export "memory") 2)
          (data (i32.const 16) "twelve bytes")
          (func $print (param $p i32) (param $n i32)
            (i32.store (i32.const 1024) (local.get $p)) (i32.store (i32.const 1028) (local.get $n))
            (drop (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1032))))
          (func (export "_start") {start}))"#,
        import("fd_read", "i32 i32 i32 i32"),
        import("fd_write", "i32 i32 i32 i32"),
        import("args_sizes_get", "i32 i32"),
        import("args_get", "i32 i32"),
        import("environ_sizes_get", "i32 i32"),
        import("environ_get", "i32 i32"),
    );
    wat::parse_str(core).unwrap()
}

#[tokio::test]
async fn a_program_of_preview_1_reads_the_body_and_writes_the_result() {
    // In pieces of five bytes, into the second of two buffers, since the first has no room.
    let cat = "(i32.store (i32.const 1048) (i32.const 4096)) (i32.store (i32.const 1052) (i32.const 5))
        (loop $more
          (drop (call $fd_read (i32.const 0) (i32.const 1040) (i32.const 2) (i32.const 1056)))
          (if (i32.load (i32.const 1056)) (then
            (call $print (i32.const 4096) (i32.load (i32.const 1056)))
            (br $more))))
        (call $print (i32.const 16) (i32.const 12))";
    let component = load(&preview1(cat)).await;
    assert_eq!(component.demands().adapters, [Capability::CommandAdapter]);
    assert!(component.demands().grants.is_empty(), "{:?}", component.imports());
    let result = Payload { data: b"hello worldtwelve bytes".to_vec(), content_type: None };
    assert_eq!(ended(&component, "hello world").await, Outcome::Complete(Some(result)));
}

#[tokio::test]
async fn a_program_of_preview_1_finds_its_arguments_and_its_environment() {
    let texts = |of: &str| {
        format!(
            "(drop (call ${of}_sizes_get (i32.const 1040) (i32.const 1044)))
             (drop (call ${of}_get (i32.const 2000) (i32.const 4096)))
             (call $print (i32.const 4096) (i32.load (i32.const 1044)))
             ;; The last of them, by its place in the list.
             (call $print
               (i32.load (i32.add (i32.const 1996) (i32.mul (i32.load (i32.const 1040)) (i32.const 4)))) (i32.const 4))"
        )
    };
    let print = format!("{}{} (call $print (i32.const 16) (i32.const 12))", texts("args"), texts("environ"));
    let component = load(&preview1(&print)).await;
    let mut attempt =
        command("", Program { args: vec!["--colour".into(), "".into(), "never".into()], ..Program::default() });
    Arc::make_mut(&mut attempt.grants).env.insert("ZONE".into(), "a=b".into());
    let Outcome::Complete(Some(result)) = component.invoke(attempt).await.outcome else { panic!("no result") };
    let said = String::from_utf8(result.data).unwrap();
    assert!(said.starts_with("resize\0--colour\0\0never\0neveGRISTMILL_ATTEMPT=1\0"), "{said:?}");
    assert!(said.ends_with("\0GRISTMILL_TOPIC=resize\0ZONE=a=b\0ZONEtwelve bytes"), "{said:?}");
}

#[tokio::test]
async fn the_exit_code_of_a_program_of_preview_1_is_exact() {
    for code in [1, 3, 65, 255] {
        let component = load(&preview1(&format!("(call $proc_exit (i32.const {code}))"))).await;
        let outcome = ended(&component, "").await;
        let (Outcome::Retry { detail, .. } | Outcome::Reject(detail)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(detail.code, format!("exit-{code}"));
    }
    let component = load(&preview1("(call $proc_exit (i32.const 0))")).await;
    assert_eq!(ended(&component, "").await, Outcome::Complete(None));
}
