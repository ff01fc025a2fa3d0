//! What every route of lmstfy's API can reach.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::holders::Holders;
use super::throttle::Throttles;
use crate::state::AppState;
use gristmill_core::job::TopicId;

/// Unknown topics of which a warning was logged, at most. No more are logged then.
const WARNED: usize = 1000;

/// lmstfy's API, and what it remembers. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(super) state: AppState,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    enabled: bool,
    access_log: AtomicBool,
    holders: Holders,
    throttles: Throttles,
    warned: Mutex<HashSet<TopicId>>,
}

impl Api {
    pub(crate) fn new(state: AppState, enabled: bool) -> Self {
        let shared = Shared {
            enabled,
            access_log: AtomicBool::new(false),
            holders: Holders::default(),
            throttles: Throttles::default(),
            warned: Mutex::default(),
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

    /// The clients that had jobs.
    pub(super) fn holders(&self) -> &Holders {
        &self.shared.holders
    }

    pub(super) fn throttles(&self) -> &Throttles {
        &self.shared.throttles
    }

    /// Whether to log a warning about the topic: once, since clients publish to it again and again.
    pub(super) fn should_warn(&self, topic: &TopicId) -> bool {
        let mut warned = self.shared.warned.lock();
        warned.len() < WARNED && warned.insert(topic.clone())
    }
}
