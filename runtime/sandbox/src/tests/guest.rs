//! Guests: a core module in text, and the world it is made into a component of.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// What every guest here has: imports, a bump allocator, and ways to return.
const PRELUDE: &str = r#"
  (import "gristmill:job/context@0.1.0" "now" (func $now (result i64)))
  (import "gristmill:job/context@0.1.0" "fuel-remaining" (func $fuel (result i64)))
  (import "gristmill:job/context@0.1.0" "is-cancelled" (func $is_cancelled (result i32)))
  (import "gristmill:job/context@0.1.0" "checkpoint" (func $checkpoint (param i32 i32 i32)))
  (import "gristmill:job/context@0.1.0" "progress" (func $progress (param i32 i32 i32 i32)))
  (import "gristmill:job/log@0.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32)))
  (import "gristmill:job/config@0.1.0" "get" (func $get (param i32 i32 i32)))
  (import "gristmill:job/queue@0.1.0" "enqueue" (func $enqueue (param i32 i32)))
  (memory (export "memory") 1)
  (global $top (mut i32) (i32.const 8192))
  (func (export "cabi_realloc") (param $old i32) (param $old_n i32) (param $align i32) (param $n i32) (result i32)
    (local $p i32) (local $pages i32)
    (local.set $p (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
    (global.set $top (i32.add (local.get $p) (local.get $n)))
    (local.set $pages (i32.sub (i32.shr_u (i32.add (global.get $top) (i32.const 65535)) (i32.const 16)) (memory.size)))
    (if (i32.gt_s (local.get $pages) (i32.const 0))
      (then (if (i32.lt_s (memory.grow (local.get $pages)) (i32.const 0)) (then unreachable))))
    (local.get $p))
  ;; ok(complete(none))
  (func $done (result i32) (i32.const 1024))
  ;; ok(complete(some(bytes)))
  (func $return (param $p i32) (param $n i32) (result i32)
    (i32.store (i32.const 1040) (i32.const 1))
    (i32.store (i32.const 1044) (local.get $p))
    (i32.store (i32.const 1048) (local.get $n))
    (i32.const 1024))
  (func $return_u64 (param $value i64) (result i32)
    (i64.store (i32.const 2048) (local.get $value))
    (call $return (i32.const 2048) (i32.const 8)))
  ;; err(retry) or err(reject), with a code of three bytes and a message of two
  (data (i32.const 2100) "abchi")
  (func $fail (param $reject i32) (result i32)
    (i32.store (i32.const 1024) (i32.const 1))
    (i32.store (i32.const 1032) (local.get $reject))
    (i32.store (i32.const 1040) (i32.const 2100)) (i32.store (i32.const 1044) (i32.const 3))
    (i32.store (i32.const 1048) (i32.const 2103)) (i32.store (i32.const 1052) (i32.const 2))
    (i32.const 1024))
  (func $body (param $job i32) (result i32) (i32.load offset=24 (local.get $job)))
  (func $body_n (param $job i32) (result i32) (i32.load offset=28 (local.get $job)))
"#;

/// A handler: `functions`, and the body of `handle`, whose parameter is `$job` (112 bytes in memory).
pub(super) fn handler(functions: &str, handle: &str) -> Vec<u8> {
    component(&core(functions, handle), &[], "gristmill:job/job-handler")
}

/// The same, made with the contract as it was before something was added to it.
pub(super) fn handler_of(contract: &str, functions: &str, handle: &str) -> Vec<u8> {
    foreign(&core(functions, handle), contract, "job-handler")
}

/// The same as a core module, which carries no component type.
pub(super) fn core_module(functions: &str, handle: &str) -> Vec<u8> {
    wat::parse_str(core(functions, handle)).unwrap()
}

/// A core module that carries the type of every handler.
pub(super) fn typed_core_module(core: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (contract, _) = resolve.push_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).unwrap();
    let world = resolve.select_world(&[contract], Some("job-handler")).unwrap();
    let mut module = wat::parse_str(core).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}

/// A handler in a world with more in it.
pub(super) fn handler_in(packages: &[&str], world: &str, functions: &str, handle: &str) -> Vec<u8> {
    component(&core(functions, handle), packages, world)
}

pub(super) fn core(functions: &str, handle: &str) -> String {
    let (imports, functions): (Vec<&str>, Vec<&str>) =
        functions.lines().partition(|line| line.trim_start().starts_with("(import"));
    format!(
        "(module {} {PRELUDE} {}
           (func $handle (export \"gristmill:job/handler@0.1.0#handle\") (param $job i32) (result i32) {handle}))",
        imports.join("\n"),
        functions.join("\n"),
    )
}

/// A component of `world` from a core module. `packages` are WIT texts beside the contract's own.
pub(super) fn component(core: &str, packages: &[&str], world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (contract, _) = resolve.push_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).unwrap();
    let mut last = contract;
    for text in packages {
        last = resolve.push_str("package.wit", text).unwrap();
    }
    let world = resolve.select_world(&[last], Some(world.rsplit('/').next().unwrap())).unwrap();
    encode(core, &resolve, world)
}

/// A component of a world that has nothing to do with the contract.
pub(super) fn foreign(core: &str, package: &str, world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("package.wit", package).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    encode(core, &resolve, world)
}

fn encode(core: &str, resolve: &Resolve, world: wit_parser::WorldId) -> Vec<u8> {
    let mut module = wat::parse_str(core).unwrap();
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}
