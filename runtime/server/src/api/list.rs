//! A topic's jobs of one state, page by page, and jobs that fit a query.

use axum::Json;
use axum::extract::Query;

use crate::api::jobs::within_page;
use crate::auth::allowed::{Allowed, scope};
use crate::extract::Head;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::wire;
use gristmill_core::job::{Name, TopicId};
use gristmill_store::{Cursor, FoundJobs, JobQuery, QueryCursor, StateFilter, find, show_progress};

const FIND: &str = "Jobs that fit the query: of one state after the other. One request looks at 10,000 jobs at most, so that an \
    answer may be empty, and others follow: `next` says where to go on.";

pub(crate) fn routes() -> Routes {
    Routes::of("jobs")
        .get(
            "/tenants/{tenant}/topics/{topic}/jobs",
            list,
            "List jobs of one state, or those that fit a query, page by page",
        )
        .get("/tenants/{tenant}/jobs", search, "Find jobs in all topics")
        .description(FIND)
}

async fn list(
    Allowed { over: topic, identity, state, .. }: Allowed<scope::Read, TopicId>,
    Head(Query(wanted)): Head<Query<wire::List>>,
) -> Result<Json<wire::Listed>, Problem> {
    within_page(wanted.limit)?;
    let place = wanted.state.as_deref().map(place).transpose()?;
    let after = wanted.after.as_deref();
    let Some(q) = &wanted.q else {
        let place = place.ok_or_else(|| Problem::new(Code::BadRequest, "say which jobs by `state` or by `q`"))?;
        let after = after.map(|after| cursor(after, place)).transpose()?;
        let mut page = state.store.jobs(&topic, place, after.as_ref(), wanted.limit).await?;
        show_progress(&*state.store, &topic.tenant, &mut page.jobs).await?;
        let next = page.next.as_ref().map(Cursor::to_string);
        let jobs = state.shown(&identity, &topic.tenant, page.jobs);
        return Ok(Json(wire::Listed { jobs, next, looked_at: None }));
    };
    let query = state.query(&identity, &topic.tenant, q)?;
    let query = place.into_iter().fold(query, JobQuery::of_state);
    let after = after.map(query_cursor).transpose()?;
    let mut found = find(&*state.store, &topic.tenant, Some(&topic), &query, after, wanted.limit).await?;
    found.jobs = state.shown(&identity, &topic.tenant, found.jobs);
    Ok(Json(found.into()))
}

async fn search(
    Allowed { over: tenant, identity, state, .. }: Allowed<scope::Read, Name>,
    Head(Query(wanted)): Head<Query<wire::Search>>,
) -> Result<Json<wire::Listed>, Problem> {
    within_page(wanted.limit)?;
    let after = wanted.after.as_deref().map(query_cursor).transpose()?;
    let query = state.query(&identity, &tenant, &wanted.q)?;
    let mut found = find(&*state.store, &tenant, None, &query, after, wanted.limit).await?;
    found.jobs = state.shown(&identity, &tenant, found.jobs);
    Ok(Json(found.into()))
}

impl From<FoundJobs> for wire::Listed {
    fn from(found: FoundJobs) -> Self {
        let next = found.next.as_ref().map(QueryCursor::to_string);
        Self { jobs: found.jobs, next, looked_at: Some(found.looked_at) }
    }
}

pub(crate) fn query_cursor(after: &str) -> Result<QueryCursor, Problem> {
    after.parse().map_err(|error| Problem::new(Code::BadRequest, format!("`after`: {error}")))
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
