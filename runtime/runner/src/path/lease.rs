//! How long a claim may be held.

use std::time::Duration;

use gristmill_core::topic::Limits;

/// A first lease covers at most this much of the timeout. The runner extends a lease by as much, when a third of it is over.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// What a lease allows on top of the timeout, for waiting in line and for settling.
const GRACE: Duration = Duration::from_secs(10);

/// The lease of an attempt under these limits.
pub(super) fn of(limits: &Limits) -> Duration {
    limits.timeout.min(LONGEST) + GRACE
}
