//! `gristmill run`: the runner.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::exit::{Exit, Usage};
use super::global::Global;
use super::sandbox;
use super::store::{self, Layout, Opened};
use gristmill_config::{Listen, LmstfySettings, Manifest, StoreAddress};
use gristmill_core::job::WorkerId;
use gristmill_metrics::Metrics;
use gristmill_runner::handlers::{HandlerRegistry, Reloader};
use gristmill_runner::{Journal, Runner, RunnerSettings};
use gristmill_sandbox::Sandbox;
use gristmill_server::{self as http, HttpServer, HttpServerSettings, Phase};
use gristmill_store::{Store, StoreError, Watched, embedded};

/// Run jobs until told to end
///
/// Works on every topic that has a handler, and keeps up with changes in the handlers folder and the manifest.
/// SIGTERM or Ctrl-C ends it in order: no new jobs; running ones may finish within `shutdown-grace`, the rest are given
/// back without using up an attempt. A second Ctrl-C ends the grace.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill run
  gristmill run --manifest /etc/gristmill.toml --log-format json
  gristmill run -v          # each job's life, as it happens")]
pub(super) struct Args {
    /// Listen where others can reach, although there are no tokens: whoever comes may do everything
    #[arg(long)]
    insecure: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest()?;
    let worker = worker_id();
    let journal = manifest.journal.as_ref().map(|settings| Journal::open(settings, &worker)).transpose()?;
    let settings = sandbox::settings(&manifest, manifest.server.concurrency)?;
    let sandbox = Sandbox::new(&settings).context("failed to set up the sandbox")?;
    let ended = end_signals()?;
    let layout = Layout::of(&manifest);
    let opened = tokio::select! {
        opened = open_patiently(&layout) => opened?,
        () = ended.first.cancelled() => return Ok(Exit::Done),
    };
    opened.prepare_for_work().await?;
    let metrics = Arc::<Metrics>::default();
    let door = open_door(&manifest, &opened, &metrics, args.insecure).await?;
    let stop_moving = CancellationToken::new();
    let moving = opened.several.clone().map(|several| {
        door.iter().for_each(|door| door.set_moves(Arc::new(several.clone())));
        tokio::spawn(several.drive(worker.clone(), stop_moving.clone()))
    });
    let store = Arc::new(Watched::measured(opened.store, metrics.clone()));
    let settings = RunnerSettings {
        worker,
        concurrency: manifest.server.concurrency as usize,
        threads: manifest.server.threads,
        shutdown_grace: manifest.server.shutdown_grace,
        observer: None,
        metrics,
        tenants: door.as_ref().map(HttpServer::tenants).unwrap_or_default(),
    };
    let worked = work(manifest, settings, sandbox, store, door, journal, ended).await;
    stop_moving.cancel();
    if let Some(moving) = moving {
        moving.await?;
    }
    worked?;
    Ok(Exit::Done)
}

/// Listens, and tells other processes where; none if the manifest wants no door.
async fn open_door(
    manifest: &Manifest,
    opened: &Opened,
    metrics: &Arc<Metrics>,
    insecure: bool,
) -> anyhow::Result<Option<HttpServer>> {
    // Commands find a store in memory by this address alone.
    let mut stores = std::iter::once(&manifest.store).chain(manifest.stores.values());
    let is_in_memory = stores.any(|store| store.address == StoreAddress::Memory);
    let listen = match manifest.http.listen {
        Listen::Usual if is_in_memory => Listen::At(Listen::USUAL),
        listen => listen,
    };
    let settings = HttpServerSettings {
        insecure: manifest.http.insecure || insecure,
        tls: manifest.http.tls.clone(),
        plan: Arc::new(HandlerRegistry::planned(manifest)),
        metrics: metrics.clone(),
        ..HttpServerSettings::default()
    };
    let has_tokens = listen != Listen::Off && opened.store.has_tokens().await?;
    if let Listen::At(address) = listen {
        may_be_reached(address, has_tokens || settings.insecure)?;
    }
    let Some(listener) = http::listen(listen).await? else {
        if let Some(admin) = manifest.lmstfy.admin {
            tracing::warn!("nothing listens on {admin} for lmstfy's admin API either: `listen` in [http] is \"off\"");
        }
        return Ok(None);
    };
    let name = manifest.store.address.to_string();
    let mut door = HttpServer::open(listener, opened.store.clone(), &name, &settings).await?;
    open_for_lmstfy(&mut door, &manifest.lmstfy).await?;
    opened.announce(door.address_for_commands(), door.secret())?;
    say_who_may_come(door.address(), &settings, has_tokens);
    Ok(Some(door))
}

/// A door that others can reach is not opened to everybody by oversight.
fn may_be_reached(address: SocketAddr, on_purpose: bool) -> Result<(), Usage> {
    if on_purpose || address.ip().is_loopback() {
        return Ok(());
    }
    Err(Usage(format!(
        "there are no tokens, so whoever can reach {address} could do everything: make one with \
         `gristmill token create --all-tenants --scope push,work,read,admin`, listen on 127.0.0.1, or let everybody in with \
         `insecure = true` in [http] or `gristmill run --insecure`"
    )))
}

fn say_who_may_come(address: SocketAddr, settings: &HttpServerSettings, has_tokens: bool) {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    tracing::info!("listening on {scheme}://{address}");
    let loopback = address.ip().is_loopback();
    match (has_tokens, loopback) {
        (false, true) => tracing::info!(
            "there are no tokens: whoever is on this machine may do everything, until `gristmill token create` makes one"
        ),
        (false, false) => tracing::warn!("there are no tokens: whoever can reach {address} may do everything"),
        (true, false) if settings.tls.is_none() => tracing::warn!(
            "tokens go over the network for all to read: set [http.tls], or put a proxy that speaks TLS in front"
        ),
        (true, _) => {}
    }
}

/// What the manifest wants of lmstfy's API, and its admin API where it wants that.
async fn open_for_lmstfy(door: &mut HttpServer, settings: &LmstfySettings) -> anyhow::Result<()> {
    let admin = match settings.admin {
        Some(address) => Some(TcpListener::bind(address).await.with_context(|| {
            format!("failed to listen on {address}: name another `admin` in [lmstfy], or end who has it")
        })?),
        None => None,
    };
    if let Some(admin) = door.set_lmstfy(settings, admin)? {
        tracing::info!("lmstfy's admin API is on http://{admin}");
    }
    Ok(())
}

async fn work(
    manifest: Manifest,
    settings: RunnerSettings,
    sandbox: Sandbox,
    store: Arc<dyn Store>,
    door: Option<HttpServer>,
    journal: Option<Journal>,
    ended: EndSignals,
) -> anyhow::Result<()> {
    let folder = manifest.handlers.folder.clone();
    let reloader = tokio::select! {
        reloader = Reloader::start_measured(manifest, sandbox, settings.metrics.clone()) => reloader,
        // Compiling many handlers takes long.
        () = ended.first.cancelled() => return Ok(()),
    };
    let reloader = reloader.with_context(|| format!("failed to read the handlers' folder {}", folder.display()))?;
    let registry = reloader.registry();
    door.iter().for_each(|door| {
        door.set_registry(registry.clone());
        door.set_uploads(reloader.uploads());
    });
    let topics = registry.borrow().entries().count();
    let stop_reloading = CancellationToken::new();
    let reloading = tokio::spawn(reloader.run(stop_reloading.clone()));
    let say = |phase| door.iter().for_each(|door| door.set_phase(phase));

    tracing::info!(worker = %settings.worker, topics, concurrency = settings.concurrency, "ready for jobs");
    let runner = Runner::start_with_journal(store, registry, settings, journal.clone());
    let mut runner = runner.context("failed to start the guests' threads")?;
    say(Phase::Ready);
    let broken = tokio::select! {
        () = ended.first.cancelled() => false,
        () = runner.broken() => true,
    };
    say(Phase::Ending);
    tracing::info!(running = runner.running(), "ending: no new jobs; what runs may finish");
    runner.shutdown(ended.second).await;
    if let Some(journal) = journal {
        journal.close().await;
    }
    stop_reloading.cancel();
    reloading.await?;
    // Last, so that whoever waits for a job hears of its end.
    if let Some(door) = door {
        door.shutdown().await;
    }
    tracing::info!("ended");
    anyhow::ensure!(!broken, "a part of the runner has broken; the log says which: start it again, and report it");
    Ok(())
}

struct EndSignals {
    first: CancellationToken,
    second: CancellationToken,
}

fn end_signals() -> std::io::Result<EndSignals> {
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let ended = EndSignals { first: first.clone(), second: second.clone() };
    tokio::spawn(async move {
        for token in [first, second] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    });
    Ok(ended)
}

/// Names this process so that a person finds it, and no two processes share a name.
fn worker_id() -> WorkerId {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    WorkerId::new(&format!("{host}-{}-{:08x}", std::process::id(), fastrand::u32(..)))
}

/// How long to wait before asking a store again that was away at the start.
const AWAY_PAUSE: Duration = Duration::from_secs(1);
/// How long the owner of a file may take to let go of it: another command, or a server that ends.
const OWNER_PATIENCE: Duration = Duration::from_secs(5);
const OWNER_PAUSE: Duration = Duration::from_millis(25);

/// Opens the store, waiting for it if it is away: a fleet may be started before its Redis.
///
/// # Errors
/// If it refuses, its address makes no sense, or another server has it.
async fn open_patiently(layout: &Layout) -> Result<Opened, StoreError> {
    let begun = Instant::now();
    let mut said = false;
    loop {
        match store::open(layout).await {
            Err(error @ StoreError::Unavailable { .. }) => {
                if !said {
                    tracing::error!("{:#}; trying again until it is there", anyhow::Error::from(error));
                    said = true;
                }
                tokio::time::sleep(AWAY_PAUSE).await;
            }
            Err(StoreError::Owned { .. }) if begun.elapsed() < OWNER_PATIENCE && !is_served(layout) => {
                tokio::time::sleep(OWNER_PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Whether the owner of one of the stores is a server, which will not let go of it soon.
fn is_served(layout: &Layout) -> bool {
    layout.files().any(|path| embedded::owner(path).is_ok_and(|owner| owner.is_some_and(|owner| owner.http.is_some())))
}
