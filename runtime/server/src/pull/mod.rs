//! Pull workers: processes of any kind that do the jobs of topics with `handler = "external"`, over HTTP. They claim, extend
//! and settle under the same leases and the same fence as a runner; see `docs/guides/pull-workers.md`.

mod claim;
mod lease;
mod settle;

use std::time::Duration;

use crate::claims::LONGEST_LEASE;
use crate::problem::{Code, Problem};

pub(super) use claim::waiting_routes;
pub(super) use settle::routes;

/// The longest that a claim may wait for jobs.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The shortest lease: nothing can be done in less.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The length of a lease that a worker asks for.
///
/// # Errors
/// [`Code::BadRequest`] if it is out of bounds.
fn lease_length(ms: u64) -> Result<Duration, Problem> {
    let length = Duration::from_millis(ms);
    if (SHORTEST_LEASE..=LONGEST_LEASE).contains(&length) {
        return Ok(length);
    }
    let (least, most) = (SHORTEST_LEASE.as_millis(), LONGEST_LEASE.as_millis());
    Err(Problem::new(Code::BadRequest, format!("`lease_ms` is {ms}: it may be {least} to {most}")))
}
