//! Which versions of its handler do a topic's jobs: go back to one, or let the one that is tried do all.

use axum::Json;

use crate::auth::allowed::{Allowed, scope};
use crate::extract::Document;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use gristmill_core::job::TopicId;
use gristmill_metrics::{Event, EventKind};
use gristmill_runner::{Decision, NotDecided};

const ROLL_BACK: &str = "On all runners, with the next job; a running attempt ends on the version that it began with. Back to the version that \
    does the other jobs, if a version is being tried on a share of them; else to the last one that served before, or to the one that is named. The file in \
    the handlers folder stays, and does no job of this topic until another one takes its place.";

const PROMOTE: &str = "The version that is being tried on a share of the topic's jobs does all of them from now on.";

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/topics/{topic}/handler";
    let problems = &[Code::HandlerUnknown, Code::Busy, Code::Starting, Code::Timeout];
    Routes::of("topics")
        .post(&format!("{path}/rollback"), roll_back, "Go back to an earlier version of a topic's component")
        .description(ROLL_BACK)
        .problems(problems)
        .post(&format!("{path}/promote"), promote, "Let the version that is being tried do all jobs")
        .description(PROMOTE)
        .problems(problems)
}

async fn roll_back(
    Allowed { over: topic, identity, state, .. }: Allowed<scope::Admin, TopicId>,
    Document(wire::RollBack { to }): Document<wire::RollBack>,
) -> Result<Json<wire::Served>, Problem> {
    let decision = Decision::RollBack { to, reason: format!("by {}", identity.actor()) };
    decide(&state, topic, decision, EventKind::HandlerRolledBack).await
}

async fn promote(
    Allowed { over: topic, state, .. }: Allowed<scope::Admin, TopicId>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<wire::Served>, Problem> {
    decide(&state, topic, Decision::Promote, EventKind::HandlerPromoted).await
}

async fn decide(
    state: &AppState,
    topic: TopicId,
    decision: Decision,
    kind: EventKind,
) -> Result<Json<wire::Served>, Problem> {
    let registry = state.registry()?;
    let decided = decision.carry_out(&topic, &registry, &*state.store).await?;
    let version = decided.stable;
    let handler = registry.topic(&topic).map_or_else(|| topic.topic.clone(), |topic| topic.handler);
    tracing::info!(%topic, %handler, %version, "{}", kind.as_str());
    let text = version.to_string();
    state.metrics.emit(|| Event {
        handler: Some(handler.clone()),
        version: Some(text.clone()),
        ..Event::of_topic(kind, &topic)
    });
    state.uploads()?.until_decided(&topic, decided.generation).await?;
    Ok(Json(wire::Served { handler, version: Some(text) }))
}

impl From<NotDecided> for Problem {
    fn from(error: NotDecided) -> Self {
        let code = match error {
            NotDecided::Store(error) => return error.into(),
            NotDecided::Conflict(_) => Code::Busy,
            NotDecided::NoComponent(_)
            | NotDecided::NotKept { .. }
            | NotDecided::NothingBefore(_)
            | NotDecided::NoCandidate(_) => Code::HandlerUnknown,
        };
        Self::new(code, error.to_string())
    }
}
