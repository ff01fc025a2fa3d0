//! Files that are refused, with the text for their author; and artifacts that are used again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::guest::{component, core_module as core_handler, foreign, handler};
use super::{attempt, load, sandbox, settings};
use crate::validate::{Kind, validate};
use crate::{CompilerProcess, CompilerSettings, LoadError, Sandbox, SandboxSettings, core_module, engine};
use gristmill_core::outcome::Outcome;
use gristmill_core::topic::Limits;

async fn refusal(wasm: &[u8]) -> String {
    let cache = tempfile::tempdir().unwrap();
    sandbox(cache.path()).load(wasm).await.unwrap_err().to_string()
}

#[track_caller]
fn assert_says(refusal: &str, parts: &[&str]) {
    for part in parts {
        assert!(refusal.contains(part), "{part:?} is missing from: {refusal}");
    }
}

#[tokio::test]
async fn what_is_no_component_is_refused_with_the_remedy() {
    let core_module = wat::parse_str("(module)").unwrap();
    let artifact = engine::compiling(None).unwrap().precompile_component(&handler("", "(call $done)")).unwrap();
    assert_says(&refusal(b"").await, &["empty"]);
    assert_says(&refusal(b"#!/bin/sh\n").await, &["no WebAssembly"]);
    assert_says(&refusal(b" (module)").await, &["text", "wasm-tools parse"]);
    assert_says(&refusal(&core_module).await, &["core module", "wasm32-wasip2", "gristmill:job/handler@0.1.0#handle"]);
    assert_says(&refusal(&artifact).await, &["precompiled", ".wasm"]);
}

#[tokio::test]
async fn a_truncated_file_is_distinguished_from_a_broken_one() {
    let wasm = handler("", "(call $done)");
    for bytes in [3, 7, wasm.len() / 2, wasm.len() - 1] {
        let cache = tempfile::tempdir().unwrap();
        let error = sandbox(cache.path()).load(&wasm[..bytes]).await.unwrap_err();
        assert!(matches!(error, LoadError::Truncated { .. }), "{bytes} bytes: {error}");
    }
    let mut broken = wasm;
    broken[8] = 0x7f;
    assert_says(&refusal(&broken).await, &["cannot be read at byte"]);
}

#[tokio::test]
async fn bytes_behind_a_whole_component_are_not_called_a_file_that_ends_early() {
    let wasm = handler("", "(call $done)");
    let end = wasm.len();
    for extra in [&b"\n"[..], b"\r\n", b"\0\0\0\0", b"\x1a", b"-- signed by ada\n", &wasm] {
        let said = refusal(&[&wasm, extra].concat()).await;
        assert_says(&said, &[&format!("ends at byte {end}"), &format!("{} bytes follow", extra.len())]);
        assert!(!said.contains("early"), "{said}");
    }
    let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x04\x01\x02\0\x0b";
    assert_says(&refusal(&[&module[..], b"\n"].concat()).await, &["ends at byte 24"]);
}

#[tokio::test]
async fn size_and_complexity_are_limited() {
    let wasm = handler("", "(call $done)");
    let cache = tempfile::tempdir().unwrap();
    let mut settings = settings(cache.path());
    settings.compiler.component_bytes = wasm.len() as u64 - 1;
    let error = Sandbox::new(&settings).unwrap().load(&wasm).await.unwrap_err().to_string();
    assert_says(&error, &["over the limit", "raise the limit"]);

    let huge = foreign("(module (memory 20000))", "package a:b; world w {}", "w");
    assert_says(&refusal(&huge).await, &["bytes of memory to begin with", "1073741824"]);
}

#[tokio::test]
async fn an_unknown_import_is_named_and_so_is_what_is_allowed() {
    let core = r#"(module (import "acme:db/sql@1.0.0" "query" (func)) (func (export "f") call 0))"#;
    let wit = "package acme:db@1.0.0; interface sql { query: func(); } world w { import sql; export f: func(); }";
    assert_says(&refusal(&foreign(core, wit, "w")).await, &["acme:db/sql@1.0.0", "wasi:{cli,", "gristmill:job/{"]);
}

#[tokio::test]
async fn exports_are_checked_by_type() {
    let none = foreign("(module (func (export \"f\")))", "package a:b; world w { export f: func(); }", "w");
    assert_says(&refusal(&none).await, &["exports neither `gristmill:job/handler@0.1.0`", "`wasi:cli/run@0.2"]);

    let wit = "package gristmill:job@0.1.0; interface handler { handle: func(job: u32); } world w { export handler; }";
    let core = r#"(module (func (export "gristmill:job/handler@0.1.0#handle") (param i32)))"#;
    assert_says(&refusal(&foreign(core, wit, "w")).await, &["`handle` of another type"]);
}

#[tokio::test]
async fn code_that_does_not_validate_is_refused_by_the_compiler() {
    let mut wasm = handler("(data (i32.const 6000) \"some marker here\")", "(call $done)");
    // A memory alignment of 2^255 is well-formed and never valid.
    let call = wasm.windows(4).position(|bytes| bytes == [0x28, 0x02, 24, 0x0b]).unwrap();
    wasm[call + 1] = 0x1f;
    assert_says(&refusal(&wasm).await, &["does not compile"]);
}

#[tokio::test]
async fn a_module_with_two_memories_is_refused_by_the_pool() {
    assert_says(&refusal(&handler("(memory 1)", "(call $done)")).await, &["memories"]);
}

#[tokio::test]
async fn the_same_bytes_are_compiled_once() {
    let cache = tempfile::tempdir().unwrap();
    let wasm = handler("", "(call $done)");
    let first = sandbox(cache.path()).load(&wasm).await.unwrap();
    let process = CompilerProcess::Child { program: "/nowhere/gristmill".into(), memory_bytes: 1 << 30 };
    let compiler = CompilerSettings { process, ..CompilerSettings::default() };
    let without_compiler = Sandbox::new(&SandboxSettings { compiler, ..settings(cache.path()) }).unwrap();
    let second = without_compiler.load(&wasm).await.unwrap();
    assert_eq!(first.version(), second.version());
    assert_eq!(second.invoke(attempt("")).await.outcome, Outcome::Complete(None));

    let other = handler("", "(drop (call $now)) (call $done)");
    let error = without_compiler.load(&other).await.unwrap_err();
    assert!(matches!(error, LoadError::RunCompiler { .. }), "{error}");
}

/// The files of a cache, of which tests expect few.
fn artifacts(cache: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file()).collect()
}

#[tokio::test]
async fn a_damaged_artifact_is_replaced() {
    let cache = tempfile::tempdir().unwrap();
    let wasm = handler("", "(call $done)");
    drop(sandbox(cache.path()).load(&wasm).await.unwrap());
    let artifact = artifacts(cache.path()).remove(0);
    let whole = fs::read(&artifact).unwrap();
    // Wherever the disk changes a bit: what would run is other code, and wasmtime does not notice.
    let rotten = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damages =
        [b"not an artifact".to_vec(), rotten(whole.len() / 2), rotten(whole.len() - 40), rotten(whole.len() - 1)];
    for damaged in damages {
        fs::set_permissions(&artifact, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&artifact, damaged).unwrap();
        let component = sandbox(cache.path()).load(&wasm).await.unwrap();
        assert_eq!(component.invoke(attempt("")).await.outcome, Outcome::Complete(None));
        assert!(fs::read(&artifact).unwrap() == whole, "it was compiled again");
    }
}

#[tokio::test]
async fn what_is_refused_leaves_no_artifact() {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = sandbox(cache.path());
    let compiles = wat::parse_str("(component (core module (func)))").unwrap();
    sandbox.load(&compiles).await.unwrap_err();
    assert!(artifacts(cache.path()).is_empty());
    // Its self-test may still refuse it.
    let prepared = sandbox.prepare(&handler("", "(call $done)")).await.unwrap();
    let component = prepared.component().clone();
    drop(prepared);
    assert!(artifacts(cache.path()).is_empty());
    assert_eq!(component.invoke(attempt("")).await.outcome, Outcome::Complete(None), "it stays in memory");
    let prepared = sandbox.prepare(&handler("", "(call $done)")).await.unwrap();
    prepared.keep().await;
    assert_eq!(artifacts(cache.path()).len(), 1);
}

#[tokio::test]
async fn a_component_says_what_it_is() {
    let component = load(&handler("", "(call $done)")).await;
    assert!(component.imports().contains(&"gristmill:job/log@0.1.0".to_owned()), "{:?}", component.imports());
    let needs = component.needs().unwrap();
    assert_eq!((needs.memories, needs.memory_bytes), (1, 64 << 10));
    assert!(!component.has_self_test());
    assert_eq!(component.self_test(&Limits::default()).await, Ok(()));
}

#[tokio::test]
async fn a_self_test_can_fail_in_every_way() {
    let with_check = |check: &str| {
        let core = format!(
            r#"(module (memory (export "memory") 1) (data (i32.const 64) "sick")
                 (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
                 (func (export "gristmill:job/handler@0.1.0#handle") (param i32) (result i32) unreachable)
                 (func (export "gristmill:job/self-test@0.1.0#check") (result i32) {check}))"#
        );
        component(&core, &[], "job-handler-full")
    };
    let says = "(i32.store (i32.const 0) (i32.const 1)) (i32.store (i32.const 4) (i32.const 64))
        (i32.store (i32.const 8) (i32.const 4)) (i32.const 0)";
    let limits = Limits { fuel: 1_000, ..Limits::default() };
    let cases = [
        (says, "the self-test says: sick"),
        ("unreachable", "the self-test trapped: wasm trap: wasm `unreachable`"),
        ("(loop (br 0)) (i32.const 0)", "the self-test used up its fuel of 1k"),
    ];
    for (check, text) in cases {
        let component = load(&with_check(check)).await;
        assert!(component.has_self_test());
        assert_says(&component.self_test(&limits).await.unwrap_err(), &[text]);
    }
    assert_eq!(load(&with_check("(i32.const 0)")).await.self_test(&limits).await, Ok(()));
}

#[test]
fn made_up_components_are_validated_or_refused() {
    let (small, module) = (handler("", "(call $done)"), core_handler("", "(call $done)"));
    gristmill_fuzz::check("component", &[&small, &module, b"\0asm", b"(module)"], |input| {
        validate(input, 1 << 20).map(|shape| (shape.kind, shape.is_composed)).map_err(|error| error.to_string())
    });
}

#[test]
fn made_up_core_modules_become_components_or_are_refused() {
    gristmill_fuzz::check("core-module", &[&core_handler("", "(call $done)")], |input| {
        let shape = validate(input, 1 << 20).map_err(|error| error.to_string())?;
        if shape.kind == Kind::CoreModule {
            core_module::into_component(input).map(drop)
        } else {
            Err("a component".into())
        }
    });
}
