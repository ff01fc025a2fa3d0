//! The jobs around a job: what it waits for and what waits for it, and on from there.

use std::collections::{HashSet, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::inspect::{JobState, JobView, Query};
use super::workflows::{WaitsFor, Workflows};
use gristmill_core::job::{Ended, JobId, Name};

/// Jobs that wait for each other, around one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobGraph {
    /// The job itself, then those around it, the nearest first.
    pub nodes: Vec<GraphNode>,
    /// Which of these jobs waits, or has waited, for which.
    pub edges: Vec<GraphEdge>,
    /// There are more jobs than were asked for, or more edges than 10,000.
    pub cut: bool,
}

/// A job of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    /// Its id.
    pub id: JobId,
    /// `null` once it is finished.
    pub topic: Option<Name>,
    /// `ready`, `delayed`, `waiting`, `running`, `dead`, `finished`, or `gone` if the store does not know it any more.
    pub state: String,
    /// Of a job that waits for others, or has waited: how far these are.
    pub waits_for: Option<GraphProgress>,
}

/// How far the jobs are that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphProgress {
    /// It is a batch that is not sealed.
    pub open: bool,
    /// How many jobs.
    pub total: u64,
    /// Of these, those that have ended.
    pub ended: u64,
    /// Of those that have ended, those that were not done.
    pub failed: u64,
}

/// A job that waits for another one, or has waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphEdge {
    /// The job that waits.
    pub waiter: JobId,
    /// The job that it waits for.
    pub job: JobId,
    /// What became of that one. `null`: it has not ended.
    pub ended: Option<Ended>,
}

impl From<&WaitsFor> for GraphProgress {
    fn from(WaitsFor { open, total, ended, failed, .. }: &WaitsFor) -> Self {
        Self { open: *open, total: *total, ended: *ended, failed: *failed }
    }
}

/// No graph has more edges.
const EDGES: usize = 10_000;

/// Which way a job was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Begin,
    /// From a job that waits for it.
    Before,
    /// From a job that it waits for.
    After,
}

/// The jobs that a job waits for, those that these wait for, and so on, and the same of the jobs that wait for it: at most `depth` steps
/// away, and `limit` jobs in all. Jobs that have not ended come first among those that a job waits for.
///
/// `None`: the job is not known.
///
/// # Errors
/// The store is unavailable or refuses.
pub async fn job_graph<S: Workflows + Query + ?Sized>(
    store: &S,
    tenant: &Name,
    id: &JobId,
    depth: usize,
    limit: usize,
) -> Result<Option<JobGraph>, StoreError> {
    let Some(first) = store.job(tenant, id).await? else { return Ok(None) };
    let (mut graph, mut seen, mut edges) = (JobGraph::default(), HashSet::from([id.clone()]), HashSet::new());
    let mut next = VecDeque::from([(id.clone(), Way::Begin, 0)]);
    let mut first = Some(first);
    while let Some((id, way, far)) = next.pop_front() {
        // Jobs that are known are listed, but nothing further is looked for once there is no room for it.
        let has_room = graph.edges.len() < EDGES;
        graph.cut |= !has_room;
        let view = match first.take() {
            Some(view) => Some(view),
            None => store.job(tenant, &id).await?,
        };
        graph.nodes.push(node(id.clone(), view.as_ref()));
        let mut found = Vec::new();
        let ended = view.as_ref().filter(|view| matches!(view.state, JobState::Dead { .. })).map(|_| Ended::Dead);
        let progress = view.and_then(|view| view.waits_for).filter(|waits_for| waits_for.total > 0);
        if has_room && way != Way::After && progress.is_some() {
            let waits_for = store.waits_for(tenant, &id, limit).await?.unwrap_or_default();
            graph.cut |= waits_for.total > waits_for.jobs.len() as u64;
            let edge = |waiter: &JobId, job, ended| GraphEdge { waiter: waiter.clone(), job, ended };
            found.extend(waits_for.jobs.into_iter().map(|job| (Way::Before, edge(&id, job.id, job.ended))));
        }
        if has_room && way != Way::Before {
            let waiters = store.waiters(tenant, &id).await?;
            let edge = |waiter| GraphEdge { waiter, job: id.clone(), ended };
            found.extend(waiters.into_iter().map(|waiter| (Way::After, edge(waiter))));
        }
        for (way, edge) in found {
            if graph.edges.len() == EDGES {
                graph.cut = true;
                break;
            }
            let other = if way == Way::Before { &edge.job } else { &edge.waiter };
            if !seen.contains(other) {
                if far >= depth || seen.len() >= limit.max(1) {
                    graph.cut = true;
                    continue;
                }
                seen.insert(other.clone());
                next.push_back((other.clone(), way, far + 1));
            }
            if edges.insert((edge.waiter.clone(), edge.job.clone())) {
                graph.edges.push(edge);
            }
        }
    }
    Ok(Some(graph))
}

fn node(id: JobId, view: Option<&JobView>) -> GraphNode {
    let topic = view.and_then(|view| Some(view.job.as_ref()?.spec.topic.topic.clone()));
    let state = view.map_or("gone", |view| view.state.as_str()).to_owned();
    GraphNode { id, topic, state, waits_for: view.and_then(|view| view.waits_for.as_ref()).map(GraphProgress::from) }
}
