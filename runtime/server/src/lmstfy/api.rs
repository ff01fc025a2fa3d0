//! What every route of lmstfy's API can reach.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::holders::Holders;
use super::throttle::Throttles;
use crate::state::AppState;

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
        }))
    }
}
