//! The signals that end a command which would go on for ever.

use std::io::IsTerminal;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled one after the other.
pub(super) struct EndSignals {
    pub(super) first: CancellationToken,
    pub(super) second: CancellationToken,
}

/// Listens for SIGTERM, Ctrl-C, and SIGHUP where a terminal sends it. They do not end this process any more.
pub(super) fn end() -> std::io::Result<EndSignals> {
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
