//! A topic's jobs of one state, page by page.

use axum::Json;
use axum::extract::{Query, State};

use crate::api::jobs::within_batch;
use crate::auth::allowed::{Allowed, scope};
use crate::extract::Head;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use gristmill_core::job::TopicId;
use gristmill_store::{Cursor, StateFilter};

pub(crate) fn routes() -> Routes {
    Routes::of("jobs").get("/tenants/{tenant}/topics/{topic}/jobs", list, "List jobs of one state, page by page")
}

async fn list(
    Allowed { over: topic, .. }: Allowed<scope::Read, TopicId>,
    State(state): State<AppState>,
    Head(Query(wanted)): Head<Query<wire::List>>,
) -> Result<Json<wire::Listed>, Problem> {
    within_batch(wanted.limit)?;
    let place = place(&wanted.state)?;
    let after = wanted.after.as_deref().map(|after| cursor(after, place)).transpose()?;
    let page = state.store.jobs(&topic, place, after.as_ref(), wanted.limit).await?;
    let next = page.next.as_ref().map(Cursor::to_string);
    Ok(Json(wire::Listed { jobs: page.jobs, next }))
}

fn place(state: &str) -> Result<StateFilter, Problem> {
    let unknown = || format!("`{state}` is no state of a listed job: use ready, delayed, running or dead");
    StateFilter::parse(state).ok_or_else(|| Problem::new(Code::BadRequest, unknown()))
}

pub(crate) fn cursor(after: &str, place: StateFilter) -> Result<Cursor, Problem> {
    let cursor: Cursor = after.parse().map_err(|error| Problem::new(Code::BadRequest, format!("`after`: {error}")))?;
    if cursor.place() == place {
        return Ok(cursor);
    }
    let problem = format!("`after` leads on from {} jobs, not from {} ones", cursor.place().as_str(), place.as_str());
    Err(Problem::new(Code::BadRequest, problem))
}
