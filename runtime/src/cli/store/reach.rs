//! The way of a command to a store: its own hands where nobody owns it, else the owner's door.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::time::Instant;

use super::open::open_file;
use crate::config::{HttpSettings, Listen, Manifest, StoreAddress, StoreSettings};
use crate::http::RemoteStore;
use crate::store::embedded::{Owner, owner};
use crate::store::redis::RedisStore;
use crate::store::{Produce, StoreError};
use crate::token::TokenText;

/// How long an owner may take to say where it answers, or to let go: it may be starting, ending, or another command.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(25);

/// There is no file at the store's address, and who only looks makes none.
#[derive(Debug, thiserror::Error)]
#[error("there is no store yet at {}: `gristmill run` or the first `gristmill push` makes it", .0.display())]
pub(in crate::cli) struct NoStoreYet(PathBuf);

/// How a command gets to its store, once or again and again.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Way {
    store: StoreSettings,
    http: HttpSettings,
    /// For a server whose own we cannot read.
    token: Option<TokenText>,
}

/// A store that a command can talk to.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Reached {
    pub(in crate::cli) store: Arc<dyn Produce>,
    /// While this is held, nobody else can open the store: let go of it soon.
    pub(in crate::cli) is_ours_alone: bool,
}

impl Reached {
    fn shared(store: impl Produce) -> Self {
        Self { store: Arc::new(store), is_ours_alone: false }
    }
}

impl Way {
    pub(in crate::cli) fn new(manifest: &Manifest, token: Option<TokenText>) -> Self {
        Self { store: manifest.store.clone(), http: manifest.http.clone(), token }
    }

    /// Whether the store outlives the server that has it, and can be had by another process then.
    pub(in crate::cli) const fn changes_hands(&self) -> bool {
        matches!(self.store.address, StoreAddress::File(_))
    }

    /// A store that is there.
    ///
    /// # Errors
    /// It is away, or [`NoStoreYet`].
    pub(in crate::cli) async fn reach(&self) -> anyhow::Result<Reached> {
        self.by_any_means(false).await
    }

    /// The same; a file that is not there is made.
    pub(in crate::cli) async fn reach_or_make(&self) -> anyhow::Result<Reached> {
        self.by_any_means(true).await
    }

    async fn by_any_means(&self, make: bool) -> anyhow::Result<Reached> {
        match &self.store.address {
            StoreAddress::Redis(url) => Ok(Reached::shared(RedisStore::connect(url, &self.store.prefix).await?)),
            StoreAddress::Memory => self.server_of_memory().await,
            StoreAddress::File(path) => self.file(path, make).await,
        }
    }

    /// Who had it a moment ago may have just let go, and who took it may not have said yet where it answers.
    async fn file(&self, path: &Path, make: bool) -> anyhow::Result<Reached> {
        let begun = Instant::now();
        loop {
            let problem = match self.try_file(path, make).await? {
                Ok(reached) => return Ok(reached),
                Err(problem @ (StoreError::Owned { .. } | StoreError::Away { .. })) => problem,
                Err(problem) => return Err(problem.into()),
            };
            if begun.elapsed() > PATIENCE {
                return Err(given_up(problem));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_file(&self, path: &Path, make: bool) -> anyhow::Result<Result<Reached, StoreError>> {
        Ok(match owner(path) {
            Ok(None) if !make && !path.exists() => return Err(NoStoreYet(path.into()).into()),
            Ok(None) => open_file(path, self.store.durability)
                .await
                .map(|store| Reached { store: Arc::new(store), is_ours_alone: true }),
            Ok(Some(Owner { http: Some(address), pid, secret })) => self.owners_door(path, pid, address, secret).await,
            Ok(Some(Owner { pid, http: None, .. })) => {
                Err(StoreError::Owned { store: path.display().to_string(), owner: pid })
            }
            Err(problem) => Err(problem),
        })
    }

    /// An owner that is ending may have given its port to the server of another store already.
    async fn owners_door(
        &self,
        path: &Path,
        pid: u32,
        address: SocketAddr,
        secret: Option<TokenText>,
    ) -> Result<Reached, StoreError> {
        let server = RemoteStore::connect_with(address, secret.or_else(|| self.token.clone())).await?;
        if server.pid() == pid {
            return Ok(Reached::shared(server));
        }
        let problem = anyhow!("process {pid} owns it, and at http://{address} process {} answers", server.pid());
        Err(StoreError::Away { store: path.display().to_string(), source: problem })
    }

    async fn server_of_memory(&self) -> anyhow::Result<Reached> {
        let address: SocketAddr = match self.http.listen {
            Listen::Usual => Listen::USUAL,
            Listen::At(address) if address.port() != 0 => address,
            Listen::At(_) | Listen::Off => {
                let problem = "it lives in `gristmill run`, and [http] does not say where that listens";
                return Err(bad_address(problem).into());
            }
        };
        let server = RemoteStore::connect_with(address, self.token.clone()).await;
        let server = server.context("`sqlite::memory:` lives in `gristmill run`: start it first")?;
        if server.store() != StoreAddress::Memory.to_string() {
            let (address, store) = (address, server.store());
            return Err(anyhow!("the server at http://{address} has another store: {store}"));
        }
        Ok(Reached::shared(server))
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
