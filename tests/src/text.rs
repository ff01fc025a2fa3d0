//! Components from WebAssembly text: small, exact, and quick to compile.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A component with nothing in it: magic number, version and layer.
pub fn empty() -> Vec<u8> {
    b"\0asm\x0d\0\x01\0".to_vec()
}

/// A handler that logs one line, runs `work`, and returns its body as it came.
///
/// `work` is instructions in text; it may use the local `$i`, the function `$emit` of the log, and the memory from 32 KiB on.
pub fn handler(work: &str) -> Vec<u8> {
    let core = format!(
        r#"(module
          (import "gristmill:job/log@0.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32)))
          (memory (export "memory") 2)
          (data (i32.const 16) "echo")
          (global $top (mut i32) (i32.const 65536))
          (func (export "cabi_realloc") (param i32 i32 i32) (param $n i32) (result i32)
            (local $p i32)
            (local.set $p (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
            (global.set $top (i32.add (local.get $p) (local.get $n)))
            (local.get $p))
          (func (export "gristmill:job/handler@0.1.0#handle") (param $job i32) (result i32)
            (local $i i32)
            (call $emit (i32.const 2) (i32.const 16) (i32.const 4) (i32.const 0) (i32.const 0))
            {work}
            ;; ok(complete(some(body))), the body where the host wrote it
            (i32.store (i32.const 1040) (i32.const 1))
            (i32.store (i32.const 1044) (i32.load offset=24 (local.get $job)))
            (i32.store (i32.const 1048) (i32.load offset=28 (local.get $job)))
            (i32.const 1024)))"#
    );
    component(&core)
}

/// A handler that does nothing, with these items of the component text beside its own.
pub fn component_of_text(items: &str) -> Vec<u8> {
    let plain = wasmprinter::print_bytes(handler("")).unwrap();
    let open = plain.trim_end().strip_suffix(')').expect("the end of the component");
    wat::parse_str(format!("{open} {items})")).unwrap()
}

fn component(core: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (contract, _) = resolve.push_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).unwrap();
    let world = resolve.select_world(&[contract], Some("job-handler")).unwrap();
    let mut module = wat::parse_str(core).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}
