//! Bulk actions: make (a dry run), look at, start, abort.

use axum::Json;
use axum::http::StatusCode;

use crate::api::jobs::checked;
use crate::audit::RequestFacts;
use crate::auth::allowed::{Allowed, scope};
use crate::auth::identity::{Identity, Scope};
use crate::bulk::Work;
use crate::extract::Document;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use crate::wire::bulk::{Bulk, BulkAction, Bulks, NewBulk, StartBulk};
use gristmill_core::job::{JobChange, Name};

const MAKE: &str = "Begins a dry run, which counts the jobs that fit and changes none: look at it until its state is `counted`, then \
    start it. It needs the scope `read`, too. The server keeps the last 100 of a tenant in its memory.";
const START: &str = "Acts on each job that still fits, in steps of at most 1000 jobs. It needs the scope `read`, too.";
const ABORT: &str = "What was changed before stays so. It needs the scope `read`, too.";

/// What the path names: a tenant, and a bulk action.
type InPath = (Name, String);

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/bulk";
    let one = &format!("{path}/{{id}}");
    Routes::of("jobs")
        .get(path, list, "List bulk actions, the latest first")
        .post(path, make, "Make a bulk action: a dry run of an action on all jobs that fit a query")
        .description(MAKE)
        .problems(&[Code::Busy])
        .get(one, look, "Look at a bulk action")
        .problems(&[Code::BulkUnknown])
        .post(&format!("{one}/start"), start, "Start a bulk action that was counted")
        .description(START)
        .problems(&[Code::BulkUnknown, Code::BulkRefused, Code::Busy])
        .post(&format!("{one}/abort"), abort, "Abort a bulk action, after its current step")
        .description(ABORT)
        .problems(&[Code::BulkUnknown, Code::TooLate])
}

async fn list(Allowed { over: tenant, state, .. }: Allowed<scope::Read, Name>) -> Result<Json<Bulks>, Problem> {
    Ok(Json(Bulks { bulk: state.bulk.list(&tenant) }))
}

async fn look(Allowed { over: (tenant, id), state, .. }: Allowed<scope::Read, InPath>) -> Result<Json<Bulk>, Problem> {
    Ok(Json(state.bulk.get(&tenant, &id)?))
}

async fn make(
    Allowed { over: tenant, identity, state, .. }: Allowed<scope::Admin, Name>,
    facts: RequestFacts,
    Document(new): Document<NewBulk>,
) -> Result<(StatusCode, Json<Bulk>), Problem> {
    identity.may(Scope::Read, &tenant)?;
    let change = new.change();
    if new.action == BulkAction::Change {
        checked(change)?;
    } else if change != JobChange::default() {
        return Err(Problem::new(Code::BadRequest, "`due` and `priority` go with the action `change`"));
    }
    // Others see the query.
    state.public_query(&tenant, &new.q)?;
    let bulk = state.bulk.make(Work::new(tenant, &new)?, new, &identity)?;
    facts.made(&bulk.id);
    Ok((StatusCode::CREATED, Json(bulk)))
}

async fn start(
    Allowed { over: (tenant, id), identity, state, .. }: Allowed<scope::Admin, InPath>,
    Document(StartBulk { expect }): Document<StartBulk>,
) -> Result<Json<Bulk>, Problem> {
    may_read(&state, &identity, &tenant, &id)?;
    Ok(Json(state.bulk.start(&tenant, &id, expect, &identity)?))
}

async fn abort(
    Allowed { over: (tenant, id), identity, state, .. }: Allowed<scope::Admin, InPath>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<Bulk>, Problem> {
    may_read(&state, &identity, &tenant, &id)?;
    Ok(Json(state.bulk.abort(&tenant, &id)?))
}

/// How many jobs fit says what is in them, and the answers have that.
fn may_read(state: &AppState, identity: &Identity, tenant: &Name, id: &str) -> Result<(), Problem> {
    state.bulk.get(tenant, id)?;
    identity.may(Scope::Read, tenant)
}
