//! What the process that is asked knows besides the jobs: what does a topic's jobs, by which limits, and which runners live.

use super::serving::Serving;
use crate::handlers::HandlerRegistry;
use crate::path::reap::DEAD_AFTER;
use gristmill_core::deployment::{Deployment, Other};
use gristmill_core::job::TopicId;
use gristmill_core::topic::FleetLimits;
use gristmill_store::{Query, StoreError, TopicCounts};

/// Which process is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessRole {
    /// A runner of the store.
    Runner,
    /// No runner, and no other process can open the store meanwhile.
    OnlyProcess,
    /// No runner. Others may run the store's jobs.
    Onlooker,
}

/// The runners with a recent heartbeat in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runners {
    /// All of them.
    pub alive: u64,
    /// Those besides the process that is asked.
    pub others: u64,
}

impl Runners {
    /// Asks the store which runners live. `matters`: whether the answer depends on the runners besides the process that is asked. If not, a
    /// runner asks for none, so that an unavailable shard delays no answer about other tenants.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn of(store: &(impl Query + ?Sized), role: ProcessRole, matters: bool) -> Result<Self, StoreError> {
        match role {
            // A runner that was killed counts as alive for some seconds.
            ProcessRole::OnlyProcess => return Ok(Self { alive: 0, others: 0 }),
            ProcessRole::Runner if !matters => return Ok(Self { alive: 1, others: 0 }),
            ProcessRole::Runner | ProcessRole::Onlooker => {}
        }
        let heartbeats = store.heartbeats().await?;
        let alive = heartbeats.iter().filter(|heartbeat| heartbeat.silent_for < DEAD_AFTER).count() as u64;
        let here = u64::from(role == ProcessRole::Runner);
        Ok(Self { alive: alive.max(here), others: alive.saturating_sub(here) })
    }
}

/// What does a topic's jobs, and the limits in its manifest, as far as this process knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Who does them.
    pub serving: Serving,
    /// What holds for all runners together.
    pub limits: FleetLimits,
    /// The version that is tried on a share of the jobs.
    pub trial: Option<Other>,
}

impl Served {
    /// What the registry says of a topic; `None` for a registry that is not made yet.
    pub fn of(registry: Option<&HandlerRegistry>, topic: &TopicId) -> Self {
        let entry = registry.and_then(|registry| registry.get(topic));
        let limits = entry.map_or(FleetLimits::NONE, |entry| entry.topic.fleet);
        let trial = entry.and_then(|entry| entry.deployment.as_ref()).and_then(Deployment::candidate).cloned();
        Self { serving: Serving::of(registry, topic), limits, trial }
    }

    /// Whether it depends on other runners why a topic begins no job.
    pub fn depends_on_others(&self, counts: &TopicCounts) -> bool {
        match self.serving {
            Serving::PullWorkers => false,
            Serving::Handler { concurrency } => counts.ready > 0 && counts.running >= u64::from(concurrency),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gristmill_core::job::WorkerId;
    use gristmill_store::embedded::EmbeddedStore;
    use gristmill_store::prelude::*;
    use gristmill_store::{Clock, ManualClock};

    use super::*;

    #[tokio::test]
    async fn a_runner_lives_until_it_was_silent_for_too_long_by_the_clock_of_the_store() {
        let clock = Arc::new(ManualClock::new(1_800_000_000_000));
        let store = EmbeddedStore::in_memory().await.unwrap().with_clock(Clock::Manual(Arc::clone(&clock)));
        let alive = async |role, matters| {
            let Runners { alive, others } = Runners::of(&store, role, matters).await.unwrap();
            (alive, others)
        };
        assert_eq!(
            (alive(ProcessRole::Onlooker, true).await, alive(ProcessRole::Runner, true).await),
            ((0, 0), (1, 0))
        );
        for worker in ["one", "other"] {
            store.heartbeat(&WorkerId::new(worker)).await.unwrap();
        }
        assert_eq!(
            (alive(ProcessRole::Onlooker, true).await, alive(ProcessRole::Runner, true).await),
            ((2, 2), (2, 1))
        );
        assert_eq!(alive(ProcessRole::Runner, false).await, (1, 0), "it does not ask");
        assert_eq!(
            alive(ProcessRole::OnlyProcess, true).await,
            (0, 0),
            "a runner with a recent heartbeat has departed"
        );
        clock.pass(8_000);
        store.heartbeat(&WorkerId::new("one")).await.unwrap();
        assert_eq!(
            (alive(ProcessRole::Onlooker, true).await, alive(ProcessRole::Runner, true).await),
            ((1, 1), (1, 0))
        );
    }
}
