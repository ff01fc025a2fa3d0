//! From names to addresses.

use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Names that may be looked up at once, over all topics: each takes a thread of those that others need too.
const LOOKUPS: usize = 128;

/// Addresses of one name that are looked at; more than a connection ever needs.
const ADDRESSES_MAX: usize = 16;

/// What a test has names resolve to.
#[cfg(test)]
type Table = dyn Fn(&str) -> Vec<IpAddr> + Send + Sync;

/// Which resolver answers.
#[derive(Clone)]
pub(super) enum Resolver {
    /// The machine's: `/etc/hosts`, DNS, whatever it is configured to use.
    System(Arc<Semaphore>),
    #[cfg(test)]
    Fixed(Arc<Table>),
}

impl Resolver {
    pub(super) fn system() -> Self {
        Self::System(Arc::new(Semaphore::new(LOOKUPS)))
    }

    /// The addresses of a name, best first, at most 16; none of them looked at yet. `permits` are the topic's.
    ///
    /// The system's resolver cannot be interrupted: a lookup whose caller gave up holds its permits until it
    /// is done, so that a name server that does not answer takes up so many threads and no more.
    pub(super) async fn resolve(&self, name: &str, permits: &Arc<Semaphore>) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::System(all_topics) => {
                let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
                let place = Arc::clone(all_topics).acquire_owned().await.map_err(io::Error::other)?;
                let name = name.to_owned();
                let lookup = spawn_blocking(move || {
                    let _permits = (permit, place);
                    Ok((name.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).take(ADDRESSES_MAX).collect())
                });
                lookup.await.map_err(io::Error::other)?
            }
            #[cfg(test)]
            Self::Fixed(table) => Ok(table(name)),
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
