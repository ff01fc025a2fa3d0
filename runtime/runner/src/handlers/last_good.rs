//! The last good files of each handler, kept beside the cache of artifacts: a file that is refused leaves the version before it in
//! service, also after a restart; and a topic can go back to one of them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::handler::{Code, Handler};
use super::load::{NotTaken, load};
use gristmill_core::job::Name;
use gristmill_sandbox::{Component, FolderLimits, PrivateFolder, Sandbox, Version};

/// The files of all handlers folders of this user together. Those that were not used for longest go first.
const LIMITS: FolderLimits = FolderLimits { files: 4096, bytes: 1 << 30 };

/// How many versions of a handler are kept.
const VERSIONS: usize = 5;

/// Keeps the files of one handlers folder, and the handlers that were made of such files.
#[derive(Debug)]
pub(super) struct LastGood {
    /// None if there is no place for them: then a refused file leaves the version before it in service until the next start only.
    files: Option<PrivateFolder>,
    folder: PathBuf,
    kept: KeptVersions,
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
        let files = files.ok();
        let kept = KeptVersions { files: files.clone(), ..KeptVersions::default() };
        Self { files, folder, kept, pending: BTreeMap::new(), restored: BTreeMap::new() }
    }

    /// Those that serve because the file in the handlers folder cannot.
    pub(super) fn restored(&self) -> &BTreeMap<Name, Handler> {
        &self.restored
    }

    /// The versions of handlers that [`Self::bring`] can make handlers of.
    pub(super) fn kept(&self) -> &KeptVersions {
        &self.kept
    }

    /// Makes a handler of its last good file that is not `refused`. Returns whether that gave a handler that was not there.
    pub(super) async fn restore(&mut self, name: &Name, refused: Option<Version>, sandbox: &Sandbox) -> bool {
        if self.restored.contains_key(name) {
            return false;
        }
        for version in self.versions(name).await {
            if refused != Some(version)
                && let Some(handler) = self.bring(name, version, sandbox).await
            {
                tracing::warn!(handler = %name, %version, "the version before serves, from the last good file");
                self.restored.insert(name.clone(), handler);
                return true;
            }
        }
        false
    }

    /// Makes a handler of the kept file of this version. `None`: there is none, or the log says what is wrong with it.
    pub(super) async fn bring(&self, name: &Name, version: Version, sandbox: &Sandbox) -> Option<Handler> {
        let wasm = match self.kept.read(version).await {
            Ok(wasm) => wasm?,
            Err(error) => {
                tracing::warn!(handler = %name, %version, %error, "its kept file cannot be read");
                return None;
            }
        };
        let component: Component = match load(name, &wasm, None, sandbox).await {
            Ok(prepared) => prepared?.keep().await,
            Err(NotTaken { reason, .. }) => {
                tracing::warn!(handler = %name, %version, reason, "its kept file does not load any more");
                return None;
            }
        };
        Some(Handler { name: name.clone(), code: Code::Component(component) })
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
        if self.kept.of(name).first() != Some(&version) {
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
            let mut versions = self.versions(&name).await;
            versions.retain(|kept| *kept != version);
            versions.insert(0, version);
            versions.truncate(VERSIONS);
            let (source, list) = (self.folder.join(format!("{name}.wasm")), as_text(&versions));
            let write = move |files: &PrivateFolder, index: &str| {
                if files.digest(&version.digest()) != Some(version.0) {
                    let wasm = std::fs::read(source)?;
                    if Version::of(&wasm) != version {
                        return Ok(false);
                    }
                    files.write(&version.digest(), &wasm)?;
                }
                files.write(index, list.as_bytes()).map(|()| true)
            };
            match self.on_disk(&name, write).await {
                Ok(true) => self.kept.set(&name, versions),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(handler = %name, %error, "its file cannot be kept: it cannot stand in for a refused one, nor be rolled back to");
                }
            }
            self.pending.remove(&name);
        }
    }

    /// The handler was removed. Files of its versions go as others are kept.
    pub(super) async fn forget(&mut self, name: &Name) {
        self.restored.remove(name);
        self.pending.remove(name);
        self.kept.versions.lock().remove(name);
        if let Err(error) = self.on_disk(name, PrivateFolder::remove).await {
            tracing::warn!(handler = %name, %error, "the list of its last good files cannot be removed");
        }
    }

    /// The versions of a handler whose files are kept, the latest first.
    async fn versions(&mut self, name: &Name) -> Vec<Version> {
        let kept = self.kept.of(name);
        if !kept.is_empty() {
            return kept;
        }
        let versions = match self.on_disk(name, PrivateFolder::read).await {
            Ok(list) => list.map(|list| from_text(&list)).unwrap_or_default(),
            Err(error) => {
                tracing::warn!(handler = %name, %error, "the list of its last good files cannot be read");
                return Vec::new();
            }
        };
        self.kept.set(name, versions.clone());
        versions
    }

    /// Does something with the files of a handler, on a thread for such work; the text is the name of the list of its versions. Does nothing
    /// where no files are kept.
    async fn on_disk<T: Default + Send + 'static>(
        &self,
        name: &Name,
        work: impl FnOnce(&PrivateFolder, &str) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let Some(files) = self.files.clone() else { return Ok(T::default()) };
        // Other handlers folders may have handlers of the same names.
        let folder = Version::of(self.folder.as_os_str().as_encoded_bytes());
        let index = format!("{folder}-{name}");
        spawn_blocking(move || work(&files, &index)).await.map_err(io::Error::other)?
    }
}

/// The versions whose files are kept, by handler, the latest first; of a handler once that was looked up. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct KeptVersions {
    versions: Arc<Mutex<BTreeMap<Name, Vec<Version>>>>,
    files: Option<PrivateFolder>,
}

impl KeptVersions {
    pub(super) fn of(&self, handler: &Name) -> Vec<Version> {
        self.versions.lock().get(handler).cloned().unwrap_or_default()
    }

    /// The version whose digits begin so, at least four of them, and no other of them does.
    pub(crate) fn find(&self, handler: &Name, digits: &str) -> Option<Version> {
        let digits = digits.to_ascii_lowercase();
        let kept = self.of(handler);
        let mut found = kept.iter().filter(|version| digits.len() >= 4 && version.digest().starts_with(&digits));
        found.next().filter(|_| found.next().is_none()).copied()
    }

    /// The component of a version. `None`: its file has gone since.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) async fn read(&self, version: Version) -> io::Result<Option<Vec<u8>>> {
        let Some(files) = self.files.clone() else { return Ok(None) };
        spawn_blocking(move || files.read(&version.digest())).await.map_err(io::Error::other)?
    }

    fn set(&self, handler: &Name, versions: Vec<Version>) {
        self.versions.lock().insert(handler.clone(), versions);
    }
}

/// A version a line.
fn as_text(versions: &[Version]) -> String {
    versions.iter().map(|version| version.digest() + "\n").collect()
}

fn from_text(list: &[u8]) -> Vec<Version> {
    String::from_utf8_lossy(list).lines().filter_map(|line| line.parse().ok()).collect()
}
