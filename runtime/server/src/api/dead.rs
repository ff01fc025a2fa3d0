//! Dead jobs: group, respawn, delete.

use axum::Json;
use axum::extract::{Query, State};

use crate::api::list::{cursor, query_cursor};
use crate::auth::allowed::{Allowed, scope};
use crate::auth::identity::{Identity, Scope};
use crate::extract::{Document, Head};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire::dead::{Chosen, Done, Groups, GroupsOf, Intervened};
use crate::wire::{self, BATCH};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_store::{Cursor, DeadGroups, QueryCursor, Scanned, StateFilter, Store, StoreError, dead_groups, scan};

/// Dead jobs that a query is held against in one request; the answer says where to go on.
const LOOKED_AT: usize = 1000;

const NOT_SELECTIVE: &str = "`q` has no condition besides topics and states, so that it would choose every dead job: add one, such as \
    `reason:timeout` or `died<1h`, or send `\"all\": true` in its place";

const GROUPS: &str = "Dead jobs of the same topic, reason, code and message, numbers and ids aside. `q` of a group chooses its jobs. \
    One request looks at 10,000 jobs at most; if `next` is not null, add the groups of the next answer to these.";

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/topics/{topic}/dead";
    Routes::of("dead")
        .post(&format!("{path}/respawn"), respawn, "Make dead jobs ready again: by id, those of a query, or all")
        .post(&format!("{path}/delete"), delete, "Delete dead jobs: by id, those of a query, or all")
        .get("/tenants/{tenant}/dead/groups", groups, "Group dead jobs by what killed them")
        .description(GROUPS)
}

async fn respawn(
    Allowed { over: topic, identity, .. }: Allowed<scope::Admin, TopicId>,
    State(state): State<AppState>,
    Document(chosen): Document<Chosen>,
) -> Result<Json<Intervened>, Problem> {
    intervene(&state, &topic, &identity, chosen, DeadAction::Respawn).await
}

async fn delete(
    Allowed { over: topic, identity, .. }: Allowed<scope::Admin, TopicId>,
    State(state): State<AppState>,
    Document(chosen): Document<Chosen>,
) -> Result<Json<Intervened>, Problem> {
    intervene(&state, &topic, &identity, chosen, DeadAction::Delete).await
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
    identity: &Identity,
    chosen: Chosen,
    action: DeadAction,
) -> Result<Json<Intervened>, Problem> {
    chosen.check().map_err(|wrong| Problem::new(Code::BadRequest, wrong))?;
    if let Some(ids) = chosen.ids {
        let were_dead = action.apply(&*state.store, topic, &ids).await?;
        return Ok(Json(Intervened::ByIds(wire::WereDead { were_dead })));
    }
    let query = match chosen.q {
        Some(q) => {
            // How many jobs fit says what is in them.
            identity.may(Scope::Read, &topic.tenant)?;
            let query = state.query(identity, &topic.tenant, &q)?;
            if !query.is_selective() {
                return Err(Problem::new(Code::BadRequest, NOT_SELECTIVE));
            }
            query
        }
        None => state.query(identity, &topic.tenant, "")?,
    };
    let after = chosen.after.as_deref().map(|after| cursor(after, StateFilter::Dead)).transpose()?;
    let mut scanned = Scanned::at_most(chosen.limit.unwrap_or(BATCH), LOOKED_AT).of_any_size();
    let (mut ids, list) = (Vec::new(), (topic, StateFilter::Dead));
    let next = scan(&*state.store, list, after, &query, &mut scanned, |job| ids.push(job.id)).await?;
    let changed = action.apply(&*state.store, topic, &ids).await?.into_iter().filter(|done| *done).count();
    let (looked_at, next) = (scanned.looked_at, next.as_ref().map(Cursor::to_string));
    Ok(Json(Intervened::ByQuery(Done { changed, looked_at, next })))
}

async fn groups(
    Allowed { over: tenant, identity, .. }: Allowed<scope::Read, Name>,
    State(state): State<AppState>,
    Head(Query(GroupsOf { q, after })): Head<Query<GroupsOf>>,
) -> Result<Json<Groups>, Problem> {
    let after = after.as_deref().map(query_cursor).transpose()?;
    let query = state.query(&identity, &tenant, &q)?;
    let DeadGroups { groups, looked_at, next } = dead_groups(&*state.store, &tenant, &query, after).await?;
    Ok(Json(Groups { groups, looked_at, next: next.as_ref().map(QueryCursor::to_string) }))
}
