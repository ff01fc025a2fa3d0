//! Which imports a handler may have.

use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use super::super::bindings::{config, log, queue, types};
use super::super::outbound::Outbound;
use super::super::state::State;
use super::{context, http};

/// For people whose component wants more.
pub(crate) const ALLOWED_IMPORTS: &str = "`gristmill:job/{types,context,queue,log,config,http}@0.1` and `wasi:{cli,io,clocks,random,filesystem,sockets}@0.2`";

/// Everything that any handler may import. What a topic is not granted is linked too, and answers with nothing: a
/// toolchain's imports say little about what its guest will call.
pub(crate) fn linker(engine: &Engine, outbound: &Outbound) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    types::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    context::add_to_linker(&mut linker)?;
    queue::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    log::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    config::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    http::add_to_linker(&mut linker, outbound)?;
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    Ok(linker)
}

impl types::Host for State {}
