//! `gristmill job graph` and `gristmill job cancel --tree`: jobs that wait for each other.

use std::collections::{HashMap, HashSet};

use anyhow::bail;
use serde_json::json;

use super::exit::Exit;
use super::global::Global;
use super::screen;
use super::store::Reached;
use gristmill_core::job::{Ended, JobId, Name};
use gristmill_store::{GraphNode, GraphProgress, JobGraph, TreeCancelled, cancel_tree, job_graph};

/// Blanks before a job, for each step from the first one.
const INDENT: usize = 2;

/// More steps than this are not drawn farther to the right.
const STEPS: usize = 40;

pub(super) async fn graph(global: &Global, tenant: &Name, id: &JobId, depth: u16, limit: u16) -> anyhow::Result<Exit> {
    let Reached { store, server, .. } = global.reach(&global.manifest_without_secrets()?).await?;
    let (depth, limit) = (depth.into(), limit.into());
    let graph = match server {
        Some(server) => server.job_graph(tenant, id, depth, limit).await?,
        None => job_graph(&*store, tenant, id, depth, limit).await?,
    };
    let Some(graph) = graph else {
        bail!(
            "job {id} is not known to tenant `{tenant}`: it never was, or it is over and its result was not kept (a job of another tenant takes --tenant NAME)"
        );
    };
    if global.json {
        screen::document(&serde_json::to_value(&graph)?)?;
        return Ok(Exit::Done);
    }
    screen::line(&drawn(id, &graph))?;
    if graph.cut {
        screen::note("there are more jobs: --depth and --limit show them, up to 1000");
    }
    Ok(Exit::Done)
}

/// Cancels in steps. A job that runs is counted by each step that meets it, so only the last one's count is shown.
pub(super) async fn cancel(global: &Global, tenant: &Name, ids: &[JobId], kill: bool) -> anyhow::Result<Exit> {
    let Reached { store, server, .. } = global.reach(&global.manifest_without_secrets()?).await?;
    let mut exit = Exit::Done;
    for id in ids {
        let mut all = 0;
        let last = loop {
            let step = match &server {
                Some(server) => server.cancel_tree(tenant, id, kill).await?,
                None => cancel_tree(&*store, tenant, id, kill).await?,
            };
            all += step.gone;
            if step.complete || step.gone == 0 {
                break step;
            }
        };
        let TreeCancelled { stopping, complete, .. } = last;
        let counts = json!({ "id": id, "tenant": tenant, "gone": all, "stopping": stopping, "complete": complete });
        let nothing = all + stopping == 0 && complete;
        let words = match stopping {
            _ if nothing => {
                format!("job {id} is dead, over or unknown, and no job waits for it: nothing was changed")
            }
            0 => format!("job {id}: {all} cancelled"),
            _ => format!("job {id}: {all} cancelled; {stopping} are running, and are to stop"),
        };
        global.say(&counts, !nothing, &words)?;
        if !complete {
            screen::note(&format!("job {id}: more is left behind the jobs that run. Repeat this when they have ended"));
        }
        if !complete || all + stopping == 0 {
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

fn drawn(id: &JobId, graph: &JobGraph) -> String {
    let mut drawing =
        Drawing { nodes: HashMap::new(), before: HashMap::new(), after: HashMap::new(), lines: Vec::new() };
    drawing.nodes.extend(graph.nodes.iter().map(|node| (&node.id, node)));
    for edge in &graph.edges {
        drawing.before.entry(&edge.waiter).or_default().push((&edge.job, edge.ended));
        drawing.after.entry(&edge.job).or_default().push((&edge.waiter, None));
    }
    drawing.line(0, id, None, "");
    for (title, is_before) in [("waits for", true), ("is waited for by", false)] {
        let at = drawing.lines.len();
        drawing.branches(id, is_before);
        if drawing.lines.len() > at {
            drawing.lines.insert(at, format!("{:INDENT$}{title}", ""));
        }
    }
    drawing.lines.join("\n")
}

/// A graph as lines, and what is known of it.
struct Drawing<'a> {
    nodes: HashMap<&'a JobId, &'a GraphNode>,
    before: HashMap<&'a JobId, Vec<(&'a JobId, Option<Ended>)>>,
    after: HashMap<&'a JobId, Vec<(&'a JobId, Option<Ended>)>>,
    lines: Vec<String>,
}

impl<'a> Drawing<'a> {
    /// The jobs on one side of a job. What is below a job is drawn once.
    fn branches(&mut self, id: &'a JobId, is_before: bool) {
        let mut seen = HashSet::from([id]);
        let mut remaining: Vec<_> = self.next(id, is_before).into_iter().map(|next| (2, next)).collect();
        while let Some((step, (id, ended))) = remaining.pop() {
            let below = self.next(id, is_before);
            let is_new = seen.insert(id);
            self.line(step, id, ended, if is_new || below.is_empty() { "" } else { " (see above)" });
            if is_new {
                remaining.extend(below.into_iter().map(|next| (step + 1, next)));
            }
        }
    }

    /// The next jobs on one side, the last one first.
    fn next(&self, id: &JobId, is_before: bool) -> Vec<(&'a JobId, Option<Ended>)> {
        let of = if is_before { &self.before } else { &self.after };
        of.get(id).into_iter().flatten().rev().copied().collect()
    }

    fn line(&mut self, step: usize, id: &JobId, ended: Option<Ended>, more: &str) {
        let mut line = format!("{:1$}{id}", "", INDENT * step.min(STEPS));
        if let Some(node) = self.nodes.get(id) {
            // What a job that is gone became is known by the one that waited for it.
            let state = ended.filter(|_| ["gone", "finished"].contains(&node.state.as_str()));
            let state = match state {
                Some(ended) => ended.as_str(),
                None => &node.state,
            };
            let topic = node.topic.as_ref().map(Name::as_str);
            line.extend(topic.into_iter().chain([state]).flat_map(|word| [" ", word]));
            if let Some(GraphProgress { open, total, ended, failed }) = node.waits_for {
                line.push_str(&format!(": {ended} of {total} ended"));
                if failed > 0 {
                    line.push_str(&format!(", {failed} of them not done"));
                }
                line.push_str(if open { "; open" } else { "" });
            }
        }
        line.push_str(more);
        self.lines.push(screen::clean(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_store::GraphEdge;

    fn id(name: &str) -> JobId {
        name.parse().unwrap()
    }

    #[test]
    fn what_a_job_waits_for_is_indented_below_it_and_drawn_once() {
        let node = |name: &str, state: &str, waits_for| GraphNode {
            id: id(name),
            topic: (state != "gone").then(|| "mail".parse().unwrap()),
            state: state.into(),
            waits_for,
        };
        let progress = |total, ended| Some(GraphProgress { open: false, total, ended, failed: 0 });
        let edge = |waiter, job, ended| GraphEdge { waiter: id(waiter), job: id(job), ended };
        let graph = JobGraph {
            nodes: vec![
                node("end", "waiting", progress(2, 0)),
                node("left", "waiting", progress(1, 0)),
                node("right", "waiting", progress(1, 0)),
                node("one", "waiting", progress(1, 1)),
                node("zero", "gone", None),
                node("later", "waiting", progress(1, 0)),
            ],
            edges: vec![
                edge("end", "left", None),
                edge("end", "right", None),
                edge("left", "one", None),
                edge("right", "one", None),
                edge("one", "zero", Some(Ended::Complete)),
                edge("later", "end", None),
            ],
            cut: false,
        };
        let expected = [
            "end mail waiting: 0 of 2 ended",
            "  waits for",
            "    left mail waiting: 0 of 1 ended",
            "      one mail waiting: 1 of 1 ended",
            "        zero complete",
            "    right mail waiting: 0 of 1 ended",
            "      one mail waiting: 1 of 1 ended (see above)",
            "  is waited for by",
            "    later mail waiting: 0 of 1 ended",
        ];
        assert_eq!(drawn(&id("end"), &graph), expected.join("\n"));
    }
}
