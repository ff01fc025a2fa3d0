//! Hints that files have changed.

use std::path::{Path, PathBuf};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// Watches folders (not files: a watch on a file dies with the first rename over it) and wakes its owner.
///
/// Every event is the same hint: look at everything. That makes lost, merged and overflown events harmless, as long as
/// the owner also looks by itself now and then: network file systems send none at all.
#[derive(Debug)]
pub(super) struct Hints {
    _watcher: Option<RecommendedWatcher>,
    wakes: mpsc::Receiver<()>,
    _keep_open: mpsc::Sender<()>,
}

impl Hints {
    /// Folders that cannot be watched are logged, and left to the owner's rescan.
    pub(super) fn new(folders: &[PathBuf]) -> Self {
        let (sender, wakes) = mpsc::channel(1);
        let wake = sender.clone();
        // A full channel already holds a wake-up; one is as good as many.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if !event.is_ok_and(|event| event.kind.is_access()) {
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
        Self { _watcher: watcher.ok(), wakes, _keep_open: sender }
    }

    /// Waits for the next hint. Cancel-safe.
    pub(super) async fn next(&mut self) {
        self.wakes.recv().await;
    }

    /// Forgets the hint that may be waiting.
    pub(super) fn clear(&mut self) {
        self.wakes.try_recv().ok();
    }
}

fn watch(watcher: &mut RecommendedWatcher, folder: &Path) {
    if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
        tracing::warn!(folder = %folder.display(), %error, "cannot be watched: changes are found by rescanning only");
    }
}
