//! A topic's jobs of one state, page by page.

use axum::extract::{Path, Query, State};
use axum::routing::get;
use axum::{Json, Router};

use super::caller::{Caller, Scope};
use super::extract::Head;
use super::jobs::within_batch;
use super::problem::{Code, Problem};
use super::room::Room;
use super::wire;
use gristmill_core::job::TopicId;
use gristmill_store::{Cursor, StateFilter};

pub(super) fn routes() -> Router<Room> {
    Router::new().route("/tenants/{tenant}/topics/{topic}/jobs", get(list))
}

async fn list(
    State(room): State<Room>,
    caller: Caller,
    Head(Path(topic)): Head<Path<TopicId>>,
    Head(Query(wanted)): Head<Query<wire::List>>,
) -> Result<Json<wire::Listed>, Problem> {
    caller.may(Scope::Read, &topic.tenant)?;
    within_batch(wanted.limit)?;
    let place = place(&wanted.state)?;
    let after = wanted.after.as_deref().map(|after| cursor(after, place)).transpose()?;
    let page = room.store.jobs(&topic, place, after.as_ref(), wanted.limit).await?;
    let next = page.next.as_ref().map(Cursor::to_string);
    Ok(Json(wire::Listed { jobs: page.jobs.into_iter().map(Into::into).collect(), next }))
}

fn place(state: &str) -> Result<StateFilter, Problem> {
    let unknown = || format!("`{state}` is no state of a listed job: use ready, delayed, running or dead");
    StateFilter::parse(state).ok_or_else(|| Problem::new(Code::BadRequest, unknown()))
}

pub(super) fn cursor(after: &str, place: StateFilter) -> Result<Cursor, Problem> {
    let cursor: Cursor = after.parse().map_err(|error| Problem::new(Code::BadRequest, format!("`after`: {error}")))?;
    if cursor.place() == place {
        return Ok(cursor);
    }
    let problem = format!("`after` leads on from {} jobs, not from {} ones", cursor.place().as_str(), place.as_str());
    Err(Problem::new(Code::BadRequest, problem))
}
