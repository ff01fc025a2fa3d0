//! Where in its author's sources an instruction of a component comes from.
//!
//! A component says that with DWARF, and how long DWARF takes to read is up to its author. So the compiling process reads it, within its
//! limits, and puts a table behind the artifact; a trap costs a few reads of that file. A component without DWARF has no table.

mod dwarf;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) use table::SourceLines;

/// Appends the table of a component to its artifact. Nothing if its DWARF is missing, cannot be read, or is too much.
pub(super) fn append(artifact: &mut Vec<u8>, wasm: &[u8]) {
    // Its reader trusts addresses to be in order, and a build with debug assertions panics where they are not.
    let rows = catch_unwind(AssertUnwindSafe(|| dwarf::read(wasm))).ok().flatten();
    if let Some(table) = rows.and_then(|rows| table::encode(&rows)) {
        artifact.extend_from_slice(&table);
    }
}
