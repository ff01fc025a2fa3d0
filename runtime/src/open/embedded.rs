//! Opens files of the embedded store, and says beside them which server answers for a store that no other process can open.

use std::net::SocketAddr;
use std::path::Path;

use super::{Layout, Opened};
use gristmill_config::Durability;
use gristmill_store::embedded::{self, Announcement, EmbeddedStore, owner};
use gristmill_store::{FsckReport, ServerName, StoreError};

pub(super) async fn open(path: &Path, durability: Durability) -> Result<EmbeddedStore, StoreError> {
    let durability = match durability {
        Durability::Power => embedded::Durability::Power,
        Durability::Process => embedded::Durability::Process,
    };
    EmbeddedStore::open(path, durability).await
}

/// Reads the file beside its owner.
pub(super) async fn fsck(path: &Path) -> Result<FsckReport, StoreError> {
    let file = path.to_owned();
    let looked = tokio::task::spawn_blocking(move || embedded::fsck_file(&file)).await;
    let unavailable =
        |error| StoreError::Unavailable { store: path.display().to_string(), source: anyhow::Error::from(error) };
    looked.map_err(unavailable)?
}

/// Returns whether the owner of the file is a server, which will not release it soon.
pub(super) fn is_served(path: &Path) -> bool {
    owner(path).is_ok_and(|owner| owner.is_some_and(|owner| owner.http.is_some()))
}

impl Opened {
    /// Says beside the manifest that its store is in the memory of this process, if it is, so that commands find it. If that is impossible, the
    /// log says why.
    pub(crate) fn announcing_memory(mut self, layout: &Layout) -> Self {
        let Some(path) = layout.memory() else { return self };
        match Announcement::of_memory(path) {
            Ok(announcement) => self.by_kind.memory = Some(announcement),
            Err(error) => {
                let error = anyhow::Error::from(error);
                tracing::warn!(
                    "commands do not find this server by its manifest: name it to them with --server: {error:#}"
                );
            }
        }
        self
    }

    /// Writes down for other processes where this one answers for stores that they cannot open, which server it is, and the token to
    /// send there.
    ///
    /// # Errors
    /// It cannot be written down.
    pub(crate) fn announce(&self, http: SocketAddr, secret: &str, server: &ServerName) -> Result<(), StoreError> {
        self.by_kind.files.iter().try_for_each(|file| file.announce(http, secret, server))?;
        self.by_kind.memory.iter().try_for_each(|memory| memory.announce(http, secret, server))
    }
}
