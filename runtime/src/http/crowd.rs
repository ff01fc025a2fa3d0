//! Who is connected, and who of them could be asked to leave.

use std::collections::BTreeMap;
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

    /// Closes the connection that has been idle for the longest, if one is idle.
    pub(super) fn close_one(&self) {
        if let Some((_, leave)) = self.idle().by_age.pop_first() {
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
        self.crowd.idle().by_age.remove(&place);
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
