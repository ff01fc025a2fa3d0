//! Runs parked jobs again once the runner serves another version of their handler: ten first, and the rest if the new version parks none of these.
//! A topic that the version before had paused is resumed then.
//!
//! Each runner does this for each version that it begins to serve. While another runner still serves the version before, a job may end there once
//! more: the last runner that changes runs it again.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use super::trap_streaks;
use crate::context::Context;
use crate::handlers::{Handler, HandlerRegistry, TopicHandler};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::outcome::Failure;
use gristmill_sandbox::Version;
use gristmill_store::{Cursor, JobState, JobView, Page, StateFilter, Store, StoreError};

/// How many are tried before the others.
const FIRST: usize = 10;
/// Dead jobs that are looked at in one go.
const PAGE: usize = 500;
/// How often the first ones are looked at until they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Watches for versions until stopped, and for topics of which a version that serves no longer has parked a job: an attempt that it had begun has
/// ended. Dropped, it leaves jobs where they are.
pub(crate) async fn run(mut context: Context, mut late: mpsc::UnboundedReceiver<TopicId>) {
    let (mut served, mut releases) = (HashMap::new(), Releases::default());
    context.registry.mark_changed();
    loop {
        // Not after each release that ends: there may be as many releases as topics.
        if context.registry.has_changed().unwrap_or_default() {
            let registry = context.registry.borrow_and_update().clone();
            begin_for_new_versions(&context, &registry, &mut served, &mut releases);
        }
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            Some(ended) = releases.tasks.join_next() => releases.note_end(&context, ended),
            changed = context.registry.changed() => match changed {
                Ok(()) => context.registry.mark_changed(),
                Err(_) => return,
            },
            Some(topic) = late.recv() => {
                if let Some(&Served { version, parks: true, .. }) = served.get(&topic) {
                    releases.begin(&context, &topic, version, None);
                }
            }
        }
    }
}

fn begin_for_new_versions(
    context: &Context,
    registry: &HandlerRegistry,
    served: &mut HashMap<TopicId, Served>,
    releases: &mut Releases,
) {
    let (mut to_resume, mut with_dead) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, WithDead>::new());
    for (entry, version) in versions(registry) {
        let topic = &entry.topic;
        // A version that did a share of the jobs and was rolled back leaves its own behind.
        let decided = entry.deployment.as_ref().filter(|deployment| deployment.candidate().is_none());
        let decided = decided.map(|deployment| deployment.generation);
        let now = Served { version, parks: topic.park, pauses: topic.pause_after_traps > 0, decided };
        if served.insert(topic.id.clone(), now) == Some(now) {
            continue;
        }
        if topic.pause_after_traps > 0 {
            to_resume.entry(topic.id.tenant.clone()).or_default().push((topic.id.clone(), version));
        }
        if topic.park {
            releases.begin(context, &topic.id, version, Some(with_dead.entry(topic.id.tenant.clone()).or_default()));
        }
    }
    for (tenant, topics) in to_resume {
        releases.resume(context.clone(), tenant, topics);
    }
}

/// The topics of a tenant that have dead jobs: mostly few. The first release asks the store, and all that begin together share the answer.
type WithDead = Arc<OnceCell<HashSet<TopicId>>>;

async fn with_dead(store: &dyn Store, tenant: &Name) -> Result<HashSet<TopicId>, StoreError> {
    let counts = store.counts(tenant).await?;
    Ok(counts.into_iter().filter(|counts| counts.dead > 0).map(|counts| counts.topic).collect())
}

/// How a topic is served. What differs has its parked jobs run again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Served {
    version: Version,
    parks: bool,
    pauses: bool,
    /// The number of the decision about its versions, once none is being tried.
    decided: Option<u64>,
}

/// What is on its way: at most one release of a topic.
#[derive(Default)]
struct Releases {
    tasks: JoinSet<Option<TopicId>>,
    /// The topics that are released, each with the version for which that is to be done once more.
    again: HashMap<TopicId, Option<Version>>,
}

impl Releases {
    fn begin(&mut self, context: &Context, topic: &TopicId, version: Version, with_dead: Option<&WithDead>) {
        match self.again.entry(topic.clone()) {
            Entry::Occupied(mut again) => _ = again.insert(Some(version)),
            Entry::Vacant(first) => {
                first.insert(None);
                let (registry, with_dead, context) = (context.registry.clone(), with_dead.cloned(), context.clone());
                let release = Release { topic: topic.clone(), version, registry, with_dead };
                self.tasks.spawn(async move { Some(release.run(context).await) });
            }
        }
    }

    fn resume(&mut self, context: Context, tenant: Name, topics: Vec<(TopicId, Version)>) {
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = context.stop.cancelled() => {}
                () = trap_streaks::resume(&context, &tenant, topics) => {}
            }
            None
        });
    }

    fn note_end(&mut self, context: &Context, ended: Result<Option<TopicId>, JoinError>) {
        match ended {
            Ok(Some(topic)) => {
                if let Some(Some(version)) = self.again.remove(&topic) {
                    self.begin(context, &topic, version, None);
                }
            }
            Ok(None) => {}
            // Which one it was is not known: rather one too many than one that never ends.
            Err(_) => self.again.clear(),
        }
    }
}

/// The topics that a version serves.
fn versions(registry: &HandlerRegistry) -> impl Iterator<Item = (&TopicHandler, Version)> {
    registry.entries().filter_map(|entry| Some((&**entry, entry.handler.as_ref().and_then(Handler::version)?)))
}

/// Runs the parked jobs of one topic again on one version.
struct Release {
    topic: TopicId,
    version: Version,
    registry: watch::Receiver<Arc<HandlerRegistry>>,
    /// None: the topic has some.
    with_dead: Option<WithDead>,
}

impl Release {
    /// Returns the topic.
    async fn run(self, context: Context) -> TopicId {
        let released = context.retry.call(|| self.release(&*context.store));
        tokio::select! {
            biased;
            () = context.stop.cancelled() => {}
            released = released => match released {
                Some(Ok(0)) | None => {}
                Some(Ok(jobs)) => tracing::info!(topic = %self.topic, jobs, version = %self.version, "run again: a version before had parked them"),
                Some(Err(error)) => {
                    tracing::error!(topic = %self.topic, "failed to run parked jobs again: {:#}", anyhow::Error::from(error));
                }
            },
        }
        self.topic
    }

    /// Makes ready what other versions have parked. Returns how many.
    async fn release(&self, store: &dyn Store) -> Result<usize, StoreError> {
        let tenant = &self.topic.tenant;
        if let Some(known) = &self.with_dead
            && !known.get_or_try_init(|| with_dead(store, tenant)).await?.contains(&self.topic)
        {
            return Ok(0);
        }
        let (first, _) = self.parked(store, None, FIRST).await?;
        let mut released = self.respawn(store, &first).await?;
        if released == 0 || !self.helps(store, &first).await? {
            return Ok(released);
        }
        let mut after = None;
        loop {
            let (parked, next) = self.parked(store, after, PAGE).await?;
            released += self.respawn(store, &parked).await?;
            after = next;
            if after.is_none() || !self.serves() {
                return Ok(released);
            }
        }
    }

    /// Some of the jobs that other versions have parked, and where to look on.
    async fn parked(
        &self,
        store: &dyn Store,
        mut after: Option<Cursor>,
        most: usize,
    ) -> Result<(Vec<JobId>, Option<Cursor>), StoreError> {
        loop {
            let Page { jobs, next } = store.jobs(&self.topic, StateFilter::Dead, after.as_ref(), PAGE).await?;
            let mut parked: Vec<JobId> = jobs.into_iter().filter(|job| self.is_to_run(job)).map(|job| job.id).collect();
            parked.truncate(most);
            if !parked.is_empty() || next.is_none() {
                return Ok((parked, next));
            }
            after = next;
        }
    }

    async fn respawn(&self, store: &dyn Store, jobs: &[JobId]) -> Result<usize, StoreError> {
        if jobs.is_empty() {
            return Ok(0);
        }
        let respawned = store.respawn(&self.topic, jobs).await?;
        Ok(respawned.into_iter().filter(|is_done| *is_done).count())
    }

    /// Waits until the first jobs were tried. Whether the others are to follow.
    async fn helps(&self, store: &dyn Store, first: &[JobId]) -> Result<bool, StoreError> {
        loop {
            let (mut waiting, mut parked) = (0, 0);
            for id in first {
                match store.job(&self.topic.tenant, id).await? {
                    Some(view) if is_being_tried(&view) => waiting += 1,
                    Some(view) => parked += usize::from(self.has_parked(&view)),
                    None => {}
                }
            }
            if parked > 0 {
                tracing::warn!(
                    topic = %self.topic,
                    version = %self.version,
                    "{parked} of {} parked jobs ended on this version as before: the others stay parked",
                    first.len()
                );
                return Ok(false);
            }
            if waiting == 0 || !self.serves() {
                return Ok(self.serves());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn is_to_run(&self, job: &JobView) -> bool {
        parked_by(job).is_some_and(|version| version != self.version.to_string())
    }

    fn has_parked(&self, job: &JobView) -> bool {
        parked_by(job).is_some_and(|version| version == self.version.to_string())
    }

    /// Whether the version still is the topic's.
    fn serves(&self) -> bool {
        let registry = self.registry.borrow();
        let entry = registry.get(&self.topic);
        entry.and_then(|entry| entry.handler.as_ref()).and_then(Handler::version) == Some(self.version)
    }
}

/// Whether a job has not shown yet what its version does with it: after a trap it gets one more try.
fn is_being_tried(job: &JobView) -> bool {
    match job.state {
        JobState::Ready | JobState::Running { .. } => true,
        JobState::Delayed { .. } => job.last_failure.as_ref().is_some_and(Failure::is_of_the_code),
        _ => false,
    }
}

/// Which version parks a dead job.
fn parked_by(job: &JobView) -> Option<&str> {
    let is_dead = matches!(job.state, JobState::Dead { .. });
    job.last_failure.as_ref().filter(|_| is_dead)?.parked_by.as_deref()
}
