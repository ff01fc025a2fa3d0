//! Who is connected, and who of them could be asked to leave.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// How soon to look again for somebody idle where all are busy.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Everybody who is connected.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimiter {
    permits: Arc<Semaphore>,
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
pub(crate) struct Connection {
    limiter: ConnectionLimiter,
    leave: CancellationToken,
    /// Its place among the idle ones, of which it may have been taken since; zero: busy.
    idle_as: AtomicU64,
    _seat: OwnedSemaphorePermit,
}

/// A request that is being answered. Idle again when dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Connection>);

/// An answer's body, which keeps its connection busy until it is sent.
#[derive(Debug)]
pub(crate) struct Sent {
    body: Body,
    busy: Option<Busy>,
}

impl ConnectionLimiter {
    pub(crate) fn new(permits: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))), idle: Arc::default() }
    }

    /// A connection, for which an idle connection may be closed. Waits for as long as all are busy. Cancel-safe.
    pub(crate) async fn connection(&self) -> Arc<Connection> {
        loop {
            let free = self.permits.clone().acquire_owned();
            if self.permits.available_permits() == 0 {
                self.close_one();
            }
            if let Ok(Ok(connection)) = tokio::time::timeout(LOOK_AGAIN, free).await {
                return Connection::new(self.clone(), connection);
            }
        }
    }

    /// Closes the connection that has been idle for the longest, if one is idle. Does nothing while another one is leaving: it
    /// has only not come to it yet.
    pub(crate) fn close_one(&self) {
        let mut idle = self.idle.lock();
        if !idle.leaving.is_empty() {
            return;
        }
        if let Some((place, leave)) = idle.by_age.pop_first() {
            idle.leaving.insert(place);
            leave.cancel();
        }
    }
}

impl Connection {
    fn new(limiter: ConnectionLimiter, connection: OwnedSemaphorePermit) -> Arc<Self> {
        let connection =
            Self { limiter, leave: CancellationToken::new(), idle_as: AtomicU64::new(0), _seat: connection };
        connection.rest();
        Arc::new(connection)
    }

    fn rest(&self) {
        let mut idle = self.limiter.idle.lock();
        idle.last += 1;
        let place = idle.last;
        idle.by_age.insert(place, self.leave.clone());
        self.idle_as.store(place, Ordering::Relaxed);
    }

    fn rise(&self) {
        let place = self.idle_as.swap(0, Ordering::Relaxed);
        let mut idle = self.limiter.idle.lock();
        idle.by_age.remove(&place);
        idle.leaving.remove(&place);
    }

    /// A request has come.
    pub(crate) fn begin(connection: &Arc<Self>) -> Busy {
        connection.rise();
        Busy(Arc::clone(connection))
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.idle_as.load(Ordering::Relaxed) == 0
    }

    /// Waits until another client needs the connection.
    pub(crate) fn asked_to_leave(&self) -> WaitForCancellationFuture<'_> {
        self.leave.cancelled()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.rise();
    }
}

impl Busy {
    pub(crate) fn until_sent(self, body: Body) -> Sent {
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
        let limiter = ConnectionLimiter::new(3);
        let (first, second, third) =
            (limiter.connection().await, limiter.connection().await, limiter.connection().await);
        let asked = |connection: &Arc<Connection>| connection.leave.is_cancelled();
        let busy = Connection::begin(&first);
        limiter.close_one();
        limiter.close_one();
        assert_eq!((asked(&first), asked(&second), asked(&third)), (false, true, false));
        // A request was on its way: it is answered first, and somebody else may have to go.
        drop(Connection::begin(&second));
        limiter.close_one();
        assert!(asked(&third));
        drop((busy, second, third));
        limiter.close_one();
        assert!(asked(&first));
    }

    #[tokio::test]
    async fn a_newcomer_gets_the_seat_of_who_leaves() {
        let limiter = ConnectionLimiter::new(1);
        let idle = limiter.connection().await;
        let newcomer = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.connection().await }
        });
        idle.asked_to_leave().await;
        drop(idle);
        newcomer.await.unwrap();
    }
}
