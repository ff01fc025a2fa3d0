//! Bounds: of the server over all its routes, and of what each token and tenant may ask for.

mod rate;
pub(crate) mod requests;
mod stored_jobs;
mod tenants;

pub(crate) use stored_jobs::StoredJobs;
pub(crate) use tenants::{TenantLimiter, TenantPermit};

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// Bounds of a server. What a single route takes is its own business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections at once. Where one more comes, the one that has been idle for the longest has to go.
    pub connections: usize,
    /// From a connection's beginning, or the end of its last answer, to the end of a request's head.
    pub head_time: Duration,
    /// From the end of a request's head to the beginning of its answer, if it does not ask to wait for something.
    pub request_time: Duration,
    /// Requests that are read and answered at once; others wait for their turn, within their time.
    pub at_once: usize,
    /// Requests that wait for something to happen, and streams, at once; one more is told to come back.
    pub waits: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: connections(),
            head_time: Duration::from_secs(30),
            request_time: Duration::from_secs(20),
            at_once: 32,
            waits: 2000,
        }
    }
}

/// At most half of the files that this process may open: stores, handlers and their requests need some, too.
fn connections() -> usize {
    const MOST: usize = 10_000;
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(MOST, |files| MOST.min(files / 2).max(1))
}
