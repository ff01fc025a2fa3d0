//! Settings, and the steps from them to a running [`Gristmill`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use crate::background::Background;
use crate::error::StartError;
use crate::gristmill::Gristmill;
use crate::http;
use crate::open::{Layout, Opened, open_patiently};
use gristmill_config::{BadStoreAddress, Listen, Manifest, ManifestError, StoreAddress};
use gristmill_core::job::{BadName, Name, WorkerId};
use gristmill_metrics::Metrics;
use gristmill_runner::handlers::{HandlerRegistry, Reloader};
use gristmill_runner::native::{HandlerError, NativeHandler, NativeJob, Output};
use gristmill_runner::{
    BillWriter, DeploymentRecords, Journal, Observer, RecentAttempts, Runner, RunnerSettings, Shares, Tenants, Traces,
};
use gristmill_sandbox::{CompilerProcess, CompilerSettings, Sandbox, SandboxSettings};
use gristmill_server::{AuditLog, Handlers, HttpServerSettings, Phase, RunnerStatus, while_starting};
use gristmill_store::{BillSums, StoreError, Timed};

/// Settings of a [`Gristmill`]. What is not set is as in an empty manifest in the current folder: jobs in
/// `gristmill.db`, components in `handlers/`, the HTTP server on 127.0.0.1:7331.
#[must_use = "it starts nothing before `start`"]
pub struct Builder {
    manifest: Manifest,
    insecure: bool,
    compiler: CompilerProcess,
    native: BTreeMap<Name, NativeHandler>,
    observer: Option<Observer>,
    announces_memory: bool,
    expected: BTreeSet<Name>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manifest, insecure, compiler, native, .. } = self;
        let mut builder = f.debug_struct("Builder");
        builder.field("manifest", manifest).field("insecure", insecure).field("compiler", compiler);
        builder.field("native", native).finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        let mut manifest = Manifest::default_at(Path::new(""));
        manifest.file = None;
        Self {
            manifest,
            insecure: false,
            compiler: CompilerProcess::This,
            native: BTreeMap::new(),
            observer: None,
            announces_memory: false,
            expected: BTreeSet::new(),
        }
    }
}

impl Builder {
    /// Takes every setting and topic from a manifest, such as [`Manifest::load`] reads. Call it first: it replaces what was
    /// set before. The topics change with the manifest's [`file`](Manifest::file), if it has one.
    pub fn manifest(self, manifest: Manifest) -> Self {
        Self { manifest, ..self }
    }

    /// Takes every setting and topic from the text of a manifest. Paths in it are relative to the current folder. Call it
    /// first: it replaces what was set before.
    ///
    /// # Errors
    /// Lists every mistake in the text with its place.
    pub fn manifest_text(self, text: &str) -> Result<Self, ManifestError> {
        Ok(self.manifest(Manifest::parse(text, Path::new("gristmill.toml"))?))
    }

    /// Keeps jobs there: `sqlite:jobs.db`, `sqlite::memory:` or `redis://host:6379/0`.
    ///
    /// # Errors
    /// The text is not the address of a store.
    pub fn store(mut self, address: &str) -> Result<Self, BadStoreAddress> {
        self.manifest.store.address = StoreAddress::parse(address, Path::new(""))?;
        Ok(self)
    }

    /// Serves the components in this folder, which is created if it is missing, and each new version of them.
    pub fn handlers(mut self, folder: impl Into<PathBuf>) -> Self {
        self.manifest.handlers.folder = folder.into();
        self
    }

    /// Does the jobs of a topic by an async function of this program. The topic is of the default tenant and of this name;
    /// others choose the function by `handler` in the manifest.
    ///
    /// # Errors
    /// The text is not the name of a topic.
    pub fn handler<F, T, O>(mut self, name: &str, function: F) -> Result<Self, BadName>
    where
        F: Fn(NativeJob) -> T + Send + Sync + 'static,
        T: Future<Output = Result<O, HandlerError>> + Send + 'static,
        O: Into<Output>,
    {
        self.native.insert(name.parse()?, NativeHandler::new(function));
        Ok(self)
    }

    /// Where the HTTP server listens; [`Listen::Off`] for none.
    pub fn listen(mut self, listen: Listen) -> Self {
        self.manifest.http.listen = listen;
        self
    }

    /// Accepts every client on an address that others can reach, although there are no tokens.
    pub fn insecure(self, insecure: bool) -> Self {
        Self { insecure, ..self }
    }

    /// Which process compiles components. By default it is this one, which bounds neither memory nor CPU time of the
    /// compiler: name a child process if others write the components.
    pub fn compiler(self, compiler: CompilerProcess) -> Self {
        Self { compiler, ..self }
    }

    /// Calls this with the record of every attempt, once the store has settled it. It must not block.
    pub fn observer(self, observer: Observer) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Lets commands find a store in memory by its manifest, beside which a file says where its server is.
    pub(crate) fn announce_memory(self) -> Self {
        Self { announces_memory: true, ..self }
    }

    /// Does not log these handlers as missing: their files are being made.
    pub(crate) fn expecting(self, expected: BTreeSet<Name>) -> Self {
        Self { expected, ..self }
    }

    /// Starts. Must be called within a tokio runtime. It should have several threads: with one, whatever computes for long, such as a native
    /// handler, holds up everything else. Waits while the store is unavailable or full; if that takes more than a second, the server answers `/healthz` meanwhile. Clients
    /// can push jobs once the store is open. Components that were never compiled are compiled once the runner has started, those first whose jobs wait.
    /// Dropping the future stops what has started.
    ///
    /// # Errors
    /// Says which part does not start, and the remedy. Nothing runs then.
    pub async fn start(self) -> Result<Gristmill, StartError> {
        let manifest = self.manifest;
        let worker = worker_id();
        let metrics = Arc::<Metrics>::default();
        let journal = manifest.journal.as_ref().map(|settings| Journal::open(settings, &worker)).transpose()?;
        let traces = open_traces(&manifest, &worker)?;
        let audit = manifest.audit.as_ref().map(|settings| AuditLog::open(settings, &worker)).transpose()?;
        let sandbox = Sandbox::new(&sandbox_settings(&manifest, self.compiler, manifest.server.concurrency)?)?;
        let (status, tenants) = (watch::Sender::<RunnerStatus>::default(), Tenants::default());
        let (bill, shares, recent) = (BillSums::default(), Shares::default(), RecentAttempts::default());
        let settings = HttpServerSettings {
            insecure: manifest.http.insecure || self.insecure,
            tls: manifest.http.tls.clone(),
            lmstfy: manifest.lmstfy.clone(),
            page: manifest.page.clone(),
            traces: traces.clone(),
            plan: Arc::new(HandlerRegistry::planned(&manifest)),
            runner: status.subscribe(),
            tenants: tenants.clone(),
            audit: audit.clone(),
            bill: bill.clone(),
            recent: recent.clone(),
            metrics: metrics.clone(),
            ..HttpServerSettings::default()
        };
        let layout = Layout::of(&manifest);
        let opening = open_for_work(&layout, self.announces_memory);
        let opened = while_starting(manifest.http.listen, &settings, opening).await?;
        #[cfg(feature = "sharding")]
        let settings = HttpServerSettings { moves: opened.placements(), ..settings };
        let server = http::open(&manifest, &settings, &opened).await?;
        #[cfg(feature = "sharding")]
        let tenant_mover = opened.move_tenants(worker.clone());
        #[cfg(not(feature = "sharding"))]
        let tenant_mover = None;
        let deployments = DeploymentRecords::default();
        let settings = RunnerSettings {
            concurrency: manifest.server.concurrency as usize,
            threads: manifest.server.threads,
            shutdown_grace: manifest.server.shutdown_grace,
            observer: self.observer,
            metrics: metrics.clone(),
            tenants: tenants.clone(),
            journal: journal.clone(),
            bill: bill.clone(),
            shares: shares.clone(),
            // Without a server no client could see them.
            recent: server.is_some().then_some(recent),
            traces: traces.clone(),
            deployments: deployments.clone(),
            ..RunnerSettings::new(worker)
        };
        let pushes = Arc::new(Timed::announcing(opened.store.clone(), metrics.clone(), bill.clone()));
        let store = Arc::new(Timed::new(opened.store.clone(), metrics.clone()));
        let keep = manifest.server.bill_retention;
        let bill = BillWriter::new(store.clone(), bill, shares, settings.worker.clone(), keep);

        let (folder, path) = (manifest.handlers.folder.clone(), manifest.path.clone());
        let reloader = Reloader::start_expecting(self.expected, manifest, self.native, sandbox, metrics).await;
        let mut reloader = reloader.map_err(|source| StartError::Handlers { folder: folder.clone(), source })?;
        reloader.follow(deployments, &*store).await;
        let registry = reloader.registry();
        let handlers = Handlers { registry: registry.clone(), uploads: reloader.uploads() };
        status.send_modify(|status| status.handlers = Some(handlers));
        let (topics, to_compile) = (registry.borrow().entries().count(), registry.borrow().to_compile());
        tracing::info!(worker = %settings.worker, topics, to_compile, concurrency = settings.concurrency, "ready for jobs");
        if topics == 0 {
            tracing::info!(
                "there are no topics yet: put a component into {}, or a section [topics.NAME] into {}",
                folder.display(),
                path.display()
            );
        }
        #[cfg(feature = "redis")]
        let spreader = Some(opened.spread_topics(registry.clone()));
        #[cfg(not(feature = "redis"))]
        let spreader = None;
        let runner = Runner::start(store, registry.clone(), settings);
        let runner = runner.map_err(StartError::Threads)?;
        let reloader = Background::spawn("reload handlers", |stop| reloader.run(stop));
        let bill = Background::spawn("write the bill", |stop| bill.run(stop));
        status.send_modify(|status| status.phase = Phase::Ready);
        Ok(Gristmill {
            store: pushes,
            tenants,
            registry,
            server,
            status,
            runner,
            journal,
            traces,
            audit,
            bill,
            reloader,
            tenant_mover,
            spreader,
            _opened: opened,
        })
    }
}

/// Opens every store, and waits until they can be worked with.
async fn open_for_work(layout: &Layout, announces_memory: bool) -> Result<Opened, StoreError> {
    let opened = open_patiently(layout).await?;
    #[cfg(feature = "embedded")]
    let opened = if announces_memory { opened.announcing_memory(layout) } else { opened };
    #[cfg(not(feature = "embedded"))]
    let _ = announces_memory;
    opened.prepare_for_work().await?;
    Ok(opened)
}

#[cfg(feature = "otel")]
fn open_traces(manifest: &Manifest, worker: &WorkerId) -> Result<Option<Traces>, StartError> {
    Ok(manifest.otel.as_ref().map(|settings| Traces::open(settings, worker)).transpose()?)
}

#[cfg(not(feature = "otel"))]
fn open_traces(manifest: &Manifest, _: &WorkerId) -> Result<Option<Traces>, StartError> {
    if manifest.otel.is_some() {
        tracing::warn!("this program is built without traces: [otel] has no effect");
    }
    Ok(None)
}

/// Settings of a sandbox for `concurrency` attempts at once.
///
/// # Errors
/// Neither the manifest nor the environment names a directory for compiled components.
pub(crate) fn sandbox_settings(
    manifest: &Manifest,
    compiler: CompilerProcess,
    concurrency: u32,
) -> Result<SandboxSettings, StartError> {
    let handlers = &manifest.handlers;
    let cache = match &manifest.server.cache {
        Some(cache) => cache.clone(),
        None => user_cache(|name| std::env::var_os(name).map(PathBuf::from)).ok_or(StartError::NoCacheDirectory)?,
    };
    let (timeout, component_bytes) = (handlers.compile_timeout, handlers.component_bytes);
    Ok(SandboxSettings {
        concurrency,
        cache,
        compiler: CompilerSettings { process: compiler, timeout, component_bytes },
    })
}

/// What systemd gives a service with `CacheDirectory=`, else `$XDG_CACHE_HOME/gristmill`, or `~/.cache/gristmill` (XDG Base Directory
/// Specification 0.8; a relative path counts as unset).
fn user_cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    // Several of them are separated by colons.
    let of_service = variable("CACHE_DIRECTORY").and_then(|paths| std::env::split_paths(&paths).next());
    if let Some(cache) = of_service.filter(|path| path.is_absolute()) {
        return Some(cache);
    }
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("gristmill"))
}

/// Names this process so that a person finds it, and no two processes share a name.
fn worker_id() -> WorkerId {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    WorkerId::new(&format!("{host}-{}-{:08x}", std::process::id(), fastrand::u32(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_user_keeps_caches() {
        let cache_of = |service: Option<&str>, xdg: Option<&str>, home: Option<&str>| {
            let variables = [("CACHE_DIRECTORY", service), ("XDG_CACHE_HOME", xdg), ("HOME", home)];
            user_cache(|name| variables.iter().find(|(known, _)| *known == name)?.1.map(PathBuf::from))
        };
        let cache = |xdg, home| cache_of(None, xdg, home);
        assert_eq!(
            cache_of(Some("/var/cache/gristmill:/var/cache/more"), Some("/c"), None),
            Some("/var/cache/gristmill".into())
        );
        assert_eq!(cache_of(Some(""), Some("/c"), None), Some("/c/gristmill".into()));
        assert_eq!(cache(Some("/c"), Some("/h")), Some("/c/gristmill".into()));
        assert_eq!(cache(Some("c"), Some("/h")), Some("/h/.cache/gristmill".into()));
        assert_eq!(cache(None, Some("/h")), Some("/h/.cache/gristmill".into()));
        assert_eq!(cache(None, None), None);
    }
}
