//! What `top` shows, read from the store or its server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Serialize, Serializer};
use tokio::time::Instant;

use super::app::Ask;
use super::events::EventLog;
use super::view::View;
use crate::cli::attempts::{Attempt, in_words};
use crate::cli::dead::{act_on, why_not};
use crate::cli::find::Finder;
use crate::cli::stats::{MissingTenants, OfTenants};
use crate::cli::store::Reached;
use crate::cli::table::facts;
use crate::cli::topic_line::{TopicLine, Topics};
use crate::cli::why::Answerer;
use crate::cli::{bulk, describe, workers};
use gristmill_config::{Manifest, units};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_runner::RecentWanted;
use gristmill_server::{StreamedEvent, Worker};
use gristmill_store::{Cancelled, DeadGroup, JobAction, JobState, JobView, StoredSchedule, TopicCounts};

/// Jobs of a tenant that are shown.
const JOBS: usize = 500;
/// Attempts of a tenant, and of one job.
const ATTEMPTS: usize = 100;
const ATTEMPTS_OF_JOB: usize = 5;
/// A rate over less would be noise.
const LEAST: Duration = Duration::from_millis(200);

/// Everything at one moment, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) at: Timestamp,
    pub(super) topics: Vec<TopicRow>,
    pub(super) jobs: Vec<JobView>,
    pub(super) job: Option<JobPage>,
    pub(super) running: Vec<RunningLine>,
    pub(super) workers: Vec<Worker>,
    pub(super) dead: Vec<DeadGroup>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) schedules: Vec<StoredSchedule>,
    /// The latest first.
    pub(super) events: Vec<StreamedEvent>,
    /// Why tenants are not among them.
    pub(super) missing: Option<String>,
}

/// A topic with its counts and its handler, and how fast jobs leave it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TopicRow {
    #[serde(flatten, serialize_with = "document")]
    pub(super) line: TopicLine,
    /// Per second since the reading before. `None` at the first one.
    pub(super) done_per_second: Option<f64>,
    pub(super) failed_per_second: Option<f64>,
}

fn document<S: Serializer>(line: &TopicLine, to: S) -> Result<S::Ok, S::Error> {
    line.document().serialize(to)
}

/// What is known of a job.
#[derive(Debug, Clone)]
pub(super) struct JobPage {
    pub(super) view: JobView,
    pub(super) text: String,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct RunningLine {
    pub(super) id: JobId,
    #[serde(flatten)]
    pub(super) topic: TopicId,
    pub(super) worker: String,
    pub(super) attempts: u32,
    pub(super) enqueued_at_ms: Timestamp,
    pub(super) claimed_at_ms: Option<Timestamp>,
    pub(super) lease_until_ms: Timestamp,
    pub(super) cancelled: bool,
}

/// Jobs of a topic that were done so far, and attempts that failed.
type Ends = (u64, u64);

/// Reads the store again and again.
#[derive(Debug)]
pub(super) struct Source {
    reached: Reached,
    manifest: Manifest,
    topics: Topics,
    tenants: Vec<Name>,
    before: Option<(Instant, BTreeMap<TopicId, Ends>)>,
    events: EventLog,
}

impl Source {
    pub(super) fn new(reached: Reached, manifest: Manifest, topics: Topics, tenants: Vec<Name>) -> Self {
        Self { reached, manifest, topics, tenants, before: None, events: EventLog::default() }
    }

    /// Reads the topics, and what the view shows. Tenants whose store, of several, is unavailable are missing.
    ///
    /// # Errors
    /// The store refuses, or is unavailable for each of the tenants.
    pub(super) async fn read(&mut self, view: &View) -> anyhow::Result<Seen> {
        let (mut seen, missing) = self.read_part(view).await?;
        seen.missing = missing.map(|missing| format!("{:#}", anyhow::Error::from(missing)));
        Ok(seen)
    }

    async fn read_part(&mut self, view: &View) -> anyhow::Result<(Seen, Option<MissingTenants>)> {
        let OfTenants { read: lines, mut missing } = self.topics.of(&self.tenants).await?;
        let mut topics = self.with_rates(Instant::now(), lines);
        topics.sort_by_key(|row| std::cmp::Reverse(row.line.attention()));
        let (mut seen, together) =
            (Seen { at: Timestamp::now(), topics, ..Seen::default() }, self.topics.are_together());
        match view {
            View::Topics => {}
            View::Jobs { tenant, query } => {
                seen.jobs = self.jobs(tenant.as_ref(), query).await?.note(&mut missing);
            }
            View::Job { tenant, id } => seen.job = self.job(tenant, id).await?,
            View::Running => {
                let jobs = self.jobs(None, "state:running").await?.note(&mut missing);
                seen.running = jobs.into_iter().filter_map(running_line).collect();
            }
            View::Dead => {
                let ask = async |tenant: &Name| self.finder(tenant, "")?.dead_groups().await;
                seen.dead = OfTenants::ask(&self.tenants, together, ask).await?.note(&mut missing);
            }
            View::Workers => seen.workers = workers::read(&self.reached).await?.workers,
            View::Attempts => seen.attempts = self.attempts().await?,
            View::Schedules => {
                let ask = async |tenant: &Name| self.reached.store.schedules(tenant, None).await;
                seen.schedules = OfTenants::ask(&self.tenants, together, ask).await?.note(&mut missing);
            }
            View::Events => {
                self.events.listen(self.reached.server.as_ref(), &self.tenants).await?;
                seen.events = self.events.latest();
            }
        }
        Ok((seen, missing))
    }

    /// Reads what the first views show.
    ///
    /// # Errors
    /// The store refuses, or is unavailable for each of the tenants.
    pub(super) async fn read_all(&mut self) -> anyhow::Result<(Seen, Option<MissingTenants>)> {
        let (seen, mut missing) = self.read_part(&View::Running).await?;
        let (Seen { dead, .. }, more) = self.read_part(&View::Dead).await?;
        MissingTenants::add(&mut missing, more);
        // A token for one tenant may not list them.
        let workers = match workers::read(&self.reached).await {
            Err(error) if !error.is_unavailable() => Vec::new(),
            read => read?.workers,
        };
        Ok((Seen { dead, workers, ..seen }, missing))
    }

    /// The latest events, if there are new ones.
    pub(super) fn new_events(&mut self) -> Option<Vec<StreamedEvent>> {
        self.events.take().then(|| self.events.latest())
    }

    fn finder(&self, tenant: &Name, query: &str) -> anyhow::Result<Finder> {
        Ok(Finder::of(&self.reached, tenant.clone(), query.to_owned())?)
    }

    async fn jobs(&self, tenant: Option<&Name>, query: &str) -> anyhow::Result<OfTenants<JobView>> {
        let tenants: Vec<Name> =
            self.tenants.iter().filter(|one| tenant.is_none_or(|tenant| tenant == *one)).cloned().collect();
        OfTenants::ask(&tenants, self.topics.are_together(), async |tenant| {
            let mut jobs = Vec::new();
            let each = |view| {
                jobs.push(view);
                Ok(())
            };
            self.finder(tenant, query)?.jobs(JOBS, each).await?;
            anyhow::Ok(jobs)
        })
        .await
    }

    /// The job as `job show` shows it, why it is not running, and its latest attempts, if the runner of the server has made them.
    async fn job(&self, tenant: &Name, id: &JobId) -> anyhow::Result<Option<JobPage>> {
        let now = Timestamp::now();
        let Some(view) = self.reached.store.job(tenant, id).await? else { return Ok(None) };
        let mut about = describe::view(&view, now);
        if let Some(why) = Answerer::of(&self.reached).of_job(&self.manifest, tenant, id).await? {
            about.insert(2, ("why", why.detail));
        }
        let mut text = facts(&about);
        if let Some(server) = &self.reached.server {
            let (tenant, job) = (tenant.clone(), Some(id.clone()));
            let wanted = RecentWanted { tenant, topic: None, job, failed: false, limit: ATTEMPTS_OF_JOB };
            for attempt in server.attempts(&wanted).await?.attempts {
                text.push_str(&format!("\n\n{}", in_words(&Attempt::read(&attempt)?, now)));
            }
        }
        Ok(Some(JobPage { view, text }))
    }

    async fn attempts(&self) -> anyhow::Result<Vec<Attempt>> {
        let Some(server) = &self.reached.server else {
            anyhow::bail!(
                "recent attempts are in the memory of a runner, which shows them by its server: name it with --server"
            );
        };
        let mut attempts = Vec::new();
        for tenant in &self.tenants {
            let tenant = tenant.clone();
            let wanted = RecentWanted { tenant, topic: None, job: None, failed: false, limit: ATTEMPTS };
            for attempt in server.attempts(&wanted).await?.attempts {
                attempts.push(Attempt::read(&attempt)?);
            }
        }
        Ok(attempts)
    }

    pub(super) fn with_rates(&mut self, now: Instant, lines: Vec<TopicLine>) -> Vec<TopicRow> {
        let ends = |counts: &TopicCounts| {
            let total = |name: &str| counts.totals.get(name).copied().unwrap_or(0);
            let dead = counts.totals.iter().filter(|(name, _)| name.starts_with("dead-")).map(|(_, n)| n).sum::<u64>();
            (total("acked"), total("retried") + dead)
        };
        let totals = lines.iter().map(|line| (line.seen.counts.topic.clone(), ends(&line.seen.counts))).collect();
        let before = self.before.replace((now, totals));
        let before = before.filter(|(at, _)| now.duration_since(*at) >= LEAST);
        // A tenant that was missing has no rates at first: all that it ever did would count.
        let tenants: BTreeSet<Name> =
            before.iter().flat_map(|(_, totals)| totals.keys()).map(|topic| topic.tenant.clone()).collect();
        let row = |line: TopicLine| {
            let (done, failed) = ends(&line.seen.counts);
            let is_known = tenants.contains(&line.seen.counts.topic.tenant);
            let rates = before.as_ref().filter(|_| is_known).map(|(at, totals)| {
                let (done_before, failed_before) = totals.get(&line.seen.counts.topic).copied().unwrap_or_default();
                let over = now.duration_since(*at);
                (per_second(done, done_before, over), per_second(failed, failed_before, over))
            });
            let (done_per_second, failed_per_second) = rates.unzip();
            TopicRow { line, done_per_second, failed_per_second }
        };
        lines.into_iter().map(row).collect()
    }

    /// Does what a key asks for, and says what came of it.
    ///
    /// # Errors
    /// The store is unavailable, or refuses: a token may only read, for instance.
    pub(super) async fn act(&self, ask: Ask) -> anyhow::Result<Option<String>> {
        let store = &*self.reached.store;
        let cancelled = |id: &JobId, stopping: &str, cancelled: &[Cancelled]| match cancelled.first() {
            Some(Cancelled::Gone) => format!("{id} is cancelled"),
            Some(Cancelled::Stopping) => format!("{id} is running: {stopping}"),
            Some(Cancelled::TooLate) | None => format!("{id} is over"),
        };
        Ok(Some(match ask {
            Ask::Quit | Ask::Look => return Ok(None),
            Ask::SetPaused(topic, paused) => {
                store.set_paused(&topic, paused).await?;
                format!("{topic} is {}", if paused { "paused" } else { "resumed" })
            }
            Ask::Cancel(topic, id) => {
                let done = store.cancel(&topic.tenant, std::slice::from_ref(&id)).await?;
                cancelled(&id, "its handler is asked to stop", &done)
            }
            Ask::Kill(topic, id) => {
                let done = store.kill(&topic.tenant, std::slice::from_ref(&id)).await?;
                cancelled(&id, "its runner ends the attempt now", &done)
            }
            Ask::RespawnJob(topic, id) => {
                let were_dead = store.respawn(&topic, std::slice::from_ref(&id)).await?;
                match were_dead.first() {
                    Some(true) => format!("{id} is ready again"),
                    _ => why_not(store, &topic, &id).await?.1,
                }
            }
            Ask::Respawn(group) => self.act_on_group(&group, JobAction::Respawn).await?,
            Ask::Delete(group) => self.act_on_group(&group, JobAction::Delete).await?,
        }))
    }

    async fn act_on_group(&self, group: &DeadGroup, act: JobAction) -> anyhow::Result<String> {
        let ids = self.finder(&group.topic.tenant, &group.q)?.ids().await?;
        let done = act_on(&*self.reached.store, &group.topic, &ids, act, |_, _| Ok(())).await?;
        Ok(format!("{} {} of {}", bulk::past(act.into()), units::counted(done, "job", "jobs"), group.topic))
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
        claimed_at_ms: view.claimed_at,
        lease_until_ms: lease_until,
        cancelled,
    })
}
