//! The last good file of each handler, kept beside the cache of artifacts: a file that is refused leaves the version before it in
//! service, also after a restart.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use super::load::{NotTaken, load};
use super::registry::{Code, Handler};
use gristmill_core::job::Name;
use gristmill_sandbox::{FolderLimits, PrivateFolder, Sandbox, Version};

/// The files of all handlers folders of this user together. Those that were not used for longest go first.
const LIMITS: FolderLimits = FolderLimits { files: 4096, bytes: 1 << 30 };

/// Keeps the files of one handlers folder, and the handlers that were made of such files.
#[derive(Debug)]
pub(super) struct LastGood {
    /// None if there is no place for them: then a refused file leaves the version before it in service until the next start only.
    files: Option<PrivateFolder>,
    folder: PathBuf,
    kept: BTreeMap<Name, Version>,
    /// To be kept, as soon as there is time.
    pending: BTreeMap<Name, Version>,
    restored: BTreeMap<Name, Handler>,
}

impl LastGood {
    pub(super) fn open(sandbox: &Sandbox, folder: &Path) -> Self {
        let files = sandbox.private_folder("last-good", LIMITS);
        let files = files.map_err(|error| {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::warn!(error, "the last good files of handlers are not kept");
        });
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Self { files: files.ok(), folder, kept: BTreeMap::new(), pending: BTreeMap::new(), restored: BTreeMap::new() }
    }

    /// Those that serve because the file in the handlers folder cannot.
    pub(super) fn restored(&self) -> &BTreeMap<Name, Handler> {
        &self.restored
    }

    /// Makes a handler of its last good file, unless that is `refused`. Returns whether that gave a handler that was not there.
    pub(super) async fn restore(&mut self, name: &Name, refused: Option<Version>, sandbox: &Sandbox) -> bool {
        if self.restored.contains_key(name) {
            return false;
        }
        let wasm = match self.on_disk(name, PrivateFolder::read).await {
            Ok(Some(wasm)) if refused != Some(Version::of(&wasm)) => wasm,
            Ok(_) => return false,
            Err(error) => {
                tracing::warn!(handler = %name, %error, "its last good file cannot be read");
                return false;
            }
        };
        let component = match load(name, &wasm, None, sandbox).await {
            Ok(Some(prepared)) => prepared.keep().await,
            Ok(None) => return false,
            Err(NotTaken { reason, .. }) => {
                tracing::warn!(handler = %name, reason, "its last good file does not load any more");
                return false;
            }
        };
        tracing::warn!(handler = %name, version = %component.version(), "the version before serves, from the last good file");
        self.restored.insert(name.clone(), Handler { name: name.clone(), code: Code::Component(component) });
        true
    }

    /// Makes handlers anew of the last good files of these versions, whose compiled code is gone. Returns whether there are any.
    pub(super) async fn restore_lost(&mut self, versions: &[Version], sandbox: &Sandbox) -> bool {
        let is_lost = |handler: &Handler| handler.version().is_some_and(|version| versions.contains(&version));
        let lost = self.restored.extract_if(.., |_, handler| is_lost(handler));
        let lost: Vec<Name> = lost.map(|(name, _)| name).collect();
        for name in &lost {
            self.restore(name, None, sandbox).await;
        }
        !lost.is_empty()
    }

    /// This version serves every topic of the handler: [`Self::write_some`] keeps its file, if that is still the one in the handlers folder.
    pub(super) fn keep(&mut self, name: &Name, version: Version) {
        self.restored.remove(name);
        if self.kept.get(name) != Some(&version) {
            self.pending.insert(name.clone(), version);
        }
    }

    /// Whether there are files to be kept.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Keeps some of the files that are to be kept. Cancel-safe: what was not noted as kept is looked at again.
    pub(super) async fn write_some(&mut self) {
        const SOME: usize = 16;
        let some: Vec<(Name, Version)> =
            self.pending.iter().take(SOME).map(|(name, version)| (name.clone(), *version)).collect();
        for (name, version) in some {
            let source = self.folder.join(format!("{name}.wasm"));
            let write = move |files: &PrivateFolder, kept: &str| {
                if files.digest(kept) == Some(version.0) {
                    return Ok(());
                }
                let wasm = std::fs::read(source)?;
                if Version::of(&wasm) == version { files.write(kept, &wasm) } else { Ok(()) }
            };
            if let Err(error) = self.on_disk(&name, write).await {
                tracing::warn!(handler = %name, %error, "its file cannot be kept: after a restart it cannot stand in for a refused one");
            }
            self.pending.remove(&name);
            self.kept.insert(name, version);
        }
    }

    /// The handler was removed.
    pub(super) async fn forget(&mut self, name: &Name) {
        self.restored.remove(name);
        self.pending.remove(name);
        self.kept.remove(name);
        if let Err(error) = self.on_disk(name, PrivateFolder::remove).await {
            tracing::warn!(handler = %name, %error, "its last good file cannot be removed");
        }
    }

    /// Does something with the file of a handler, on a thread for such work. Does nothing where no files are kept.
    async fn on_disk<T: Default + Send + 'static>(
        &self,
        name: &Name,
        work: impl FnOnce(&PrivateFolder, &str) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let Some(files) = self.files.clone() else { return Ok(T::default()) };
        // Other handlers folders may have handlers of the same names.
        let folder = Version::of(self.folder.as_os_str().as_encoded_bytes());
        let kept = format!("{folder}-{name}");
        spawn_blocking(move || work(&files, &kept)).await.map_err(io::Error::other)?
    }
}
