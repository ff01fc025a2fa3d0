//! The steps of an attempt: a store, an instance, and a call within limits.

use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Instance, Lift, Lower};
use wasmtime::{PoolConcurrencyLimitError, Store};

use super::attempt::Attempt;
use super::classify::Stopped;
use super::code::Code;
use super::engine::FUEL_PER_YIELD;
use super::meter::{self, bytes_per_call};
use super::state::State;
use gristmill_core::outcome::{LimitName, Outcome};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Grants, Limits};

/// Handles to resources that a guest may hold.
const HANDLES_MAX: usize = 1_000;

impl Code {
    /// For an attempt that started at this time, and whose time is over at `deadline`, by the store's clock.
    pub(super) fn store(&self, attempt: &Arc<Attempt>, started: Instant, deadline: Timestamp) -> Store<State> {
        let mut store = Store::new(self.pre.engine(), State::new(attempt, self.version, started, deadline));
        store.limiter(|state| &mut state.memory);
        if self.is_composed {
            store.call_hook_async(meter::CopyingHook);
        } else {
            store.call_hook(meter::on_change);
        }
        limit_calls(&mut store, &attempt.limits, &attempt.grants);
        store.set_max_component_handles(HANDLES_MAX);
        store
    }

    /// Instantiates, and calls one of the component's functions.
    pub(super) async fn call<P, R>(
        &self,
        store: &mut Store<State>,
        function: &ComponentExportIndex,
        parameters: P,
    ) -> Result<R, Stopped>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift + 'static,
    {
        let instance = self.start(store).await.map_err(Stopped::Starting)?;
        let function = instance.get_typed_func::<P, R>(&mut *store, function).map_err(Stopped::Starting)?;
        function.call_async(store, parameters).await.map_err(Stopped::Running)
    }

    /// Fuel counts from here on: a guest's initialisation is its own expense.
    pub(super) async fn start(&self, store: &mut Store<State>) -> wasmtime::Result<Instance> {
        let fuel = store.data().attempt.limits.fuel;
        meter::set_fuel(&mut *store, fuel, FUEL_PER_YIELD)?;
        loop {
            match self.pre.instantiate_async(&mut *store).await {
                // An instance that is kept for later must not be in the way of one that is wanted now.
                Err(error) if error.is::<PoolConcurrencyLimitError>() && self.idle.free_oldest() => {
                    store.data_mut().forget_memories();
                }
                answer => return answer,
            }
        }
    }
}

/// Bytes that each host call may pass.
pub(super) fn limit_calls(store: &mut Store<State>, limits: &Limits, grants: &Grants) {
    store.set_hostcall_fuel(usize::try_from(bytes_per_call(limits, grants)).unwrap_or(usize::MAX));
}

/// The outcome of an attempt that can be decided without a guest.
pub(super) fn refuse(attempt: &Attempt) -> Option<Outcome> {
    let allowed = attempt.limits.payload_bytes;
    let bytes = attempt.job.spec.body.data.len() as u64;
    (bytes > allowed).then_some(Outcome::LimitExceeded { limit: LimitName::Payload, allowed })
}
