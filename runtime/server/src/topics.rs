//! Tenants and their topics: how many jobs are where, who does them, and why nobody does; pause and resume.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::caller::{Caller, Scope};
use super::extract::{Document, Head};
use super::problem::{Code, Problem};
use super::room::Room;
use super::wire;
use super::wire::topic::{Idle, Topic, Topics};
use gristmill_core::job::{Name, TopicId};
use gristmill_runner::handlers::{Fleet, Seat};
use gristmill_store::TopicCounts;

pub(super) fn routes() -> Router<Room> {
    Router::new()
        .route("/tenants", get(tenants))
        .route("/tenants/{tenant}/topics", get(topics))
        .route("/tenants/{tenant}/topics/{topic}", get(topic))
        .route("/tenants/{tenant}/topics/{topic}/pause", post(pause))
        .route("/tenants/{tenant}/topics/{topic}/resume", post(resume))
}

async fn tenants(State(room): State<Room>, caller: Caller) -> Result<Json<wire::Tenants>, Problem> {
    caller.may_everywhere(Scope::Read)?;
    Ok(Json(wire::Tenants { tenants: room.store.tenants().await? }))
}

async fn topics(
    State(room): State<Room>,
    caller: Caller,
    Head(Path(tenant)): Head<Path<Name>>,
) -> Result<Json<Topics>, Problem> {
    caller.may(Scope::Read, &tenant)?;
    Ok(Json(Topics { topics: all(&room, &tenant).await?.into_values().collect() }))
}

async fn topic(
    State(room): State<Room>,
    caller: Caller,
    Head(Path(topic)): Head<Path<TopicId>>,
) -> Result<Json<Topic>, Problem> {
    caller.may(Scope::Read, &topic.tenant)?;
    let unknown = || Problem::new(Code::TopicUnknown, format!("there is no topic `{topic}`, and no job of it"));
    all(&room, &topic.tenant).await?.remove(&topic).map(Json).ok_or_else(unknown)
}

/// Every topic of the tenant: those that ever held a job, and those that somebody has set up.
async fn all(room: &Room, tenant: &Name) -> Result<BTreeMap<TopicId, Topic>, Problem> {
    let counts = room.store.counts(tenant).await?;
    let mut rates = room.rates.of(tenant, &counts);
    let fleet = room.fleet().ok();
    let mut lines: BTreeMap<TopicId, TopicCounts> = counts.into_iter().map(|line| (line.topic.clone(), line)).collect();
    let seats = fleet.iter().flat_map(|fleet| fleet.seats()).filter(|seat| seat.topic.id.tenant == *tenant);
    for id in seats.map(|seat| &seat.topic.id) {
        lines.entry(id.clone()).or_insert_with(|| nothing_yet(id));
    }
    let tell = |(id, counts): (TopicId, TopicCounts)| {
        let seat = fleet.as_ref().and_then(|fleet| fleet.seat(&id));
        let idle = match &fleet {
            Some(fleet) => idle(&counts, seat.map(|seat| &**seat), fleet),
            None => Some(Idle::new("starting", "the handlers are being read")),
        };
        let rate = rates.remove(&id);
        (id, Topic::new(counts, seat.map(|seat| &**seat), idle, rate))
    };
    Ok(lines.into_iter().map(tell).collect())
}

fn nothing_yet(id: &TopicId) -> TopicCounts {
    let (topic, totals) = (id.clone(), BTreeMap::new());
    TopicCounts { topic, ready: 0, delayed: 0, running: 0, dead: 0, paused: false, oldest_ready: None, totals }
}

/// Why no further job of the topic is begun here; none if jobs are.
fn idle(counts: &TopicCounts, seat: Option<&Seat>, fleet: &Fleet) -> Option<Idle> {
    if counts.paused {
        return Some(Idle::new("paused", "somebody paused it: resume it"));
    }
    let Some(seat) = seat else {
        return Some(Idle::new("no-handler", "neither the manifest nor a component makes this a topic"));
    };
    let external = seat.topic.external;
    if let Some(idle) = no_handler(seat, fleet).filter(|_| !external) {
        return Some(idle);
    }
    if counts.ready == 0 {
        return (counts.running == 0).then(|| Idle::new("empty", "no job is ready"));
    }
    let all = u64::from(seat.topic.concurrency);
    (!external && counts.running >= all)
        .then(|| Idle::new("concurrency-reached", format!("{all} at once are allowed in one runner")))
}

/// Why nobody is there to do a topic's jobs; none if somebody is.
fn no_handler(seat: &Seat, fleet: &Fleet) -> Option<Idle> {
    let name = &seat.topic.handler;
    if seat.handler.is_some() {
        return None;
    }
    if !seat.lacking.is_empty() {
        let names: Vec<_> = seat.lacking.iter().map(|lacking| format!("`{lacking}`")).collect();
        let detail = format!("`{name}` imports what the topic does not grant: {}", names.join(", "));
        return Some(Idle::new("lacks-grants", detail));
    }
    Some(match fleet.refused(name) {
        Some(reason) => Idle::new("refused", format!("{name}.wasm was refused: {reason}")),
        None => Idle::new("no-handler", format!("there is no {name}.wasm in the handlers folder")),
    })
}

async fn pause(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(topic)): Head<Path<TopicId>>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<wire::Changed>, Problem> {
    caller.may(Scope::Admin, &topic.tenant)?;
    Ok(Json(wire::Changed { changed: room.store.set_paused(&topic, true).await? }))
}

async fn resume(
    caller: Caller,
    State(room): State<Room>,
    Head(Path(topic)): Head<Path<TopicId>>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<wire::Changed>, Problem> {
    caller.may(Scope::Admin, &topic.tenant)?;
    Ok(Json(wire::Changed { changed: room.store.set_paused(&topic, false).await? }))
}
