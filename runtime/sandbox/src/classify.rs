//! How an attempt ended that did not return: what stopped it becomes an [`Outcome`].

use wasmtime::{FrameInfo, PoolConcurrencyLimitError, Trap, WasmBacktrace, WasmtimeBug};
use wasmtime_wasi::I32Exit;

use super::host_memory::{HOST_BYTES_MAX, HostMemoryFull};
use super::meter::{DeadlinePassed, HostCallsUsedUp, bytes_per_call};
use super::program_streams::OutputFull;
use super::source_lines::SourceLines;
use super::state::State;
use gristmill_core::outcome::{LimitName, Outcome};

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

/// The outcome of a guest that was stopped.
///
/// Only what the guest cannot bring about counts as a fault of the host, since that costs a job no attempt: whatever
/// else goes wrong while a guest runs is put down to the guest.
pub(super) fn stopped(stopped: &Stopped, state: &State, lines: Option<&SourceLines>) -> Outcome {
    let limits = &state.attempt.limits;
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
    } else if error.is::<HostMemoryFull>() {
        let limit = limits.memory_bytes.saturating_add(HOST_BYTES_MAX as u64);
        Outcome::MemoryExceeded { limit, peak: state.memory.peak().saturating_add(state.host_memory.peak()) }
    } else if error.downcast_ref() == Some(&Trap::OutOfFuel) {
        Outcome::OutOfFuel { limit: limits.fuel }
    } else if state.memory.denied() {
        Outcome::MemoryExceeded { limit: limits.memory_bytes, peak: state.memory.peak() }
    } else if is_host_call_fuel(error) {
        too_many_bytes(error, state)
    } else if running || error.is::<Trap>() {
        trapped(error, &state.guest_log().last_words(), lines)
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
    let limits = &state.attempt.limits;
    if error.is::<WasmBacktrace>() {
        Outcome::LimitExceeded {
            limit: LimitName::HostCallBytes,
            allowed: bytes_per_call(limits, &state.attempt.grants),
        }
    } else {
        Outcome::LimitExceeded { limit: LimitName::Output, allowed: limits.output_bytes }
    }
}

/// The author's own words come first: they name the cause, and often the file and line. What wasmtime says is the same for most traps.
fn trapped(error: &wasmtime::Error, last_words: &str, lines: Option<&SourceLines>) -> Outcome {
    let mut message = match error.downcast_ref::<I32Exit>() {
        Some(I32Exit(code)) => format!("exited with code {code}"),
        None => error.root_cause().to_string(),
    };
    if !last_words.is_empty() {
        message = format!("{last_words}\n({message})");
    }
    let backtrace = error.downcast_ref::<WasmBacktrace>().map(|backtrace| frames(backtrace, lines)).unwrap_or_default();
    Outcome::Trapped { message, backtrace }
}

/// Whether an attempt ended because it called too deep. How deep that was depends on the build of the host, a few hundred bytes of whose own calls are
/// on the same stack.
pub(crate) fn is_too_deep(outcome: &Outcome) -> bool {
    let Outcome::Trapped { message, .. } = outcome else { return false };
    let text = Trap::StackOverflow.to_string();
    *message == text || message.ends_with(&format!("\n({text})"))
}

/// One line per frame, innermost first, names demangled and cut; wasmtime keeps at most 20. Without its headline. Below each frame stand the
/// lines of the sources that it comes from, if the component says so.
fn frames(backtrace: &WasmBacktrace, lines: Option<&SourceLines>) -> String {
    /// Generic functions have names of some hundred bytes.
    const FRAME_BYTES_MAX: usize = 1 << 10;
    /// Of all frames together.
    const PLACES_MAX: usize = 64;
    let text = backtrace.to_string();
    let cut = |line: &'_ str| line.get(..line.floor_char_boundary(FRAME_BYTES_MAX)).map(str::to_owned);
    // A name with a line break in it would move the places to other frames.
    let is_line_each = text.lines().count() == backtrace.frames().len() + 1;
    let sources = lines.filter(|_| is_line_each).and_then(SourceLines::open);
    let places = |frame: &FrameInfo| sources.as_ref().zip(frame.module_offset()).map(|(lines, at)| lines.places(at));
    let (mut lines, mut places_left) = (Vec::new(), PLACES_MAX);
    for (line, frame) in text.lines().skip(1).zip(backtrace.frames().iter().map(Some).chain(std::iter::repeat(None))) {
        lines.extend(cut(line).map(|line| line.replace("<unknown>!", "")));
        let places = frame.and_then(places).unwrap_or_default();
        lines.extend(places.iter().take(places_left).map(|place| format!("         at {place}")));
        places_left = places_left.saturating_sub(places.len());
    }
    lines.join("\n")
}

fn host_fault(error: &wasmtime::Error) -> Outcome {
    Outcome::HostFault(format!("{error:#}"))
}
