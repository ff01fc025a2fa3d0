//! The drop-in folder: what is in it, compared with what was loaded from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{self, JoinError, JoinSet};

use super::backlog::Backlog;
use super::changes::{Changes, LoadedFile, Refusal};
use super::handler::{Code, Handler};
use super::listing::{Listing, list};
use super::load::{Again, LoadedComponent, NotTaken, load_file};
use super::stamp::{Stamp, changed_within, file_at};
use gristmill_core::job::Name;
use gristmill_sandbox::{COMPILES_AT_ONCE, Sandbox, Version};

/// A file that was written to less than this ago and does not load may still be being copied: it is looked at again
/// before it is refused. A complete component is taken at once.
const SETTLING: Duration = Duration::from_secs(2);

/// Files that are written within this time of each other may bear the same time.
const TICK: Duration = Duration::from_millis(20);

/// When a component that took too long to compile is compiled again: then, later each time, and at this distance in the end.
const LATER: Duration = Duration::from_secs(60);
const LATEST: Duration = Duration::from_secs(3600);

/// Files that are read at once. They are in memory meanwhile.
const READS_AT_ONCE: usize = 8;

/// The components of a folder: `<name>.wasm`, not in subfolders.
///
/// A file is read at once, and serves at once if it was compiled before. If not, it joins the [`Backlog`], and is read again when its turn
/// has come: few files are in memory at a time.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    sandbox: Sandbox,
    /// Files that were loaded, refused, or put into the backlog.
    seen: BTreeMap<Name, Stamp>,
    handlers: BTreeMap<Name, Handler>,
    refused: BTreeMap<Name, Refusal>,
    misnamed: BTreeSet<PathBuf>,
    /// Those that took too long to compile. A machine that was busy has time later.
    late: BTreeMap<Name, Late>,
    /// Each file is loaded apart from the others: one that takes a minute to compile delays no other.
    loading: BTreeSet<Name>,
    /// To be read, once others have been.
    unread: VecDeque<Name>,
    backlog: Arc<Backlog>,
    compiling: usize,
    loads: JoinSet<Load>,
    /// Whose the loads are.
    begun: HashMap<task::Id, Begun>,
}

#[derive(Debug, Clone)]
struct Begun {
    name: Name,
    path: PathBuf,
    metadata: Metadata,
    /// It came from the backlog.
    compile: bool,
}

#[derive(Debug)]
struct Late {
    stamp: Stamp,
    next: Instant,
    pause: Duration,
}

/// What came of a file.
#[derive(Debug)]
struct Load {
    result: Result<LoadedComponent, NotTaken>,
    took: Duration,
}

impl Folder {
    /// A folder that is looked at from now on.
    pub fn new(path: PathBuf, sandbox: Sandbox) -> Self {
        Self {
            path,
            sandbox,
            seen: BTreeMap::new(),
            handlers: BTreeMap::new(),
            refused: BTreeMap::new(),
            misnamed: BTreeSet::new(),
            late: BTreeMap::new(),
            loading: BTreeSet::new(),
            unread: VecDeque::new(),
            backlog: Arc::default(),
            compiling: 0,
            loads: JoinSet::new(),
            begun: HashMap::new(),
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

    /// The handlers whose files have to be compiled.
    pub fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    /// Whether [`Self::loaded`] has something to wait for.
    pub fn is_loading(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Whether there are files of which nothing is known yet.
    pub fn is_reading(&self) -> bool {
        !self.unread.is_empty() || self.loading.len() > self.compiling
    }

    /// Compares the folder with what was loaded, forgets what is gone, and begins to load what differs. A folder that
    /// cannot be read changes nothing. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn look(&mut self) -> io::Result<Changes> {
        let Listing { files, misnamed } = list(&self.path)?;
        let mut changes = Changes::default();
        let found = misnamed.keys().cloned().collect();
        changes.misnamed = misnamed.into_iter().filter(|(path, _)| !self.misnamed.contains(path)).collect();
        self.misnamed = found;
        let present: BTreeSet<&Name> = files.iter().map(|(name, _)| name).collect();
        self.forget_missing(&present, &mut changes);
        for (name, path) in files {
            let metadata = match file_at(&path) {
                Ok(metadata) => metadata,
                // Gone since it was listed: the next look finds out.
                Err(_) if fs::symlink_metadata(&path).is_err() => continue,
                Err(reason) => {
                    if self.refused.get(&name).is_none_or(|refusal| refusal.reason != reason) {
                        changes.refused.push(self.refuse(&name, &path, reason));
                    }
                    self.seen.remove(&name);
                    continue;
                }
            };
            let stamp = Stamp::of(&metadata);
            let is_late = self.late.get(&name).is_some_and(|late| late.stamp == stamp && late.next <= Instant::now());
            if self.seen.get(&name) == Some(&stamp) && !is_late {
                continue;
            }
            // One more try: it says when the next one is.
            self.late.entry(name.clone()).and_modify(|late| late.next = Instant::now() + LATEST);
            if self.loading.insert(name.clone()) {
                self.unread.push_back(name);
            } else {
                // One load a file at a time; the next look finds out whether it read the old or the new one.
                changes.unsettled = true;
            }
        }
        self.begin_loads();
        Ok(changes)
    }

    /// Reads what is unread, and then compiles what has to be, within bounds.
    fn begin_loads(&mut self) {
        while self.loads.len() < READS_AT_ONCE + self.compiling
            && let Some(name) = self.unread.pop_front()
        {
            self.begin(name, false);
        }
        while self.unread.is_empty()
            && self.compiling < COMPILES_AT_ONCE
            && let Some(name) = self.backlog.take()
        {
            if self.loading.insert(name.clone()) {
                self.compiling += 1;
                self.begin(name, true);
            }
        }
    }

    /// Loads a file: `compile` it, or only read it and see whether that was done before.
    fn begin(&mut self, name: Name, compile: bool) {
        let path = self.path.join(format!("{name}.wasm"));
        let (current, sandbox) = (self.handlers.get(&name).and_then(Handler::version), self.sandbox.clone());
        let Ok(metadata) = fs::metadata(&path) else {
            // The next look forgets it.
            self.end(&name, compile);
            return;
        };
        let begun = Begun { name: name.clone(), path: path.clone(), metadata: metadata.clone(), compile };
        let load = self.loads.spawn(async move {
            let begun = Instant::now();
            let result = load_file(&name, &path, metadata.len(), current, compile, &sandbox).await;
            Load { result, took: begun.elapsed() }
        });
        self.begun.insert(load.id(), begun);
    }

    fn end(&mut self, name: &Name, was_compiled: bool) {
        self.loading.remove(name);
        if was_compiled {
            self.compiling -= 1;
            self.backlog.remove(name);
        }
    }

    /// Waits for the next load to end, and takes what it and others that have ended brought. Nothing if nothing is being loaded.
    /// Cancel-safe.
    pub async fn loaded(&mut self) -> Changes {
        let Some(ended) = self.loads.join_next_with_id().await else { return Changes::default() };
        let mut changes = self.take(ended);
        while let Some(ended) = self.loads.try_join_next_with_id() {
            changes.extend(self.take(ended));
        }
        self.begin_loads();
        changes
    }

    fn take(&mut self, load: Result<(task::Id, Load), JoinError>) -> Changes {
        let mut changes = Changes::default();
        let id = load.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(Begun { name, path, metadata, compile }) = self.begun.remove(&id) else { return changes };
        self.end(&name, compile);
        let Load { result, took } = match load {
            Ok((_, load)) => load,
            Err(panicked) => {
                tracing::error!(handler = %name, %panicked, "a component could not be loaded: this is a fault of the runner");
                self.backlog.remove(&name);
                return changes;
            }
        };
        if !path.exists() {
            // Gone meanwhile: the next look forgets what served before, and what comes back is loaded anew.
            changes.unsettled = true;
            return changes;
        }
        // What was written right after it was read may bear the same times.
        let may_be_older = result.is_ok() && changed_within(&metadata, TICK);
        match result {
            Ok(LoadedComponent::New(component)) => {
                self.backlog.remove(&name);
                let handler = Handler { name: name.clone(), code: Code::Component(component.clone()) };
                let is_replaced = self.handlers.insert(name.clone(), handler).is_some();
                self.refused.remove(&name);
                self.late.remove(&name);
                changes.loaded.push(LoadedFile { handler: name.clone(), component, is_replaced, took });
            }
            Ok(LoadedComponent::Same) if self.handlers.contains_key(&name) => {
                self.backlog.remove(&name);
                self.refused.remove(&name);
                self.late.remove(&name);
            }
            // The same, but its compiled code was lost meanwhile.
            Ok(LoadedComponent::Same | LoadedComponent::Uncompiled) => {
                self.backlog.add(&name);
                changes.waiting = true;
            }
            Err(NotTaken { again: Again::Soon, .. }) if changed_within(&metadata, SETTLING) => {
                self.backlog.remove(&name);
                // It may have been seen when it joined the backlog.
                self.seen.remove(&name);
                changes.unsettled = true;
                return changes;
            }
            Err(NotTaken { reason, again }) => {
                self.backlog.remove(&name);
                changes.refused.push(self.refuse(&name, &path, reason));
                if again == Again::Later {
                    self.try_later(name.clone(), Stamp::of(&metadata));
                }
            }
        }
        if may_be_older {
            changes.unsettled = true;
        } else {
            self.seen.insert(name, Stamp::of(&metadata));
        }
        changes
    }

    fn try_later(&mut self, name: Name, stamp: Stamp) {
        let before = self.late.get(&name).filter(|late| late.stamp == stamp).map(|late| late.pause);
        let pause = before.map_or(LATER, |pause| pause.saturating_mul(2).min(LATEST));
        self.late.insert(name, Late { stamp, next: Instant::now() + pause, pause });
    }

    fn refuse(&mut self, name: &Name, path: &Path, reason: String) -> Refusal {
        let refusal = Refusal { handler: name.clone(), path: path.to_owned(), reason };
        self.refused.insert(name.clone(), refusal.clone());
        refusal
    }

    fn forget_missing(&mut self, present: &BTreeSet<&Name>, changes: &mut Changes) {
        self.seen.retain(|name, _| present.contains(name));
        self.refused.retain(|name, _| present.contains(name));
        self.late.retain(|name, _| present.contains(name));
        self.backlog.names().iter().filter(|name| !present.contains(name)).for_each(|name| self.backlog.remove(name));
        let gone: Vec<Name> = self.handlers.keys().filter(|name| !present.contains(name)).cloned().collect();
        for name in gone {
            self.handlers.remove(&name);
            changes.removed.push(name);
        }
    }

    /// The compiled code of these versions is gone: their handlers stop, and are compiled again. Returns whether there are any.
    pub(super) fn compile_again(&mut self, versions: &[Version]) -> bool {
        let is_lost = |handler: &Handler| handler.version().is_some_and(|version| versions.contains(&version));
        let lost = self.handlers.extract_if(.., |_, handler| is_lost(handler));
        let lost: Vec<Name> = lost.map(|(name, _)| name).collect();
        lost.iter().for_each(|name| self.backlog.add(name));
        self.begin_loads();
        !lost.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use gristmill_sandbox::{CompilerSettings, SandboxSettings};

    fn folder_at(place: &tempfile::TempDir) -> Folder {
        let compiler = CompilerSettings::default();
        let settings = SandboxSettings { concurrency: 1, cache: place.path().join("cache"), compiler };
        Folder::new(place.path().into(), Sandbox::new(&settings).unwrap())
    }

    #[tokio::test]
    async fn what_is_no_file_is_refused_once_and_with_its_reason() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("folder.wasm")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe.wasm"), rustix::fs::Mode::RUSR).unwrap();
        std::os::unix::fs::symlink("releases/7/link.wasm", at("link.wasm")).unwrap();
        let mut folder = folder_at(&place);
        let said: Vec<String> = folder.look().unwrap().refused.into_iter().map(|refusal| refusal.reason).collect();
        assert!(
            matches!(&said[..], [a, b, c] if a.contains("folder") && b.contains("releases/7/link.wasm") && c.contains("no regular file")),
            "{said:?}"
        );
        assert!(folder.look().unwrap().refused.is_empty(), "it is said once");
        fs::remove_dir(at("folder.wasm")).unwrap();
        folder.look().unwrap();
        assert_eq!(folder.refusals().len(), 2);
    }

    #[tokio::test]
    async fn a_file_whose_name_is_no_handlers_name_is_named_once() {
        let place = tempfile::tempdir().unwrap();
        for name in ["resize image.wasm", "caf\u{e9}.wasm", ".hidden.wasm", "notes.txt"] {
            fs::write(place.path().join(name), "x").unwrap();
        }
        let mut folder = folder_at(&place);
        let misnamed = folder.look().unwrap().misnamed;
        let [(cafe, _), (image, problem)] = &misnamed[..] else { panic!("{misnamed:?}") };
        assert!(cafe.ends_with("caf\u{e9}.wasm") && image.ends_with("resize image.wasm"));
        assert!(problem.starts_with("`resize image` is no name: use 1 to 128 of"), "{problem}");
        assert_eq!(folder.look().unwrap().misnamed, []);
    }

    #[tokio::test]
    async fn a_file_that_took_too_long_to_compile_is_tried_once_more_when_its_time_has_come() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("slow.wasm");
        fs::write(&path, "no component").unwrap();
        let (mut folder, name): (_, Name) = (folder_at(&place), "slow".parse().unwrap());
        let stamp = Stamp::of(&fs::metadata(&path).unwrap());
        folder.seen.insert(name.clone(), stamp);
        folder.try_later(name.clone(), stamp);
        folder.look().unwrap();
        assert!(!folder.is_loading(), "its time has not come");
        folder.late.get_mut(&name).unwrap().next = Instant::now();
        folder.look().unwrap();
        assert!(folder.is_loading());
        folder.loading.clear();
        folder.unread.clear();
        assert!(!folder.look().unwrap().unsettled && folder.loading.is_empty(), "once");
        folder.try_later(name.clone(), stamp);
        assert_eq!(folder.late[&name].pause, 2 * LATER, "later each time");
    }

    #[tokio::test]
    async fn a_file_that_goes_while_it_is_loaded_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("gone.wasm");
        fs::write(&file, "no component").unwrap();
        // As if it had been there for long.
        fs::File::options().write(true).open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let mut folder = folder_at(&place);
        folder.look().unwrap();
        let load = folder.loads.join_next_with_id().await.unwrap();
        fs::remove_file(&file).unwrap();
        let changes = folder.take(load);
        assert!(changes.unsettled && changes.refused.is_empty() && folder.refusals().is_empty(), "{changes:?}");
    }
}
