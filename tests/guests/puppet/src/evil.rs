//! What no honest handler does. None of it may harm the host, or another job.

use std::hint::black_box;
use std::time::Duration;

use gristmill_guest::context;

#[expect(clippy::disallowed_methods, reason = "a guest that blocks in a host call is what some tests need")]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

#[expect(clippy::panic, reason = "asked to")]
pub(crate) fn panic(message: &str) -> ! {
    panic!("{message}")
}

/// The bare instruction, with no panic message before it.
pub(crate) fn unreachable() -> ! {
    #[cfg(target_family = "wasm")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_family = "wasm"))]
    std::process::abort();
}

pub(crate) fn overflow_stack() -> ! {
    #[expect(unconditional_recursion, reason = "asked to")]
    #[inline(never)]
    fn descend(depth: u64) -> u64 {
        // The address of the frame escapes and the result is used after the call, so that the call cannot become a loop.
        let frame = black_box([depth; 16]);
        descend(depth + 1).wrapping_add(black_box(&frame).iter().sum())
    }
    black_box(descend(0));
    spin()
}

pub(crate) fn burn(rounds: u64) {
    for round in 0..rounds {
        black_box(round);
    }
}

pub(crate) fn call_host(calls: u64) {
    for _ in 0..calls {
        black_box(context::now());
    }
}

pub(crate) fn spin() -> ! {
    let mut round = 0_u64;
    loop {
        round = black_box(round.wrapping_add(1));
    }
}

/// Grows by a megabyte at a time, and touches every one.
pub(crate) fn exhaust_memory() -> ! {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(black_box(vec![1; 1 << 20]));
    }
}

pub(crate) fn exit(code: i32) -> ! {
    std::process::exit(code)
}
