//! Calls the store again, with growing pauses, while it is unavailable, and logs outages. A store that answers some calls and fails
//! others, as with a full disk, has one outage and not one for each call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use gristmill_store::StoreError;

/// The first pause, and the longest: work goes on within a second of the store's return.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// An outage is over when no call has failed for this long.
const OVER_AFTER: Duration = Duration::from_secs(5);
/// How often an outage that goes on is logged again.
const AGAIN_EVERY: Duration = Duration::from_secs(30);

/// The runner's view of the store's health, shared by all its loops.
#[derive(Debug)]
pub(super) struct StoreRetry {
    outage: Arc<Mutex<Option<Outage>>>,
    /// Raised each time a call succeeds after one that failed.
    returns: tokio::sync::watch::Sender<u64>,
    /// When the store has been given up for good.
    stop: CancellationToken,
}

/// An outage that goes on, or that ended a moment ago.
#[derive(Debug)]
struct Outage {
    since: Instant,
    /// When it was last logged, and how many calls have failed since then.
    logged_at: Instant,
    failed: u64,
    /// Since when calls succeed; `None` if the last one failed.
    answers_since: Option<Instant>,
}

impl Outage {
    fn new(now: Instant) -> Self {
        Self { since: now, logged_at: now, failed: 0, answers_since: None }
    }

    /// Notes that a call failed. Returns how many have failed since the outage was last logged, if it is time to log it again.
    fn fail(&mut self, now: Instant) -> Option<u64> {
        self.answers_since = None;
        self.failed += 1;
        if now.duration_since(self.logged_at) < AGAIN_EVERY {
            return None;
        }
        self.logged_at = now;
        Some(std::mem::take(&mut self.failed))
    }

    /// Notes that a call succeeded. Returns whether it is the first one.
    fn answer(&mut self, now: Instant) -> bool {
        let is_first = self.answers_since.is_none();
        self.answers_since.get_or_insert(now);
        is_first
    }

    /// How long the outage was, if it is over.
    fn length(&self, now: Instant) -> Option<Duration> {
        let end = self.answers_since.filter(|end| now.duration_since(*end) >= OVER_AFTER)?;
        Some(end.duration_since(self.since))
    }
}

impl StoreRetry {
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { outage: Arc::default(), returns: tokio::sync::watch::Sender::new(0), stop }
    }

    /// Another one, for a part of the store that becomes unavailable and available on its own.
    pub(super) fn apart(&self) -> Self {
        Self::new(self.stop.clone())
    }

    /// Calls until the store answers; none: the runner was stopped meanwhile, and nothing is known of a call that was on its way.
    ///
    /// A refusal is returned at once: the same call would be refused again.
    pub(super) async fn call<T, F>(&self, call: impl Fn() -> F) -> Option<Result<T, StoreError>>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = tokio::select! {
                biased;
                answer = call() => answer,
                () = self.stop.cancelled() => return None,
            };
            match answer {
                Err(error) if error.is_unavailable() => self.note_unavailable(error),
                answer => {
                    self.note_answer();
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

    /// Changes each time the store answers again.
    pub(super) fn returns(&self) -> tokio::sync::watch::Receiver<u64> {
        self.returns.subscribe()
    }

    pub(super) fn note_unavailable(&self, error: StoreError) {
        let (mut outage, now) = (self.outage.lock(), Instant::now());
        let error = anyhow::Error::from(error);
        let Some(outage) = &mut *outage else {
            *outage = Some(Outage::new(now));
            tracing::error!("{error:#}; running attempts go on, trying again until it is available");
            return;
        };
        if let Some(failed_calls) = outage.fail(now) {
            let unavailable_for = now.duration_since(outage.since);
            tracing::error!(?unavailable_for, failed_calls, "{error:#}; still trying again until it is available");
        }
    }

    fn note_answer(&self) {
        let is_first = self.outage.lock().as_mut().is_some_and(|outage| outage.answer(Instant::now()));
        if is_first {
            self.returns.send_modify(|count| *count += 1);
            let outage = Arc::clone(&self.outage);
            tokio::spawn(async move {
                tokio::time::sleep(OVER_AFTER).await;
                let mut outage = outage.lock();
                if let Some(unavailable_for) = outage.as_ref().and_then(|outage| outage.length(Instant::now())) {
                    tracing::info!(?unavailable_for, "the store is available again");
                    *outage = None;
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_fails_every_other_call_has_one_outage_that_is_logged_twice_a_minute() {
        let begun = Instant::now();
        let (at, mut outage) = (|ms| begun + Duration::from_millis(ms), Outage::new(begun));
        let mut logged = Vec::new();
        for second in 1..=100 {
            assert!(outage.answer(at(second * 1000 - 500)), "the first call that succeeds is noted each time");
            assert_eq!(outage.length(at(second * 1000 - 1)), None);
            logged.extend(outage.fail(at(second * 1000)).map(|failed| (second, failed)));
        }
        assert_eq!(logged, [(30, 30), (60, 30), (90, 30)]);
        assert!(outage.answer(at(101_000)) && !outage.answer(at(104_000)));
        assert_eq!(outage.length(at(105_999)), None);
        assert_eq!(outage.length(at(106_000)), Some(Duration::from_secs(101)));
    }
}
