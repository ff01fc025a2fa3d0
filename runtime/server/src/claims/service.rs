//! What all claims share: the waiting line, and how many claims may wait or ask the store at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::waiting::WaitingLine;
use crate::problem::{Code, Problem};

/// Claims that wait at once, over all tenants: each keeps a connection.
const WAITING: usize = 10_000;
/// Claims that ask the store at once: each may hold a whole answer in memory.
const AT_ONCE: usize = 32;

/// What all claims share: the waiting line and its limits.
#[derive(Debug)]
pub(crate) struct ClaimService {
    pub(super) waiting_line: WaitingLine,
    may_wait: Arc<Semaphore>,
    may_ask: Arc<Semaphore>,
}

impl Default for ClaimService {
    fn default() -> Self {
        Self {
            waiting_line: WaitingLine::default(),
            may_wait: Arc::new(Semaphore::new(WAITING)),
            may_ask: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl ClaimService {
    /// # Errors
    /// [`Code::Busy`]: too many claims wait.
    pub(super) fn permit_to_wait(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let full = |_| {
            let detail = format!("{WAITING} claims wait already, as many as are allowed: ask again with `wait_ms` = 0");
            Problem::new(Code::Busy, detail)
        };
        self.may_wait.clone().try_acquire_owned().map_err(full)
    }

    /// Waits for a permit to ask the store. Cancel-safe.
    pub(super) async fn permit_to_ask(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.may_ask.clone().acquire_owned().await.ok()
    }
}
