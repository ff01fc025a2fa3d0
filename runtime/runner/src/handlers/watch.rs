//! Hints that files have changed.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// Watches folders (not files: a watch on a file dies with the first rename over it) and wakes its owner.
///
/// Every event that may concern the owner is the same hint: look at everything. That makes lost, merged and overflown events
/// harmless, as long as the owner also looks on its own now and then: network file systems send none at all.
#[derive(Debug)]
pub struct Hints {
    watcher: Option<RecommendedWatcher>,
    /// What is watched, as it was then: device and inode.
    watched: BTreeMap<PathBuf, (u64, u64)>,
    wakes: mpsc::Receiver<()>,
    _keep_open: mpsc::Sender<()>,
}

impl Hints {
    /// Watches nothing yet. Folders that cannot be watched are logged, and left to the owner's rescan. `is_ours` says whether what a file
    /// holds is of interest.
    pub fn new(is_ours: impl Fn(&Path) -> bool + Send + 'static) -> Self {
        let (sender, wakes) = mpsc::channel(1);
        let wake = sender.clone();
        // A full channel already holds a wake-up; one is as good as many.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| concerns(&event, &is_ours)) {
                wake.try_send(()).ok();
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files cannot be watched here: changes are found by rescanning only");
        }
        Self { watcher: watcher.ok(), watched: BTreeMap::new(), wakes, _keep_open: sender }
    }

    /// Watches these folders and no others: also one that has taken the place of another, or that a link leads to now. What changed in it
    /// before gives no hint. Returns whether some were not watched before.
    pub fn follow<'a>(&mut self, folders: impl IntoIterator<Item = &'a Path>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let identity = |folder: &Path| std::fs::metadata(folder).ok().map(|found| (found.dev(), found.ino()));
        let folders: BTreeMap<PathBuf, (u64, u64)> =
            folders.into_iter().filter_map(|folder| Some((folder.to_owned(), identity(folder)?))).collect();
        let mut some_new = false;
        for folder in
            self.watched.iter().filter(|(folder, was)| folders.get(*folder) != Some(was)).map(|(folder, _)| folder)
        {
            // A watch ends with the folder that it watches.
            watcher.unwatch(folder).ok();
        }
        for folder in
            folders.iter().filter(|(folder, is)| self.watched.get(*folder) != Some(is)).map(|(folder, _)| folder)
        {
            watch(watcher, folder);
            some_new = true;
        }
        self.watched = folders;
        some_new
    }

    /// Waits for the next hint. Cancel-safe.
    pub async fn next(&mut self) {
        self.wakes.recv().await;
    }

    /// Forgets the hint that may be waiting.
    pub fn clear(&mut self) {
        self.wakes.try_recv().ok();
    }
}

/// Files that come, go or change their names concern the owner, whatever they are called: a name may lead to another. A change of
/// what a file holds concerns it only if the file is `is_ours`: a database or a log in the same folder changes all the time.
fn concerns(event: &Event, is_ours: impl Fn(&Path) -> bool) -> bool {
    match event.kind {
        EventKind::Access(_) => false,
        EventKind::Modify(ModifyKind::Name(_)) => true,
        EventKind::Modify(_) => event.paths.iter().any(|path| is_ours(path)),
        _ => true,
    }
}

fn watch(watcher: &mut RecommendedWatcher, folder: &Path) {
    if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
        tracing::warn!(folder = %folder.display(), %error, "cannot be watched: changes are found by rescanning only");
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, RenameMode};

    use super::*;

    #[test]
    fn changes_of_another_file_cause_no_look() {
        let concerns = |kind, name: &str| {
            let event = Event::new(kind).add_path(PathBuf::from("/etc/mill").join(name));
            concerns(&event, |path| path.ends_with("gristmill.toml"))
        };
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        assert!(concerns(written, "gristmill.toml"));
        assert!(!concerns(written, "gristmill.db-wal"));
        for kind in [EventKind::Create(CreateKind::File), EventKind::Modify(ModifyKind::Name(RenameMode::To))] {
            assert!(concerns(kind, "..data"), "the manifest may be a link that leads through it");
        }
    }

    #[tokio::test]
    async fn a_folder_that_a_link_leads_to_now_is_watched_instead_of_the_one_before() {
        let place = tempfile::tempdir().unwrap();
        let [one, two, link] = ["one", "two", "link"].map(|name| place.path().join(name));
        for folder in [&one, &two] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let mut hints = Hints::new(|_| true);
        assert!(hints.follow([link.as_path()]) && !hints.follow([link.as_path()]));
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&two, &link).unwrap();
        assert!(hints.follow([link.as_path()]));
        hints.clear();
        std::fs::write(two.join("echo.wasm"), "").unwrap();
        hints.next().await;
    }
}
