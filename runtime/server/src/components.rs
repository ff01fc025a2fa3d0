//! A topic's component: bring one, take it away.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::StatusCode;
use axum::routing::put;
use axum::{Json, Router};

use super::caller::{Caller, Scope};
use super::extract::Head;
use super::jobs::PUSH_BYTES;
use super::problem::{Code, Problem};
use super::room::Room;
use super::wire;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::Topic;
use gristmill_runner::handlers::{HandlerRegistry, IntakeError};

/// Checks, compiling and the start of service; the compiler has a limit of its own.
const TAKE_IN_WITHIN: Duration = Duration::from_secs(180);

pub(super) fn routes() -> Router<Room> {
    Router::new()
        .route("/tenants/{tenant}/topics/{topic}/handler", put(upload).delete(remove))
        .layer(DefaultBodyLimit::max(PUSH_BYTES))
}

async fn upload(
    State(room): State<Room>,
    caller: Caller,
    Head(Path(topic)): Head<Path<TopicId>>,
    request: Request,
) -> Result<(StatusCode, Json<wire::Served>), Problem> {
    caller.may(Scope::Admin, &topic.tenant)?;
    let registry = room.registry()?;
    let topic = owned(&caller, &registry, &topic)?;
    let is_new = registry.get(&topic.id).is_none_or(|entry| entry.handler.is_none());
    let place = room.turns.wait()?;
    let wasm = room.turns.within(async { Ok(Bytes::from_request(request, &()).await?) }).await?;
    let intake = room.intake()?;
    let version = within(intake.put(&topic, &wasm)).await?.to_string();
    drop(place);
    tracing::info!(handler = %topic.handler, %version, topic = %topic.id, "component taken in");
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(wire::Served { handler: topic.handler, version: Some(version) })))
}

async fn remove(
    State(room): State<Room>,
    caller: Caller,
    Head(Path(topic)): Head<Path<TopicId>>,
) -> Result<Json<wire::Served>, Problem> {
    caller.may(Scope::Admin, &topic.tenant)?;
    let topic = owned(&caller, &*room.registry()?, &topic)?;
    let intake = room.intake()?;
    within(intake.remove(&topic)).await?;
    tracing::info!(handler = %topic.handler, topic = %topic.id, "component taken away");
    Ok(Json(wire::Served { handler: topic.handler, version: None }))
}

/// The topic, if it may have another handler by this caller. A handler's file is shared by all topics that name it, of
/// whatever tenant: who has one tenant only may replace it only if no other tenant's jobs run by it.
fn owned(caller: &Caller, registry: &HandlerRegistry, id: &TopicId) -> Result<Topic, Problem> {
    let unknown = || {
        let detail = format!("there is no topic `{id}`: a section in the manifest makes one");
        Problem::new(Code::TopicUnknown, detail)
    };
    let topic = registry.topic(id).ok_or_else(unknown)?;
    let shared = |name: &Name| registry.topics_of(name).iter().any(|other| other.id.tenant != id.tenant);
    if shared(&topic.handler) {
        caller.may_everywhere(Scope::Admin)?;
    }
    Ok(topic)
}

async fn within<T>(work: impl Future<Output = Result<T, IntakeError>>) -> Result<T, Problem> {
    let late = || Problem::new(Code::Timeout, format!("not done within {} s", TAKE_IN_WITHIN.as_secs()));
    Ok(tokio::time::timeout(TAKE_IN_WITHIN, work).await.map_err(|_| late())??)
}

impl From<IntakeError> for Problem {
    fn from(error: IntakeError) -> Self {
        let code = match &error {
            IntakeError::Busy => Code::Busy,
            IntakeError::TooLarge(_) => Code::TooLarge,
            IntakeError::Refused(_) => Code::HandlerRefused,
            IntakeError::Unknown(_) => Code::HandlerUnknown,
            IntakeError::Folder { .. } => Code::HandlersFolder,
            IntakeError::NotServed => Code::Timeout,
        };
        Self::new(code, format!("{:#}", anyhow::Error::from(error)))
    }
}
