//! Carries bulk actions out, step by step, as long as the server does.

use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::registry::{Entry, SERVER_ENDED};
use super::work::{BulkStore, Progress, Step};
use crate::limits::requests::NoPermit;
use crate::problem::{COME_AGAIN, Code, Problem};
use crate::state::AppState;
use crate::wire::bulk::{Bulk, BulkState};
use gristmill_metrics::{EventKind, as_actor};

/// How often a step is tried again while the store does not answer.
const TRIES: u32 = 30;

/// Why those are aborted whose client may do nothing any more.
const TOKEN_ENDED: &str = "the token with which it was begun was revoked, or has expired";

/// Why an action does not go on.
enum Halt {
    Aborted,
    TokenEnded,
    ServerEnds,
    Failed(Problem),
}

/// Until the server ends: then the actions that look at jobs are aborted at once, and each stops after its step.
pub(crate) async fn run(state: AppState) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            () = state.stop.cancelled() => break,
            entry = state.bulk.next() => { tasks.spawn(carry_out(state.clone(), entry)); }
            Some(ended) = tasks.join_next() => {
                if let Err(Ok(panic)) = ended.map_err(tokio::task::JoinError::try_into_panic) {
                    resume_unwind(panic);
                }
            }
        }
    }
    // At once: a step that goes on may be cut off.
    for entry in state.bulk.close() {
        tell_end(&state, &entry);
    }
    while tasks.join_next().await.is_some() {}
}

/// Counts, or acts: what the entry's state says.
pub(super) async fn carry_out(state: AppState, entry: Arc<Entry>) {
    let is_dry = match entry.shown().state {
        BulkState::Counting => true,
        BulkState::Running => false,
        // The end of the server came first.
        _ => return,
    };
    if !is_dry {
        log(&entry, "begins");
        state.metrics.emit(|| entry.event(EventKind::BulkStarted));
    }
    let has_ended = match as_actor(entry.shown().actor, all_steps(&state, &entry, is_dry)).await {
        Ok(()) if is_dry => entry.counted(),
        Ok(()) => entry.done(),
        Err(Halt::Aborted) => entry.end(BulkState::Aborted, None),
        Err(Halt::TokenEnded) => entry.end(BulkState::Aborted, Some(TOKEN_ENDED.into())),
        Err(Halt::ServerEnds) => entry.end(BulkState::Aborted, Some(SERVER_ENDED.into())),
        Err(Halt::Failed(problem)) => entry.end(BulkState::Failed, Some(problem.detail)),
    };
    if has_ended && !is_dry {
        tell_end(&state, &entry);
    }
}

fn tell_end(state: &AppState, entry: &Entry) {
    log(entry, "has ended");
    state.metrics.emit(|| entry.event(EventKind::BulkEnded));
}

async fn all_steps(state: &AppState, entry: &Entry, is_dry: bool) -> Result<(), Halt> {
    let (mut progress, mut tries) = (Progress::default(), 0);
    loop {
        if entry.abort.is_cancelled() {
            return Err(Halt::Aborted);
        }
        if state.stop.is_cancelled() {
            return Err(Halt::ServerEnds);
        }
        if !state.auth.is_valid(&entry.by()).await {
            return Err(Halt::TokenEnded);
        }
        // A step takes its turn among the requests of the tenant, has as much time, and waits for the threads as they do.
        let note = |step: Step| {
            state.recent.forget(&entry.work.tenant, &step.erased);
            entry.note(step, is_dry);
        };
        let step = Box::pin(entry.work.step(BulkStore::of(&*state.store), &mut progress, !is_dry, &note));
        let step = async { Ok(step.await?) };
        let step = state.request_limiter.within(NoPermit::at_beginning(), Some(&entry.work.tenant), step);
        match state.pacer.of(&entry.work.tenant).run(step).await {
            Ok(true) => tries = 0,
            Ok(false) => return Ok(()),
            Err(Problem { code: Code::StoreUnavailable | Code::Timeout, .. }) if tries < TRIES => {
                tries += 1;
                tokio::select! {
                    () = tokio::time::sleep(COME_AGAIN) => {}
                    () = entry.abort.cancelled() => {}
                    () = state.stop.cancelled() => {}
                }
            }
            Err(problem) => return Err(Halt::Failed(problem)),
        }
        tokio::task::yield_now().await;
    }
}

/// Without its query, which may have what is in a body.
fn log(entry: &Entry, what: &str) {
    let shown = entry.shown();
    let skipped = shown.skipped_in_all();
    let Bulk { id, action, actor, state, matched, changed, .. } = &shown;
    let (tenant, action, state) = (&entry.work.tenant, action.as_str(), state.as_str());
    tracing::info!(%tenant, id, action, actor, state, matched, changed, skipped, "a bulk action {what}");
}
