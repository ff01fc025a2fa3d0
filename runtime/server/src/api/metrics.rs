//! The page that Prometheus reads: of the whole server, or of one tenant.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::api::queue_depths::{Look, TENANTS};
use crate::auth::identity::{Identity, Scope};
use crate::extract::Head;
use crate::problem::Problem;
use crate::state::AppState;
use gristmill_core::job::{DEFAULT_TENANT, Name};
use gristmill_core::time::Timestamp;
use gristmill_metrics::{Exposition, Format, MetricType, Metrics};
use gristmill_runner::handlers::{HandlerRegistry, TopicHandler};
use gristmill_store::TopicCounts;

/// Not among those who wait their turn: a server that is busy wants to be looked at.
pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/metrics", get(all))
}

pub(crate) fn tenant_routes() -> Router<AppState> {
    Router::new().route("/tenants/{tenant}/metrics", get(of_tenant))
}

async fn all(State(state): State<AppState>, identity: Identity, headers: HeaderMap) -> Result<Response, Problem> {
    identity.may_everywhere(Scope::Read)?;
    let registry = state.registry().ok();
    let tenants = tenants(&state.metrics, registry.as_deref());
    let look = state.queue_depths.look(&*state.store, tenants.get(..TENANTS).unwrap_or(&tenants)).await;
    let format = accepted(&headers);
    let mut exposition = Exposition::new(format);
    state.metrics.write_process(&mut exposition);
    let help = "Tenants whose jobs were not counted because there are too many tenants.";
    let mut family = exposition.family("gristmill_store_tenants_left_out", MetricType::Gauge, help);
    family.sample(&[], tenants.len().saturating_sub(TENANTS) as u64);
    write_rest(&mut exposition, &state.metrics, registry.as_deref(), &look, None);
    Ok(answer(format, exposition))
}

async fn of_tenant(
    State(state): State<AppState>,
    identity: Identity,
    Head(Path(tenant)): Head<Path<Name>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    identity.may(Scope::Admin, &tenant)?;
    let look = state.queue_depths.look(&*state.store, std::slice::from_ref(&tenant)).await;
    let format = accepted(&headers);
    let mut exposition = Exposition::new(format);
    write_rest(&mut exposition, &state.metrics, state.registry().ok().as_deref(), &look, Some(&tenant));
    Ok(answer(format, exposition))
}

/// What concerns tenants: of all of them, or of one.
fn write_rest(
    exposition: &mut Exposition,
    metrics: &Metrics,
    registry: Option<&HandlerRegistry>,
    look: &Look,
    tenant: Option<&Name>,
) {
    metrics.write_topics(exposition, tenant);
    write_handlers(exposition, metrics, registry, tenant);
    let help = "Whether the store answered for every tenant that was asked for.";
    exposition.family("gristmill_store_up", MetricType::Gauge, help).sample(&[], u64::from(look.is_up));
    write_counts(exposition, metrics, &look.counts, tenant);
}

fn write_handlers(
    exposition: &mut Exposition,
    metrics: &Metrics,
    registry: Option<&HandlerRegistry>,
    tenant: Option<&Name>,
) {
    let ours = |entry: &&Arc<TopicHandler>| tenant.is_none_or(|tenant| *tenant == entry.topic.id.tenant);
    let mut entries: Vec<_> = registry.into_iter().flat_map(HandlerRegistry::entries).filter(ours).collect();
    entries.sort_unstable_by(|one, other| one.topic.id.cmp(&other.topic.id));
    let help = "Which version of which handler does a topic's jobs.";
    let mut family = exposition.family("gristmill_node_handler_info", MetricType::Info, help);
    for entry in entries {
        let meter = metrics.topic(&entry.topic.id);
        let (tenant, topic) = meter.labels();
        // Those that have no series of their own have no line here.
        if topic != entry.topic.id.topic.as_str() {
            continue;
        }
        let version = entry.handler.as_ref().map_or_else(|| "none".to_owned(), |handler| handler.version().to_string());
        let handler = entry.topic.handler.as_str();
        family.sample(&[("tenant", tenant), ("topic", topic), ("handler", handler), ("version", &version)], 1);
    }
}

/// What the store counts, over all who use it. Topics without series of their own are added up.
fn write_counts(exposition: &mut Exposition, metrics: &Metrics, counts: &[TopicCounts], tenant: Option<&Name>) {
    let mut topics: BTreeMap<(String, String), TopicCounts> = BTreeMap::new();
    for counts in counts {
        let meter = metrics.topic(&counts.topic);
        if tenant.is_some_and(|tenant| meter.labels().0 != tenant.as_str()) {
            continue;
        }
        let (tenant, topic) = meter.labels();
        let sum = topics.entry((tenant.to_owned(), topic.to_owned()));
        sum.and_modify(|sum| add(sum, counts)).or_insert_with(|| counts.clone());
    }
    let rows: Vec<(&str, &str, &TopicCounts)> =
        topics.iter().map(|((tenant, topic), counts)| (tenant.as_str(), topic.as_str(), counts)).collect();
    let mut family =
        exposition.family("gristmill_store_depth", MetricType::Gauge, "Jobs in the store, by where they are.");
    for &(tenant, topic, counts) in &rows {
        let TopicCounts { ready, delayed, running, dead, .. } = counts;
        for (state, jobs) in [("ready", ready), ("delayed", delayed), ("running", running), ("dead", dead)] {
            family.sample(&[("tenant", tenant), ("topic", topic), ("state", state)], *jobs);
        }
    }
    let (help, now) = ("For how long the oldest ready job has been due.", Timestamp::now());
    let mut family = exposition.family("gristmill_store_oldest_ready_seconds", MetricType::Gauge, help);
    for &(tenant, topic, counts) in &rows {
        if let Some(oldest) = counts.oldest_ready {
            family.float(&[("tenant", tenant), ("topic", topic)], now.since(oldest).as_secs_f64());
        }
    }
    let help = "Whether the topic is paused: nothing of it is handed out.";
    let mut family = exposition.family("gristmill_store_topic_paused", MetricType::Gauge, help);
    for &(tenant, topic, counts) in &rows {
        family.sample(&[("tenant", tenant), ("topic", topic)], u64::from(counts.paused));
    }
    let help = "What became of jobs over all nodes, as the store has counted since it began.";
    let mut family = exposition.family("gristmill_store_jobs_total", MetricType::Counter, help);
    for &(tenant, topic, counts) in &rows {
        for (name, total) in &counts.totals {
            let (event, reason) = name.strip_prefix("dead-").map_or((name.as_str(), ""), |reason| ("dead", reason));
            family.sample(&[("tenant", tenant), ("topic", topic), ("event", event), ("reason", reason)], *total);
        }
    }
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

/// Those of the manifest, those of which something was counted here, and the one of whoever names none; in order.
fn tenants(metrics: &Metrics, registry: Option<&HandlerRegistry>) -> Vec<Name> {
    let mut tenants = metrics.tenants();
    tenants.extend(registry.into_iter().flat_map(HandlerRegistry::tenants).cloned());
    tenants.extend(DEFAULT_TENANT.parse::<Name>());
    tenants.sort();
    tenants.dedup();
    tenants
}

fn accepted(headers: &HeaderMap) -> Format {
    Format::accepted(headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default())
}

fn answer(format: Format, exposition: Exposition) -> Response {
    ([(header::CONTENT_TYPE, format.media_type())], exposition.end()).into_response()
}
