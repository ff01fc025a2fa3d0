//! What the contract in `wit/` says, as Rust. Generated; nothing here is written by hand.
//!
//! Jobs go in by reference (`Borrowing`): a payload is copied once, into the guest's memory.

#![allow(missing_debug_implementations, unreachable_pub, reason = "generated")]

wasmtime::component::bindgen!({
    path: "wit",
    world: "job-handler-full",
    ownership: Borrowing { duplicate_if_necessary: true },
    imports: { default: trappable },
    exports: { default: async },
});

// `self`, because a documentation test sees a crate of this name, too.
pub(super) use self::gristmill::job::*;
