//! The metrics endpoint: of the whole server, or of one tenant.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderMap, Uri, header};
use axum::response::IntoResponse;

use crate::api::queue_depths::TENANTS;
use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::limits::requests::NoPermit;
use crate::openapi::{Described, Exposed};
use crate::routes::Routes;
use crate::state::AppState;
use gristmill_core::job::{DEFAULT_TENANT, Name};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::Topic;
use gristmill_metrics::MetricType::{Counter, Gauge, Info};
use gristmill_metrics::{Exposition, Format, Measured, Metric, Metrics, metric};
use gristmill_runner::handlers::{HandlerRegistry, TopicHandler};
use gristmill_store::TopicCounts;

/// Never waits for a place among other requests: a server is watched most when it is busy.
pub(crate) fn routes() -> Routes {
    Routes::of("metrics").get("/metrics", all, "Metrics of the whole server")
}

pub(crate) fn tenant_routes() -> Routes {
    Routes::of("metrics").get("/tenants/{tenant}/metrics", of_tenant, "Metrics of one tenant")
}

async fn all(
    Allowed { state, .. }: Allowed<scope::Read, AllTenants>,
    _: NoPermit,
    headers: HeaderMap,
    // What collectors add to it means nothing here, and is no reason to show them nothing.
    _: Uri,
) -> Described<Exposed> {
    let tenants = tenants(&state.metrics, state.registry().ok().as_deref());
    let (read, left_out) = tenants.split_at(TENANTS.min(tenants.len()));
    exposition(&state, &headers, read, Some(left_out.len()), None).await
}

async fn of_tenant(
    Allowed { over: tenant, state, .. }: Allowed<scope::Admin, Name>,
    headers: HeaderMap,
) -> Described<Exposed> {
    exposition(&state, &headers, std::slice::from_ref(&tenant), None, Some(&tenant)).await
}

/// The metrics of one tenant, or without one those of all and of the process.
async fn exposition(
    state: &AppState,
    headers: &HeaderMap,
    tenants: &[Name],
    tenants_left_out: Option<usize>,
    tenant: Option<&Name>,
) -> Described<Exposed> {
    let (metrics, registry) = (&state.metrics, state.registry().ok());
    let depths_now = state.queue_depths.read(&*state.store, tenants).await;
    let format =
        Format::accepted(headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default());
    let mut exposition = Exposition::new(format);
    if tenant.is_none() {
        metrics.write_process(&mut exposition);
    }
    metrics.write_topics(&mut exposition, tenant);
    exposition.write(HANDLER_METRICS, handlers(metrics, registry.as_deref(), tenant).iter());
    exposition.write(STORE_METRICS, std::iter::once(&StoreState { tenants_left_out, is_up: depths_now.is_up }));
    exposition.write(DEPTH_METRICS, depths(metrics, &depths_now.counts, tenant).iter());
    ([(header::CONTENT_TYPE, format.media_type())], exposition.end()).into_response().into()
}

/// The store as a whole.
#[derive(Debug)]
struct StoreState {
    /// `None` for the metrics of one tenant.
    tenants_left_out: Option<usize>,
    is_up: bool,
}

impl Measured for StoreState {}

const STORE_METRICS: &[Metric<StoreState>] = &[
    metric("gristmill_store_tenants_left_out", Gauge, TENANTS_LEFT_OUT, |store, family| {
        store.tenants_left_out.into_iter().for_each(|count| family.sample(&[], count as u64));
    }),
    metric("gristmill_store_up", Gauge, STORE_UP, |store, family| family.sample(&[], u64::from(store.is_up))),
];

const TENANTS_LEFT_OUT: &str = "Tenants whose jobs were not counted because there are too many tenants.";
const STORE_UP: &str = "Whether the store answered for every tenant that was asked for.";

/// A topic and its handler, where the topic has series of its own.
#[derive(Debug)]
struct HandlerState {
    topic: Topic,
    version: Option<String>,
}

impl Measured for HandlerState {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        let (id, handler) = (&self.topic.id, self.topic.handler.as_str());
        let version = self.version.as_deref().unwrap_or("none");
        vec![("tenant", id.tenant.as_str()), ("topic", id.topic.as_str()), ("handler", handler), ("version", version)]
    }
}

const HANDLER_METRICS: &[Metric<HandlerState>] =
    &[metric("gristmill_node_handler_info", Info, HANDLER, |_, family| {
        family.sample(&[], 1);
    })];

const HANDLER: &str = "Which version of which handler does a topic's jobs.";

fn handlers(metrics: &Metrics, registry: Option<&HandlerRegistry>, tenant: Option<&Name>) -> Vec<HandlerState> {
    let all = registry.into_iter().flat_map(HandlerRegistry::entries);
    let ours = all.filter(|entry| tenant.is_none_or(|tenant| *tenant == entry.topic.id.tenant));
    let has_series =
        |entry: &&Arc<TopicHandler>| metrics.topic(&entry.topic.id).names().1 == entry.topic.id.topic.as_str();
    let state = |entry: &Arc<TopicHandler>| HandlerState {
        topic: entry.topic.clone(),
        version: entry.handler.as_ref().map(|handler| handler.code.to_string()),
    };
    let mut handlers: Vec<_> = ours.filter(has_series).map(state).collect();
    handlers.sort_unstable_by(|one, other| one.topic.id.cmp(&other.topic.id));
    handlers
}

/// What the store counts for a topic, over all its users, or for all topics without series of their own.
#[derive(Debug)]
struct Depths {
    tenant: String,
    topic: String,
    counts: TopicCounts,
}

impl Measured for Depths {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("tenant", &self.tenant), ("topic", &self.topic)]
    }
}

const DEPTH_METRICS: &[Metric<Depths>] = &[
    metric("gristmill_store_depth", Gauge, "Jobs in the store, by where they are.", |Depths { counts, .. }, family| {
        let TopicCounts { ready, delayed, running, dead, .. } = counts;
        for (state, jobs) in [("ready", ready), ("delayed", delayed), ("running", running), ("dead", dead)] {
            family.sample(&[("state", state)], *jobs);
        }
    }),
    metric("gristmill_store_oldest_ready_seconds", Gauge, OLDEST_READY, |Depths { counts, .. }, family| {
        let age = counts.oldest_ready.map(|oldest| Timestamp::now().since(oldest));
        age.into_iter().for_each(|age| family.float(&[], age.as_secs_f64()));
    }),
    metric("gristmill_store_topic_paused", Gauge, PAUSED, |Depths { counts, .. }, family| {
        family.sample(&[], u64::from(counts.paused));
    }),
    metric("gristmill_store_jobs_total", Counter, STORE_JOBS, |Depths { counts, .. }, family| {
        for (name, total) in &counts.totals {
            let (event, reason) = name.strip_prefix("dead-").map_or((name.as_str(), ""), |reason| ("dead", reason));
            family.sample(&[("event", event), ("reason", reason)], *total);
        }
    }),
];

const OLDEST_READY: &str = "For how long the oldest ready job has been due.";
const PAUSED: &str = "Whether the topic is paused: nothing of it is handed out.";
const STORE_JOBS: &str = "What became of jobs over all nodes, as the store has counted since it began.";

/// The counts by the labels of their topics, in order.
fn depths(metrics: &Metrics, counts: &[TopicCounts], tenant: Option<&Name>) -> Vec<Depths> {
    let mut depths: BTreeMap<(String, String), TopicCounts> = BTreeMap::new();
    for counts in counts {
        let meter = metrics.topic(&counts.topic);
        let (owner, topic) = meter.names();
        if tenant.is_none_or(|tenant| tenant.as_str() == owner) {
            let sum = depths.entry((owner.to_owned(), topic.to_owned()));
            sum.and_modify(|sum| add(sum, counts)).or_insert_with(|| counts.clone());
        }
    }
    depths.into_iter().map(|((tenant, topic), counts)| Depths { tenant, topic, counts }).collect()
}

fn add(sum: &mut TopicCounts, counts: &TopicCounts) {
    sum.ready += counts.ready;
    sum.delayed += counts.delayed;
    sum.running += counts.running;
    sum.dead += counts.dead;
    sum.paused |= counts.paused;
    sum.oldest_ready = sum.oldest_ready.into_iter().chain(counts.oldest_ready).min();
    for (name, total) in &counts.totals {
        *sum.totals.entry(name.clone()).or_default() += total;
    }
}

/// The manifest's tenants, those for which something was counted here, and the default one; in order.
fn tenants(metrics: &Metrics, registry: Option<&HandlerRegistry>) -> Vec<Name> {
    let mut tenants = metrics.tenants();
    tenants.extend(registry.into_iter().flat_map(HandlerRegistry::tenants).cloned());
    tenants.extend(DEFAULT_TENANT.parse::<Name>());
    tenants.sort();
    tenants.dedup();
    tenants
}
