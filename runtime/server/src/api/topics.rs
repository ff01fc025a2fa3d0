//! Tenants and their topics: how many jobs are where, which handler does them, and why none does; pause and resume.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::Query;

use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::extract::{Document, Head};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use crate::wire::topic::{PauseSet, TopicSeen, TopicsSeen};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::units::counted;
use gristmill_runner::why::{ProcessRole, Runners, Served, TopicWhy, idle, topic_why};
use gristmill_store::{Purged, StoreError, TopicCounts};

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
        .get("/tenants/{tenant}/topics/{topic}/why", why, "Say why a topic begins no job")
        .post("/tenants/{tenant}/topics/{topic}/pause", pause, "Pause a topic: none of its jobs is handed out")
        .post("/tenants/{tenant}/topics/{topic}/resume", resume, "Resume a topic: its jobs are handed out again")
}

async fn tenants(Allowed { state, .. }: Allowed<scope::Read, AllTenants>) -> Result<Json<wire::Tenants>, Problem> {
    Ok(Json(wire::Tenants { tenants: known_tenants(&state).await?.into_iter().collect() }))
}

/// Those that the store knows, and those of the manifest.
pub(crate) async fn known_tenants(state: &AppState) -> Result<BTreeSet<Name>, StoreError> {
    let mut tenants: BTreeSet<Name> = state.store.tenants().await?.into_iter().collect();
    tenants.extend(state.registry().iter().flat_map(|registry| registry.tenants()).cloned());
    Ok(tenants)
}

async fn topics(Allowed { over: tenant, state, .. }: Allowed<scope::Read, Name>) -> Result<Json<TopicsSeen>, Problem> {
    Ok(Json(TopicsSeen { topics: all(&state, &tenant).await?.into_values().collect() }))
}

async fn topic(Allowed { over: topic, state, .. }: Allowed<scope::Read, TopicId>) -> Result<Json<TopicSeen>, Problem> {
    let unknown = || Problem::new(Code::TopicUnknown, format!("there is no topic `{topic}`, and no job of it"));
    all(&state, &topic.tenant).await?.remove(&topic).map(Json).ok_or_else(unknown)
}

async fn why(Allowed { over: topic, state, .. }: Allowed<scope::Read, TopicId>) -> Result<Json<TopicWhy>, Problem> {
    let registry = state.registry().ok();
    let served = Served::of(registry.as_deref(), &topic);
    Ok(Json(topic_why(&*state.store, topic, ProcessRole::Runner, &served).await?))
}

/// Every topic of the tenant: those that ever held a job, and those that the manifest or a handler sets up.
async fn all(state: &AppState, tenant: &Name) -> Result<BTreeMap<TopicId, TopicSeen>, Problem> {
    let counts = state.store.counts(tenant).await?;
    let of_tenant = counts.iter().map(|counts| counts.running).sum();
    let mut rates = state.rates.of(tenant, &counts);
    let (topics, registry) = (state.topics(), state.registry().ok());
    let mut lines: BTreeMap<TopicId, TopicCounts> = counts.into_iter().map(|line| (line.topic.clone(), line)).collect();
    let entries =
        registry.iter().flat_map(|registry| registry.entries()).filter(|entry| entry.topic.id.tenant == *tenant);
    for id in entries.map(|entry| &entry.topic.id) {
        lines.entry(id.clone()).or_insert_with(|| TopicCounts::none(id.clone()));
    }
    let served: BTreeMap<TopicId, Served> =
        lines.keys().map(|id| (id.clone(), Served::of(registry.as_deref(), id))).collect();
    let matters = lines.values().zip(served.values()).any(|(counts, served)| served.depends_on_others(counts));
    let runners = Runners::of(&*state.store, ProcessRole::Runner, matters).await?;
    let mut runs = state.recent.run_times(tenant);
    let line = |(id, counts): (TopicId, TopicCounts)| {
        let idle = served.get(&id).and_then(|served| idle(&counts, of_tenant, served, runners));
        let unknown = !topics.known_topics().is_known(&id);
        let (rates, run) = (rates.remove(&id), runs.remove(&id.topic));
        let recent = state.metrics.recent(&id).map(Into::into);
        let topic = TopicSeen::new(counts, unknown, registry.as_deref(), idle, rates, run, recent);
        (id, topic)
    };
    Ok(lines.into_iter().map(line).collect())
}

/// Forgets a topic without jobs; with `?jobs=true` removes its waiting and dead jobs first, a bounded number a request.
async fn purge(
    Allowed { over: topic, state, .. }: Allowed<scope::Admin, TopicId>,
    Head(Query(wire::Purge { jobs })): Head<Query<wire::Purge>>,
) -> Result<Json<wire::TopicPurged>, Problem> {
    let counts = state.store.counts(&topic.tenant).await?;
    let Some(counts) = counts.into_iter().find(|counts| counts.topic == topic) else {
        return Err(Problem::new(Code::TopicUnknown, format!("the store holds nothing of a topic `{topic}`")));
    };
    let TopicCounts { ready, delayed, running, dead, .. } = counts;
    if running > 0 {
        let jobs = counted(running, "running job", "running jobs");
        let detail = format!("`{topic}` has {jobs}: pause the topic and wait for the end, or cancel what runs");
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
    Allowed { over: topic, state, .. }: Allowed<scope::Admin, TopicId>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<PauseSet>, Problem> {
    set_paused(&state, &topic, true).await
}

async fn resume(
    Allowed { over: topic, state, .. }: Allowed<scope::Admin, TopicId>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<PauseSet>, Problem> {
    set_paused(&state, &topic, false).await
}

/// A topic may be paused before its first job, so one that is unknown is not refused.
async fn set_paused(state: &AppState, topic: &TopicId, paused: bool) -> Result<Json<PauseSet>, Problem> {
    let changed = state.store.set_paused(topic, paused).await?;
    let unknown = state.topics().known_topics().unknown(topic);
    Ok(Json(PauseSet { changed, warnings: unknown.iter().map(ToString::to_string).collect() }))
}
