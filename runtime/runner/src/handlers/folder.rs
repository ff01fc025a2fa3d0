//! The drop-in folder: what is in it, compared with what was loaded from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tokio::task::JoinSet;

use super::registry::{Code, Handler};
use gristmill_core::job::Name;
use gristmill_core::topic::{EXTERNAL, Limits, RESERVED};
use gristmill_sandbox::{Component, Prepared, Sandbox, Version};

/// A file that was written to less than this ago and does not load may still be being copied: it is looked at again
/// before it is refused. A complete component is taken at once.
const SETTLING: Duration = Duration::from_secs(2);

/// A component that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the handler.
    pub handler: Name,
    /// The file.
    pub path: PathBuf,
    /// Why it is not served.
    pub reason: String,
}

/// What a look or a load changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Handlers that were loaded for the first time or in a new version.
    pub loaded: Vec<(Name, Component)>,
    /// Those of them that took the place of another version.
    pub replaced: BTreeSet<Name>,
    /// How long what was loaded took.
    pub took: Duration,
    pub removed: Vec<Name>,
    pub refused: Vec<Refusal>,
    /// Some file may still be being written: look again soon.
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
    /// Each file is loaded apart from the others: one that takes a minute to compile holds up nobody.
    loading: BTreeSet<Name>,
    loads: JoinSet<Load>,
}

/// A file that was looked at, and what came of it: a handler, or nothing if it is what serves already, or why not.
#[derive(Debug)]
struct Load {
    name: Name,
    path: PathBuf,
    metadata: Metadata,
    result: Result<Option<Component>, NotTaken>,
    took: Duration,
}

/// Why a file gives no handler.
#[derive(Debug)]
pub(super) struct NotTaken {
    pub(super) reason: String,
    /// Its bytes are all there: reading it again would change nothing.
    is_whole: bool,
}

impl Folder {
    /// A folder that is looked at from now on.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: BTreeMap::new(),
            handlers: BTreeMap::new(),
            refused: BTreeMap::new(),
            loading: BTreeSet::new(),
            loads: JoinSet::new(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last good version of every component that is there.
    pub fn handlers(&self) -> &BTreeMap<Name, Handler> {
        &self.handlers
    }

    /// Why the files that were not taken were not, by name.
    pub fn refusals(&self) -> BTreeMap<Name, String> {
        self.refused.iter().map(|(name, refusal)| (name.clone(), refusal.reason.clone())).collect()
    }

    /// Whether [`Self::loaded`] has something to wait for.
    pub fn is_loading(&self) -> bool {
        !self.loading.is_empty()
    }

    /// Compares the folder with what was loaded, forgets what is gone, and begins to load what differs. A folder that
    /// cannot be read changes nothing. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn look(&mut self, sandbox: &Sandbox) -> io::Result<Changes> {
        let files = list(&self.path)?;
        let mut changes = Changes::default();
        let present: BTreeSet<&Name> = files.iter().map(|(name, _)| name).collect();
        self.forget_missing(&present, &mut changes);
        for (name, path) in files {
            // Gone since it was listed: the next look will tell.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if self.seen.get(&name) == Some(&Stamp::of(&metadata)) {
                continue;
            }
            if self.loading.insert(name.clone()) {
                self.begin_load(name, path, metadata, sandbox.clone());
            } else {
                // One load a file at a time; whether it read the old or the new one, the next look will tell.
                changes.unsettled = true;
            }
        }
        Ok(changes)
    }

    fn begin_load(&mut self, name: Name, path: PathBuf, metadata: Metadata, sandbox: Sandbox) {
        let current = self.handlers.get(&name).and_then(Handler::version);
        self.loads.spawn(async move {
            let begun = Instant::now();
            // Read once: what is hashed, checked and compiled are the same bytes.
            let result = match read(&path, metadata.len(), &sandbox).await {
                Ok(bytes) => load(&name, &bytes, current, &sandbox).await,
                Err(reason) => Err(NotTaken { reason, is_whole: false }),
            };
            let result = match result {
                Ok(Some(prepared)) => Ok(Some(prepared.keep().await)),
                Ok(None) => Ok(None),
                Err(not_taken) => Err(not_taken),
            };
            Load { name, path, metadata, result, took: begun.elapsed() }
        });
    }

    /// Waits for the next load to end, and takes what it brought. Nothing if nothing is being loaded. Cancel-safe.
    pub async fn loaded(&mut self) -> Changes {
        match self.loads.join_next().await {
            Some(Ok(load)) => self.take(load),
            Some(Err(panicked)) => {
                tracing::error!(%panicked, "a component could not be loaded: this is a fault of the runner");
                self.loading.clear();
                Changes::default()
            }
            None => Changes::default(),
        }
    }

    fn take(&mut self, Load { name, path, metadata, result, took }: Load) -> Changes {
        let mut changes = Changes { took, ..Changes::default() };
        self.loading.remove(&name);
        if !path.exists() {
            // Gone meanwhile: the next look forgets what served before, and what comes back is loaded anew.
            changes.unsettled = true;
            return changes;
        }
        match result {
            Ok(Some(component)) => {
                let handler = Handler { name: name.clone(), code: Code::Component(component.clone()) };
                if self.handlers.insert(name.clone(), handler).is_some() {
                    changes.replaced.insert(name.clone());
                }
                self.refused.remove(&name);
                changes.loaded.push((name.clone(), component));
            }
            Ok(None) => drop(self.refused.remove(&name)),
            Err(NotTaken { is_whole: false, .. }) if is_fresh(&metadata) => {
                changes.unsettled = true;
                return changes;
            }
            Err(NotTaken { reason, .. }) => changes.refused.push(self.refuse(&name, &path, reason)),
        }
        self.seen.insert(name, Stamp::of(&metadata));
        changes
    }

    fn refuse(&mut self, name: &Name, path: &Path, reason: String) -> Refusal {
        let refusal = Refusal { handler: name.clone(), path: path.to_owned(), reason };
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
    // Of a folder that was renamed meanwhile no file was found: that removes no handler.
    fs::metadata(folder)?;
    files.sort();
    Ok(files)
}

/// What is in the file. A disk image that strayed into the folder is refused by its size, and never in memory.
async fn read(path: &Path, bytes: u64, sandbox: &Sandbox) -> Result<Vec<u8>, String> {
    sandbox.check_size(bytes).map_err(|error| error.to_string())?;
    tokio::fs::read(path).await.map_err(|error| format!("failed to read it: {error}"))
}

/// A handler, or nothing if it is the version that serves already, or why not. Its artifact is not kept yet.
pub(super) async fn load(
    name: &Name,
    bytes: &[u8],
    current: Option<Version>,
    sandbox: &Sandbox,
) -> Result<Option<Prepared>, NotTaken> {
    if name.as_str() == EXTERNAL {
        return Err(NotTaken { reason: RESERVED.into(), is_whole: true });
    }
    let not_loaded = |error| NotTaken { reason: format!("{:#}", anyhow::Error::from(error)), is_whole: false };
    let prepared = sandbox.prepare(bytes).await.map_err(not_loaded)?;
    let component = prepared.component();
    if current == Some(component.version()) {
        return Ok(None);
    }
    let failed = |reason| NotTaken { reason: format!("its self-test failed: {reason}"), is_whole: true };
    component.self_test(&Limits::default()).await.map_err(failed)?;
    Ok(Some(prepared))
}

#[expect(clippy::disallowed_methods, reason = "compared with a file's time, which is this host's too")]
fn is_fresh(metadata: &Metadata) -> bool {
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    SystemTime::now().duration_since(modified).unwrap_or_default() < SETTLING
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_sandbox::{CompilerSettings, SandboxSettings};

    #[tokio::test]
    async fn a_file_that_goes_while_it_is_loaded_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("gone.wasm");
        fs::write(&file, "no component").unwrap();
        // As if it had been there for long.
        fs::File::options().write(true).open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let compiler = CompilerSettings::default();
        let settings = SandboxSettings { concurrency: 1, cache: place.path().join("cache"), compiler };
        let mut folder = Folder::new(place.path().into());
        folder.look(&Sandbox::new(&settings).unwrap()).unwrap();
        let load = folder.loads.join_next().await.unwrap().unwrap();
        fs::remove_file(&file).unwrap();
        let changes = folder.take(load);
        assert!(changes.unsettled && changes.refused.is_empty() && folder.refusals().is_empty(), "{changes:?}");
    }
}
