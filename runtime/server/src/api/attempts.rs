//! The attempts that the runner in this process has settled last, with the log lines of their guests.

use axum::Json;
use axum::extract::Query;

use crate::api::jobs::within_page;
use crate::auth::allowed::{Allowed, scope};
use crate::extract::Head;
use crate::problem::Problem;
use crate::routes::Routes;
use crate::wire::attempts::{Attempts, AttemptsWanted};
use gristmill_core::job::Name;
use gristmill_runner::RecentWanted;

const ABOUT: &str = "Of the runner in this server's process: ask the servers of other runners for theirs, or read the journal. They are \
    in memory, and gone when the process ends. Failures are kept longest.";

pub(crate) fn routes() -> Routes {
    Routes::of("jobs")
        .get("/tenants/{tenant}/attempts", attempts, "List recent attempts with their log lines")
        .description(ABOUT)
}

async fn attempts(
    Allowed { over: tenant, identity, state, .. }: Allowed<scope::Read, Name>,
    Head(Query(AttemptsWanted { topic, job, failed, limit })): Head<Query<AttemptsWanted>>,
) -> Result<Json<Attempts>, Problem> {
    within_page(limit)?;
    let wanted = RecentWanted { tenant, topic, job, failed, limit };
    let (attempts, since_ms) = state.recent.of(&wanted);
    Ok(Json(Attempts { attempts: state.shown(&identity, &wanted.tenant, attempts), since_ms }))
}
