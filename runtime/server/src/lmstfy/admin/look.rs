//! Namespaces and queues, pools, the version, and whether requests are logged.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::lmstfy::api::Api;
use crate::lmstfy::client::POOL;
use crate::lmstfy::names;
use crate::lmstfy::query::Query;
use crate::lmstfy::refusal::Refusal;

/// Every namespace with its queues; nothing for an unknown pool.
pub(super) async fn info(State(api): State<Api>, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(&query.unwrap_or_default());
    if query.get("pool").is_some_and(|pool| !pool.is_empty() && pool != POOL) {
        return Ok(().into_response());
    }
    let mut info: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tenant in api.state.store.tenants().await? {
        let counts = api.state.store.counts(&tenant).await?;
        let queues = counts.iter().map(|counts| names::outward(&counts.topic.topic).to_owned());
        info.insert(names::outward(&tenant).to_owned(), queues.collect());
    }
    Ok(Json(info).into_response())
}

pub(super) async fn pools() -> Json<Value> {
    Json(json!([POOL]))
}

pub(super) async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION"), "build_commit": "", "build_date": "" }))
}

pub(super) async fn access_log(State(api): State<Api>) -> Json<Value> {
    status(api.access_log.load(Ordering::Relaxed))
}

pub(super) async fn set_access_log(State(api): State<Api>, RawQuery(query): RawQuery) -> Result<Json<Value>, Refusal> {
    let enabled = match Query::parse(&query.unwrap_or_default()).get("status") {
        Some("enable") => true,
        Some("disable") => false,
        _ => return Err(Refusal::bad("invalid status")),
    };
    api.access_log.store(enabled, Ordering::Relaxed);
    Ok(status(enabled))
}

fn status(enabled: bool) -> Json<Value> {
    Json(json!({ "status": if enabled { "enabled" } else { "disabled" } }))
}
