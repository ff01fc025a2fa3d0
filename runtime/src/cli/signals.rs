//! The signals that end a command which would go on for ever.

use std::io::IsTerminal;
use std::process;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;

/// How long after the grace the process is there at most, whatever hangs: a disk, a terminal, a guest thread.
const LAST: Duration = Duration::from_millis(2800);

/// Cancelled one after the other.
pub(super) struct EndSignals {
    pub(super) first: CancellationToken,
    pub(super) second: CancellationToken,
}

/// Listens for SIGTERM, Ctrl-C, and SIGHUP where a terminal sends it. They do not end this process any more.
pub(super) fn end() -> std::io::Result<EndSignals> {
    listen(|| None)
}

/// The same for a server, which ends within `grace` after the first signal and three seconds more, and within three seconds
/// after the second.
pub(super) fn end_within(grace: Duration) -> std::io::Result<EndSignals> {
    listen(move || LastResort::begin(grace))
}

fn listen(begin: impl FnOnce() -> Option<LastResort> + Send + 'static) -> std::io::Result<EndSignals> {
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (mut hangup, has_terminal) = (signal(SignalKind::hangup())?, std::io::stderr().is_terminal());
    let end = EndSignals { first: first.clone(), second: second.clone() };
    tokio::spawn(async move {
        let mut next = async || {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return,
                    _ = interrupt.recv() => return,
                    _ = hangup.recv() => {
                        if has_terminal {
                            return;
                        }
                        tracing::info!("SIGHUP changes nothing: the manifest and the handlers are read whenever they change");
                    }
                }
            }
        };
        next().await;
        let last_resort = begin();
        if has_terminal && last_resort.is_some() {
            tracing::info!("Ctrl-C again stops at once: what runs is given back, and no attempt is used");
        }
        first.cancel();
        next().await;
        if let Some(last_resort) = last_resort {
            last_resort.hurry();
        }
        second.cancel();
    });
    Ok(end)
}

/// A thread that ends the process when its time is over. It needs nothing that could hang.
struct LastResort {
    at: Arc<Mutex<Instant>>,
    thread: Thread,
}

impl LastResort {
    /// Returns `None` if the system has no thread to give.
    fn begin(grace: Duration) -> Option<Self> {
        let at = Arc::new(Mutex::new(Instant::now() + grace + LAST));
        let until = Arc::clone(&at);
        let wait = move || {
            loop {
                let remaining = until.lock().saturating_duration_since(Instant::now());
                if remaining.is_zero() {
                    process::exit(Exit::Failed as i32);
                }
                thread::park_timeout(remaining);
            }
        };
        let thread = thread::Builder::new().name("last resort".into()).spawn(wait).ok()?.thread().clone();
        Some(Self { at, thread })
    }

    fn hurry(&self) {
        let mut at = self.at.lock();
        *at = (*at).min(Instant::now() + LAST);
        self.thread.unpark();
    }
}
