//! Workers: which live, and what they run.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;

use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::claims::client_of;
use crate::problem::Problem;
use crate::routes::Routes;
use crate::wire::worker::{Worker, WorkerKind, Workers};
use gristmill_core::job::WorkerId;
use gristmill_store::{Inspect, JobState, StateFilter, StoreError};

/// Running jobs that one list looks at.
const LOOKED_AT: usize = 10_000;
/// Of them, in one page.
const PAGE: usize = 1000;

pub(crate) fn routes() -> Routes {
    Routes::of("workers").get("/workers", list, "List the runners, and the pull workers that have jobs")
}

async fn list(Allowed { state, .. }: Allowed<scope::Read, AllTenants>) -> Result<Json<Workers>, Problem> {
    Ok(Json(workers(&*state.store).await?))
}

/// The runners with a heartbeat within the last hour, and the pull workers that have a job, with the number of their jobs. Looks at
/// 10,000 running jobs at most.
///
/// # Errors
/// The store is unavailable, or refuses.
pub async fn workers(store: &dyn Inspect) -> Result<Workers, StoreError> {
    let worker = |id: WorkerId, heartbeat_at_ms| {
        let (kind, name) = match client_of(&id) {
            Some(client) => (WorkerKind::Pull, client.to_owned()),
            None => (WorkerKind::Runner, id.to_string()),
        };
        Worker { worker: name, kind, heartbeat_at_ms, running: 0, topics: BTreeSet::new() }
    };
    let key = |worker: &Worker| (worker.kind == WorkerKind::Pull, worker.worker.clone());
    let mut workers: BTreeMap<(bool, String), Worker> = BTreeMap::new();
    for heartbeat in store.heartbeats().await? {
        let worker = worker(heartbeat.worker, Some(heartbeat.at));
        workers.insert(key(&worker), worker);
    }
    let (mut remaining, mut complete) = (LOOKED_AT, true);
    for tenant in store.tenants().await? {
        let counts = match store.counts(&tenant).await {
            // One of several stores: the others say which workers there are.
            Err(error) if error.is_unavailable() => {
                complete = false;
                continue;
            }
            counts => counts?,
        };
        for topic in counts.into_iter().filter(|counts| counts.running > 0) {
            let (topic, mut after) = (topic.topic, None);
            loop {
                if remaining == 0 {
                    return Ok(Workers { workers: workers.into_values().collect(), complete: false });
                }
                let page = match store.jobs(&topic, StateFilter::Running, after.as_ref(), PAGE.min(remaining)).await {
                    Err(error) if error.is_unavailable() => {
                        complete = false;
                        break;
                    }
                    page => page?,
                };
                remaining -= page.jobs.len().min(remaining);
                for view in page.jobs {
                    let JobState::Running { worker: id, .. } = view.state else { continue };
                    let new = worker(WorkerId::new(&id), None);
                    let worker = workers.entry(key(&new)).or_insert(new);
                    worker.running += 1;
                    worker.topics.insert(topic.to_string());
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
    }
    Ok(Workers { workers: workers.into_values().collect(), complete })
}
