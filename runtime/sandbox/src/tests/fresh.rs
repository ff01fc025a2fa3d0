//! A fresh instance finds its memory as the component made it, whatever ran in the same place before, in either pool.

use wasmtime::Engine;

use super::guest::{component, core};
use super::{attempt, sandbox, settings};
use crate::{Component, Sandbox};
use gristmill_core::outcome::Outcome;

const DATA_AT: usize = 64 << 10;
/// More than stays resident in either pool.
const MEMORY_PAGES: usize = 100;
const GROWN_PAGES: usize = 16;
const PAGE: usize = 64 << 10;

/// A handler with this data, which traps unless every 4 KiB of its memory are as they were made, and then writes to all of them.
fn suspicious(data: &[u8]) -> Vec<u8> {
    let check = "(func $check (param $from i32) (param $to i32) (param $byte i32)
        (loop $next
          (if (i32.ne (i32.load8_u (local.get $from)) (local.get $byte)) (then unreachable))
          (i32.store8 (local.get $from) (i32.const 0xee))
          (local.set $from (i32.add (local.get $from) (i32.const 4096)))
          (br_if $next (i32.lt_u (local.get $from) (local.get $to)))))";
    let (data_end, end) = (DATA_AT + data.len(), MEMORY_PAGES * PAGE);
    let handle = format!(
        "(call $check (i32.const {DATA_AT}) (i32.const {data_end}) (i32.const {byte}))
         (call $check (i32.const {data_end}) (i32.const {end}) (i32.const 0))
         (drop (memory.grow (i32.const {GROWN_PAGES})))
         (call $check (i32.const {end}) (i32.const {grown}) (i32.const 0))
         (call $done)",
        byte = data[0],
        grown = end + GROWN_PAGES * PAGE,
    );
    let data = format!("\n(data (i32.const {DATA_AT}) \"{}\")", String::from_utf8_lossy(data));
    let memory = |pages| format!("(memory (export \"memory\") {pages})");
    let core = core(&format!("{check}{data}"), &handle).replace(&memory(1), &memory(MEMORY_PAGES));
    component(&core, &[], "gristmill:job/job-handler")
}

async fn loaded(sandbox: &Sandbox, byte: u8, data_bytes: usize) -> Component {
    sandbox.load(&suspicious(&vec![byte; data_bytes])).await.unwrap()
}

async fn engine_of(component: &Component) -> Engine {
    component.code().await.unwrap().pre.engine().clone()
}

#[tokio::test]
async fn a_fresh_instance_never_sees_the_memory_of_the_one_before() {
    let cache = tempfile::tempdir().unwrap();
    let sandbox = sandbox(cache.path());
    for data_bytes in [4 << 10, 512 << 10] {
        // More components than the pool has memories, so that they take each other's.
        for byte in b'a'..=b'z' {
            let component = loaded(&sandbox, byte, data_bytes).await;
            for _ in 0..3 {
                assert_eq!(
                    component.invoke(attempt("")).await.outcome,
                    Outcome::Complete(None),
                    "{data_bytes} bytes of {byte}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_component_that_brings_a_runtime_along_has_a_pool_of_its_own_where_there_is_room_for_two() {
    for (concurrency, has_own) in [(1, true), (2_001, false)] {
        let cache = tempfile::tempdir().unwrap();
        let mut settings = settings(cache.path());
        settings.concurrency = concurrency;
        let sandbox = Sandbox::new(&settings).unwrap();
        let (usual, runtime) = (loaded(&sandbox, b'a', 4 << 10).await, loaded(&sandbox, b'a', 512 << 10).await);
        assert_eq!(!Engine::same(&engine_of(&usual).await, &engine_of(&runtime).await), has_own, "{concurrency}");
        assert_eq!(runtime.invoke(attempt("")).await.outcome, Outcome::Complete(None));
    }
}
