//! `gristmill dev`: a runner that serves what people write, a moment after they save it, and tries it at once.

mod delays;
mod difference;
mod grants;
mod jobs;
mod keys;
mod native;
mod runs;
mod session;

use std::collections::BTreeMap;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use self::jobs::LastJobs;
use self::keys::{Key, Keys};
use self::native::Native;
use self::runs::Runs;
use self::session::{LocalRunner, Session};
use super::exit::{Exit, Usage};
use super::global::Global;
use super::project::watch::Watch;
use super::{project, sandbox, screen, signals};
use crate::Gristmill;
use crate::open::Layout;
use gristmill_config::{Manifest, StoreAddress};
use gristmill_sandbox::CompilerProcess;

/// Write handlers: build, serve and try them at each save
///
/// Runs jobs as `gristmill run` does, and watches every project at or below the folder. A save builds its project; what passes
/// the checks serves at once, what does not leaves the version before in service. Then the jobs in the project's folder
/// `jobs`, or else the last job of the topic, are run again beside the queue, and compared with the run before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file jobs/NAME.json is the body of a job; jobs/NAME.job.json is a job as HTTP
pushes it, with metadata and the rest. Such a run stores nothing; its follow-up
jobs are shown and go nowhere. Requests to granted hosts are sent.

Keys, at a terminal:
  r   run the jobs of every project again
  d   jump over delays: what waits for its time, or its next attempt, is due now
  g   write the grants that are missing into the manifest
  o   open the page in a browser
  q   quit

Examples:
  gristmill dev
  gristmill dev --native             # JavaScript, Python: a save serves in a fifth of a second
  gristmill dev services --manifest services/gristmill.toml
  gristmill dev --store sqlite:dev.db --no-run")]
pub(super) struct Args {
    /// The folder at or below which the projects are
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Run no job automatically after a build
    #[arg(long)]
    no_run: bool,
    /// Do the jobs without a component, by a process of this machine, in projects that can: those in JavaScript, TypeScript and Python
    #[arg(long)]
    native: bool,
    /// Jump over delays: a delayed job, or one that waits for its next attempt, is due at once
    #[arg(long)]
    jump_delays: bool,
    /// Work on a Redis, although other runners and producers may use it
    #[arg(long)]
    remote_store: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let mut manifest = global.manifest()?;
    refuse_remote(&manifest, args.remote_store)?;
    let watch = watch(&args, &manifest)?;
    let native = if args.native { native::native(&watch.projects())? } else { Native::new() };
    if !native.is_empty() {
        manifest.server.concurrency = manifest.server.concurrency.min(native::PROCESSES);
    }
    let (end, last) = (signals::end_within(manifest.server.shutdown_grace)?, LastJobs::default());
    let compiler = sandbox::compiler(&manifest)?;
    // The runner takes what this one has compiled from the cache.
    let sandbox = sandbox::small(&manifest, CompilerProcess::Incremental)?;
    screen::note(&format!("jobs are kept in {}: those that wait there run here", manifest.store.address));
    let is_tls = manifest.http.tls.is_some();
    let builder = Gristmill::builder().manifest(manifest).compiler(compiler).observer(last.observer());
    let made = watch.projects().iter().filter_map(|project| project::name(project).ok()).collect();
    let builder = builder.announce_memory().expecting(made);
    let builder = native::register(&native, builder)?;
    let mut gristmill = tokio::select! {
        started = builder.start() => started?,
        () = end.first.cancelled() => return Ok(Exit::Done),
    };
    let runs = (!args.no_run).then(|| Runs::new(last));
    let keys = Keys::read(end.first.clone());
    if keys.are_read() {
        screen::note(Key::HELP);
    }
    let page = gristmill.address().map(|address| page_at(address, is_tls));
    let runner = LocalRunner { registry: gristmill.registry.clone(), store: Arc::clone(gristmill.store()), page };
    let session = Session::new(global, watch, sandbox, runner, runs, native, keys);
    let jumps = args.jump_delays.then(|| delays::always(Arc::clone(gristmill.store())));
    let jump = async {
        match jumps {
            Some(jumps) => jumps.await,
            None => pending().await,
        }
    };
    // What is being built when a signal comes ends with the session.
    let ended = tokio::select! {
        () = end.first.cancelled() => Ok(Exit::Done),
        broken = gristmill.broken() => Err(broken.into()),
        error = session.work() => Err(error),
        never = jump => match never {},
    };
    gristmill.shutdown(end.second).await;
    ended
}

/// Where a browser of this machine finds the page.
fn page_at(mut address: SocketAddr, is_tls: bool) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    format!("{}://{address}/", if is_tls { "https" } else { "http" })
}

/// # Errors
/// A store is on a server, and the options do not say that this is meant.
fn refuse_remote(manifest: &Manifest, is_meant: bool) -> Result<(), Usage> {
    let layout = Layout::of(manifest);
    let remote = layout.all().find(|store| matches!(store.address, StoreAddress::Redis(_)));
    let Some(remote) = remote.filter(|_| !is_meant) else { return Ok(()) };
    Err(Usage(format!(
        "the store is {}: unfinished handlers would do the jobs of all who use it. Name a store of your own with \
         `--store sqlite:dev.db`, or say `--remote-store` if you mean this one",
        remote.address
    )))
}

/// # Errors
/// There is no project, or two make the same handler.
fn watch(args: &Args, manifest: &Manifest) -> Result<Watch, Usage> {
    let watch = Watch::start(&args.folder, manifest);
    let projects = watch.projects();
    if projects.is_empty() {
        let folder = args.folder.display();
        return Err(Usage(format!("there is no handler.toml in {folder} or below: `gristmill new` writes a project")));
    }
    let mut known = BTreeMap::new();
    // What is wrong with a project is shown when it is built.
    for (name, project) in projects.iter().filter_map(|project| Some((project::name(project).ok()?, project))) {
        if let Some(other) = known.insert(name.clone(), project) {
            let (one, other) = (project.display(), other.display());
            return Err(Usage(format!(
                "{one} and {other} both make the handler `{name}`: give one of them another name"
            )));
        }
    }
    Ok(watch)
}
