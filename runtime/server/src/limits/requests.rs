//! AppState for requests: a moment for most of them, and longer for those that wait for something to happen.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::HttpLimits;
use crate::problem::{Code, Problem};

/// Two kinds of request_limiter. Clones share them.
///
/// Each request that is read or answered may hold a whole batch in memory, so few are at once, and each has its time. One
/// that only waits holds next to nothing: it takes no such turn, but a place among [`HttpLimits::waits`].
#[derive(Debug, Clone)]
pub(crate) struct RequestLimiter {
    at_once: Arc<Semaphore>,
    time: Duration,
    waits: Arc<Semaphore>,
}

/// A place among those that wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _permit: OwnedSemaphorePermit,
}

impl RequestLimiter {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        let of = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self { at_once: of(limits.at_once), time: limits.request_time, waits: of(limits.waits) }
    }

    /// How long a request may take that does not wait.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Does this when it is its turn, and within its time.
    ///
    /// # Errors
    /// Those of the work, and [`Code::Timeout`]: then the work was dropped.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        let in_turn = async {
            // Nobody closes it.
            let _turn = self.at_once.acquire().await;
            work.await
        };
        let late = || Problem::new(Code::Timeout, format!("not done within {:?}", self.time));
        tokio::time::timeout(self.time, in_turn).await.unwrap_or_else(|_| Err(late()))
    }

    /// A place among those that wait.
    ///
    /// # Errors
    /// [`Code::Busy`]: too many do.
    pub(crate) fn wait(&self) -> Result<Permit, Problem> {
        let busy = |_| Problem::new(Code::Busy, "too many requests are waiting for something: ask again in a moment");
        self.waits.clone().try_acquire_owned().map(|place| Permit { _permit: place }).map_err(busy)
    }
}

/// For routes that wait by themselves: not longer than this, whatever they wait for.
pub(crate) async fn in_time(State(time): State<Duration>, request: Request, next: Next) -> Response {
    let late = |_| Problem::new(Code::Timeout, format!("not done within {time:?}")).into_response();
    tokio::time::timeout(time, next.run(request)).await.unwrap_or_else(late)
}

/// For routes that never wait.
pub(crate) async fn take_turn(State(request_limiter): State<RequestLimiter>, request: Request, next: Next) -> Response {
    request_limiter.within(async { Ok(next.run(request).await) }).await.unwrap_or_else(IntoResponse::into_response)
}
