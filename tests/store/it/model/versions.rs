//! What versions of handlers leave in a store: recordings of attempts, decisions about versions, and jobs that one has parked.

use std::collections::BTreeSet;
use std::time::Duration;

use gristmill_core::deployment::Deployment;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::outcome::Reason;
use gristmill_core::version::Version;
use gristmill_store::RecordedJob;

use super::operations::{Decision, TOPICS};
use super::side::{Difference, Side, same};

/// Longer than all that passes in a sequence.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// The version that parks a job that dies so; none: it is not parked.
pub(super) fn parked_by(reason: Reason) -> Option<String> {
    matches!(reason, Reason::Trap | Reason::FuelExhausted).then(|| Version::of(b"of the handler").to_string())
}

impl Side {
    /// Of the topic of the tenant's that comes first: the store does not look whether the job is of it.
    pub(super) async fn record(
        &mut self,
        topics: &[TopicId; TOPICS],
        tenant: &Name,
        job: &JobId,
        recording: u8,
    ) -> Result<(), Difference> {
        let record = self.model.jobs.get(&(tenant.clone(), job.clone()));
        let of_tenant = || topics.iter().find(|topic| topic.tenant == *tenant).cloned();
        let Some(topic) = record.map(|record| record.job.spec.topic.clone()).or_else(of_tenant) else { return Ok(()) };
        self.queue.store.keep_recordings(&topic, &[(job.clone(), vec![recording])], KEEP).await?;
        self.model.recordings.insert((topic, job.clone()), Some(recording));
        Ok(())
    }

    /// Those that were kept once.
    pub(super) async fn compare_recordings(&self) -> Result<(), Difference> {
        for ((topic, job), recording) in &self.model.recordings {
            let found = self.queue.store.recording(topic, job).await?;
            same("recording", found, recording.map(|byte| vec![byte]))?;
        }
        let topics: BTreeSet<_> = self.model.recordings.keys().map(|(topic, _)| topic.clone()).collect();
        for topic in &topics {
            let kept = self.model.recordings.iter().filter(|((of, _), recording)| of == topic && recording.is_some());
            let kept: BTreeSet<_> = kept.map(|((_, job), _)| job.clone()).collect();
            let mut listed = Vec::<RecordedJob>::new();
            while let page = self.queue.store.recorded_jobs(topic, listed.last(), 2).await?
                && !page.is_empty()
            {
                listed.extend(page);
            }
            same("order of recordings", listed.is_sorted_by(|one, other| one > other), true)?;
            same("recorded jobs", listed.into_iter().map(|job| job.id).collect(), kept)?;
        }
        Ok(())
    }

    pub(super) async fn decide(&mut self, topic: &TopicId, decision: &Decision, blind: bool) -> Result<(), Difference> {
        let version = |number: &u8| Version::of(&[*number]);
        let before = self.model.deployments.get(topic).filter(|_| !blind);
        let next = match decision {
            Decision::Serve(stable) => Deployment::serving(version(stable), before),
            Decision::Try(tried, share, stable) => Deployment::trying(version(tried), *share, version(stable), before),
            Decision::RollBack(left, stable) => {
                Deployment::rolling_back(version(left), version(stable), "worse".into(), before)
            }
        };
        let is_next = next.generation == self.model.deployments.get(topic).map_or(1, |last| last.generation + 1);
        same("decided", self.queue.store.write_deployment(topic, &next).await?, is_next)?;
        if is_next {
            self.model.deployments.insert(topic.clone(), next);
        }
        same("decisions", &self.queue.store.deployments().await?, &self.model.deployments)
    }
}
