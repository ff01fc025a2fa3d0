//! `gristmill run`: a whole Gristmill, until a signal ends it.

use std::io::IsTerminal;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::global::Global;
use super::sandbox;
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
    let end = end_signals()?;
    let builder = Gristmill::builder().manifest(manifest).insecure(args.insecure).compiler(compiler);
    // The store may be unavailable for long, and so may compiling many handlers take.
    let mut gristmill = tokio::select! {
        started = builder.start() => started?,
        () = end.first.cancelled() => return Ok(Exit::Done),
    };
    let broken = tokio::select! {
        () = end.first.cancelled() => None,
        broken = gristmill.broken() => Some(broken),
    };
    gristmill.shutdown(end.second).await;
    broken.map_or(Ok(Exit::Done), |broken| Err(broken.into()))
}

struct EndSignals {
    first: CancellationToken,
    second: CancellationToken,
}

fn end_signals() -> std::io::Result<EndSignals> {
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (mut hangup, has_terminal) = (signal(SignalKind::hangup())?, std::io::stderr().is_terminal());
    let end = EndSignals { first: first.clone(), second: second.clone() };
    tokio::spawn(async move {
        for token in [first, second] {
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    _ = hangup.recv() => {
                        if has_terminal {
                            break;
                        }
                        tracing::info!("SIGHUP changes nothing: the manifest and the handlers are read whenever they change");
                    }
                }
            }
            token.cancel();
        }
    });
    Ok(end)
}
