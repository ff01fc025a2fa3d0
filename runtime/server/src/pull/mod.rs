//! Pull workers: processes of any kind that do the jobs of topics with `handler = "external"`, over HTTP. They claim, extend
//! and settle under the same leases and the same fence as a runner; see `docs/pull-workers.md`.
//!
//! A pull worker has no heartbeat: what it holds comes back when its lease runs out. Each claim is a worker of its own to
//! the store, so that what one claim brought can be told from everything else.

mod body;
mod claim;
mod claim_guard;
mod lease;
mod line;
mod settle;
mod take;

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::problem::{Code, Problem};

pub(super) use claim::waiting_routes;
pub(super) use line::Lines;
pub(super) use settle::routes;

/// The longest that a claim may wait for jobs.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A lease is this long at least: nothing can be done in less.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// And at most. Whoever needs more extends it.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);

/// A lease's length, as it was asked for.
fn lease(ms: u64) -> Result<Duration, Problem> {
    let lease = Duration::from_millis(ms);
    if (SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
        return Ok(lease);
    }
    let (least, most) = (SHORTEST_LEASE.as_millis(), LONGEST_LEASE.as_millis());
    Err(Problem::new(Code::BadRequest, format!("`lease_ms` is {ms}: it may be {least} to {most}")))
}
