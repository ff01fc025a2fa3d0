//! One task that keeps the fleet true: hint, pause, compare, load, swap. One reload at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fleet::{Fleet, Handler};
use super::folder::{Changes, Folder, Refusal};
use super::watch::Hints;
use crate::config::Manifest;
use crate::wasm::Sandbox;

/// Events of one change come together within this time.
const GATHER: Duration = Duration::from_millis(10);
/// How soon a file that may still be being written is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Keeps a [`Fleet`] true to a manifest and a folder of components.
#[derive(Debug)]
pub struct Reloader {
    sandbox: Sandbox,
    manifest: Manifest,
    /// The manifest's text as last looked at, good or bad; none if there is no file.
    manifest_text: Option<String>,
    folder: Folder,
    fleet: watch::Sender<Arc<Fleet>>,
}

impl Reloader {
    /// Loads the folder once. What is refused is logged and does not keep the rest from serving.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub async fn start(manifest: Manifest, sandbox: Sandbox) -> std::io::Result<Self> {
        let mut folder = Folder::new(manifest.handlers.folder.clone());
        std::fs::create_dir_all(folder.path())?;
        report(&folder.look(&sandbox)?);
        while folder.is_loading() {
            report(&folder.loaded().await);
        }
        let fleet = Fleet::new(&manifest, folder.handlers());
        warn_of_missing_handlers(&manifest, &fleet, &folder);
        let manifest_text = std::fs::read_to_string(&manifest.path).ok();
        Ok(Self { sandbox, manifest, manifest_text, folder, fleet: watch::Sender::new(Arc::new(fleet)) })
    }

    pub fn fleet(&self) -> watch::Receiver<Arc<Fleet>> {
        self.fleet.subscribe()
    }

    /// Until `stop`: look whenever a hint comes, and every `rescan` besides; swap whenever something was loaded.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut hints = Hints::new(&self.watched());
        let mut next_look = Instant::now();
        loop {
            let changes = tokio::select! {
                () = stop.cancelled() => return,
                changes = self.folder.loaded(), if self.folder.is_loading() => changes,
                () = hints.next() => {
                    tokio::time::sleep(GATHER).await;
                    hints.clear();
                    self.look(&mut hints)
                }
                () = tokio::time::sleep_until(next_look) => self.look(&mut hints),
            };
            if changes.any() {
                self.swap();
            }
            report(&changes);
            let pause = if changes.unsettled { LOOK_AGAIN } else { self.manifest.handlers.rescan };
            next_look = Instant::now() + pause;
        }
    }

    fn look(&mut self, hints: &mut Hints) -> Changes {
        if self.reload_manifest() {
            *hints = Hints::new(&self.watched());
        }
        self.folder.look(&self.sandbox).unwrap_or_else(|error| {
            let folder = self.folder.path().display();
            tracing::error!(%folder, %error, "cannot be read: what is loaded keeps serving");
            Changes::default()
        })
    }

    fn watched(&self) -> Vec<PathBuf> {
        let manifest_folder = self.manifest.path.parent().map(Path::to_owned);
        manifest_folder.into_iter().chain([self.folder.path().to_owned()]).filter(|path| path.is_dir()).collect()
    }

    /// True if the watched folders may have changed.
    fn reload_manifest(&mut self) -> bool {
        let text = std::fs::read_to_string(&self.manifest.path).ok();
        if text == self.manifest_text {
            return false;
        }
        self.manifest_text.clone_from(&text);
        let Some(text) = text else {
            tracing::warn!(manifest = %self.manifest.path.display(), "is gone: the last good one keeps ruling");
            return false;
        };
        match Manifest::parse(&text, &self.manifest.path) {
            Ok(manifest) => {
                tracing::info!(manifest = %manifest.path.display(), topics = manifest.topics.len(), "manifest reloaded");
                self.take_manifest(manifest);
                true
            }
            Err(error) => {
                tracing::error!("manifest refused, the last good one keeps ruling:\n{error}");
                false
            }
        }
    }

    fn take_manifest(&mut self, manifest: Manifest) {
        if manifest.server != self.manifest.server || manifest.store != self.manifest.store {
            tracing::warn!("[server] and [store] are read at start only: restart to apply what changed there");
        }
        if manifest.handlers.folder != self.manifest.handlers.folder {
            tracing::warn!("the handlers' folder is read at start only: restart to use another");
        }
        self.manifest = manifest;
        self.swap();
    }

    fn swap(&self) {
        let fleet = Fleet::new(&self.manifest, self.folder.handlers());
        warn_of_missing_handlers(&self.manifest, &fleet, &self.folder);
        // The old fleet's last owner unmaps code and closes files: not in the reader's way.
        let old = self.fleet.send_replace(Arc::new(fleet));
        drop(tokio::task::spawn_blocking(move || drop(old)));
    }
}

fn report(changes: &Changes) {
    for Handler { name, component } in &changes.loaded {
        tracing::info!(handler = %name, version = %component.version(), "handler loaded");
    }
    for name in &changes.removed {
        tracing::warn!(handler = %name, "handler removed: its topics stop, their jobs wait");
    }
    for Refusal { handler, path, reason, serving } in &changes.refused {
        let serving = serving.as_deref().unwrap_or("none");
        tracing::error!(%handler, path = %path.display(), %serving, "component refused: {reason}");
    }
}

fn warn_of_missing_handlers(manifest: &Manifest, fleet: &Fleet, folder: &Folder) {
    let available: Vec<_> = folder.handlers().keys().cloned().collect();
    for seat in fleet.seats().filter(|seat| seat.handler.is_none()) {
        tracing::warn!("{}", manifest.missing_handler(&seat.topic.id, &available));
    }
}
