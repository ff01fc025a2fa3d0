//! One task that keeps the registry true: hint, pause, compare, load, swap. One reload at a time.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::folder::{Changes, Folder, Refusal};
use super::registry::{Code, Handler, HandlerRegistry, TopicHandler};
use super::uploads::ComponentUploads;
use super::watch::Hints;
use crate::native::NativeHandler;
use gristmill_config::{HandlerSettings, HttpSettings, LineFileSettings, Manifest, Server, StoreSettings};
use gristmill_core::job::{DEFAULT_TENANT, Name};
use gristmill_metrics::{self as metrics, Event, MetricType, Metrics, Reload};
use gristmill_sandbox::{Kind, Sandbox};

/// Events of one change come together within this time.
const GATHER: Duration = Duration::from_millis(10);
/// How long after a look the next one comes at the soonest, however many hints there are.
const APART: Duration = Duration::from_millis(50);
/// How soon a file that may still be being written is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Keeps a [`HandlerRegistry`] true to a manifest and a folder of components.
#[derive(Debug)]
pub struct Reloader {
    sandbox: Sandbox,
    manifest: Manifest,
    /// The manifest's text as last looked at, good or bad; none if there is no file.
    manifest_text: Option<String>,
    /// As last written in the file, which options of the command line may have overruled.
    fixed: Option<Fixed>,
    folder: Folder,
    /// Whether the folder could be read when it was looked at last.
    is_readable: bool,
    native: BTreeMap<Name, Handler>,
    registry: watch::Sender<Arc<HandlerRegistry>>,
    metrics: Arc<Metrics>,
}

/// What is read at start only.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    server: Server,
    store: StoreSettings,
    stores: BTreeMap<Name, StoreSettings>,
    residences: BTreeMap<Name, Name>,
    http: HttpSettings,
    journal: Option<LineFileSettings>,
    audit: Option<LineFileSettings>,
    handlers: HandlerSettings,
}

impl Fixed {
    fn of(manifest: &Manifest) -> Self {
        // These two apply at once.
        let handlers = HandlerSettings { auto_topics: true, rescan: Duration::ZERO, ..manifest.handlers.clone() };
        let (server, store) = (manifest.server.clone(), manifest.store.clone());
        let (journal, audit) = (manifest.journal.clone(), manifest.audit.clone());
        let (stores, residences) = (manifest.stores.clone(), manifest.residences.clone());
        Self { server, store, stores, residences, http: manifest.http.clone(), journal, audit, handlers }
    }
}

impl Reloader {
    /// Loads the folder once, and counts and emits what becomes of its files. What is refused is logged and does not keep
    /// the rest from serving.
    ///
    /// Each of the `native` handlers makes a topic of its name, unless the manifest has it, and takes the place of a component of
    /// that name, whatever happens to files.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub async fn start(
        manifest: Manifest,
        native: BTreeMap<Name, NativeHandler>,
        sandbox: Sandbox,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let (instances, memories) = (sandbox.clone(), sandbox.clone());
        let help = "Instances that wait for their next job.";
        metrics.register("gristmill_node_kept_instances", MetricType::Gauge, help, move || instances.kept().0);
        let help = "Memory of the instances that wait for their next job.";
        metrics.register("gristmill_node_kept_bytes", MetricType::Gauge, help, move || memories.kept().1);
        let folder = Folder::new(manifest.handlers.folder.clone());
        std::fs::create_dir_all(folder.path())?;
        let manifest_text = manifest.file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        let written = manifest_text.as_deref().and_then(|text| Manifest::parse(text, &manifest.path).ok());
        let fixed = written.as_ref().map(Fixed::of);
        let handler = |(name, function): (Name, _)| (name.clone(), Handler { name, code: Code::Native(function) });
        let (native, registry) = (native.into_iter().map(handler).collect(), watch::Sender::default());
        let is_readable = true;
        let mut reloader =
            Self { sandbox, manifest, manifest_text, fixed, folder, is_readable, native, registry, metrics };
        let changes = reloader.folder.look(&reloader.sandbox)?;
        reloader.report(&changes);
        while reloader.folder.is_loading() {
            let changes = reloader.folder.loaded().await;
            reloader.report(&changes);
        }
        reloader.swap();
        Ok(reloader)
    }

    /// The registry, and each one that replaces it.
    pub fn registry(&self) -> watch::Receiver<Arc<HandlerRegistry>> {
        self.registry.subscribe()
    }

    /// Another way into the folder.
    pub fn uploads(&self) -> ComponentUploads {
        ComponentUploads::new(self.sandbox.clone(), self.folder.path(), self.registry.subscribe())
    }

    /// Until `stop`: look whenever a hint comes, and every `rescan` besides; swap whenever something was loaded.
    pub async fn run(mut self, stop: CancellationToken) {
        let manifest = self.manifest.file.as_ref().and_then(|file| file.file_name()).map(OsStr::to_owned);
        let is_ours =
            move |path: &Path| path.file_name() == manifest.as_deref() || path.extension() == Some(OsStr::new("wasm"));
        let mut hints = Hints::new(&self.watched(), is_ours);
        let (mut next_look, mut not_before) = (Instant::now(), Instant::now());
        loop {
            let changes = tokio::select! {
                () = stop.cancelled() => return,
                changes = self.folder.loaded(), if self.folder.is_loading() => changes,
                () = hints.next(), if next_look > not_before => {
                    next_look = next_look.min((Instant::now() + GATHER).max(not_before));
                    continue;
                }
                () = tokio::time::sleep_until(next_look) => {
                    hints.clear();
                    not_before = Instant::now() + APART;
                    next_look = Instant::now() + self.manifest.handlers.rescan;
                    self.look()
                }
            };
            if changes.any() || self.folder.refusals() != *self.registry.borrow().refusals() {
                self.swap();
            }
            self.report(&changes);
            // Sooner, never later: the end of one load must not put off the look that another file waits for.
            if changes.unsettled {
                next_look = next_look.min(Instant::now() + LOOK_AGAIN);
            }
        }
    }

    fn look(&mut self) -> Changes {
        self.reload_manifest();
        let looked = self.folder.look(&self.sandbox);
        let (folder, was_readable) = (self.folder.path().display(), self.is_readable);
        self.is_readable = looked.is_ok();
        match &looked {
            Ok(_) if !was_readable => tracing::info!(%folder, "can be read again"),
            Err(error) if was_readable => {
                tracing::error!(%folder, %error, "cannot be read: what is loaded keeps serving");
            }
            _ => {}
        }
        looked.unwrap_or_default()
    }

    fn watched(&self) -> Vec<PathBuf> {
        // The parent of a bare file name is the empty path, which means here.
        let here = |folder: &Path| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() };
        let manifest_folder = self.manifest.file.as_ref().and_then(|file| file.parent()).map(here);
        manifest_folder.into_iter().chain([self.folder.path().to_owned()]).filter(|path| path.is_dir()).collect()
    }

    fn reload_manifest(&mut self) {
        let Some(file) = self.manifest.file.clone() else { return };
        let text = std::fs::read_to_string(&file).ok();
        if text == self.manifest_text {
            return;
        }
        self.manifest_text.clone_from(&text);
        let Some(text) = text else {
            tracing::warn!(manifest = %file.display(), "is gone: the last good one stays in force");
            return;
        };
        match Manifest::parse(&text, &file) {
            Ok(mut manifest) => {
                tracing::info!(manifest = %file.display(), topics = manifest.topics.len(), "manifest reloaded");
                manifest.file = Some(file);
                self.take_manifest(manifest);
            }
            Err(error) => tracing::error!("manifest refused, the last good one stays in force:\n{error}"),
        }
    }

    fn take_manifest(&mut self, manifest: Manifest) {
        let fixed = Fixed::of(&manifest);
        if self.fixed.as_ref().is_some_and(|before| *before != fixed) {
            tracing::warn!(
                "[server], [store], [stores], where tenants live, [http], [journal], [audit], the handlers' folder and the limits of \
                 compiling apply at the next start"
            );
        }
        self.fixed = Some(fixed);
        self.manifest = manifest;
        self.swap();
    }

    fn swap(&self) {
        let mut handlers = self.folder.handlers().clone();
        handlers.extend(self.native.iter().map(|(name, native)| (name.clone(), native.clone())));
        let registry = HandlerRegistry::new(&self.manifest, &handlers, &self.registry.borrow());
        let registry = registry.with_refusals(self.folder.refusals());
        warn_of_idle_topics(&self.manifest, &registry, &handlers);
        registry
            .entries()
            .filter(|entry| !entry.lacking.is_empty())
            .for_each(|entry| self.metrics.emit(|| ungranted(entry)));
        // The old registry's last owner unmaps code and closes files: not in the reader's way.
        let old = self.registry.send_replace(Arc::new(registry));
        drop(tokio::task::spawn_blocking(move || drop(old)));
    }

    fn report(&self, changes: &Changes) {
        let Self { manifest, metrics, native, .. } = self;
        for (name, component) in &changes.loaded {
            let made = match component.kind() {
                Kind::Component => "",
                Kind::CoreModule => ": its core module was made a component",
            };
            if native.contains_key(name) {
                tracing::warn!(handler = %name, "a native handler has this name: the component in the folder is not used");
            } else {
                tracing::info!(handler = %name, version = %component.version(), "handler loaded{made}");
            }
            let (reload, kind) = if changes.replaced.contains(name) {
                (Reload::Replaced, metrics::EventKind::HandlerReplaced)
            } else {
                (Reload::Loaded, metrics::EventKind::HandlerLoaded)
            };
            metrics.reload(name, reload, Some(changes.took));
            let version = Some(component.version().to_string());
            metrics.emit(|| Event { version, ..event(kind, name, manifest) });
        }
        for name in &changes.removed {
            tracing::warn!(handler = %name, "handler removed: its topics stop, their jobs wait");
            metrics.reload(name, Reload::Removed, None);
            metrics.emit(|| event(metrics::EventKind::HandlerRemoved, name, manifest));
        }
        for Refusal { handler, path, reason, serving } in &changes.refused {
            let serving = serving.as_deref().unwrap_or("none");
            tracing::error!(%handler, path = %path.display(), %serving, "component refused: {reason}");
            metrics.reload(handler, Reload::Refused, None);
            let (reason, kind) = (Some(reason.clone()), metrics::EventKind::HandlerRefused);
            metrics.emit(|| Event { reason, ..event(kind, handler, manifest) });
        }
    }
}

/// The handler's component imports what the topic does not grant.
fn ungranted(entry: &TopicHandler) -> Event {
    let lacking: Vec<&str> = entry.lacking.iter().map(|capability| capability.name()).collect();
    Event {
        handler: Some(entry.topic.handler.clone()),
        reason: Some(format!("it imports what the topic does not grant: {}", lacking.join(", "))),
        ..Event::of_topic(metrics::EventKind::HandlerRefused, &entry.topic.id)
    }
}

/// Of a handler, for the tenants that have topics for it.
fn event(kind: metrics::EventKind, handler: &Name, manifest: &Manifest) -> Event {
    let topics = manifest.topics.values().filter(|topic| topic.handler == *handler);
    let mut concerns: Vec<Name> = topics.map(|topic| topic.id.tenant.clone()).collect();
    if manifest.makes_topic(handler) {
        concerns.extend(DEFAULT_TENANT.parse::<Name>());
    }
    Event { handler: Some(handler.clone()), concerns, ..Event::new(kind) }
}

fn warn_of_idle_topics(manifest: &Manifest, registry: &HandlerRegistry, handlers: &BTreeMap<Name, Handler>) {
    let available: Vec<_> = handlers.keys().cloned().collect();
    for entry in registry.entries() {
        let TopicHandler { topic, handler, lacking, .. } = &**entry;
        if !lacking.is_empty() {
            let serving = handler.as_ref().map_or("none".to_owned(), |handler| handler.code.to_string());
            tracing::error!(topic = %topic.id, %serving, "component refused: {}", manifest.missing_grants(topic, lacking));
        } else if handler.is_none() && !topic.external {
            tracing::warn!("{}", manifest.missing_handler(&topic.id, &available));
        }
    }
}
