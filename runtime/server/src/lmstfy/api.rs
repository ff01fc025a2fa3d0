//! What every route of lmstfy's API can reach.

use std::collections::HashSet;
use std::ops::Deref;
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
pub(crate) struct Api(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) state: AppState,
    /// Whether the settings want this API.
    pub(super) enabled: bool,
    /// Whether each request is written to the log.
    pub(super) access_log: AtomicBool,
    /// The clients that had jobs.
    pub(super) holders: Holders,
    pub(super) throttles: Throttles,
    warned: Mutex<HashSet<TopicId>>,
}

impl Deref for Api {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Api {
    pub(crate) fn new(state: AppState, enabled: bool) -> Self {
        Self(Arc::new(Shared {
            state,
            enabled,
            access_log: AtomicBool::new(false),
            holders: Holders::default(),
            throttles: Throttles::default(),
            warned: Mutex::default(),
        }))
    }

    /// Whether to log a warning about the topic: once, since clients publish to it again and again.
    pub(super) fn should_warn(&self, topic: &TopicId) -> bool {
        let mut warned = self.warned.lock();
        warned.len() < WARNED && warned.insert(topic.clone())
    }
}
