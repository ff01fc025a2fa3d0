//! What `top` shows, read from the store or its server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::app::Ask;
use crate::cli::dead::{Act, act_on};
use crate::cli::find::Finder;
use crate::cli::stats;
use crate::cli::store::Reached;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store::{Cancelled, DeadGroup, JobState, JobView, TopicCounts};

/// Running jobs of a tenant that are shown.
const RUNNING: usize = 500;
/// A rate over less would be noise.
const LEAST: Duration = Duration::from_millis(200);

/// Everything at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) at: Timestamp,
    pub(super) topics: Vec<TopicLine>,
    pub(super) running: Vec<RunningLine>,
    pub(super) workers: Vec<WorkerLine>,
    pub(super) dead: Vec<DeadGroup>,
}

/// A topic with its counts, and how fast jobs leave it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TopicLine {
    #[serde(flatten)]
    pub(super) counts: TopicCounts,
    /// Per second since the reading before. `None` at the first one.
    pub(super) done_per_second: Option<f64>,
    pub(super) failed_per_second: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct RunningLine {
    pub(super) id: JobId,
    #[serde(flatten)]
    pub(super) topic: TopicId,
    pub(super) worker: String,
    pub(super) attempts: u32,
    pub(super) enqueued_at_ms: Timestamp,
    pub(super) lease_until_ms: Timestamp,
    pub(super) cancelled: bool,
}

/// A worker that runs jobs now.
#[derive(Debug, Clone, Serialize)]
pub(super) struct WorkerLine {
    pub(super) worker: String,
    pub(super) running: usize,
    pub(super) topics: BTreeSet<String>,
}

/// Jobs of a topic that were done so far, and attempts that failed.
type Ends = (u64, u64);

/// Reads the store again and again.
#[derive(Debug)]
pub(super) struct Source {
    reached: Reached,
    tenants: Vec<Name>,
    running: Vec<Finder>,
    dead: Vec<Finder>,
    groups: Vec<DeadGroup>,
    before: Option<(Instant, BTreeMap<TopicId, Ends>)>,
}

impl Source {
    pub(super) fn new(reached: Reached, tenants: Vec<Name>) -> anyhow::Result<Self> {
        let finders = |text: &str| {
            let finders = tenants.iter().map(|tenant| Finder::of(&reached, tenant.clone(), text.to_owned()));
            finders.collect::<Result<Vec<_>, _>>()
        };
        let (running, dead) = (finders("state:running")?, finders("")?);
        Ok(Self { reached, tenants, running, dead, groups: Vec::new(), before: None })
    }

    /// Reads the groups of dead jobs only if it is asked to, since that looks at each of them.
    ///
    /// # Errors
    /// The store is unavailable, or refuses.
    pub(super) async fn read(&mut self, with_dead: bool) -> anyhow::Result<Seen> {
        let counts = stats::counts(&*self.reached.store, &self.tenants).await?;
        let topics = self.with_rates(Instant::now(), counts);
        let mut running = Vec::new();
        for finder in &self.running {
            finder
                .jobs(RUNNING, |view| {
                    running.extend(running_line(view));
                    Ok(())
                })
                .await?;
        }
        if with_dead {
            let mut groups = Vec::new();
            for finder in &self.dead {
                groups.extend(finder.dead_groups().await?);
            }
            self.groups = groups;
        }
        let workers = workers(&running);
        Ok(Seen { at: Timestamp::now(), topics, running, workers, dead: self.groups.clone() })
    }

    pub(super) fn with_rates(&mut self, now: Instant, counts: Vec<TopicCounts>) -> Vec<TopicLine> {
        let ends = |counts: &TopicCounts| {
            let total = |name: &str| counts.totals.get(name).copied().unwrap_or(0);
            let dead = counts.totals.iter().filter(|(name, _)| name.starts_with("dead-")).map(|(_, n)| n).sum::<u64>();
            (total("acked"), total("retried") + dead)
        };
        let totals: BTreeMap<_, _> = counts.iter().map(|counts| (counts.topic.clone(), ends(counts))).collect();
        let before = self.before.replace((now, totals));
        let before = before.filter(|(at, _)| now.duration_since(*at) >= LEAST);
        let line = |counts: TopicCounts| {
            let (done, failed) = ends(&counts);
            let rates = before.as_ref().map(|(at, totals)| {
                let (done_before, failed_before) = totals.get(&counts.topic).copied().unwrap_or_default();
                let over = now.duration_since(*at);
                (per_second(done, done_before, over), per_second(failed, failed_before, over))
            });
            let (done_per_second, failed_per_second) = rates.unzip();
            TopicLine { counts, done_per_second, failed_per_second }
        };
        counts.into_iter().map(line).collect()
    }

    /// Does what a key asks for, and says what came of it.
    ///
    /// # Errors
    /// The store is unavailable, or refuses: a token may only read, for instance.
    pub(super) async fn act(&self, ask: Ask) -> anyhow::Result<String> {
        let store = &*self.reached.store;
        match ask {
            Ask::Quit | Ask::Look => Ok(String::new()),
            Ask::SetPaused(topic, paused) => {
                store.set_paused(&topic, paused).await?;
                Ok(format!("{topic} is {}", if paused { "paused" } else { "resumed" }))
            }
            Ask::Cancel(topic, id) => {
                let cancelled = store.cancel(&topic.tenant, std::slice::from_ref(&id)).await?;
                Ok(match cancelled.first() {
                    Some(Cancelled::Gone) => format!("{id} is cancelled"),
                    Some(Cancelled::Stopping) => format!("{id} is running: its handler is asked to stop"),
                    Some(Cancelled::TooLate) | None => format!("{id} is over"),
                })
            }
            Ask::Respawn(group) => self.act_on_group(&group, Act::Respawn).await,
            Ask::Delete(group) => self.act_on_group(&group, Act::Delete).await,
        }
    }

    async fn act_on_group(&self, group: &DeadGroup, act: Act) -> anyhow::Result<String> {
        let finder = Finder::of(&self.reached, group.topic.tenant.clone(), group.q.clone())?;
        let ids = finder.ids().await?;
        let done = act_on(&*self.reached.store, &group.topic, &ids, act, |_, _| Ok(())).await?;
        Ok(format!("{} {done} jobs of {}", act.past(), group.topic))
    }
}

#[expect(clippy::cast_precision_loss, reason = "for the eye")]
fn per_second(now: u64, before: u64, over: Duration) -> f64 {
    now.saturating_sub(before) as f64 / over.as_secs_f64()
}

fn running_line(view: JobView) -> Option<RunningLine> {
    let JobState::Running { worker, lease_until, cancelled, .. } = view.state else { return None };
    let job = view.job?;
    Some(RunningLine {
        id: view.id,
        topic: job.spec.topic,
        worker,
        attempts: view.attempts,
        enqueued_at_ms: job.enqueued_at,
        lease_until_ms: lease_until,
        cancelled,
    })
}

fn workers(running: &[RunningLine]) -> Vec<WorkerLine> {
    let mut workers: BTreeMap<&str, WorkerLine> = BTreeMap::new();
    for line in running {
        let worker = workers.entry(&line.worker).or_insert_with(|| WorkerLine {
            worker: line.worker.clone(),
            running: 0,
            topics: BTreeSet::new(),
        });
        worker.running += 1;
        worker.topics.insert(line.topic.to_string());
    }
    workers.into_values().collect()
}
