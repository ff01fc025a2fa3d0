//! The drop-in folder: what is in it, compared with what was loaded from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::fleet::Handler;
use crate::job::Name;
use crate::topic::Limits;
use crate::wasm::Sandbox;

/// A file that was written to less than this ago and does not load may still be being copied: it is looked at again
/// before it is refused. A complete component is taken at once.
const SETTLING: Duration = Duration::from_secs(2);

/// A component that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub handler: Name,
    pub path: PathBuf,
    pub reason: String,
    /// Another version of it keeps serving.
    pub serving: Option<String>,
}

/// What a scan changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Handlers that were loaded for the first time or in a new version.
    pub loaded: Vec<Handler>,
    pub removed: Vec<Name>,
    pub refused: Vec<Refusal>,
    /// Some file may still be being written: scan again soon.
    pub unsettled: bool,
}

impl Changes {
    /// The handlers are not what they were.
    pub fn any(&self) -> bool {
        !self.loaded.is_empty() || !self.removed.is_empty()
    }
}

/// Whatever tells one state of a file from another, short of reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }
}

/// The components of a folder: `<name>.wasm`, not in subfolders.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    seen: BTreeMap<Name, Stamp>,
    handlers: BTreeMap<Name, Handler>,
    refused: BTreeMap<Name, Refusal>,
}

impl Folder {
    pub fn new(path: PathBuf) -> Self {
        Self { path, seen: BTreeMap::new(), handlers: BTreeMap::new(), refused: BTreeMap::new() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last good version of every component that is there.
    pub fn handlers(&self) -> &BTreeMap<Name, Handler> {
        &self.handlers
    }

    /// The components that are there and were not taken in the version that is there.
    pub fn refused(&self) -> impl Iterator<Item = &Refusal> {
        self.refused.values()
    }

    /// Compares the folder with what was loaded and loads what differs. A folder that cannot be read changes nothing.
    pub async fn scan(&mut self, sandbox: &Sandbox) -> io::Result<Changes> {
        let files = list(&self.path)?;
        let mut changes = Changes::default();
        for (name, path) in &files {
            self.scan_file(name, path, sandbox, &mut changes).await;
        }
        let present: BTreeSet<&Name> = files.iter().map(|(name, _)| name).collect();
        self.forget_missing(&present, &mut changes);
        Ok(changes)
    }

    async fn scan_file(&mut self, name: &Name, path: &Path, sandbox: &Sandbox, changes: &mut Changes) {
        let Ok(before) = fs::metadata(path) else { return };
        let stamp = Stamp::of(&before);
        if self.seen.get(name) == Some(&stamp) {
            return;
        }
        // Read once: what is hashed, checked and compiled are the same bytes.
        let loaded = match read(path, before.len(), sandbox).await {
            Ok(bytes) => load(name, &bytes, self.handlers.get(name), sandbox).await,
            Err(reason) => Err(reason),
        };
        match loaded {
            Ok(Some(handler)) => {
                self.handlers.insert(name.clone(), handler.clone());
                self.refused.remove(name);
                changes.loaded.push(handler);
            }
            Ok(None) => drop(self.refused.remove(name)),
            Err(_) if is_fresh(&before) => {
                changes.unsettled = true;
                return;
            }
            Err(reason) => changes.refused.push(self.refuse(name, path, reason)),
        }
        self.seen.insert(name.clone(), stamp);
    }

    fn refuse(&mut self, name: &Name, path: &Path, reason: String) -> Refusal {
        let serving = self.handlers.get(name).map(|handler| handler.version().to_string());
        let refusal = Refusal { handler: name.clone(), path: path.to_owned(), reason, serving };
        self.refused.insert(name.clone(), refusal.clone());
        refusal
    }

    fn forget_missing(&mut self, present: &BTreeSet<&Name>, changes: &mut Changes) {
        self.seen.retain(|name, _| present.contains(name));
        self.refused.retain(|name, _| present.contains(name));
        let gone: Vec<Name> = self.handlers.keys().filter(|name| !present.contains(name)).cloned().collect();
        for name in gone {
            self.handlers.remove(&name);
            changes.removed.push(name);
        }
    }
}

/// The components in the folder by handler name. Files whose name is no handler name are left out: editors and copy
/// tools drop all sorts of temporary files.
pub(super) fn list(folder: &Path) -> io::Result<Vec<(Name, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_component = path.extension().is_some_and(|extension| extension == "wasm") && path.is_file();
        let name = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let (true, Some(name)) = (is_component, name) {
            files.push((name, path));
        }
    }
    files.sort();
    Ok(files)
}

/// What is in the file. A disk image that strayed into the folder is refused by its size, and never in memory.
async fn read(path: &Path, bytes: u64, sandbox: &Sandbox) -> Result<Vec<u8>, String> {
    sandbox.check_size(bytes).map_err(|error| error.to_string())?;
    tokio::fs::read(path).await.map_err(|error| format!("failed to read it: {error}"))
}

/// A handler, or nothing if it is the version that serves already, or why not.
async fn load(
    name: &Name,
    bytes: &[u8],
    current: Option<&Handler>,
    sandbox: &Sandbox,
) -> Result<Option<Handler>, String> {
    let component = sandbox.load(bytes).await.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
    if current.is_some_and(|current| current.version() == component.version()) {
        return Ok(None);
    }
    component.self_test(&Limits::default()).await.map_err(|reason| format!("its self-test failed: {reason}"))?;
    Ok(Some(Handler { name: name.clone(), component }))
}

#[expect(clippy::disallowed_methods, reason = "compared with a file's time, which is this host's too")]
fn is_fresh(metadata: &Metadata) -> bool {
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    SystemTime::now().duration_since(modified).unwrap_or_default() < SETTLING
}
