//! What came of an attempt, from the store that it ran in.

use std::time::Instant;

use wasmtime::Store;

use super::attempt::Report;
use super::state::State;
use gristmill_core::outcome::Outcome;

/// Takes the report of the attempt out of the store.
pub(super) fn report(store: &mut Store<State>, started: Instant, judge: impl FnOnce(&State) -> Outcome) -> Report {
    let fuel_left = store.get_fuel().unwrap_or(0).saturating_sub(store.data().meter.owed());
    let state = store.data_mut();
    state.guest_log().end_lines();
    let outcome = judge(state);
    let follow_ups = match outcome {
        Outcome::Complete(_) | Outcome::Snooze(_) => state.follow_ups.take(),
        _ => Vec::new(),
    };
    let changed = match outcome {
        Outcome::Complete(_) => state.take_state_change(),
        _ => None,
    };
    let log_bytes = state.guest_log().used(&state.attempt.limits);
    let log_lines_dropped = state.guest_log().close();
    Report {
        outcome,
        follow_ups,
        state: changed,
        fuel: state.attempt.limits.fuel.saturating_sub(fuel_left),
        memory_peak: state.memory.peak().saturating_add(state.host_memory.peak()),
        requests: state.http_requests.into(),
        host_calls: state.meter.host_calls(),
        log_bytes,
        duration: started.elapsed(),
        log_lines_dropped,
        recording: None,
    }
}
