//! `gristmill run`: the runner.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::global::Global;
use super::sandbox;
use crate::config::Manifest;
use crate::handlers::Reloader;
use crate::job::WorkerId;
use crate::runner::{Runner, RunnerSettings};
use crate::store::{Store, StoreError};
use crate::wasm::Sandbox;

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
pub(super) struct Args {}

pub(super) async fn run(global: &Global, _: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest()?;
    let settings = sandbox::settings(&manifest, manifest.server.concurrency)?;
    let sandbox = Sandbox::new(&settings).context("failed to set up the sandbox")?;
    let store = open_patiently(global, &manifest).await?;
    work(manifest, sandbox, store).await?;
    Ok(Exit::Done)
}

async fn work(manifest: Manifest, sandbox: Sandbox, store: Arc<dyn Store>) -> anyhow::Result<()> {
    let ended = end_signals()?;
    let settings = RunnerSettings {
        worker: worker_id(),
        concurrency: manifest.server.concurrency as usize,
        threads: manifest.server.threads,
        shutdown_grace: manifest.server.shutdown_grace,
        observer: None,
    };
    let folder = manifest.handlers.folder.clone();
    let reloader = Reloader::start(manifest, sandbox)
        .await
        .with_context(|| format!("failed to read the handlers' folder {}", folder.display()))?;
    let fleet = reloader.fleet();
    let topics = fleet.borrow().seats().count();
    let stop_reloading = CancellationToken::new();
    let reloading = tokio::spawn(reloader.run(stop_reloading.clone()));

    tracing::info!(worker = %settings.worker, topics, concurrency = settings.concurrency, "ready for jobs");
    let mut runner = Runner::start(store, fleet, settings).context("failed to start the guests' threads")?;
    let broken = tokio::select! {
        () = ended.first.cancelled() => false,
        () = runner.broken() => true,
    };
    tracing::info!(running = runner.running(), "ending: no new jobs; what runs may finish");
    runner.shutdown(ended.second).await;
    stop_reloading.cancel();
    reloading.await?;
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

/// Opens the store, waiting for it if it is away: a fleet may be started before its Redis.
///
/// # Errors
/// If it refuses, or its address makes no sense.
async fn open_patiently(global: &Global, manifest: &Manifest) -> anyhow::Result<Arc<dyn Store>> {
    let mut said = false;
    loop {
        match global.store(manifest).await {
            Err(error) if error.downcast_ref().is_some_and(StoreError::is_away) => {
                if !said {
                    tracing::error!("{error:#}; trying again until it is there");
                    said = true;
                }
                tokio::time::sleep(AWAY_PAUSE).await;
            }
            answer => return answer,
        }
    }
}
