//! Bounds: of the server over all its routes, and of what each token and tenant may ask for.

mod client_address;
mod guesses;
pub(crate) mod pace;
pub(crate) mod rate;
pub(crate) mod requests;
pub(crate) mod shares;
mod tenants;

pub(crate) use client_address::{ClientAddress, client_address, network, network_with_share};
pub(crate) use guesses::Guesses;
pub(crate) use tenants::{TenantLimiter, TenantPermit};

pub(crate) use gristmill_runner::{Added, Full, StorageUse};

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bounds of a server. What a single route takes is its own business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections at once. Where one more comes, the one that has been idle for the longest has to go. A tenant's requests keep half of
    /// them busy at most, and a quarter with requests that wait.
    pub connections: usize,
    /// From a connection's beginning, or the end of its last answer, to the end of a request's head.
    pub head_time: Duration,
    /// From the end of a request's head to the beginning of its answer, if it does not ask to wait for something.
    pub request_time: Duration,
    /// Without a byte written of an answer, or of what goes before it; then the connection is closed.
    pub write_time: Duration,
    /// Requests that are answered at once, half of them a tenant's, and half of them the operator's; others wait for their turn, within their time.
    pub at_once: usize,
    /// Requests that wait for something to happen, and streams, at once, a quarter of them a tenant's; one more is refused.
    pub waits: usize,
    /// Streams of events at once, a quarter of them a tenant's and half of them an address's; one more is refused. Each event
    /// is compared with what each of them asks for.
    pub event_streams: usize,
    /// Bytes of bodies in memory, a quarter of them a tenant's, and half of them the operator's; one more is refused.
    pub body_bytes: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: connections(),
            head_time: Duration::from_secs(30),
            request_time: Duration::from_secs(20),
            write_time: Duration::from_secs(30),
            at_once: 32,
            waits: 2000,
            event_streams: 64,
            body_bytes: 512 << 20,
        }
    }
}

impl HttpLimits {
    /// The limits of a listener beside the main one, for commands or an admin API: all listeners together leave files to the
    /// rest of the process.
    pub(crate) fn for_few(self) -> Self {
        Self { connections: (self.connections / 8).clamp(1, 128), ..self }
    }
}

/// At most half of the files that this process may open: stores, handlers and their requests also need some. Services and shells are
/// given few of those that they may have, for programs of another age: this one takes what there is.
fn connections() -> usize {
    const MOST: usize = 10_000;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // With fewer it works as well.
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
    }
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(MOST, |files| MOST.min(files / 2).max(1))
}
