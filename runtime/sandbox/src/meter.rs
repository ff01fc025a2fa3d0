//! What a guest pays for the host's work.
//!
//! wasmtime charges fuel for what a guest computes, and interrupts the guest when it has used up a slice of its fuel. A host
//! call takes time and hardly any fuel. So each host function charges its call and its bytes to the [`Meter`]. wasmtime runs
//! [`on_change`] at every change between guest and host: it takes the charge from the store's fuel, and makes a guest yield that has kept
//! its thread for long. When it yields, its time is compared; a guest that cannot yield between calls is ended after a few late ones.

use std::task::Poll;
use std::time::{Duration, Instant};

use wasmtime::{AsContextMut, CallHook, CallHookHandler, StoreContextMut, Trap};

use super::engine::FUEL_PER_YIELD;
use super::state::State;
use gristmill_core::topic::{Capability, Grants, Limits};

/// Fuel of a host call, whatever it does: about its time, at one nanosecond a unit. Bytes come on top, one unit each.
const FUEL_PER_CALL: u64 = 200;

/// Calls after the deadline without a yield in between, after which the guest ends. One alone may be late because the thread stood still.
const LATE_CALLS: u32 = 4;

/// A guest that calls the host yields after this time, whatever fuel it has used meanwhile.
const LONGEST_SLICE: Duration = Duration::from_millis(1);

/// The account of one attempt.
#[derive(Debug)]
pub(super) struct Meter {
    started: Instant,
    /// What the attempt had waited for threads by then.
    waited: Duration,
    late_calls: u32,
    host_calls: u64,
    /// Fuel that host functions have charged, and that was not taken from the store yet.
    owed: u64,
    /// What the store's fuel will be when the guest yields next.
    yields_at: u64,
    yielded: Instant,
    /// The call of the host that the guest makes now is a yield.
    yielding: bool,
}

/// The guest called the host more often than it may. Ends the guest.
#[derive(Debug, thiserror::Error)]
#[error("the attempt's limit of {0} host calls is used up")]
pub(super) struct HostCallsUsedUp(pub(super) u64);

/// The attempt's time was over for several host calls. Ends the guest.
#[derive(Debug, thiserror::Error)]
#[error("the attempt's time is over")]
pub(super) struct DeadlinePassed;

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

impl Meter {
    pub(super) fn new(started: Instant, waited: Duration) -> Self {
        Self { started, waited, late_calls: 0, host_calls: 0, owed: 0, yields_at: 0, yielded: started, yielding: false }
    }

    /// Since the attempt began.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Calls of the host so far.
    pub(super) fn host_calls(&self) -> u64 {
        self.host_calls
    }

    /// Fuel that is charged and still in the store.
    pub(super) fn owed(&self) -> u64 {
        self.owed
    }
}

impl State {
    /// Counts a host call, and charges it and the bytes that it passes. Every host function begins with this.
    ///
    /// # Errors
    /// [`HostCallsUsedUp`]; the guest does not survive it, even if the host function ignores it.
    pub(super) fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.meter.owed = self.meter.owed.saturating_add(FUEL_PER_CALL);
        self.charge_bytes(bytes);
        self.count_call()
    }

    /// What host functions have charged since this was last called. To be called by what takes it from the store's fuel.
    pub(super) fn take_owed(&mut self) -> u64 {
        std::mem::take(&mut self.meter.owed).saturating_add(self.take_passed())
    }

    /// Charges what a host function found out that it passes.
    pub(super) fn charge_bytes(&mut self, bytes: usize) {
        self.meter.owed = self.meter.owed.saturating_add(bytes as u64);
    }

    fn count_call(&mut self) -> wasmtime::Result<()> {
        self.meter.host_calls = self.meter.host_calls.saturating_add(1);
        self.check_calls()
    }

    fn check_calls(&self) -> wasmtime::Result<()> {
        let allowed = self.attempt.limits.host_calls;
        if self.meter.host_calls > allowed { Err(HostCallsUsedUp(allowed).into()) } else { Ok(()) }
    }

    fn check_deadline(&mut self, now: Instant) -> wasmtime::Result<()> {
        let waited = self.attempt.cancellation.control.waited().saturating_sub(self.meter.waited);
        let took = now.saturating_duration_since(self.meter.started).saturating_sub(waited);
        self.meter.late_calls = if took < self.attempt.limits.timeout { 0 } else { self.meter.late_calls + 1 };
        if self.meter.late_calls >= LATE_CALLS { Err(DeadlinePassed.into()) } else { Ok(()) }
    }

    /// The guest has its thread anew.
    fn note_yield(&mut self) {
        (self.meter.yielded, self.meter.late_calls) = (Instant::now(), 0);
    }

    fn has_kept_its_thread(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.meter.yielded) >= LONGEST_SLICE
    }
}

/// Gives the guest this fuel, of which it uses `slice` before it yields.
///
/// Only where the guest's code has saved its count of fuel and will load it again: outside of the guest, in host functions and
/// when it yields. Not when it grows a memory, which is a change to the host too.
pub(super) fn set_fuel(mut store: impl AsContextMut<Data = State>, fuel: u64, slice: u64) -> wasmtime::Result<()> {
    let mut store = store.as_context_mut();
    store.data_mut().meter.yields_at = fuel.saturating_sub(slice);
    store.fuel_async_yield_interval(Some(slice))?;
    store.set_fuel(fuel)
}

/// The hook of a usual component.
pub(super) fn on_change(mut store: StoreContextMut<'_, State>, change: CallHook) -> wasmtime::Result<()> {
    match change {
        CallHook::CallingHost => {
            let remaining = store.get_fuel()?;
            let meter = &mut store.data_mut().meter;
            meter.yielding = remaining <= meter.yields_at;
            Ok(())
        }
        CallHook::CallingWasm | CallHook::ReturningFromHost if store.data().meter.owed > 0 => settle(store),
        CallHook::ReturningFromHost if store.data().meter.yielding => {
            store.data_mut().meter.yielding = false;
            store.data_mut().note_yield();
            let remaining = store.get_fuel()?;
            set_fuel(store, remaining, FUEL_PER_YIELD)
        }
        _ => Ok(()),
    }
}

/// Takes what a host function charged. A host function that calls the guest back, for memory, settles before it does so.
fn settle(mut store: StoreContextMut<'_, State>) -> wasmtime::Result<()> {
    let now = Instant::now();
    let remaining = store.get_fuel()?;
    let state = store.data_mut();
    let owed = state.take_owed();
    let after = remaining.saturating_sub(owed);
    let of_slice = after.saturating_sub(state.meter.yields_at).max(1);
    let slice = if state.has_kept_its_thread(now) { 1 } else { of_slice };
    state.meter.yielding = false;
    state.check_calls()?;
    state.host_memory.check()?;
    if state.is_recorded {
        state.guest_log().boundary.check()?;
    }
    state.check_deadline(now)?;
    set_fuel(store, after, slice)?;
    if remaining < owed { Err(Trap::OutOfFuel.into()) } else { Ok(()) }
}

/// The hook of a component with other components inside.
///
/// The host copies the strings that these pass to each other, and that is no host function: what it costs is not known, and the
/// fuel must not be set. So each copy counts as a host call, and this hook yields by itself.
pub(super) struct CopyingHook;

#[async_trait::async_trait]
impl CallHookHandler<State> for CopyingHook {
    async fn handle_call_event(&self, mut store: StoreContextMut<'_, State>, change: CallHook) -> wasmtime::Result<()> {
        let meter = &store.data().meter;
        let is_copy = matches!(change, CallHook::ReturningFromHost) && meter.owed == 0 && !meter.yielding;
        on_change(store.as_context_mut(), change)?;
        if is_copy {
            let now = Instant::now();
            let state = store.data_mut();
            state.count_call()?;
            if state.has_kept_its_thread(now) {
                yield_now().await;
                store.data_mut().note_yield();
            }
        }
        Ok(())
    }
}

/// As wasmtime does: the guest can go on at once. With tokio's it would seem to wait.
async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
