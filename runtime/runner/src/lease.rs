//! How long a claim may be held.

use std::time::Duration;

use gristmill_core::topic::Limits;

/// A first lease covers at most this much of the timeout. The runner extends the lease of a longer attempt by as much, every third of it.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// What a lease allows on top of the timeout, for waiting in line and for settling.
const GRACE: Duration = Duration::from_secs(10);

/// The lease of an attempt under these limits.
pub(super) fn of(limits: &Limits) -> Duration {
    limits.timeout.min(LONGEST) + GRACE
}

/// Whether an attempt under these limits may run longer than its lease.
pub(super) fn may_be_outlasted(limits: &Limits) -> bool {
    limits.timeout > LONGEST
}
