//! `/healthz`: the process lives. `/readyz`: it can do its work.

use axum::extract::State;

use crate::auth::allowed::Public;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::settings::Phase;
use crate::state::AppState;

pub(crate) fn routes() -> Routes {
    Routes::of("health")
        .get("/healthz", async |_: Public| "ok\n", "Whether the process lives")
        .get("/readyz", ready, "Whether it runs jobs and its store takes jobs")
        .answer("It does. Of several stores, those that take no jobs are named, a line each.")
        .problems(&[Code::Starting, Code::Ending, Code::StoreAway])
}

/// Ready while any part of the store takes jobs; those that do not are named.
async fn ready(_: Public, State(state): State<AppState>) -> Result<String, Problem> {
    match state.phase() {
        Phase::Starting => return Err(Problem::new(Code::Starting, "the runner is starting")),
        Phase::Ending => return Err(Problem::new(Code::Ending, "the runner is ending")),
        Phase::Ready => {}
    }
    state.readiness.ask(&*state.store).await
}
