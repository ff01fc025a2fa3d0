//! Hostile components from WebAssembly text: what no toolchain would make.

use gristmill_tests::text::component_of_text;

use super::super::is_long;

/// A handler as a core module with two and a half megabytes of memory. `handle` may use the parameter `$job` and the local `$i`;
/// without more it completes with no result.
pub(super) fn handler(items: &str, handle: &str) -> Vec<u8> {
    with_realloc(items, handle, "(local.get $p)")
}

fn with_realloc(items: &str, handle: &str, realloc: &str) -> Vec<u8> {
    let (imports, items): (Vec<&str>, Vec<&str>) = items.lines().partition(|line| line.contains("(import "));
    let core = format!(
        r#"(module {imports}
          (memory (export "memory") 40)
          (global $top (mut i32) (i32.const 8192))
          (func (export "cabi_realloc") (param i32 i32 i32) (param $n i32) (result i32)
            (local $p i32)
            (local.set $p (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
            (global.set $top (i32.add (local.get $p) (local.get $n)))
            {realloc})
          {items}
          (func (export "gristmill:job/handler@0.1.0#handle") (param $job i32) (result i32)
            (local $i i32) {handle} (i32.const 1024)))"#,
        imports = imports.join("\n"),
        items = items.join("\n"),
    );
    wat::parse_str(core).unwrap()
}

fn for_ever(call: &str) -> String {
    format!("(loop $for_ever {call} (br $for_ever))")
}

fn self_test(work: &str) -> String {
    format!("(func (export \"gristmill:job/self-test@0.1.0#check\") (result i32) {work} (i32.const 1024))")
}

const FD_WRITE: &str =
    r#"(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))"#;
const POLL: &str =
    r#"(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#;
const EMIT: &str = r#"(import "gristmill:job/log@0.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32)))"#;
const GET: &str = r#"(import "gristmill:job/config@0.1.0" "get" (func $get (param i32 i32 i32)))"#;
const FUEL: &str = r#"(import "gristmill:job/context@0.1.0" "fuel-remaining" (func $fuel (result i64)))"#;
const CHECKPOINT: &str =
    r#"(import "gristmill:job/context@0.1.0" "checkpoint" (func $checkpoint (param i32 i32 i32)))"#;
const PROGRESS: &str = r#"(import "gristmill:job/context@0.1.0" "progress" (func $progress (param i32 i32 i32 i32)))"#;
const RANDOM: &str = r#"(import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))"#;

const TIMEOUT: &[&str] = &["timeout"];
const TRAP: &[&str] = &["trap"];
const REFUSED: &[&str] = &["handler-refused"];

/// Name, component, and the verdicts that are right.
type Hostile = (&'static str, Vec<u8>, &'static [&'static str]);

/// Of each topic.
pub(super) fn all() -> [(&'static str, Vec<Hostile>); 3] {
    [("endless", running()), ("text", trapping()), ("text", refused())]
}

/// What only its deadline ends.
fn running() -> Vec<Hostile> {
    let newlines = "(memory.fill (i32.const 65536) (i32.const 10) (i32.const 1048576))
        (i32.store (i32.const 4000) (i32.const 65536)) (i32.store (i32.const 4004) (i32.const 1048576))";
    let print = for_ever("(drop (call $fd_write (i32.const 1) (i32.const 4000) (i32.const 1) (i32.const 5000)))");
    let pieces = for_ever("(drop (call $fd_write (i32.const 1) (i32.const 65536) (i32.const 1000) (i32.const 5000)))");
    let emit =
        for_ever("(call $emit (i32.const 2) (i32.const 5000) (i32.const 0) (i32.const 131072) (i32.const 20000))");
    let get = for_ever("(call $get (i32.const 131072) (i32.const 1000000) (i32.const 4000))");
    let checkpoint = for_ever("(call $checkpoint (i32.const 131072) (i32.const 65000) (i32.const 4000))");
    let progress = for_ever("(call $progress (i32.const 1) (i32.const 1) (i32.const 131072) (i32.const 1000000))");
    let sleep = "(i64.store (i32.const 3024) (i64.const 3600000000000))
        (drop (call $poll (i32.const 3000) (i32.const 3100) (i32.const 1) (i32.const 3200)))";
    let polls = for_ever("(drop (call $poll (i32.const 131072) (i32.const 1000000) (i32.const 900) (i32.const 3200)))");
    let fill = for_ever("(memory.fill (i32.const 65536) (i32.const 10) (i32.const 2000000))");
    let copy = for_ever("(memory.copy (i32.const 65536) (i32.const 65537) (i32.const 2000000))");
    let endless_realloc = for_ever("(nop)") + "unreachable";
    vec![
        ("prints newlines", handler(FD_WRITE, &format!("{newlines} {print}")), TIMEOUT),
        ("prints in a thousand pieces", handler(FD_WRITE, &pieces), TIMEOUT),
        ("logs 20,000 fields", handler(EMIT, &emit), TIMEOUT),
        ("asks for settings with long names", handler(GET, &get), TIMEOUT),
        ("asks for its fuel for ever", handler(FUEL, &for_ever("(drop (call $fuel))")), TIMEOUT),
        ("saves checkpoints for ever", handler(CHECKPOINT, &checkpoint), &["timeout", "trap"]),
        ("reports progress for ever", handler(PROGRESS, &progress), &["timeout", "trap"]),
        // Preview 1 has a clock of its own here, which a sleep moves on.
        ("sleeps for an hour by poll", handler(POLL, sleep), &["complete", "timeout"]),
        ("polls 900 things for ever", handler(POLL, &polls), &["timeout", "trap"]),
        ("fills memory for ever", handler("", &fill), TIMEOUT),
        ("copies memory for ever", handler("", &copy), TIMEOUT),
        ("never allocates", with_realloc("", "", &endless_realloc), TIMEOUT),
    ]
}

fn trapping() -> Vec<Hostile> {
    let recursion = "(type $t (func)) (table 1 funcref) (elem (i32.const 0) $r)
        (func $r (call_indirect (type $t) (i32.const 0)) (call_indirect (type $t) (i32.const 0)))";
    let long_result = "(i32.store (i32.const 1040) (i32.const 1)) (i32.store (i32.const 1044) (i32.const 4096))
        (i32.store (i32.const 1048) (i32.const 0x7fffffff))";
    let bad_text = "(i32.store8 (i32.const 2100) (i32.const 0xff)) (i32.store (i32.const 1024) (i32.const 1))
        (i32.store (i32.const 1040) (i32.const 2100)) (i32.store (i32.const 1044) (i32.const 1))";
    let table = "(table $t 1 funcref) (func $f) (elem declare func $f)";
    vec![
        (
            "grows its memory for ever",
            handler("", &for_ever("(drop (memory.grow (i32.const 16)))")),
            &["memory-exceeded", "timeout"],
        ),
        (
            "grows a table for ever",
            handler(table, &for_ever("(drop (table.grow $t (ref.func $f) (i32.const 100000)))")),
            &["memory-exceeded", "timeout", "trap"],
        ),
        ("calls itself by a table", handler(recursion, "(call $r)"), TRAP),
        ("divides by nothing", handler("", "(drop (i32.div_u (i32.const 1) (local.get $i)))"), TRAP),
        ("reads beyond its memory", handler("", "(drop (i32.load (i32.const -8)))"), TRAP),
        ("answers from beyond its memory", handler("", "(return (i32.const -8))"), TRAP),
        ("answers with two gigabytes", handler("", long_result), TRAP),
        ("answers with what is no text", handler("", bad_text), TRAP),
        ("allocates beyond its memory", with_realloc("", "", "(i32.const -8)"), TRAP),
    ]
}

/// What must not become a handler.
fn refused() -> Vec<Hostile> {
    let nested = |depth: usize| {
        let text = format!("{}{}", "(component ".repeat(depth), ")".repeat(depth));
        wat::parse_str(text).unwrap()
    };
    let functions = |count: usize, body: &str| handler(&format!("(func {body})").repeat(count), "");
    let long = "(drop (f64.sqrt (f64.const 2)))".repeat(60_000);
    let endless_print =
        for_ever("(drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1000) (i32.const 5000)))");
    // A file that compiles in time is accepted, and then its job is done.
    let compiled: &[&str] = &["handler-refused", "complete"];
    // Each computes for half a minute. A run of the tests has the one that does so in the host; the sandbox's own tests have all of them, with
    // smaller limits.
    let endless = || {
        vec![
            ("a start without end", handler(&format!("(func $s {}) (start $s)", for_ever("(nop)")), ""), REFUSED),
            ("self-test without end", handler(&self_test(&for_ever("(nop)")), ""), REFUSED),
        ]
    };
    let (endless, count) = if is_long() { (endless(), 30_000) } else { (Vec::new(), 5_000) };
    let others = vec![
        ("a start that passes strings for ever", strings_between_components(), REFUSED),
        ("self-test that traps", handler(&self_test("(unreachable)"), ""), REFUSED),
        ("self-test that prints for ever", handler(&format!("{FD_WRITE}\n{}", self_test(&endless_print)), ""), REFUSED),
        (
            "self-test that grows for ever",
            handler(
                &self_test(&for_ever("(if (i32.lt_s (memory.grow (i32.const 16)) (i32.const 0)) (then unreachable))")),
                "",
            ),
            REFUSED,
        ),
        ("thousands of functions", functions(count, "(drop (i32.div_u (i32.const 1) (i32.const 3)))"), compiled),
        ("300,000 functions", functions(300_000, ""), REFUSED),
        ("a function of half a megabyte", handler(&format!("(func {long})"), ""), compiled),
        ("components in components", nested(90), REFUSED),
        (
            "random numbers without a grant",
            handler(RANDOM, "(drop (call $random (i32.const 65536) (i32.const 1000000)))"),
            REFUSED,
        ),
        ("an import that nobody knows", handler("(import \"acme:db/sql@1.0.0\" \"query\" (func))", ""), REFUSED),
        (
            "a gigabyte to begin with",
            wat::parse_str("(component (core module $m (memory 20000)) (core instance (instantiate $m)))").unwrap(),
            REFUSED,
        ),
        (
            "a file cut in half",
            {
                let mut wasm = handler("", "");
                wasm.truncate(wasm.len() / 2);
                wasm
            },
            REFUSED,
        ),
        ("no WebAssembly", b"#!/bin/sh\n".to_vec(), REFUSED),
    ];
    endless.into_iter().chain(others).collect()
}

/// A handler with two components inside, one of which passes the other 16 MiB of text for ever as it starts.
fn strings_between_components() -> Vec<u8> {
    let inside = include_str!("../../../../runtime/sandbox/src/tests/two_components.wat")
        .replace("PAGES", "256")
        .replace("BYTES", "16777216")
        .replace("RUN", &for_ever("(call $take)"));
    component_of_text(&inside)
}
