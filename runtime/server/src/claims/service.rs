//! What all claims share: the waiting line, and how many claims may wait or ask the store at once.

use super::waiting::WaitingLine;
use crate::limits::shares::{Share, Shares};
use crate::problem::{Code, Problem};
use gristmill_core::job::Name;

/// Claims that wait at once, over all tenants, a quarter of them a tenant's: each keeps a connection.
const WAITING: usize = 10_000;
/// Claims that ask the store at once, half of them a tenant's, and half of them the operator's: each may hold a whole answer in memory.
const AT_ONCE: usize = 32;

/// What all claims share: the waiting line and its limits.
#[derive(Debug)]
pub(crate) struct ClaimService {
    pub(super) waiting_line: WaitingLine,
    may_wait: Shares<Name>,
    may_ask: Shares<Name>,
}

impl Default for ClaimService {
    fn default() -> Self {
        Self {
            waiting_line: WaitingLine::default(),
            may_wait: Shares::new(WAITING, WAITING / 4),
            may_ask: Shares::new(AT_ONCE, AT_ONCE / 2).with_keyless(AT_ONCE / 2),
        }
    }
}

impl ClaimService {
    /// `client`: the tenant of the client; `None` for one of all tenants.
    ///
    /// # Errors
    /// [`Code::Busy`]: too many claims of the tenant wait, or of all.
    pub(super) fn permit_to_wait(&self, client: Option<&Name>) -> Result<Share<Name>, Problem> {
        let full = || {
            let detail = format!(
                "{} claims of a tenant, or {WAITING} of all, wait already, as many as are allowed: ask again with \
                 `wait_ms` = 0",
                WAITING / 4
            );
            Problem::new(Code::Busy, detail)
        };
        self.may_wait.try_acquire(client, 1).ok_or_else(full)
    }

    /// Waits for a permit to ask the store. Cancel-safe.
    pub(super) async fn permit_to_ask(&self, client: Option<&Name>) -> Share<Name> {
        self.may_ask.acquire(client).await
    }
}
