//! What every route of lmstfy's API can reach.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::holders::Holders;
use super::line::Lines;
use super::throttle::Throttles;
use crate::state::AppState;
use gristmill_core::job::TopicId;
use gristmill_core::topic::Topic;

/// Requests that are read and answered at once, and claims; others wait for their turn. Each may hold a whole batch.
const AT_ONCE: usize = 32;

/// lmstfy's API, and what it remembers.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(super) state: AppState,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    enabled: bool,
    access_log: AtomicBool,
    requests: Semaphore,
    claims: Semaphore,
    lines: Lines,
    holders: Holders,
    throttles: Throttles,
}

impl Api {
    pub(crate) fn new(state: AppState, enabled: bool) -> Self {
        let shared = Shared {
            enabled,
            access_log: AtomicBool::new(false),
            requests: Semaphore::new(AT_ONCE),
            claims: Semaphore::new(AT_ONCE),
            lines: Lines::new(Arc::clone(&state.signal_hub)),
            holders: Holders::default(),
            throttles: Throttles::default(),
        };
        Self { state, shared: Arc::new(shared) }
    }

    /// Whether the settings want this API.
    pub(super) fn is_enabled(&self) -> bool {
        self.shared.enabled
    }

    /// Whether each request is written to the log.
    pub(super) fn access_log(&self) -> &AtomicBool {
        &self.shared.access_log
    }

    /// RequestLimiter of requests that are read and answered without waiting for anything.
    pub(super) fn requests(&self) -> &Semaphore {
        &self.shared.requests
    }

    /// RequestLimiter of claims.
    pub(super) fn claims(&self) -> &Semaphore {
        &self.shared.claims
    }

    /// Those who wait for jobs.
    pub(super) fn lines(&self) -> &Lines {
        &self.shared.lines
    }

    /// Those who have had jobs.
    pub(super) fn holders(&self) -> &Holders {
        &self.shared.holders
    }

    pub(super) fn throttles(&self) -> &Throttles {
        &self.shared.throttles
    }

    /// How long what became of a topic's jobs is kept.
    pub(super) fn retention(&self, topic: &TopicId) -> Duration {
        self.with_topic(topic, |topic| topic.result_retention).unwrap_or_default()
    }

    /// Tries in all, for jobs that do not bring their own number.
    pub(super) fn attempts(&self, topic: &TopicId) -> u32 {
        self.with_topic(topic, |topic| topic.retry.attempts)
            .unwrap_or_else(|| gristmill_core::topic::RetryPolicy::default().attempts)
    }

    /// None: nobody wrote the topic down.
    fn with_topic<T>(&self, topic: &TopicId, tell: impl FnOnce(&Topic) -> T) -> Option<T> {
        self.state.topics().get(topic).map(|entry| tell(&entry.topic))
    }
}
