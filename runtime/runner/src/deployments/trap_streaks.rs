//! Pauses a topic once a version of its handler has trapped on several jobs in a row, and resumes it once another version serves.
//!
//! Each runner counts what it runs itself. The pause is the store's, so it holds in the whole fleet; its actor names the version, and by that a
//! runner knows whether the version that it begins to serve is another one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::context::Context;
use crate::handlers::Handler;
use crate::record::AttemptRecord;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::outcome::{Reason, Settled};
use gristmill_metrics::as_actor;
use gristmill_sandbox::Version;
use gristmill_store::{Store, StoreError};

/// The jobs of each topic on which its version has trapped since an attempt ended in another way. Clones share everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrapStreaks(Arc<Mutex<HashMap<TopicId, Streak>>>);

#[derive(Debug)]
struct Streak {
    version: Version,
    jobs: BTreeSet<JobId>,
}

/// A version that is to pause its topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrapPause {
    topic: TopicId,
    version: Version,
    jobs: usize,
    reason: Reason,
}

impl TrapStreaks {
    /// Counts a settled attempt. Returns the pause that is due if its version has trapped on `most` different jobs in a row, and then counts anew.
    pub(crate) fn note(&self, record: &AttemptRecord, most: u32) -> Option<TrapPause> {
        let run = record.run.filter(|_| record.settled == Some(Settled::Done))?;
        let (version, topic) = (run.version?, &record.claim.lease.topic);
        match record.verdict.failure().filter(|failure| failure.is_of_the_code()) {
            Some(failure) => self.add(topic, version, &record.claim.lease.job, failure.reason, most),
            None => {
                // What never ran says nothing of the version.
                if run.ran {
                    self.end(topic, version);
                }
                None
            }
        }
    }

    /// An attempt of the version ended in another way than a trap. One of a version that does a share of the jobs says nothing of the other.
    fn end(&self, topic: &TopicId, version: Version) {
        let mut streaks = self.0.lock();
        if streaks.get(topic).is_some_and(|streak| streak.version == version) {
            streaks.remove(topic);
        }
    }

    fn add(&self, topic: &TopicId, version: Version, job: &JobId, reason: Reason, most: u32) -> Option<TrapPause> {
        let mut streaks = self.0.lock();
        let streak = streaks.entry(topic.clone()).or_insert_with(|| Streak { version, jobs: BTreeSet::new() });
        if streak.version != version {
            *streak = Streak { version, jobs: BTreeSet::new() };
        }
        streak.jobs.insert(job.clone());
        let jobs = streak.jobs.len();
        if jobs < most as usize {
            return None;
        }
        streaks.remove(topic);
        Some(TrapPause { topic: topic.clone(), version, jobs, reason })
    }
}

impl TrapPause {
    /// Pauses the topic, unless the runner serves another version meanwhile.
    pub(crate) async fn carry_out(self, context: &Context) {
        let Self { topic, version, jobs, reason } = &self;
        if self.served(context) != Some(*version) {
            return;
        }
        let pause = || as_actor(actor(*version, *jobs, *reason), context.store.set_paused(topic, true));
        match context.retry.call(pause).await {
            Some(Ok(true)) => {
                tracing::warn!(%topic, %version, jobs, %reason, "paused: the version trapped on several jobs in a row; another version resumes it, or `gristmill resume {topic}`");
            }
            Some(Ok(false)) | None => return,
            Some(Err(error)) => {
                tracing::error!(%topic, %version, "failed to pause a topic whose version traps: {:#}", anyhow::Error::from(error));
                return;
            }
        }
        // Another version came before the pause did, and has looked for none since.
        if let Some(served) = self.served(context) {
            resume(context, &topic.tenant, vec![(topic.clone(), served)]).await;
        }
    }

    /// The version that serves the topic now.
    fn served(&self, context: &Context) -> Option<Version> {
        context.registry.borrow().get(&self.topic)?.handler.as_ref().and_then(Handler::version)
    }
}

/// Resumes the topics of a tenant that other versions have paused than those that serve them, which stand beside them.
pub(super) async fn resume(context: &Context, tenant: &Name, topics: Vec<(TopicId, Version)>) {
    let topics: HashMap<_, _> = topics.into_iter().collect();
    if let Some(Err(error)) = context.retry.call(|| resume_in(&*context.store, tenant, &topics)).await {
        tracing::error!(%tenant, "failed to resume topics that versions have paused: {:#}", anyhow::Error::from(error));
    }
}

async fn resume_in(store: &dyn Store, tenant: &Name, topics: &HashMap<TopicId, Version>) -> Result<(), StoreError> {
    for counts in store.counts(tenant).await? {
        let (Some(version), Some(by)) = (topics.get(&counts.topic), counts.pause.and_then(|pause| pause.by)) else {
            continue;
        };
        let Some(paused_by) = pausing_version(&by) else { continue };
        if version.to_string() != paused_by && store.set_paused(&counts.topic, false).await? {
            tracing::info!(topic = %counts.topic, "resumed: {by} had paused it, and another version serves");
        }
    }
    Ok(())
}

/// By whom a topic is paused that a version has paused.
fn actor(version: Version, jobs: usize, reason: Reason) -> String {
    format!("version {version}, of which {jobs} jobs in a row ended as {reason}")
}

/// The version that has paused a topic, by the actor of the pause. `None`: an operator or something else did. The actor of a token or of a command
/// ends with a name in brackets, so no description of a token looks like a version.
pub(crate) fn pausing_version(by: &str) -> Option<&str> {
    let (version, streak) = by.strip_prefix("version ")?.split_once(", of which ")?;
    let (jobs, reason) = streak.split_once(" jobs in a row ended as ")?;
    jobs.parse::<usize>().ok()?;
    Reason::ALL.iter().any(|known| known.as_str() == reason).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u8) -> Version {
        Version([number; 32])
    }

    #[test]
    fn different_jobs_in_a_row_count_and_each_version_on_its_own() {
        let (streaks, topic) = (TrapStreaks::default(), "mail".parse::<TopicId>().unwrap());
        let jobs: Vec<JobId> = (0..5).map(|_| JobId::generate()).collect();
        let add = |of: u8, job: usize| streaks.add(&topic, version(of), &jobs[job], Reason::Trap, 3);
        assert_eq!((add(1, 0), add(1, 0), add(1, 0)), (None, None, None), "the same job counts once");
        assert_eq!(add(1, 1), None);
        assert_eq!((add(2, 2), add(2, 3)), (None, None), "what another version did does not count");
        let due = add(2, 4).expect("three jobs");
        assert_eq!(due, TrapPause { topic: topic.clone(), version: version(2), jobs: 3, reason: Reason::Trap });
        assert_eq!(add(2, 0), None, "it counts anew");
    }

    #[test]
    fn a_job_that_another_version_does_ends_no_row() {
        let (streaks, topic) = (TrapStreaks::default(), "mail".parse::<TopicId>().unwrap());
        let add = |of: u8| streaks.add(&topic, version(of), &JobId::generate(), Reason::Trap, 3).is_some();
        assert_eq!((add(1), add(1)), (false, false));
        streaks.end(&topic, version(2));
        assert!(add(1), "three jobs in a row");
        assert_eq!((add(1), add(1)), (false, false));
        streaks.end(&topic, version(1));
        assert!(!add(1));
    }

    #[test]
    fn only_the_actor_of_such_a_pause_names_a_version() {
        let by = actor(version(7), 3, Reason::FuelExhausted);
        assert_eq!(pausing_version(&by), Some("070707070707"));
        let of_token = format!("{by} (k3f9)");
        for other in ["alice (k3f9)", "command line (root)", "version 1", "version 1, of which 3 jobs", &of_token] {
            assert_eq!(pausing_version(other), None, "{other}");
        }
    }
}
