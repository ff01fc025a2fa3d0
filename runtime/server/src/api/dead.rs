//! A topic's dead jobs: list, respawn, delete.

use axum::Json;
use axum::extract::{Query, State};

use crate::api::jobs::within_batch;
use crate::api::list::cursor;
use crate::auth::allowed::{Allowed, scope};
use crate::extract::{Document, Head};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire::dead::{Chosen, Done, Filter, Intervened};
use crate::wire::{self, BATCH};
use gristmill_core::job::{JobId, TopicId};
use gristmill_store::{Cursor, StateFilter, Store, StoreError};

/// Dead jobs that a filter is held against in one request; the answer says where to go on.
const LOOKED_AT: usize = 1000;
/// Of which so many are in memory at once.
const PAGE: usize = 100;
/// Skipping looks at every job that is skipped.
const MOST_SKIPPED: usize = 100_000;

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/topics/{topic}/dead";
    Routes::of("dead")
        .get(path, list, "List dead jobs, the latest first")
        .post(&format!("{path}/respawn"), respawn, "Make dead jobs ready again, by id or by filter")
        .post(&format!("{path}/delete"), delete, "Delete dead jobs, by id or by filter")
}

async fn list(
    Allowed { over: topic, .. }: Allowed<scope::Read, TopicId>,
    State(state): State<AppState>,
    Head(Query(page)): Head<Query<wire::Page>>,
) -> Result<Json<wire::Dead>, Problem> {
    within_batch(page.limit)?;
    if page.skip > MOST_SKIPPED {
        return Err(Problem::new(
            Code::BadRequest,
            format!("`skip` is at most {MOST_SKIPPED}: page by `/jobs?state=dead`"),
        ));
    }
    Ok(Json(wire::Dead { dead: state.store.dead(&topic, page.skip, page.limit).await? }))
}

async fn respawn(
    Allowed { over: topic, .. }: Allowed<scope::Admin, TopicId>,
    State(state): State<AppState>,
    Document(chosen): Document<Chosen>,
) -> Result<Json<Intervened>, Problem> {
    intervene(&state, &topic, chosen, DeadAction::Respawn).await
}

async fn delete(
    Allowed { over: topic, .. }: Allowed<scope::Admin, TopicId>,
    State(state): State<AppState>,
    Document(chosen): Document<Chosen>,
) -> Result<Json<Intervened>, Problem> {
    intervene(&state, &topic, chosen, DeadAction::Delete).await
}

/// What to do with dead jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DeadAction {
    Respawn,
    Delete,
}

impl DeadAction {
    /// Returns for each job whether it was dead and this was done to it.
    pub(crate) async fn apply(
        self,
        store: &dyn Store,
        topic: &TopicId,
        ids: &[JobId],
    ) -> Result<Vec<bool>, StoreError> {
        match self {
            Self::Respawn => store.respawn(topic, ids).await,
            Self::Delete => store.delete_dead(topic, ids).await,
        }
    }
}

async fn intervene(
    state: &AppState,
    topic: &TopicId,
    chosen: Chosen,
    action: DeadAction,
) -> Result<Json<Intervened>, Problem> {
    chosen.check().map_err(|wrong| Problem::new(Code::BadRequest, wrong))?;
    if let Some(ids) = chosen.ids {
        within_batch(ids.len())?;
        let were_dead = action.apply(&*state.store, topic, &ids).await?;
        return Ok(Json(Intervened::ByIds(wire::WereDead { were_dead })));
    }
    let after = chosen.after.as_deref().map(|after| cursor(after, StateFilter::Dead)).transpose()?;
    let filter = chosen.filter.unwrap_or_default();
    let done = by_filter(state, topic, &filter, chosen.limit.unwrap_or(BATCH), after, action).await?;
    Ok(Json(Intervened::ByFilter(done)))
}

/// The latest first. No page is larger than what may still be done, so that each job that is looked at and fits is done.
async fn by_filter(
    state: &AppState,
    topic: &TopicId,
    filter: &Filter,
    limit: usize,
    mut after: Option<Cursor>,
    action: DeadAction,
) -> Result<Done, Problem> {
    let (mut changed, mut looked_at) = (0, 0);
    loop {
        let most = PAGE.min(limit - changed).min(LOOKED_AT - looked_at);
        let page = state.store.jobs(topic, StateFilter::Dead, after.as_ref(), most).await?;
        looked_at += page.jobs.len();
        let fitting: Vec<JobId> = page.jobs.iter().filter(|job| filter.fits(job)).map(|job| job.id.clone()).collect();
        changed += action.apply(&*state.store, topic, &fitting).await?.into_iter().filter(|done| *done).count();
        let past = page.jobs.last().is_some_and(|job| filter.is_past(job));
        after = page.next.filter(|_| !past);
        if after.is_none() || changed >= limit || looked_at >= LOOKED_AT {
            return Ok(Done { changed, looked_at, next: after.as_ref().map(Cursor::to_string) });
        }
    }
}
