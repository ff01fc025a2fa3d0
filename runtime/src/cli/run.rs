//! `gristmill run`: a whole Gristmill, until a signal ends it.

use super::exit::Exit;
use super::global::Global;
use super::notify::Service;
use super::{sandbox, signals};
use crate::Gristmill;

/// Run jobs until SIGTERM or Ctrl-C
///
/// Works on every topic that has a handler, and keeps up with changes in the handlers folder and the manifest.
/// SIGTERM or Ctrl-C ends it in order: no new jobs; running ones may finish within `shutdown-grace`, the rest are given
/// back without using up an attempt. A second Ctrl-C ends the grace. So does the end of the terminal that it logs to; elsewhere
/// SIGHUP does nothing, because changed files are read without it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill run
  gristmill run --manifest /etc/gristmill.toml --log-format json
  gristmill run -v          # each job's life, as it happens")]
pub(super) struct Args {
    /// Accept every client on an address that others can reach, although there are no tokens
    #[arg(long)]
    insecure: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest()?;
    let compiler = sandbox::compiler(&manifest)?;
    let end = signals::end_within(manifest.server.shutdown_grace)?;
    let builder = Gristmill::builder().manifest(manifest).insecure(args.insecure).compiler(compiler).announce_memory();
    // The store may be unavailable for long, and so may compiling many handlers take.
    let mut gristmill = tokio::select! {
        started = builder.start() => started?,
        () = end.first.cancelled() => return Ok(Exit::Done),
    };
    let service = Service::ready();
    let broken = tokio::select! {
        () = end.first.cancelled() => None,
        broken = gristmill.broken() => Some(broken),
    };
    service.ending();
    gristmill.shutdown(end.second).await;
    broken.map_or(Ok(Exit::Done), |broken| Err(broken.into()))
}
