//! Unique values of a topic: who holds one, and until when; and one that is held for a time set free.

use axum::Json;

use crate::auth::allowed::{Allowed, scope};
use crate::problem::Problem;
use crate::routes::Routes;
use crate::wire;
use gristmill_core::job::{Name, TopicId};

const LOOK: &str = "Also of a topic that was forgotten. Write the bytes of the value that are no letters, digits, `-`, `_` or `.` as `%2F`.";
const FREE: &str = "Frees a value that is held for a time, before that is over: the next push of it is stored. One that a job holds until it is done \
    stays held: cancel the job. Write the bytes of the value that are no letters, digits, `-`, `_` or `.` as `%2F`.";

const FREE_ALL: &str = "At most 1,000 of them: repeat it until `freed` is 0. Those that jobs hold until they are done stay held. A purge does the same.";

/// What the path names: a tenant, a topic, and a value.
type InPath = (Name, Name, String);

pub(crate) fn routes() -> Routes {
    let all = "/tenants/{tenant}/topics/{topic}/unique";
    let path = &format!("{all}/{{value}}");
    Routes::of("topics")
        .delete(all, free_windows, "Free the unique values of a topic that are held for a time")
        .description(FREE_ALL)
        .get(path, show, "Say who holds a unique value, and until when")
        .description(LOOK)
        .delete(path, free, "Free a unique value that is held for a time")
        .description(FREE)
}

async fn show(
    Allowed { over: (tenant, topic, value), state, .. }: Allowed<scope::Read, InPath>,
) -> Result<Json<wire::UniqueHold>, Problem> {
    let hold = state.store.unique_hold(&TopicId { tenant, topic }, &value).await?;
    let until = hold.as_ref().and_then(|hold| hold.until);
    Ok(Json(wire::UniqueHold { holder: hold.map(|hold| hold.holder), until }))
}

async fn free(
    Allowed { over: (tenant, topic, value), state, .. }: Allowed<scope::Admin, InPath>,
) -> Result<Json<wire::Changed>, Problem> {
    let changed = state.store.free_unique(&TopicId { tenant, topic }, &value).await?;
    Ok(Json(wire::Changed { changed }))
}

async fn free_windows(
    Allowed { over: topic, state, .. }: Allowed<scope::Admin, TopicId>,
) -> Result<Json<wire::Freed>, Problem> {
    Ok(Json(wire::Freed { freed: state.store.free_windows(&topic).await? }))
}
