//! Carries bulk actions out, step by step, as long as the server does.

use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::registry::{BulkRun, SERVER_ENDED};
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
            run = state.bulk.next() => { tasks.spawn(carry_out(state.clone(), run)); }
            Some(ended) = tasks.join_next() => {
                if let Err(Ok(panic)) = ended.map_err(tokio::task::JoinError::try_into_panic) {
                    resume_unwind(panic);
                }
            }
        }
    }
    // At once: a step that goes on may be cut off.
    for run in state.bulk.close() {
        emit_end(&state, &run);
    }
    while tasks.join_next().await.is_some() {}
}

/// Counts, or acts: what the run's state says.
pub(super) async fn carry_out(state: AppState, run: Arc<BulkRun>) {
    let is_dry = match run.shown().state {
        BulkState::Counting => true,
        BulkState::Running => false,
        // The end of the server came first.
        _ => return,
    };
    if !is_dry {
        log(&run, "begins");
        state.metrics.emit(|| run.event(EventKind::BulkStarted));
    }
    let has_ended = match as_actor(run.shown().actor, all_steps(&state, &run, is_dry)).await {
        Ok(()) if is_dry => run.counted(),
        Ok(()) => run.done(),
        Err(Halt::Aborted) => run.end(BulkState::Aborted, None),
        Err(Halt::TokenEnded) => run.end(BulkState::Aborted, Some(TOKEN_ENDED.into())),
        Err(Halt::ServerEnds) => run.end(BulkState::Aborted, Some(SERVER_ENDED.into())),
        Err(Halt::Failed(problem)) => run.end(BulkState::Failed, Some(problem.detail)),
    };
    if has_ended && !is_dry {
        emit_end(&state, &run);
    }
}

fn emit_end(state: &AppState, run: &BulkRun) {
    log(run, "has ended");
    state.metrics.emit(|| run.event(EventKind::BulkEnded));
}

async fn all_steps(state: &AppState, run: &BulkRun, is_dry: bool) -> Result<(), Halt> {
    let (mut progress, mut tries) = (Progress::default(), 0);
    loop {
        if run.abort.is_cancelled() {
            return Err(Halt::Aborted);
        }
        if state.stop.is_cancelled() {
            return Err(Halt::ServerEnds);
        }
        if !state.auth.is_valid(&run.by()).await {
            return Err(Halt::TokenEnded);
        }
        // A step takes its turn among the requests of the tenant, has as much time, and waits for the threads as they do.
        let note = |step: Step| {
            state.recent.forget(&run.work.tenant, &step.erased);
            run.note(step, is_dry);
        };
        let step = Box::pin(run.work.step(BulkStore::of(&*state.store), &mut progress, !is_dry, &note));
        let step = async { Ok(step.await?) };
        let step = state.request_limiter.within(NoPermit::at_beginning(), Some(&run.work.tenant), step);
        match state.pacer.of(&run.work.tenant).run(step).await {
            Ok(true) => tries = 0,
            Ok(false) => return Ok(()),
            Err(Problem { code: Code::StoreUnavailable | Code::Timeout, .. }) if tries < TRIES => {
                tries += 1;
                tokio::select! {
                    () = tokio::time::sleep(COME_AGAIN) => {}
                    () = run.abort.cancelled() => {}
                    () = state.stop.cancelled() => {}
                }
            }
            Err(problem) => return Err(Halt::Failed(problem)),
        }
        tokio::task::yield_now().await;
    }
}

/// Without its query, which may have what is in a body.
fn log(run: &BulkRun, what: &str) {
    let shown = run.shown();
    let skipped = shown.skipped_in_all();
    let Bulk { id, action, actor, state, matched, changed, .. } = &shown;
    let (tenant, action, state) = (&run.work.tenant, action.as_str(), state.as_str());
    tracing::info!(%tenant, id, action, actor, state, matched, changed, skipped, "a bulk action {what}");
}
