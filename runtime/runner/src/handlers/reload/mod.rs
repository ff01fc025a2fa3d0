//! One task that keeps the registry true: hint, pause, compare, load, swap. One reload at a time.

mod report;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::report::Progress;
use self::watched::Watched;
use super::available::Available;
use super::changes::{Changes, Refusal};
use super::deployed::{Brought, wanted};
use super::folder::Folder;
use super::handler::{Code, Handler};
use super::last_good::LastGood;
use super::records::DeploymentRecords;
use super::registry::HandlerRegistry;
use super::uploads::{self, ComponentUploads};
use super::watch::Hints;
use crate::native::NativeHandler;
use gristmill_config::{
    HandlerSettings, HttpSettings, LineFileSettings, Manifest, OtelSettings, Server, StoreSettings, read_regular, utf8,
};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::Topic;
use gristmill_metrics::{MetricType, Metrics};
use gristmill_sandbox::{Sandbox, Version};
use gristmill_store::{Store, off_runtime};

/// Events of one change come together within this time.
const GATHER: Duration = Duration::from_millis(10);
/// How long after a look the next one comes at the soonest, however many hints there are.
const APART: Duration = Duration::from_millis(50);
/// The largest manifest.
const MANIFEST_BYTES: u64 = 16 << 20;

/// How soon a file that may still be being written is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Keeps a [`HandlerRegistry`] true to a manifest and a folder of components.
#[derive(Debug)]
pub struct Reloader {
    sandbox: Sandbox,
    manifest: Manifest,
    /// The manifest's text as last looked at, good or bad; none if there is no file.
    manifest_text: Option<String>,
    /// What came of reading the file last, with those that it names for secrets: or why it was refused.
    written: Option<Result<Manifest, String>>,
    /// As last written in the file, which options of the command line may have overruled.
    fixed: Option<Fixed>,
    folder: Folder,
    /// Whether the folder could be read when it was looked at last.
    is_readable: bool,
    last_good: LastGood,
    deployments: DeploymentRecords,
    brought: Brought,
    native: BTreeMap<Name, Handler>,
    registry: watch::Sender<Arc<HandlerRegistry>>,
    metrics: Arc<Metrics>,
    /// Why topics have no handler or an older one, as logged last.
    idle: BTreeMap<TopicId, String>,
    /// Handlers whose files this program makes, and says when it cannot.
    expected: BTreeSet<Name>,
    progress: Progress,
}

/// What is read at start only.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    server: Server,
    store: StoreSettings,
    stores: BTreeMap<Name, StoreSettings>,
    placements: BTreeMap<Name, Name>,
    http: HttpSettings,
    otel: Option<OtelSettings>,
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
        let (stores, placements) = (manifest.stores.clone(), manifest.placements.clone());
        let (http, otel) = (manifest.http.clone(), manifest.otel.clone());
        Self { server, store, stores, placements, http, otel, journal, audit, handlers }
    }

    /// The sections that differ, for people.
    fn changed_since(&self, before: &Self) -> String {
        let sections = [
            ("[server]", self.server != before.server),
            ("[store]", self.store != before.store),
            ("[stores]", self.stores != before.stores),
            ("`store` of [tenants]", self.placements != before.placements),
            ("[http]", self.http != before.http),
            ("[otel]", self.otel != before.otel),
            ("[journal]", self.journal != before.journal),
            ("[audit]", self.audit != before.audit),
            ("[handlers]", self.handlers != before.handlers),
        ];
        let changed = sections.into_iter().filter_map(|(section, differs)| differs.then_some(section));
        changed.collect::<Vec<_>>().join(", ")
    }
}

impl Reloader {
    /// Reads the folder once, and counts and emits what becomes of its files. What is refused is logged and does not keep
    /// the rest from serving. Components that were never compiled do not either: [`Self::run`] waits for the compiler.
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
        Self::start_expecting(BTreeSet::new(), manifest, native, sandbox, metrics).await
    }

    /// The same; the `expected` handlers are not logged as missing, since their files are being made.
    ///
    /// # Errors
    /// As of [`Self::start`].
    pub async fn start_expecting(
        expected: BTreeSet<Name>,
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
        let folder = Folder::new(manifest.handlers.folder.clone(), sandbox.clone());
        let (mapped, backlog) = (sandbox.clone(), Arc::clone(folder.backlog()));
        let help = "Components whose code is mapped.";
        metrics.register("gristmill_node_mapped_components", MetricType::Gauge, help, move || mapped.mapped() as u64);
        let help = "Components that are compiled or wait for it.";
        metrics.register("gristmill_node_uncompiled_components", MetricType::Gauge, help, move || backlog.len() as u64);
        std::fs::create_dir_all(folder.path())?;
        uploads::remove_leftovers(folder.path());
        let manifest_text = manifest.file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        let written = manifest_text.as_deref().zip(manifest.file.as_ref());
        let written = written.and_then(|(text, file)| Manifest::parse(text, file).ok());
        let (fixed, written) = (written.as_ref().map(Fixed::of), written.map(Ok));
        let handler = |(name, function): (Name, _)| (name.clone(), Handler { name, code: Code::Native(function) });
        let (native, registry) = (native.into_iter().map(handler).collect(), watch::Sender::default());
        let (is_readable, last_good) = (true, LastGood::open(&sandbox, folder.path()));
        let (idle, progress) = (BTreeMap::new(), Progress::default());
        let (deployments, brought) = (DeploymentRecords::default(), Brought::new());
        let mut reloader = Self {
            sandbox,
            manifest,
            manifest_text,
            written,
            fixed,
            folder,
            is_readable,
            last_good,
            deployments,
            brought,
            native,
            registry,
            metrics,
            idle,
            expected,
            progress,
        };
        let mut changes = reloader.folder.look()?;
        while reloader.folder.is_reading() {
            changes.extend(reloader.folder.loaded().await);
        }
        reloader.restore_refused(&changes).await;
        reloader.report(&changes);
        reloader.swap().await;
        Ok(reloader)
    }

    /// The registry, and each one that replaces it.
    pub fn registry(&self) -> watch::Receiver<Arc<HandlerRegistry>> {
        self.registry.subscribe()
    }

    /// Goes by what the store says of versions of handlers, now and as the runner reads it later. A store that does not answer
    /// is asked again by the runner.
    pub async fn follow(&mut self, deployments: DeploymentRecords, store: &dyn Store) {
        self.deployments = deployments;
        if let Err(error) = self.deployments.read(store).await {
            let error = anyhow::Error::from(error);
            tracing::error!(
                "failed to read which versions of handlers serve, those in the folder do for now: {error:#}"
            );
        }
        self.swap().await;
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
        let mut hints = Hints::new(is_ours);
        let (sandbox, mut deployments) = (self.sandbox.clone(), self.deployments.subscribe());
        let (mut next_look, mut not_before) = (Instant::now(), Instant::now());
        loop {
            let changes = tokio::select! {
                () = stop.cancelled() => return,
                changes = self.folder.loaded(), if self.folder.is_loading() => changes,
                () = self.last_good.write_some(), if self.last_good.has_pending() => continue,
                Ok(()) = deployments.changed() => {
                    self.swap().await;
                    continue;
                }
                versions = sandbox.lost() => {
                    self.compile_again(&versions).await;
                    continue;
                }
                () = hints.next(), if next_look > not_before => {
                    next_look = next_look.min((Instant::now() + GATHER).max(not_before));
                    continue;
                }
                () = tokio::time::sleep_until(next_look) => {
                    hints.clear();
                    not_before = Instant::now() + APART;
                    let Watched { folders, rescan } = Watched::of(&self.manifest, self.folder.path());
                    next_look = Instant::now() + rescan;
                    // Before the look: a folder may be another one by now.
                    hints.follow(folders.iter().map(PathBuf::as_path));
                    self.look().await
                }
            };
            let restored = self.restore_refused(&changes).await;
            if restored || changes.any() || self.folder.refusals() != *self.registry.borrow().refusals() {
                self.swap().await;
                // Before the file is overwritten.
                self.last_good.write_some().await;
            }
            self.report(&changes);
            // Sooner, never later: the end of one load must not put off the look that another file waits for.
            if changes.unsettled {
                next_look = next_look.min(Instant::now() + LOOK_AGAIN);
            }
        }
    }

    async fn look(&mut self) -> Changes {
        self.reload_manifest().await;
        let looked = off_runtime(|| self.folder.look());
        let (folder, was_readable) = (self.folder.path().display(), self.is_readable);
        self.is_readable = looked.is_ok();
        match &looked {
            Ok(_) if !was_readable => tracing::info!(%folder, "can be read again"),
            Err(error) if was_readable => {
                tracing::error!(%folder, %error, "cannot be read: what is loaded keeps serving");
            }
            _ => {}
        }
        let mut changes = looked.unwrap_or_default();
        let (handlers, refused) = (self.folder.handlers(), self.folder.refusals());
        let has_no_file = |name: &&Name| !handlers.contains_key(*name) && !refused.contains_key(*name);
        let restored = self.last_good.restored().keys().filter(has_no_file);
        let removed: BTreeSet<Name> = changes.removed.iter().chain(restored).cloned().collect();
        for name in &removed {
            self.last_good.forget(name).await;
        }
        changes.removed = removed.into_iter().collect();
        changes
    }

    /// Brings the last good versions back of handlers whose files are refused and of which nothing serves. Returns whether there were any.
    async fn restore_refused(&mut self, changes: &Changes) -> bool {
        let mut restored = false;
        for Refusal { handler, .. } in &changes.refused {
            if !self.folder.handlers().contains_key(handler) {
                restored |= self.last_good.restore(handler, None, &self.sandbox).await;
            }
        }
        restored
    }

    /// The compiled code of these versions is gone. Their topics have no handler until it is made again.
    async fn compile_again(&mut self, versions: &[Version]) {
        let brought = self.brought.len();
        self.brought.retain(|(_, version), _| !versions.contains(version));
        let is_lost = self.folder.compile_again(versions) || self.brought.len() < brought;
        if self.last_good.restore_lost(versions, &self.sandbox).await || is_lost {
            self.swap().await;
        }
    }

    /// The same for handlers that import what a topic does not grant.
    async fn restore_lacking(&mut self, registry: &HandlerRegistry) -> bool {
        let idle = registry.entries().filter(|entry| !entry.lacking.is_empty() && entry.handler.is_none());
        let idle: BTreeSet<&Name> = idle.map(|entry| &entry.topic.handler).collect();
        let mut restored = false;
        for name in idle {
            let refused = self.folder.handlers().get(name).and_then(Handler::version);
            restored |= self.last_good.restore(name, refused, &self.sandbox).await;
        }
        restored
    }

    /// Has the files of handlers kept that do the jobs of all of their topics.
    fn keep_good(&mut self, registry: &HandlerRegistry) {
        let lacking = registry.entries().filter(|entry| !entry.lacking.is_empty());
        let lacking: BTreeSet<&Name> = lacking.map(|entry| &entry.topic.handler).collect();
        let good = self.folder.handlers().values().filter(|handler| !lacking.contains(&handler.name));
        for (name, version) in good.filter_map(|handler| Some((&handler.name, handler.version()?))) {
            self.last_good.keep(name, version);
        }
    }

    async fn reload_manifest(&mut self) {
        let Some(file) = self.manifest.file.clone() else { return };
        let read = off_runtime(|| read_regular(&file, MANIFEST_BYTES));
        let is_text = |bytes| utf8(bytes).map_err(|problem| io::Error::other(format!("it is not UTF-8: {problem}")));
        let text = match read.and_then(is_text) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return self.complain_of_manifest(&file, error.to_string()).await,
        };
        let is_same = text == self.manifest_text;
        // The secrets in other files may be others.
        if is_same && !text.as_ref().is_some_and(|text| text.contains("file")) {
            return;
        }
        self.manifest_text.clone_from(&text);
        // A program that writes a file anew empties it first.
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            tracing::warn!(manifest = %file.display(), "is gone or empty: the last good one stays in force");
            return;
        };
        let written = off_runtime(|| Manifest::parse(&text, &file)).map_err(|error| error.to_string());
        if is_same && self.written.as_ref() == Some(&written) {
            return;
        }
        self.written = Some(written.clone());
        match written {
            Ok(mut manifest) => {
                tracing::info!(manifest = %file.display(), topics = manifest.topics.len(), "manifest reloaded");
                manifest.file = Some(file);
                self.take_manifest(manifest).await;
            }
            Err(error) => {
                tracing::error!("manifest refused, the last good one stays in force:\n{error}");
                self.swap().await;
            }
        }
    }

    /// Once for each problem.
    async fn complain_of_manifest(&mut self, file: &Path, problem: String) {
        // Once it can be read it is taken, whatever is in it.
        self.manifest_text = None;
        let problem = Err(problem);
        if self.written.as_ref() != Some(&problem) {
            let manifest = file.display();
            tracing::error!(%manifest, problem = problem.as_ref().err(), "cannot be read: the last good one stays in force");
            self.written = Some(problem);
            self.swap().await;
        }
    }

    async fn take_manifest(&mut self, manifest: Manifest) {
        let fixed = Fixed::of(&manifest);
        let changed = self.fixed.as_ref().map(|before| fixed.changed_since(before)).unwrap_or_default();
        if !changed.is_empty() {
            tracing::warn!("what has changed in {changed} applies at the next start");
        }
        self.fixed = Some(fixed);
        self.manifest = manifest;
        self.idle.clear();
        self.swap().await;
    }

    /// What serves each handler: what the program brings, what the folder has, and what stands in for a refused file.
    fn handlers(&self) -> BTreeMap<Name, Handler> {
        let sources = [self.last_good.restored(), self.folder.handlers(), &self.native];
        sources.into_iter().flatten().map(|(name, handler)| (name.clone(), handler.clone())).collect()
    }

    fn next_registry(&self) -> HandlerRegistry {
        let available = Available {
            handlers: self.handlers(),
            last_good: self.last_good.restored().clone(),
            refused: self.folder.refusals(),
            backlog: Arc::clone(self.folder.backlog()),
            deployments: self.deployments.current(),
            brought: self.brought.clone(),
            kept: self.last_good.kept().clone(),
            manifest_refused: matches!(self.written, Some(Err(_))),
        };
        HandlerRegistry::new(&self.manifest, &available, &self.registry.borrow())
    }

    /// Makes handlers of kept files, as far as decisions want them.
    async fn bring(&mut self) {
        let wanted = {
            let (decisions, registry) = (self.deployments.current(), self.registry.borrow());
            let mut topics: BTreeMap<&TopicId, &Topic> = self.manifest.topics.iter().collect();
            topics.extend(registry.entries().map(|entry| (&entry.topic.id, &entry.topic)));
            wanted(topics.into_values(), &decisions, &self.handlers())
        };
        let mut before = std::mem::take(&mut self.brought);
        for (name, version) in wanted {
            let known = before.remove(&(name.clone(), version));
            let handler = match known {
                Some(handler) => Some(handler),
                None => self.last_good.bring(&name, version, &self.sandbox).await,
            };
            self.brought.extend(handler.map(|handler| ((name, version), handler)));
        }
    }

    async fn swap(&mut self) {
        self.bring().await;
        let mut registry = self.next_registry();
        if self.restore_lacking(&registry).await {
            registry = self.next_registry();
        }
        self.say_idle(&registry);
        // The old registry's last owner unmaps code and closes files: not in the reader's way.
        let registry = Arc::new(registry);
        let old = self.registry.send_replace(Arc::clone(&registry));
        drop(tokio::task::spawn_blocking(move || drop(old)));
        self.keep_good(&registry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sections_that_differ_are_named() {
        let fixed = |text: &str| Fixed::of(&Manifest::parse(text, Path::new("gristmill.toml")).unwrap());
        let before = fixed("[topics.echo]\nattempts = 2");
        assert_eq!(fixed("[topics.echo]\nattempts = 3\n[handlers]\nrescan = \"1m\"").changed_since(&before), "");
        let after = fixed("[http]\nlisten = \"127.0.0.1:7332\"\n[handlers]\nfolder = \"elsewhere\"");
        assert_eq!(after.changed_since(&before), "[http], [handlers]");
    }
}
