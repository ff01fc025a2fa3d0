//! How an attempt ended that did not return: what stopped it becomes an [`Outcome`].

use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace, WasmtimeBug};
use wasmtime_wasi::I32Exit;

use super::meter::{DeadlinePassed, HostCallsUsedUp};
use super::program_streams::OutputFull;
use super::state::State;
use gristmill_core::outcome::{LimitName, Outcome};
use gristmill_core::topic::{Capability, Grants, Limits};

/// What kept a guest from returning.
#[derive(Debug)]
pub(super) enum Stopped {
    Deadline,
    Killed,
    /// Before its function was entered.
    Starting(wasmtime::Error),
    /// In its function, or while its result was read.
    Running(wasmtime::Error),
}

/// Bytes that one host call may pass, and the result too: more than any honest one, so that what is over its own limit
/// is answered in kind and not with an end. The slack is the body of a follow-up job for a topic that takes more than
/// this one does, or a request's headers.
pub(super) fn bytes_per_call(limits: &Limits, grants: &Grants) -> u64 {
    const SLACK: u64 = 1 << 20;
    let request = grants.http.as_ref().map_or(0, |http| http.request_bytes);
    let state = if grants.has(Capability::State) { limits.state_bytes } else { 0 };
    let kept = [limits.checkpoint_bytes, limits.log_bytes, request, state];
    let largest = [limits.payload_bytes, limits.output_bytes].into_iter().chain(kept);
    largest.fold(0, u64::max).saturating_add(SLACK)
}

/// The outcome of a guest that was stopped.
///
/// Only what the guest cannot bring about counts as a fault of the host, since that costs a job no attempt: whatever
/// else goes wrong while a guest runs is put down to the guest.
pub(super) fn stopped(stopped: &Stopped, state: &State) -> Outcome {
    let limits = &state.limits;
    let (error, running) = match stopped {
        Stopped::Deadline => return Outcome::TimedOut { limit: limits.timeout },
        Stopped::Killed => return Outcome::Killed,
        Stopped::Starting(error) => (error, error.downcast_ref::<WasmBacktrace>().is_some()),
        Stopped::Running(error) => (error, true),
    };
    if error.is::<DeadlinePassed>() {
        Outcome::TimedOut { limit: limits.timeout }
    } else if error.is::<PoolConcurrencyLimitError>() {
        Outcome::PoolFull
    } else if error.is::<wasmtime::OutOfMemory>() || error.is::<WasmtimeBug>() {
        host_fault(error)
    } else if let Some(HostCallsUsedUp(allowed)) = error.downcast_ref() {
        Outcome::LimitExceeded { limit: LimitName::HostCalls, allowed: *allowed }
    } else if let Some(OutputFull(allowed)) = error.downcast_ref() {
        Outcome::LimitExceeded { limit: LimitName::Output, allowed: *allowed }
    } else if error.downcast_ref() == Some(&Trap::OutOfFuel) {
        Outcome::OutOfFuel { limit: limits.fuel }
    } else if state.memory.denied() {
        Outcome::MemoryExceeded { limit: limits.memory_bytes, peak: state.memory.peak() }
    } else if is_host_call_fuel(error) {
        too_many_bytes(error, state)
    } else if running || error.is::<Trap>() {
        trapped(error, state.guest_log().last_words())
    } else {
        host_fault(error)
    }
}

/// wasmtime keeps the type of this error to itself; its text is all there is. A test holds it to that.
fn is_host_call_fuel(error: &wasmtime::Error) -> bool {
    error.root_cause().to_string().contains("fuel allocated for hostcalls has been exhausted")
}

/// With guest frames on the stack it was calling us; without, it was returning.
fn too_many_bytes(error: &wasmtime::Error, state: &State) -> Outcome {
    let limits = &state.limits;
    if error.is::<WasmBacktrace>() {
        Outcome::LimitExceeded { limit: LimitName::HostCallBytes, allowed: bytes_per_call(limits, &state.grants) }
    } else {
        Outcome::LimitExceeded { limit: LimitName::Output, allowed: limits.output_bytes }
    }
}

/// The author's own words come first: they name the cause, and often the file and line. What wasmtime says is the same for most traps.
fn trapped(error: &wasmtime::Error, last_words: &str) -> Outcome {
    let mut message = match error.downcast_ref::<I32Exit>() {
        Some(I32Exit(code)) => format!("exited with code {code}"),
        None => error.root_cause().to_string(),
    };
    if !last_words.is_empty() {
        message = format!("{last_words}\n({message})");
    }
    let backtrace = error.downcast_ref::<WasmBacktrace>().map(frames).unwrap_or_default();
    Outcome::Trapped { message, backtrace }
}

/// One line per frame, innermost first, names demangled and cut; wasmtime keeps at most 20. Without its headline.
fn frames(backtrace: &WasmBacktrace) -> String {
    /// Generic functions have names of some hundred bytes.
    const FRAME_BYTES_MAX: usize = 1 << 10;
    let text = backtrace.to_string();
    let cut = |line: &'_ str| line.get(..line.floor_char_boundary(FRAME_BYTES_MAX)).map(str::to_owned);
    let lines: Vec<String> = text.lines().skip(1).filter_map(cut).collect();
    lines.join("\n").replace("<unknown>!", "")
}

fn host_fault(error: &wasmtime::Error) -> Outcome {
    Outcome::HostFault(format!("{error:#}"))
}
