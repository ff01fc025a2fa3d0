//! How a command reaches a store: through the server that `--server` names or that owns the file, else by opening the store itself.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::time::Instant;

use crate::open::{Layout, Opened, open};
use gristmill_config::{HttpSettings, Listen, Manifest, StoreAddress};
use gristmill_core::token::TokenText;
use gristmill_server::{HttpServer, HttpServerSettings, RemoteStore, ServerAddress};
use gristmill_store::embedded::{Owner, owner};
use gristmill_store::sharded::ShardedStore;
use gristmill_store::{Produce, Store, StoreError};

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
    /// The same store, if this process has opened it.
    opened: Option<Arc<dyn Store>>,
}

/// A server for one command: one that answers elsewhere, or, where none does, one in this process, which ends with this.
#[derive(Debug)]
pub(in crate::cli) struct Served {
    client: RemoteStore,
    inside: Option<HttpServer>,
}

impl Served {
    /// Lets go of a store that this process has opened for it.
    pub(in crate::cli) async fn end(self) {
        if let Some(server) = self.inside {
            server.shutdown().await;
        }
    }
}

impl Deref for Served {
    type Target = RemoteStore;

    fn deref(&self) -> &RemoteStore {
        &self.client
    }
}

impl From<RemoteStore> for Served {
    fn from(client: RemoteStore) -> Self {
        Self { client, inside: None }
    }
}

impl From<RemoteStore> for Reached {
    fn from(server: RemoteStore) -> Self {
        let store = Arc::new(server.clone());
        Self { store, is_ours_alone: false, sharded: None, server: Some(server), opened: None }
    }
}

impl Reached {
    /// Its server, or one in this process.
    ///
    /// # Errors
    /// The store is unavailable, or the system has no randomness to give.
    pub(in crate::cli) async fn served(self) -> anyhow::Result<Served> {
        match (self.server, self.opened) {
            (None, Some(store)) => {
                let (server, client) = HttpServer::inside(store, "the store", &HttpServerSettings::default()).await?;
                Ok(Served { client, inside: Some(server) })
            }
            (server, _) => server.map(Served::from).context("the store has no server"),
        }
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

    fn is_in_memory(&self) -> bool {
        self.server.is_none() && self.layout.memory().is_some()
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
                Err(problem @ (StoreError::Owned { .. } | StoreError::Unavailable { .. }))
                    if self.changes_hands() || self.is_in_memory() =>
                {
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
        for path in self.layout.files().chain(self.layout.memory()) {
            // What cannot be read now cannot be read in a moment.
            match owner(path)? {
                None => {}
                Some(Owner { http: None, pid, .. }) => {
                    return Ok(Err(StoreError::Owned { store: path.display().to_string(), owner: pid, http: None }));
                }
                Some(owner) => return Ok(self.owners_server(path, owner).await.map(Reached::from)),
            }
        }
        if self.layout.memory().is_some() {
            let problem = "it is in the memory of `gristmill run`, and none runs with this manifest: start it first, or name its server with --server";
            return Err(unavailable(StoreAddress::Memory.to_string(), anyhow!(problem)).into());
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
            store: store.clone(),
            is_ours_alone: self.changes_hands(),
            sharded,
            server: None,
            opened: Some(store),
        }))
    }

    /// The server that answers where the owner of a store says. At that address there may be another one: that of the next process with the port, or
    /// that of another container, to which the same address means itself.
    ///
    /// # Errors
    /// None answers, or another one.
    async fn owners_server(&self, path: &Path, owner: Owner) -> Result<RemoteStore, StoreError> {
        let Owner { http, pid, secret, server } = owner;
        let at = |problem: String| unavailable(path.display().to_string(), anyhow!(problem));
        let address = http.ok_or_else(|| at("its owner does not listen".into()))?;
        let found = RemoteStore::connect_with(address, secret.or_else(|| self.token.clone())).await?;
        if server.is_some() && found.name() == server.as_ref() {
            return Ok(found);
        }
        Err(at(format!(
            "process {pid} owns it, and at http://{address} another server answers, to which nothing was sent. Run this command where the owner \
             runs, in its container for example, or name the server with --server"
        )))
    }

    /// The server that was named, else the one of this machine that has the store and runs its jobs, if it answers. For a Redis it is found only
    /// where the manifest says that it listens, and only if it has the store that is in that Redis.
    ///
    /// # Errors
    /// The server that was named is unavailable; a server answers, and refuses to say who it is; or the Redis refuses.
    pub(in crate::cli) async fn find_server(&self) -> Result<Option<RemoteStore>, StoreError> {
        if let Some(server) = &self.server {
            return RemoteStore::connect_with(server.clone(), self.token.clone()).await.map(Some);
        }
        for path in self.layout.files().chain(self.layout.memory()) {
            if let Some(owner) = owner(path)?.filter(|owner| owner.http.is_some()) {
                return self.owners_server(path, owner).await.map(Some);
            }
        }
        let is_remote = matches!(self.layout.home.address, StoreAddress::Redis(_));
        let Some(address) = self.listens_at().filter(|_| is_remote) else { return Ok(None) };
        let Some(server) = if_any(RemoteStore::connect_with(address, self.token.clone()).await)? else {
            return Ok(None);
        };
        let Some(opened) = if_any(open(&Layout::alone(self.layout.home.clone())).await)? else { return Ok(None) };
        let Some(own) = if_any(opened.store.store_id().await)? else { return Ok(None) };
        Ok(Some(server).filter(|server| server.name().is_some_and(|name| name.store == own)))
    }

    /// The server of this machine, or one in this process.
    ///
    /// # Errors
    /// The store is unavailable, or [`NoStoreYet`].
    pub(in crate::cli) async fn served(&self) -> anyhow::Result<Served> {
        let found = if self.server.is_some() { None } else { self.find_server().await.unwrap_or_else(not_asked) };
        match found {
            Some(server) => Ok(server.into()),
            None => self.reach().await?.served().await,
        }
    }

    /// Where the server answers that this is about, or where the manifest says that it listens; nothing is asked.
    pub(in crate::cli) fn server_address(&self) -> Option<ServerAddress> {
        if self.server.is_some() {
            return self.server.clone();
        }
        let owned = self.layout.files().chain(self.layout.memory()).find_map(|path| owner(path).ok()??.http);
        owned.or_else(|| self.listens_at()).map(ServerAddress::from)
    }

    /// Where the manifest says that its server listens.
    fn listens_at(&self) -> Option<SocketAddr> {
        match self.http.listen {
            Listen::Usual => Some(Listen::USUAL),
            Listen::At(address) if address.port() != 0 => Some(address),
            Listen::At(_) | Listen::Off => None,
        }
    }
}

/// A server of this machine that refuses to say which store it has is none.
fn not_asked(error: StoreError) -> Option<RemoteStore> {
    tracing::debug!("no server is asked: {:#}", anyhow::Error::from(error));
    None
}

fn unavailable(store: String, source: anyhow::Error) -> StoreError {
    StoreError::Unavailable { store, source }
}

/// `None`: nothing answers.
fn if_any<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(error) if error.is_unavailable() => Ok(None),
        answer => answer.map(Some),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_note_of_the_owner_that_cannot_be_read_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::default_at(folder.path());
        manifest.store.address = StoreAddress::File(folder.path().join("g.db"));
        let note = folder.path().join("g.db.owner");
        // As one of another user, for any user: it leads to itself.
        std::os::unix::fs::symlink(&note, &note).unwrap();
        let error = Way::new(&manifest, None, None).try_to_reach(true).await.unwrap_err();
        assert!(error.downcast_ref::<StoreError>().is_some_and(StoreError::is_unavailable), "{error:?}");
    }
}
