//! Watches one job: what it is now, and when that has changed.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use crate::auth::identity::Identity;
use crate::limits::requests::Permit;
use crate::payloads::Hide;
use crate::problem::Problem;
use crate::state::AppState;
use crate::stream::signal_hub::Listener;
use gristmill_core::job::{JobId, Name};
use gristmill_store::{JobState, JobView, Signal, StoreError, Weigh, show_progress};

/// Most changes are signalled, and a signal may be lost: a change without one is seen this much later.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same for a large job. Each look reads all of it, so it comes this much later for this many bytes, up to a bound.
const LOOK_LATER: (Duration, usize) = (Duration::from_secs(1), 16 << 10);
const LOOK_LATEST: Duration = Duration::from_secs(15);

/// What it takes to watch a job of a tenant, before the job is known: a permit to wait, and the tenant's signals.
#[derive(Debug)]
pub(crate) struct WatchPermit {
    listener: Listener,
    tenant: Name,
    hides_payloads: bool,
    permit: Permit,
}

/// A client that waits for a job, with a permit to wait.
#[derive(Debug)]
pub(crate) struct Watch {
    state: AppState,
    listener: Listener,
    tenant: Name,
    id: JobId,
    hides_payloads: bool,
    /// As it was seen last, in brief: hundreds may wait for a job of some megabytes.
    last: Option<JobView>,
    look_after: Duration,
    _permit: Permit,
}

impl WatchPermit {
    /// # Errors
    /// Too many wait, or the store takes no subscription.
    pub(crate) async fn take(state: &AppState, identity: &Identity, tenant: Name) -> Result<Self, Problem> {
        let permit = state.request_limiter.wait(identity.tenant())?;
        let listener = state.signal_hub.listen(&tenant).await?;
        let hides_payloads = state.hides_payloads(identity, &tenant);
        Ok(Self { listener, tenant, hides_payloads, permit })
    }
}

impl Watch {
    /// From now on.
    ///
    /// # Errors
    /// Those of [`WatchPermit::take`].
    pub(crate) async fn begin(state: &AppState, identity: &Identity, tenant: Name, id: JobId) -> Result<Self, Problem> {
        Ok(Self::with(WatchPermit::take(state, identity, tenant).await?, state, id))
    }

    /// From when the permit was taken.
    pub(crate) fn with(permit: WatchPermit, state: &AppState, id: JobId) -> Self {
        let WatchPermit { listener, tenant, hides_payloads, permit } = permit;
        Self {
            state: state.clone(),
            listener,
            tenant,
            id,
            hides_payloads,
            last: None,
            look_after: LOOK_EVERY,
            _permit: permit,
        }
    }

    /// What is known of the job now. A job that was there and of which nothing is kept is over. `None`: it never
    /// was there while we watched, nor among those that ended a while ago.
    pub(crate) async fn look(&mut self) -> Result<Option<JobView>, StoreError> {
        let store = &self.state.store;
        let mut view = match store.job(&self.tenant, &self.id).await? {
            Some(mut view) => {
                show_progress(&**store, &self.tenant, std::slice::from_mut(&mut view)).await?;
                Some(view)
            }
            None => {
                let over = store.ended(&self.tenant, &self.id).await?;
                match self.last.take() {
                    Some(last) => {
                        let ended = over.and_then(|over| over.ended).or(last.ended);
                        Some(JobView { state: JobState::Finished, job: None, progress: None, ended, ..last })
                    }
                    None => over,
                }
            }
        };
        if self.hides_payloads {
            view.hide();
        }
        let (later, bytes) = LOOK_LATER;
        let times = u32::try_from(view.weight() / bytes).unwrap_or(u32::MAX);
        self.look_after = LOOK_EVERY.saturating_add(later.saturating_mul(times)).min(LOOK_LATEST);
        self.last = view.as_ref().map(JobView::brief);
        Ok(view)
    }

    /// Waits until the job may have changed. Cancel-safe.
    pub(crate) async fn may_have_changed(&mut self) {
        let signal = async {
            loop {
                match self.listener.next().await {
                    Signal::Finished { id, .. } | Signal::Cancelled { id, .. } | Signal::Killed { id, .. }
                        if id == self.id =>
                    {
                        return;
                    }
                    Signal::Lost => return,
                    _ => {}
                }
            }
        };
        // No signal in time: the caller looks at the job anyway.
        drop(timeout(self.look_after, signal).await);
    }

    /// What is known of the job at its end, or once `patience` or the server is at its end.
    pub(crate) async fn end_within(&mut self, patience: Duration) -> Result<Option<JobView>, StoreError> {
        let until = Instant::now() + patience;
        let stop = self.state.stop.clone();
        loop {
            let view = self.look().await?;
            if view.as_ref().is_none_or(is_over) || Instant::now() >= until || stop.is_cancelled() {
                return Ok(view);
            }
            drop(view);
            tokio::select! {
                _ = timeout_at(until, self.may_have_changed()) => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

/// Nothing more happens to it unless a client asks.
pub(crate) fn is_over(view: &JobView) -> bool {
    matches!(view.state, JobState::Finished | JobState::Dead { .. })
}
