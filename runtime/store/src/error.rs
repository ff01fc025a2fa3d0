//! Why a store did not do what it was asked.

use std::net::SocketAddr;

/// The store did not answer, or refused. A job that fails is never one of these.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum StoreError {
    /// It may answer later: connection refused or lost, timeout, loading, read-only replica during a failover.
    #[error("{} is unavailable", store_in_words(store))]
    Unavailable {
        store: String,
        #[source]
        source: anyhow::Error,
    },
    /// It answered and refused; the same request will be refused again. Nothing was changed.
    #[error("{} refused to {doing}", store_in_words(store))]
    Refused {
        store: String,
        /// What we were doing, as in "failed to …".
        doing: &'static str,
        #[source]
        source: anyhow::Error,
    },
    /// It answered, and has no room for more. What it holds can be worked off, which makes room. Nothing was changed.
    #[error("the store at {store} has no room to {doing}")]
    Full {
        store: String,
        /// As in [`StoreError::Refused`].
        doing: &'static str,
        #[source]
        source: anyhow::Error,
    },
    /// It has stored the jobs, and did not confirm in time that the replicas or the disks have them that must: a failover may lose
    /// them. To push the same jobs again, with the same ids, is safe; that push is confirmed or not on its own.
    #[error("the store at {store} has stored the jobs, but did not confirm in time that they outlive a failover")]
    Unconfirmed {
        store: String,
        #[source]
        source: anyhow::Error,
    },
    /// A store that has one owner at a time has another one.
    #[error("the store at {store} belongs to process {owner}{}", whom_to_ask(*http))]
    Owned {
        store: String,
        /// The process id.
        owner: u32,
        /// Where it answers, if it says so.
        http: Option<SocketAddr>,
    },
    /// What is stored cannot be read: a newer version wrote it, or something else did.
    #[error("job {job} in {store} cannot be read: {problem}")]
    Unreadable { store: String, job: String, problem: String },
    /// The store's address or settings make no sense.
    #[error("`{address}` is no address of a store: {problem}")]
    BadAddress { address: String, problem: String },
}

fn whom_to_ask(http: Option<SocketAddr>) -> String {
    match http {
        Some(http) => {
            format!(", which serves it at http://{http}: send commands there with `--server`, or end that process")
        }
        None => ": wait for its end, or end it".into(),
    }
}

/// The store with its place, or the server with its address by which a store is reached.
pub fn store_in_words(store: &str) -> String {
    let is_server = ["http://", "https://"].iter().any(|scheme| store.starts_with(scheme));
    format!("the {} at {store}", if is_server { "server" } else { "store" })
}

impl StoreError {
    /// Whether trying again later can help.
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
