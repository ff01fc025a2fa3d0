//! Hints that files have changed.

use std::path::{Path, PathBuf};

use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// Watches folders (not files: a watch on a file dies with the first rename over it) and wakes its owner.
///
/// Every event that may concern the owner is the same hint: look at everything. That makes lost, merged and overflown events
/// harmless, as long as the owner also looks by itself now and then: network file systems send none at all.
#[derive(Debug)]
pub struct Hints {
    watcher: Option<RecommendedWatcher>,
    wakes: mpsc::Receiver<()>,
    _keep_open: mpsc::Sender<()>,
}

impl Hints {
    /// Folders that cannot be watched are logged, and left to the owner's rescan. `is_ours` says whether what a file holds is of
    /// interest.
    pub fn new(folders: &[PathBuf], is_ours: impl Fn(&Path) -> bool + Send + 'static) -> Self {
        let (sender, wakes) = mpsc::channel(1);
        let wake = sender.clone();
        // A full channel already holds a wake-up; one is as good as many.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| concerns(&event, &is_ours)) {
                wake.try_send(()).ok();
            }
        });
        let watcher = watcher.map(|mut watcher| {
            folders.iter().for_each(|folder| watch(&mut watcher, folder));
            watcher
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files cannot be watched here: changes are found by rescanning only");
        }
        Self { watcher: watcher.ok(), wakes, _keep_open: sender }
    }

    /// Watches another folder. What changed in it before gives no hint.
    pub fn add(&mut self, folder: &Path) {
        if let Some(watcher) = &mut self.watcher {
            watch(watcher, folder);
        }
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
}
