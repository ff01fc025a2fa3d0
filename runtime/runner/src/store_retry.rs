//! What happens while the store is away: it is said once, tried again with growing pauses, and said once when it is back.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use gristmill_store::StoreError;

/// The first pause, and the longest: work goes on within a second of the store's return.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// The runner's view of the store's health, shared by all its loops.
#[derive(Debug)]
pub(super) struct StoreRetry {
    away_since: Mutex<Option<Instant>>,
    /// Raised each time the store comes back.
    returns: tokio::sync::watch::Sender<u64>,
    /// When the store has been given up for good.
    stop: CancellationToken,
}

impl StoreRetry {
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { away_since: Mutex::new(None), returns: tokio::sync::watch::Sender::new(0), stop }
    }

    /// Another one, for a part of the store that comes and goes by itself.
    pub(super) fn apart(&self) -> Self {
        Self::new(self.stop.clone())
    }

    /// Calls until the store answers; none: the runner was stopped meanwhile.
    ///
    /// A refusal is returned at once: the same call would be refused again.
    pub(super) async fn call<T, F>(&self, call: impl Fn() -> F) -> Option<Result<T, StoreError>>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            match call().await {
                Err(error) if error.is_unavailable() => self.note_away(error),
                answer => {
                    self.note_back();
                    return Some(answer);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause.mul_f64(1.0 - fastrand::f64() / 2.0)) => {}
                () = self.stop.cancelled() => return None,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Changes each time the store comes back.
    pub(super) fn returns(&self) -> tokio::sync::watch::Receiver<u64> {
        self.returns.subscribe()
    }

    pub(super) fn note_away(&self, error: StoreError) {
        let mut since = self.away_since.lock();
        if since.is_none() {
            *since = Some(Instant::now());
            tracing::error!("{:#}; running attempts go on, trying again until it is back", anyhow::Error::from(error));
        }
    }

    fn note_back(&self) {
        let mut since = self.away_since.lock();
        if let Some(since) = since.take() {
            tracing::info!(away_for = ?since.elapsed(), "the store is back");
            self.returns.send_modify(|count| *count += 1);
        }
    }
}
