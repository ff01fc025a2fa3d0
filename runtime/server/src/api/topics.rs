//! Tenants and their topics: how many jobs are where, which handler does them, and why none does; pause and resume.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};

use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::extract::{Document, Head};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use crate::wire::topic::{Idle, IdleReason, Topic, Topics};
use gristmill_core::job::{Name, TopicId};
use gristmill_runner::handlers::{HandlerRegistry, TopicHandler};
use gristmill_store::{Purged, TopicCounts};

/// The most jobs that one request removes, so that it ends in time.
const PURGED_AT_ONCE: usize = 10_000;

const PURGE: &str = "Forgets the totals of a topic and whether it is paused. A topic with running jobs is refused, and one \
    with other jobs unless `jobs=true` removes them: waiting jobs are cancelled, dead ones deleted, at most 10,000 in one \
    request. If `forgotten` is false there are more: send the request again.";

pub(crate) fn routes() -> Routes {
    Routes::of("topics")
        .get("/tenants", tenants, "List the tenants")
        .get("/tenants/{tenant}/topics", topics, "List a tenant's topics")
        .get("/tenants/{tenant}/topics/{topic}", topic, "Look at a topic")
        .problems(&[Code::TopicUnknown])
        .delete("/tenants/{tenant}/topics/{topic}", purge, "Forget a topic, and remove its jobs")
        .description(PURGE)
        .problems(&[Code::TopicUnknown, Code::TopicHasJobs])
        .post("/tenants/{tenant}/topics/{topic}/pause", pause, "Pause a topic: none of its jobs is handed out")
        .post("/tenants/{tenant}/topics/{topic}/resume", resume, "Resume a topic: its jobs are handed out again")
}

async fn tenants(
    _: Allowed<scope::Read, AllTenants>,
    State(state): State<AppState>,
) -> Result<Json<wire::Tenants>, Problem> {
    Ok(Json(wire::Tenants { tenants: state.store.tenants().await? }))
}

async fn topics(
    Allowed { over: tenant, .. }: Allowed<scope::Read, Name>,
    State(state): State<AppState>,
) -> Result<Json<Topics>, Problem> {
    Ok(Json(Topics { topics: all(&state, &tenant).await?.into_values().collect() }))
}

async fn topic(
    Allowed { over: topic, .. }: Allowed<scope::Read, TopicId>,
    State(state): State<AppState>,
) -> Result<Json<Topic>, Problem> {
    let unknown = || Problem::new(Code::TopicUnknown, format!("there is no topic `{topic}`, and no job of it"));
    all(&state, &topic.tenant).await?.remove(&topic).map(Json).ok_or_else(unknown)
}

/// Every topic of the tenant: those that ever held a job, and those that the manifest or a handler sets up.
async fn all(state: &AppState, tenant: &Name) -> Result<BTreeMap<TopicId, Topic>, Problem> {
    let counts = state.store.counts(tenant).await?;
    let mut rates = state.rates.of(tenant, &counts);
    let (topics, registry) = (state.topics(), state.registry().ok());
    let mut lines: BTreeMap<TopicId, TopicCounts> = counts.into_iter().map(|line| (line.topic.clone(), line)).collect();
    let entries =
        registry.iter().flat_map(|registry| registry.entries()).filter(|entry| entry.topic.id.tenant == *tenant);
    for id in entries.map(|entry| &entry.topic.id) {
        lines.entry(id.clone()).or_insert_with(|| nothing_yet(id));
    }
    let tell = |(id, counts): (TopicId, TopicCounts)| {
        let entry = registry.as_ref().and_then(|registry| registry.get(&id));
        let idle = match &registry {
            Some(registry) => idle(&counts, entry.map(|entry| &**entry), registry),
            None => Some(Idle::new(IdleReason::Starting, "the handlers are being read")),
        };
        let handler = entry.map(|entry| &entry.topic.handler);
        let refused = handler.zip(registry.as_ref()).and_then(|(handler, registry)| registry.refused(handler));
        let rate = rates.remove(&id);
        let unknown = topics.admission().unknown(&id).is_some();
        (id, Topic::new(counts, unknown, entry.map(|entry| &**entry), refused, idle, rate))
    };
    Ok(lines.into_iter().map(tell).collect())
}

fn nothing_yet(id: &TopicId) -> TopicCounts {
    let (topic, totals) = (id.clone(), BTreeMap::new());
    TopicCounts { topic, ready: 0, delayed: 0, running: 0, dead: 0, paused: false, oldest_ready: None, totals }
}

/// Why no further job of the topic is begun here; none if jobs are.
fn idle(counts: &TopicCounts, entry: Option<&TopicHandler>, registry: &HandlerRegistry) -> Option<Idle> {
    if counts.paused {
        return Some(Idle::new(IdleReason::Paused, "it is paused: resume it"));
    }
    let Some(entry) = entry else {
        return Some(Idle::new(IdleReason::NoHandler, "neither the manifest nor a component makes this a topic"));
    };
    let external = entry.topic.external;
    if let Some(idle) = no_handler(entry, registry).filter(|_| !external) {
        return Some(idle);
    }
    if counts.ready == 0 {
        return (counts.running == 0).then(|| Idle::new(IdleReason::Empty, "no job is ready"));
    }
    let all = u64::from(entry.topic.concurrency);
    (!external && counts.running >= all)
        .then(|| Idle::new(IdleReason::ConcurrencyReached, format!("{all} at once are allowed in one runner")))
}

/// Why nothing does the topic's jobs. Returns `None` if they are done.
fn no_handler(entry: &TopicHandler, registry: &HandlerRegistry) -> Option<Idle> {
    let name = &entry.topic.handler;
    if entry.handler.is_some() {
        return None;
    }
    if !entry.lacking.is_empty() {
        let names: Vec<_> = entry.lacking.iter().map(|lacking| format!("`{lacking}`")).collect();
        let detail = format!("`{name}` imports what the topic does not grant: {}", names.join(", "));
        return Some(Idle::new(IdleReason::LacksGrants, detail));
    }
    Some(match registry.refused(name) {
        Some(reason) => Idle::new(IdleReason::Refused, format!("{name}.wasm was refused: {reason}")),
        None => Idle::new(IdleReason::NoHandler, format!("there is no {name}.wasm in the handlers folder")),
    })
}

/// Forgets a topic without jobs; with `?jobs=true` removes its waiting and dead jobs first, a bounded number a request.
async fn purge(
    Allowed { over: topic, .. }: Allowed<scope::Admin, TopicId>,
    State(state): State<AppState>,
    Head(Query(wire::Purge { jobs })): Head<Query<wire::Purge>>,
) -> Result<Json<wire::TopicPurged>, Problem> {
    let counts = state.store.counts(&topic.tenant).await?;
    let Some(counts) = counts.into_iter().find(|counts| counts.topic == topic) else {
        return Err(Problem::new(Code::TopicUnknown, format!("the store holds nothing of a topic `{topic}`")));
    };
    let TopicCounts { ready, delayed, running, dead, .. } = counts;
    if running > 0 {
        let detail =
            format!("{running} jobs of `{topic}` are running: pause the topic and wait for them, or cancel them");
        return Err(Problem::new(Code::TopicHasJobs, detail));
    }
    let purged = gristmill_store::purge(&*state.store, &topic, if jobs { PURGED_AT_ONCE } else { 0 }).await?;
    if !jobs && !purged.forgotten {
        let detail = format!(
            "`{topic}` has {ready} ready, {delayed} delayed and {dead} dead jobs: remove them with `?jobs=true`"
        );
        return Err(Problem::new(Code::TopicHasJobs, detail));
    }
    let Purged { waiting, dead, forgotten } = purged;
    Ok(Json(wire::TopicPurged { waiting, dead, forgotten }))
}

async fn pause(
    Allowed { over: topic, .. }: Allowed<scope::Admin, TopicId>,
    State(state): State<AppState>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<wire::Changed>, Problem> {
    Ok(Json(wire::Changed { changed: state.store.set_paused(&topic, true).await? }))
}

async fn resume(
    Allowed { over: topic, .. }: Allowed<scope::Admin, TopicId>,
    State(state): State<AppState>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<wire::Changed>, Problem> {
    Ok(Json(wire::Changed { changed: state.store.set_paused(&topic, false).await? }))
}
