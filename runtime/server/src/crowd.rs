//! Who is connected, and who of them could be asked to leave.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// How soon to look again for somebody idle where all are busy.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Everybody who is connected.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    seats: Arc<Semaphore>,
    idle: Arc<Mutex<Idle>>,
}

/// The idle ones, the longest first.
#[derive(Debug, Default)]
struct Idle {
    last: u64,
    by_age: BTreeMap<u64, CancellationToken>,
    /// Those that were asked to leave and have not done so yet.
    leaving: BTreeSet<u64>,
}

/// One connection's.
#[derive(Debug)]
pub(super) struct Seat {
    crowd: Crowd,
    leave: CancellationToken,
    /// Its place among the idle ones, of which it may have been taken since; zero: busy.
    idle_as: AtomicU64,
    _seat: OwnedSemaphorePermit,
}

/// A request that is being answered. Idle again when dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<Seat>);

/// An answer's body, which keeps its connection busy until it is sent.
#[derive(Debug)]
pub(super) struct Sent {
    body: Body,
    busy: Option<Busy>,
}

impl Crowd {
    pub(super) fn new(seats: usize) -> Self {
        Self { seats: Arc::new(Semaphore::new(seats.min(Semaphore::MAX_PERMITS))), idle: Arc::default() }
    }

    /// A seat, for which somebody idle may have to go. Waits for as long as all are busy. Cancel-safe.
    pub(super) async fn seat(&self) -> Arc<Seat> {
        loop {
            let free = self.seats.clone().acquire_owned();
            if self.seats.available_permits() == 0 {
                self.close_one();
            }
            if let Ok(Ok(seat)) = tokio::time::timeout(LOOK_AGAIN, free).await {
                return Seat::new(self.clone(), seat);
            }
        }
    }

    /// Closes the connection that has been idle for the longest, if one is idle. Does nothing while another one is leaving: it
    /// has only not come to it yet.
    pub(super) fn close_one(&self) {
        let mut idle = self.idle();
        if !idle.leaving.is_empty() {
            return;
        }
        if let Some((place, leave)) = idle.by_age.pop_first() {
            idle.leaving.insert(place);
            leave.cancel();
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn new(crowd: Crowd, seat: OwnedSemaphorePermit) -> Arc<Self> {
        let seat = Self { crowd, leave: CancellationToken::new(), idle_as: AtomicU64::new(0), _seat: seat };
        seat.rest();
        Arc::new(seat)
    }

    fn rest(&self) {
        let mut idle = self.crowd.idle();
        idle.last += 1;
        let place = idle.last;
        idle.by_age.insert(place, self.leave.clone());
        self.idle_as.store(place, Ordering::Relaxed);
    }

    fn rise(&self) {
        let place = self.idle_as.swap(0, Ordering::Relaxed);
        let mut idle = self.crowd.idle();
        idle.by_age.remove(&place);
        idle.leaving.remove(&place);
    }

    /// A request has come.
    pub(super) fn begin(seat: &Arc<Self>) -> Busy {
        seat.rise();
        Busy(Arc::clone(seat))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.idle_as.load(Ordering::Relaxed) == 0
    }

    /// Waits until somebody else needs the seat.
    pub(super) fn asked_to_leave(&self) -> WaitForCancellationFuture<'_> {
        self.leave.cancelled()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.rise();
    }
}

impl Busy {
    pub(super) fn until_sent(self, body: Body) -> Sent {
        Sent { body, busy: Some(self) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.rest();
    }
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None) = polled {
            self.busy = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_leaves_at_a_time_the_longest_idle_first_and_who_is_busy_stays() {
        let crowd = Crowd::new(3);
        let (first, second, third) = (crowd.seat().await, crowd.seat().await, crowd.seat().await);
        let asked = |seat: &Arc<Seat>| seat.leave.is_cancelled();
        let busy = Seat::begin(&first);
        crowd.close_one();
        crowd.close_one();
        assert_eq!((asked(&first), asked(&second), asked(&third)), (false, true, false));
        // A request was on its way: it is answered first, and somebody else may have to go.
        drop(Seat::begin(&second));
        crowd.close_one();
        assert!(asked(&third));
        drop((busy, second, third));
        crowd.close_one();
        assert!(asked(&first));
    }

    #[tokio::test]
    async fn a_newcomer_gets_the_seat_of_who_leaves() {
        let crowd = Crowd::new(1);
        let idle = crowd.seat().await;
        let newcomer = tokio::spawn({
            let crowd = crowd.clone();
            async move { crowd.seat().await }
        });
        idle.asked_to_leave().await;
        drop(idle);
        newcomer.await.unwrap();
    }
}
