//! How a command reaches a store: it opens the store itself if no process owns it, else it asks the owner's server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::time::Instant;

use crate::open::{Layout, Opened, ShardedStore, open};
use gristmill_config::{HttpSettings, Listen, Manifest, StoreAddress};
use gristmill_core::token::TokenText;
use gristmill_server::{RemoteStore, ServerAddress};
use gristmill_store::embedded::{Owner, owner};
use gristmill_store::{Produce, StoreError};

/// How long an owner may take to say where it answers, or to release the store: it may be starting, ending, or another
/// command.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(25);

static HAS_OPENED: AtomicBool = AtomicBool::new(false);

/// This process has opened a store itself.
pub(in crate::cli) fn note_opened() {
    HAS_OPENED.store(true, Ordering::Relaxed);
}

/// Whether this process has opened a store itself: then no server writes down what it does there.
pub(in crate::cli) fn has_opened() -> bool {
    HAS_OPENED.load(Ordering::Relaxed)
}

/// There is no file at the store's address, and a command that only reads makes none.
#[derive(Debug, thiserror::Error)]
#[error("there is no store yet at {}: `gristmill run` or the first `gristmill push` makes it", .0.display())]
pub(in crate::cli) struct NoStoreYet(PathBuf);

/// How a command gets to its store, once or again and again.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Way {
    layout: Layout,
    http: HttpSettings,
    /// Asked in place of any store.
    server: Option<ServerAddress>,
    /// For a server whose own token cannot be read.
    token: Option<TokenText>,
}

/// A store that a command can talk to.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Reached {
    pub(in crate::cli) store: Arc<dyn Produce>,
    /// While this is held, no other process can open the store: drop it soon.
    pub(in crate::cli) is_ours_alone: bool,
    /// Set if this process has opened several stores itself.
    pub(in crate::cli) sharded: Option<ShardedStore>,
    /// Set if it is reached through a server.
    pub(in crate::cli) server: Option<RemoteStore>,
}

impl From<RemoteStore> for Reached {
    fn from(server: RemoteStore) -> Self {
        Self { store: Arc::new(server.clone()), is_ours_alone: false, sharded: None, server: Some(server) }
    }
}

impl Way {
    pub(in crate::cli) fn new(manifest: &Manifest, server: Option<ServerAddress>, token: Option<TokenText>) -> Self {
        Self { layout: Layout::of(manifest), http: manifest.http.clone(), server, token }
    }

    /// Whether another process can open the store once its server has ended.
    pub(in crate::cli) fn changes_hands(&self) -> bool {
        self.server.is_none() && self.layout.files().next().is_some()
    }

    /// A store that is there.
    ///
    /// # Errors
    /// It is unavailable, or [`NoStoreYet`].
    pub(in crate::cli) async fn reach(&self) -> anyhow::Result<Reached> {
        self.by_any_means(false).await
    }

    /// The same; a file that is not there is made.
    pub(in crate::cli) async fn reach_or_make(&self) -> anyhow::Result<Reached> {
        self.by_any_means(true).await
    }

    /// The last owner may have just released it, and the next one may not have written down yet where it answers.
    async fn by_any_means(&self, make: bool) -> anyhow::Result<Reached> {
        let begun = Instant::now();
        loop {
            let problem = match self.try_to_reach(make).await? {
                Ok(reached) => return Ok(reached),
                Err(problem @ (StoreError::Owned { .. } | StoreError::Unavailable { .. })) if self.changes_hands() => {
                    problem
                }
                Err(problem) => return Err(problem.into()),
            };
            if begun.elapsed() > PATIENCE {
                return Err(given_up(problem));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Through the server of the process that owns any of the stores: it has them all.
    async fn try_to_reach(&self, make: bool) -> anyhow::Result<Result<Reached, StoreError>> {
        if let Some(server) = &self.server {
            return Ok(RemoteStore::connect_with(server.clone(), self.token.clone()).await.map(Reached::from));
        }
        for path in self.layout.files() {
            match owner(path) {
                Ok(None) => {}
                Ok(Some(Owner { http: Some(address), pid, secret })) => {
                    return Ok(self.owners_server(path, pid, address, secret).await);
                }
                Ok(Some(Owner { pid, http: None, .. })) => {
                    return Ok(Err(StoreError::Owned { store: path.display().to_string(), owner: pid }));
                }
                Err(problem) => return Ok(Err(problem)),
            }
        }
        if self.layout.all().any(|store| store.address == StoreAddress::Memory) {
            return self.server_of_memory().await.map(Ok);
        }
        if let StoreAddress::File(path) = &self.layout.home.address
            && !make
            && !path.exists()
        {
            return Err(NoStoreYet(path.into()).into());
        }
        let opened = open(&self.layout).await;
        if opened.is_ok() {
            note_opened();
        }
        Ok(opened.map(|Opened { store, sharded, .. }| Reached {
            store,
            is_ours_alone: self.changes_hands(),
            sharded,
            server: None,
        }))
    }

    /// An owner that is ending may have given its port to the server of another store already.
    async fn owners_server(
        &self,
        path: &Path,
        pid: u32,
        address: SocketAddr,
        secret: Option<TokenText>,
    ) -> Result<Reached, StoreError> {
        let server = RemoteStore::connect_with(address, secret.or_else(|| self.token.clone())).await?;
        if server.pid() == Some(pid) {
            return Ok(server.into());
        }
        let other = server.pid().map_or_else(|| "another server".into(), |other| format!("process {other}"));
        let problem = anyhow!("process {pid} owns it, and at http://{address} {other} answers");
        Err(StoreError::Unavailable { store: path.display().to_string(), source: problem })
    }

    /// The server of this machine that has the store and runs its jobs, if it answers. Opens no store. Of a Redis it is found only where
    /// the manifest says that it listens, and only if it shows its store to the token.
    ///
    /// # Errors
    /// A server answers, and refuses to say who it is.
    pub(in crate::cli) async fn server_here(&self) -> Result<Option<RemoteStore>, StoreError> {
        for path in self.layout.files() {
            if let Some(Owner { http: Some(address), pid, secret }) = owner(path)? {
                let reached = if_any(self.owners_server(path, pid, address, secret).await)?;
                return Ok(reached.and_then(|reached| reached.server));
            }
        }
        let Some(address) = self.listens_at().filter(|_| self.layout.files().next().is_none()) else { return Ok(None) };
        let server = if_any(RemoteStore::connect_with(address, self.token.clone()).await)?;
        let store = self.layout.home.address.to_string();
        Ok(server.filter(|server| server.store() == Some(store.as_str())))
    }

    /// Where the manifest says that its server listens.
    fn listens_at(&self) -> Option<SocketAddr> {
        match self.http.listen {
            Listen::Usual => Some(Listen::USUAL),
            Listen::At(address) if address.port() != 0 => Some(address),
            Listen::At(_) | Listen::Off => None,
        }
    }

    async fn server_of_memory(&self) -> anyhow::Result<Reached> {
        let Some(address) = self.listens_at() else {
            let problem = "`gristmill run` has it in memory, and [http] does not say where that listens";
            return Err(bad_address(problem).into());
        };
        let server = RemoteStore::connect_with(address, self.token.clone()).await;
        let server = server.context("`sqlite::memory:` is in the memory of `gristmill run`: start it first")?;
        // A server does not say which store it has to a token of one tenant.
        if let Some(store) = server.store()
            && store != self.layout.home.address.to_string()
        {
            return Err(anyhow!("the server at http://{address} has another store: {store}"));
        }
        Ok(server.into())
    }
}

/// `None`: nothing answers.
fn if_any<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(error) if error.is_unavailable() => Ok(None),
        answer => answer.map(Some),
    }
}

fn bad_address(problem: &str) -> StoreError {
    StoreError::BadAddress { address: StoreAddress::Memory.to_string(), problem: problem.into() }
}

fn given_up(problem: StoreError) -> anyhow::Error {
    let silent = matches!(problem, StoreError::Owned { .. });
    let error = anyhow::Error::new(problem);
    if !silent {
        return error;
    }
    error.context(
        "the store's owner does not listen; if it is a server, set `listen` in its [http], else wait for its end",
    )
}
