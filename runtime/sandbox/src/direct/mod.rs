//! Short attempts without the component model: the core module of a usual component is called as it is.
//!
//! A component of the usual shape (see [`wiring`]) has one core module that does all its work. An instance of that module alone, with the
//! host's functions behind its imports, takes less than half of what an instance of the component takes. It has the same pool, limits, grants and log, and
//! is as fresh. Such an attempt is a try: it has one slice of fuel, never waits, and gets only functions that change nothing outside of the attempt
//! ([`host`]). Whatever comes of it but an answer (a trap, another function, a limit) leaves nothing, and the attempt begins anew in
//! the component. So each outcome is one that the component has, too.

mod abi;
mod host;
mod wiring;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use wasmtime::component::{Component, Instance as ComponentInstance};
use wasmtime::{
    AsContextMut, Error, Extern, Instance, InstancePre, Linker, Module, ModuleExport, PoolConcurrencyLimitError, Store,
};

use super::adapters::handler;
use super::attempt::{Attempt, Report};
use super::core_module::HANDLE;
use super::engine::FUEL_PER_YIELD;
use super::recording::Record;
use super::report::report;
use super::state::State;
use super::tried::{BegunAttempt, Ports};
use abi::View;
use gristmill_core::outcome::Outcome;
use gristmill_core::topic::Adapter;
pub(super) use wiring::{MAIN, export_main};

const POST_RETURN: &str = "cabi_post_gristmill:job/handler@0.1.0#handle";
const MEMORY: &str = "memory";
const REALLOC: &str = "cabi_realloc";

/// Bytes of a body with its checkpoint, and of what the guest passes with one call or returns, at most: to copy more takes a large part of a
/// slice. It bounds what the host copies before that is charged.
const BYTES_MAX: usize = 32 << 10;

/// A component's attempts that used more than this are not tried. The rest of a slice is for those that take longer.
const USUAL_FUEL_MAX: u64 = FUEL_PER_YIELD / 2;

/// A try that came to nothing counts as so many that came to an answer. With one in so many, tries cost more than they save.
const MISS: u32 = 16;
/// After so much more misses than hits the component is tried no more.
const MISSES_MAX: u32 = 8 * MISS;

/// What is known of one component's tries.
#[derive(Debug, Default)]
pub(super) struct Direct {
    /// Made after its first attempt that a try could have done; `None` inside if it cannot be.
    main: OnceLock<Option<Main>>,
    misses: AtomicU32,
}

/// A main module, ready to be instantiated.
struct Main {
    pre: InstancePre<State>,
    memory: ModuleExport,
    realloc: ModuleExport,
    handle: ModuleExport,
    post_return: Option<ModuleExport>,
    /// What it costs a component to fill the table of the module that passes calls on, if it has one.
    passing_on_fuel: u64,
}

impl Direct {
    /// Tries the attempt. `None`: it has to begin in the component, and nothing was done.
    pub(super) fn attempt(&self, begun: &BegunAttempt<'_>) -> Option<Report> {
        let main = self.main.get()?.as_ref()?;
        if !may_try(begun.attempt) || self.misses.load(Ordering::Relaxed) >= MISSES_MAX {
            return None;
        }
        let tried = main.attempt(begun);
        match (&tried, self.misses.load(Ordering::Relaxed)) {
            (Ok(Some(_)), 0) => {}
            // What one of two threads does not count does not matter.
            (Ok(Some(_)), misses) => self.misses.store(misses - 1, Ordering::Relaxed),
            // The pool is full: that says nothing of the component.
            (Err(error), _) if error.is::<PoolConcurrencyLimitError>() => {}
            _ => _ = self.misses.fetch_add(MISS, Ordering::Relaxed),
        }
        tried.ok().flatten()
    }

    /// After an attempt in the component: later ones are tried, if a try could have done this one.
    pub(super) fn learn(
        &self,
        component: &Component,
        store: &mut Store<State>,
        instance: ComponentInstance,
        report: &Report,
    ) {
        let state = store.data();
        let was_short = report.outcome.is_decided() && report.fuel <= USUAL_FUEL_MAX;
        if self.main.get().is_none() && was_short && may_try(&state.attempt) {
            let main = instance.get_module(store, MAIN).and_then(|module| Main::new(component, &module));
            self.main.set(main).ok();
        }
    }

    /// How often the last tries came to nothing.
    #[cfg(test)]
    pub(super) fn misses(&self) -> Option<u32> {
        self.main.get()?.as_ref().map(|_| self.misses.load(Ordering::Relaxed) / MISS)
    }
}

fn may_try(attempt: &Attempt) -> bool {
    let bytes = attempt.job.spec.body.data.len() + attempt.checkpoint.as_ref().map_or(0, Vec::len);
    matches!(attempt.adapter, Adapter::Handler)
        && matches!(attempt.record, Record::Off | Record::Failures)
        && bytes <= BYTES_MAX
}

impl Main {
    /// None if the module is not what it should be.
    fn new(component: &Component, module: &Module) -> Option<Self> {
        let mut linker = Linker::new(component.engine());
        host::add_to_linker(&mut linker, module).ok()?;
        let export = |name| module.get_export_index(name);
        Some(Self {
            memory: export(MEMORY)?,
            realloc: export(REALLOC)?,
            handle: export(HANDLE)?,
            post_return: export(POST_RETURN),
            passing_on_fuel: (component.resources_required()?.num_tables > module.resources_required().num_tables)
                .into(),
            pre: linker.instantiate_pre(module).ok()?,
        })
    }

    /// None if the answer does not count.
    fn attempt(&self, begun: &BegunAttempt<'_>) -> wasmtime::Result<Option<Report>> {
        let BegunAttempt { attempt, version, started, deadline } = *begun;
        let (fuel, slice) = (attempt.limits.fuel, slice_of(attempt.limits.fuel));
        let mut store = Store::new(self.pre.module().engine(), State::of_try(attempt, version, started, deadline));
        store.limiter(|state| &mut state.memory);
        store.set_fuel(slice.saturating_sub(self.passing_on_fuel))?;
        let outcome = self.call(&mut store, begun)?.within(attempt.limits.output_bytes);
        let is_done = matches!(outcome, Outcome::Complete(_) | Outcome::Snooze(_));
        // What fails is recorded in the component.
        let is_recorded = !matches!(attempt.record, Record::Off);
        let remaining = store.get_fuel()?;
        // A guest sees at its next function or loop that it has none. What it has computed until it returned is not known here.
        if remaining == 0 || (is_recorded && !is_done) || store.data().memory.denied() {
            return Ok(None);
        }
        store.set_fuel(fuel.saturating_sub(slice).saturating_add(remaining))?;
        store.data().guest_log().release();
        Ok(Some(report(&mut store, started, |_| outcome)))
    }

    fn call(&self, mut store: &mut Store<State>, begun: &BegunAttempt<'_>) -> wasmtime::Result<Outcome> {
        let instance = self.pre.instantiate(&mut store)?;
        let memory = export(&mut store, instance, &self.memory, Extern::into_memory)?;
        let realloc = export(&mut store, instance, &self.realloc, Extern::into_func)?.typed(&store)?;
        let handle = export(&mut store, instance, &self.handle, Extern::into_func)?.typed::<u32, u32>(&store)?;
        store.data_mut().tried()?.ports = Some(Ports { memory, realloc });

        let metadata = handler::borrowed(&begun.attempt.job.spec.metadata);
        let job = abi::lower_job(&mut store, &handler::guest_job(begun.attempt, &metadata, begun.deadline))?;
        let place = handle.call(&mut store, job)?;
        let answer = abi::lift_answer(&View::of(memory.data(&store)), place)?;
        if let Some(post_return) = &self.post_return {
            let post_return = export(&mut store, instance, post_return, Extern::into_func)?.typed::<u32, ()>(&store)?;
            store.data_mut().tried()?.may_not_leave = true;
            post_return.call(&mut store, place)?;
        }
        Ok(handler::outcome(answer))
    }
}

fn export<T>(
    store: impl AsContextMut,
    instance: Instance,
    export: &ModuleExport,
    kind: fn(Extern) -> Option<T>,
) -> wasmtime::Result<T> {
    instance.get_module_export(store, export).and_then(kind).ok_or_else(|| Error::msg("an export of another kind"))
}

/// Fuel of a try.
fn slice_of(fuel: u64) -> u64 {
    fuel.min(FUEL_PER_YIELD)
}

impl std::fmt::Debug for Main {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Main")
    }
}
