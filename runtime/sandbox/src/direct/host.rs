//! What a module can call while an attempt is tried: functions that change nothing outside of the attempt and never wait. They charge what those of
//! [`super::super::host`] charge, and the instructions that a component takes to pass a call on.

use std::time::Duration;

use tracing::Level;
use wasmtime::{Caller, Error, Linker, Module, Trap};

use super::super::attempt::LogLine;
use super::super::bindings::config::Host as _;
use super::super::bindings::queue::{EnqueueError, Host as _};
use super::super::guest_log::FIELD_BYTES;
use super::super::state::State;
use super::abi::{Lowering, View, lift_new_job, put, put_option, put_span};
use super::slice_of;

type Port<'a> = Caller<'a, State>;

/// Of an option of a text.
const SOME_BYTES: u32 = 12;
const SOME_ALIGN: u32 = 4;

/// Of a time, and of a seed.
const PAIR_BYTES: u32 = 16;
const PAIR_ALIGN: u32 = 8;

/// Of what `enqueue` answers.
const ENQUEUED_BYTES: u32 = 24;
const ENQUEUED_ALIGN: u32 = 8;

const CONFIG: &str = "gristmill:job/config@0.1.0";
const CONTEXT: &str = "gristmill:job/context@0.1.0";
const LOG: &str = "gristmill:job/log@0.1.0";
const QUEUE: &str = "gristmill:job/queue@0.1.0";
const MONOTONIC: &str = "wasi:clocks/monotonic-clock@0.2.";
const WALL: &str = "wasi:clocks/wall-clock@0.2.";
const RANDOM: &str = "wasi:random/random@0.2.";
const SEED: &str = "wasi:random/insecure-seed@0.2.";

type Add = fn(&mut Linker<State>, &str, &str) -> wasmtime::Result<()>;

const FUNCTIONS: [(&str, &str, Add); 12] = [
    (CONFIG, "get", |linker, interface, name| linker.func_wrap(interface, name, config_get).map(drop)),
    (CONFIG, "secret", |linker, interface, name| linker.func_wrap(interface, name, config_secret).map(drop)),
    (CONTEXT, "fuel-remaining", |linker, interface, name| linker.func_wrap(interface, name, fuel_remaining).map(drop)),
    (CONTEXT, "is-cancelled", |linker, interface, name| linker.func_wrap(interface, name, is_cancelled).map(drop)),
    (CONTEXT, "now", |linker, interface, name| linker.func_wrap(interface, name, now).map(drop)),
    (LOG, "emit", |linker, interface, name| linker.func_wrap(interface, name, log_emit).map(drop)),
    (LOG, "enabled", |linker, interface, name| linker.func_wrap(interface, name, log_enabled).map(drop)),
    (QUEUE, "enqueue", |linker, interface, name| linker.func_wrap(interface, name, enqueue).map(drop)),
    // What the standard libraries of languages ask for most: clocks, and a seed for hash tables.
    (MONOTONIC, "now", |linker, interface, name| linker.func_wrap(interface, name, monotonic_now).map(drop)),
    (WALL, "now", |linker, interface, name| linker.func_wrap(interface, name, wall_now).map(drop)),
    (RANDOM, "get-random-u64", |linker, interface, name| linker.func_wrap(interface, name, random).map(drop)),
    (SEED, "insecure-seed", |linker, interface, name| linker.func_wrap(interface, name, insecure_seed).map(drop)),
];

/// The number of the function that stands for this one; none if there is none. An interface of WASI stands for each of its 0.2 versions, as it does for a component.
pub(super) fn find(interface: &str, name: &str) -> Option<usize> {
    FUNCTIONS.iter().position(|(of, function, _)| is_of(of, interface) && *function == name)
}

/// Whether there is any function of this interface.
pub(super) fn has_interface(interface: &str) -> bool {
    FUNCTIONS.iter().any(|(of, ..)| is_of(of, interface))
}

fn is_of(of: &str, interface: &str) -> bool {
    of == interface || (of.ends_with('.') && interface.starts_with(of))
}

/// Puts the functions behind the module's imports. To call another one ends the try.
pub(super) fn add_to_linker(linker: &mut Linker<State>, module: &Module) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    for import in module.imports() {
        if let Some((_, _, add)) = find(import.module(), import.name()).and_then(|number| FUNCTIONS.get(number)) {
            add(linker, import.module(), import.name())?;
        }
    }
    linker.define_unknown_imports_as_traps(module)
}

fn config_get(mut caller: Port<'_>, name: u32, bytes: u32, answer: u32) -> wasmtime::Result<()> {
    let name = passed_text(&mut caller, 3, (name, bytes))?;
    let value = caller.data_mut().get(name)?;
    settle(&mut caller)?;
    answer_some(&mut caller, answer, value.as_deref().map(str::as_bytes))
}

fn config_secret(mut caller: Port<'_>, name: u32, bytes: u32, answer: u32) -> wasmtime::Result<()> {
    let name = passed_text(&mut caller, 3, (name, bytes))?;
    let value = caller.data_mut().secret(name)?;
    settle(&mut caller)?;
    answer_some(&mut caller, answer, value.as_deref())
}

fn fuel_remaining(mut caller: Port<'_>) -> wasmtime::Result<u64> {
    let fuel = caller.data().attempt.limits.fuel;
    let remaining = fuel.saturating_sub(slice_of(fuel)).saturating_add(caller.get_fuel()?);
    charge_call(&mut caller, None)?;
    Ok(remaining)
}

fn is_cancelled(mut caller: Port<'_>) -> wasmtime::Result<u32> {
    charge_call(&mut caller, None)?;
    Ok(caller.data().attempt.cancellation.is_cancelled().into())
}

fn now(mut caller: Port<'_>) -> wasmtime::Result<u64> {
    charge_call(&mut caller, None)?;
    Ok(caller.data().now().as_millis())
}

fn monotonic_now(mut caller: Port<'_>) -> wasmtime::Result<u64> {
    charge_call(&mut caller, None)?;
    Ok(u64::try_from(caller.data().meter.elapsed().as_nanos())?)
}

fn wall_now(mut caller: Port<'_>, answer: u32) -> wasmtime::Result<()> {
    charge_call(&mut caller, Some(1))?;
    let now = Duration::from_millis(caller.data().now().as_millis());
    let mut guest = Lowering::new(&mut caller)?;
    let answer = guest.place(answer, PAIR_ALIGN, PAIR_BYTES)?;
    put(answer, 0, now.as_secs().to_le_bytes());
    put(answer, 8, now.subsec_nanos().to_le_bytes());
    Ok(())
}

fn random(mut caller: Port<'_>) -> wasmtime::Result<u64> {
    charge_call(&mut caller, None)?;
    Ok(getrandom::u64()?)
}

fn insecure_seed(mut caller: Port<'_>, answer: u32) -> wasmtime::Result<()> {
    charge_call(&mut caller, Some(1))?;
    let mut guest = Lowering::new(&mut caller)?;
    Ok(getrandom::fill(guest.place(answer, PAIR_ALIGN, PAIR_BYTES)?)?)
}

fn log_enabled(mut caller: Port<'_>, level: u32) -> wasmtime::Result<u32> {
    charge_call(&mut caller, None)?;
    let keeps = caller.data().guest_log().keeps(level_of(level)?);
    Ok(keeps.into())
}

fn log_emit(
    mut caller: Port<'_>,
    level: u32,
    message: u32,
    bytes: u32,
    fields: u32,
    count: u32,
) -> wasmtime::Result<()> {
    begin(&mut caller, Some(5))?;
    let (level, source) = (level_of(level)?, "log");
    caller.data_mut().charge((count as usize).saturating_mul(FIELD_BYTES))?;
    let memory = view(&caller)?;
    memory.check_pairs((fields, count))?;
    let text = memory.text((message, bytes))?;
    if caller.data().guest_log().may_fit(text.len(), count as usize) {
        let line = LogLine { level, source, message: text.to_owned(), fields: memory.pairs((fields, count))? };
        let passed = line.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        caller.data_mut().charge_bytes(bytes as usize + passed);
        caller.data().log(line);
    } else {
        caller.data().guest_log().drop_line(level, source, text);
        caller.data_mut().charge_bytes(bytes as usize);
    }
    settle(&mut caller)
}

fn enqueue(mut caller: Port<'_>, job: u32, answer: u32) -> wasmtime::Result<()> {
    begin(&mut caller, Some(2))?;
    let job = lift_new_job(&view(&caller)?, job)?;
    let accepted = caller.data_mut().enqueue(job)?;
    settle(&mut caller)?;
    let mut guest = Lowering::new(&mut caller)?;
    let id = accepted.as_ref().ok().map(|id| guest.bytes(id.as_bytes())).transpose()?;
    let answer = guest.place(answer, ENQUEUED_ALIGN, ENQUEUED_BYTES)?;
    put(answer, 0, [accepted.is_err().into()]);
    match (accepted, id) {
        (Ok(_), id) => id.into_iter().for_each(|id| put_span(answer, 8, id)),
        (Err(EnqueueError::Denied), _) => put(answer, 8, [0]),
        (Err(EnqueueError::TooLarge(limit)), _) => {
            put(answer, 8, [1]);
            put(answer, 16, limit.to_le_bytes());
        }
        (Err(EnqueueError::TooMany(limit)), _) => {
            put(answer, 8, [2]);
            put(answer, 16, limit.to_le_bytes());
        }
        (Err(EnqueueError::UnknownTopic), _) => put(answer, 8, [3]),
    }
    Ok(())
}

/// A call begins. `passed_on`: how many arguments are passed on on their way, if the call takes one.
fn begin(caller: &mut Port<'_>, passed_on: Option<u64>) -> wasmtime::Result<()> {
    let state = caller.data_mut();
    state.ports()?;
    if state.tried()?.may_not_leave {
        return Err(Error::msg("the guest calls the host while it allocates"));
    }
    // One instruction for each argument, one to begin, and two for the call.
    let instructions = passed_on.map_or(0, |arguments| arguments + 3);
    let remaining = caller.get_fuel()?.checked_sub(instructions).ok_or(Trap::OutOfFuel)?;
    caller.set_fuel(remaining)
}

/// A call that passes nothing begins, and is paid for.
fn charge_call(caller: &mut Port<'_>, passed_on: Option<u64>) -> wasmtime::Result<()> {
    begin(caller, passed_on)?;
    caller.data_mut().charge(0)?;
    settle(caller)
}

/// Takes what the call has charged. To be called before the guest goes on.
fn settle(caller: &mut Port<'_>) -> wasmtime::Result<()> {
    let owed = caller.data_mut().take_owed();
    let remaining = caller.get_fuel()?.checked_sub(owed).ok_or(Trap::OutOfFuel)?;
    caller.set_fuel(remaining)
}

/// A text that is the first argument of so many.
fn passed_text(caller: &mut Port<'_>, arguments: u64, text: (u32, u32)) -> wasmtime::Result<String> {
    begin(caller, Some(arguments))?;
    view(caller)?.text(text).map(str::to_owned)
}

fn answer_some(caller: &mut Port<'_>, place: u32, value: Option<&[u8]>) -> wasmtime::Result<()> {
    let mut guest = Lowering::new(caller)?;
    let some = guest.some(value)?;
    put_option(guest.place(place, SOME_ALIGN, SOME_BYTES)?, 0, some);
    Ok(())
}

fn view<'a>(caller: &'a Port<'_>) -> wasmtime::Result<View<'a>> {
    Ok(View::of(caller.data().ports()?.memory.data(caller)))
}

fn level_of(tag: u32) -> wasmtime::Result<Level> {
    let levels = [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];
    levels.get(tag as usize).copied().ok_or_else(|| Error::msg("no level of a log line"))
}
