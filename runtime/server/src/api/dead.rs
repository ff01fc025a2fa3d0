//! Dead jobs: group, respawn, delete.

use axum::Json;
use axum::extract::Query;

use crate::api::list::{cursor, query_cursor};
use crate::auth::allowed::{Allowed, scope};
use crate::auth::identity::{Identity, Scope};
use crate::extract::{Document, Head};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire::dead::{Chosen, Done, Groups, GroupsOf, Intervened};
use crate::wire::{self, BATCH};
use gristmill_core::job::{Name, TopicId};
use gristmill_store::{
    Cursor, DeadGroups, JobAction, JobQuery, ListChanged, QueryCursor, Scanned, StateFilter, dead_groups,
};

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
    Allowed { over: topic, identity, state, .. }: Allowed<scope::Admin, TopicId>,
    Document(chosen): Document<Chosen>,
) -> Result<Json<Intervened>, Problem> {
    intervene(&state, &topic, &identity, chosen, JobAction::Respawn).await
}

async fn delete(
    Allowed { over: topic, identity, state, .. }: Allowed<scope::Admin, TopicId>,
    Document(chosen): Document<Chosen>,
) -> Result<Json<Intervened>, Problem> {
    intervene(&state, &topic, &identity, chosen, JobAction::Delete).await
}

async fn intervene(
    state: &AppState,
    topic: &TopicId,
    identity: &Identity,
    chosen: Chosen,
    action: JobAction,
) -> Result<Json<Intervened>, Problem> {
    chosen.check().map_err(|wrong| Problem::new(Code::BadRequest, wrong))?;
    if let Some(ids) = chosen.ids {
        let refusals = action.act(&*state.store, topic, &ids).await?;
        let were_dead = refusals.iter().map(Option::is_none).collect();
        return Ok(Json(Intervened::ByIds(wire::WereDead { were_dead })));
    }
    let mut query = JobQuery::default();
    if let Some(q) = chosen.q {
        // How many jobs fit says what is in them.
        identity.may(Scope::Read, &topic.tenant)?;
        query = state.query(identity, &topic.tenant, &q)?;
        if !query.is_selective() {
            return Err(Problem::new(Code::BadRequest, NOT_SELECTIVE));
        }
    }
    let after = chosen.after.as_deref().map(|after| cursor(after, StateFilter::Dead)).transpose()?;
    let mut scanned = Scanned::at_most(chosen.limit.unwrap_or(BATCH), LOOKED_AT).of_any_size();
    let list = (topic, StateFilter::Dead);
    let ListChanged { changed, next } = action.act_on_list(&*state.store, list, after, &query, &mut scanned).await?;
    let (looked_at, next) = (scanned.looked_at, next.as_ref().map(Cursor::to_string));
    Ok(Json(Intervened::ByQuery(Done { changed, looked_at, next })))
}

async fn groups(
    Allowed { over: tenant, identity, state, .. }: Allowed<scope::Read, Name>,
    Head(Query(GroupsOf { q, after })): Head<Query<GroupsOf>>,
) -> Result<Json<Groups>, Problem> {
    let after = after.as_deref().map(query_cursor).transpose()?;
    let query = state.query(&identity, &tenant, &q)?;
    let DeadGroups { groups, looked_at, next } = dead_groups(&*state.store, &tenant, &query, after).await?;
    Ok(Json(Groups { groups, looked_at, next: next.as_ref().map(QueryCursor::to_string) }))
}
