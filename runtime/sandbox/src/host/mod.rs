//! What a guest can call: one file per interface of `wit/`, and WASI.

mod config;
mod context;
mod http;
mod key_value;
mod log;
mod program;
mod queue;
mod recorded;
mod standard;
mod state;
mod taped_body;
mod wasi_http;

use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Engine, StoreContextMut};
use wasmtime_wasi::cli::WasiCliView;
use wasmtime_wasi::p2::bindings::cli::environment::Host as _;
use wasmtime_wasi::{WasiCtxView, WasiView};

use super::bindings;
use super::guest_wasi::GuestWasi;
use super::outbound::Outbound;
use super::state::State;

/// By the name that wasmtime gives it; a test notices if that changes.
const ENVIRONMENT: &str = "wasi:cli/environment@0.2.12";

type Add = fn(&mut Linker<State>, &Outbound) -> wasmtime::Result<()>;

/// The interfaces of `gristmill:job` that a handler may import. All are linked, and one that the topic is not granted
/// refuses each call: a toolchain's imports say little about what its guest will call.
const INTERFACES: [(&str, Add); 7] = [
    ("types", |linker, _| bindings::types::add_to_linker::<_, HasSelf<_>>(linker, |state| state)),
    ("context", |linker, _| context::add_to_linker(linker)),
    ("queue", |linker, _| bindings::queue::add_to_linker::<_, HasSelf<_>>(linker, |state| state)),
    ("log", |linker, _| log::add_to_linker(linker)),
    ("config", |linker, _| bindings::config::add_to_linker::<_, HasSelf<_>>(linker, |state| state)),
    ("http", http::add_to_linker),
    ("state", |linker, _| state::add_to_linker(linker)),
];

/// Everything that any handler may import.
pub(super) fn linker(engine: &Engine, outbound: &Outbound) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    for (_, add) in INTERFACES {
        add(&mut linker, outbound)?;
    }
    program::add_to_linker(&mut linker)?;
    standard::add_to_linker(&mut linker)?;
    key_value::add_to_linker(&mut linker)?;
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    charge_for_environment(&mut linker)?;
    wasi_http::add_to_linker(&mut linker, outbound)?;
    recorded::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// `get-environment` and `get-arguments` copy it all at each call. They are linked by hand, to be charged for what they copy.
fn charge_for_environment(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut environment = linker.instance(ENVIRONMENT)?;
    environment.func_wrap("get-environment", |mut store: StoreContextMut<'_, State>, (): ()| {
        let environment = |state: &mut State| WasiCliView::cli(state).get_environment();
        let question = store.data().question("environment", "", &());
        let variables = store.data_mut().ask_sealed(&question, environment)?;
        store.data_mut().charge_bytes(variables.iter().map(|(name, value)| name.len() + value.len()).sum());
        Ok((variables,))
    })?;
    environment.func_wrap("get-arguments", |mut store: StoreContextMut<'_, State>, (): ()| {
        let arguments = WasiCliView::cli(store.data_mut()).get_arguments()?;
        store.data_mut().charge_bytes(arguments.iter().map(String::len).sum());
        Ok((arguments,))
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

/// What a handler may import, for the author of a component that imports more.
pub(super) fn allowed_imports() -> String {
    let names = INTERFACES.map(|(name, _)| name).join(",");
    let wasi = "`wasi:{cli,io,clocks,random,filesystem,sockets,http}@0.2`, `wasi:config/store@0.2.0-rc.1`, \
                `wasi:logging/logging` and `wasi:keyvalue/{store,batch,atomics}@0.2.0-draft2`";
    format!("`gristmill:job/{{{names}}}@0.1`, {wasi}")
}

impl bindings::types::Host for State {}

impl WasiView for State {
    /// Each function of WASI begins with this. None of them can refuse a call: the meter does, when they return.
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.charge(0).ok();
        let Self { wasi, resources, guest_log, attempt, egress, program, .. } = self;
        let wasi = wasi.get_or_insert_with(|| {
            let placeholders = egress.placeholders.as_deref();
            GuestWasi::new(guest_log, &attempt.grants, placeholders, attempt.clock_offset_ms, program.as_deref())
        });
        WasiCtxView { ctx: wasi.context(), table: resources }
    }
}
