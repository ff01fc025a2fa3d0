//! The open connections, and which of them may be closed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::limits::network_with_share;
use crate::limits::shares::{Share, Shares};
use crate::polled_body::{PolledBody, next_frame};

/// How soon to look again for an idle connection where all are busy.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Connections for health checks, beside all others.
const RESERVE: usize = 16;

/// All connections.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionLimiter {
    permits: Shares<IpAddr>,
    reserve: Shares<IpAddr>,
    idle: Arc<Mutex<Idle>>,
}

/// The idle ones, the longest first.
#[derive(Debug, Default)]
struct Idle {
    last: u64,
    by_age: BTreeMap<u64, (Option<IpAddr>, CancellationToken)>,
    /// Those that were asked to leave and have not done so yet.
    leaving: BTreeSet<u64>,
}

/// One connection's.
#[derive(Debug)]
pub(crate) struct Connection {
    limiter: ConnectionLimiter,
    /// The client's network, if that has a share.
    network: Option<IpAddr>,
    is_reserve: bool,
    leave: CancellationToken,
    /// Its place among the idle ones, of which it may have been taken since; zero: busy.
    idle_as: AtomicU64,
    _share: Share<IpAddr>,
}

/// A request that is being answered. Idle again when dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Connection>);

impl ConnectionLimiter {
    pub(crate) fn new(permits: usize) -> Self {
        let permits = Shares::new(permits, permits.div_ceil(2));
        Self { permits, reserve: Shares::new(RESERVE, RESERVE), idle: Arc::default() }
    }

    /// A connection for this client. An idle connection may be closed for it: one of its own network if that has its share.
    /// If all are busy, it is one of the reserve, or waits until one is free. Returns `None` if its network has its share of
    /// busy ones, and the reserve is used up. Cancel-safe.
    pub(crate) async fn connection(&self, client: IpAddr) -> Option<Arc<Connection>> {
        let network = network_with_share(client);
        let new = |share, is_reserve| Some(Connection::new(self.clone(), network, share, is_reserve));
        loop {
            if let Some(share) = self.permits.try_acquire(network.as_ref(), 1) {
                return new(share, false);
            }
            let has_share = self.permits.is_used_up(network.as_ref());
            let is_one_leaving = self.close_one(network.filter(|_| has_share));
            if is_one_leaving || !has_share {
                let free = self.permits.acquire(network.as_ref());
                if let Ok(share) = tokio::time::timeout(LOOK_AGAIN, free).await {
                    return new(share, false);
                }
            }
            if !is_one_leaving && let Some(share) = self.reserve.try_acquire(None, 1) {
                return new(share, true);
            }
            if has_share && !is_one_leaving {
                return None;
            }
        }
    }

    /// Closes the connection that has been idle for the longest, of this network or of all, if one is idle. Closes none while
    /// another one is leaving: it has only not come to it yet. Returns whether one is leaving.
    pub(crate) fn close_one(&self, network: Option<IpAddr>) -> bool {
        let mut idle = self.idle.lock();
        if !idle.leaving.is_empty() {
            return true;
        }
        let is_meant = |of: &Option<IpAddr>| network.is_none() || *of == network;
        let first = idle.by_age.iter().find(|(_, (of, _))| is_meant(of)).map(|(place, _)| *place);
        let Some((place, (_, leave))) = first.and_then(|place| idle.by_age.remove_entry(&place)) else { return false };
        idle.leaving.insert(place);
        leave.cancel();
        true
    }
}

impl Connection {
    fn new(limiter: ConnectionLimiter, network: Option<IpAddr>, share: Share<IpAddr>, is_reserve: bool) -> Arc<Self> {
        let (leave, idle_as) = (CancellationToken::new(), AtomicU64::new(0));
        let connection = Self { limiter, network, is_reserve, leave, idle_as, _share: share };
        connection.rest();
        Arc::new(connection)
    }

    fn rest(&self) {
        let mut idle = self.limiter.idle.lock();
        idle.last += 1;
        let place = idle.last;
        // To close one of the reserve makes no room for another one.
        if !self.is_reserve {
            idle.by_age.insert(place, (self.network, self.leave.clone()));
        }
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

    /// Whether the connection is of the reserve, which answers health checks only.
    pub(crate) fn is_reserve(&self) -> bool {
        self.is_reserve
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
    /// The body of an answer, which keeps its connection busy until it is sent.
    pub(crate) fn until_sent(self, body: Body) -> impl HttpBody<Data = Bytes, Error = axum::Error> {
        let mut busy = Some(self);
        PolledBody::new(body, move |body, context| {
            let polled = next_frame(body, context);
            if let Poll::Ready(None) = polled {
                drop(busy.take());
            }
            polled
        })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn one_idle_connection_is_closed_at_a_time_the_longest_idle_first() {
        let limiter = ConnectionLimiter::new(3);
        let (first, second, third) = (
            limiter.connection(HERE).await.unwrap(),
            limiter.connection(HERE).await.unwrap(),
            limiter.connection(HERE).await.unwrap(),
        );
        let asked = |connection: &Arc<Connection>| connection.leave.is_cancelled();
        let busy = Connection::begin(&first);
        limiter.close_one(None);
        limiter.close_one(None);
        assert_eq!((asked(&first), asked(&second), asked(&third)), (false, true, false));
        // A request was on its way: it is answered first, and another connection may have to go.
        drop(Connection::begin(&second));
        limiter.close_one(None);
        assert!(asked(&third));
        drop((busy, second, third));
        limiter.close_one(None);
        assert!(asked(&first));
    }

    #[tokio::test]
    async fn a_new_connection_takes_the_place_of_one_that_is_closed() {
        let limiter = ConnectionLimiter::new(1);
        let idle = limiter.connection(HERE).await.unwrap();
        let newcomer = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.connection(HERE).await.unwrap() }
        });
        idle.asked_to_leave().await;
        drop(idle);
        newcomer.await.unwrap();
    }

    #[tokio::test]
    async fn a_network_has_half_of_the_connections_and_others_the_rest() {
        let limiter = ConnectionLimiter::new(4);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let (first, second) = (limiter.connection(one).await.unwrap(), limiter.connection(one).await.unwrap());
        let busy = (Connection::begin(&first), Connection::begin(&second));
        let mut reserve = Vec::new();
        for _ in 0..RESERVE {
            reserve.push(limiter.connection(one).await.filter(|connection| connection.is_reserve()).unwrap());
        }
        assert!(limiter.connection(one).await.is_none());
        let others = [limiter.connection(other).await.unwrap(), limiter.connection(other).await.unwrap()];
        assert!(others.iter().all(|connection| !connection.is_reserve()));
        // With its share of idle ones, its own longest idle one has to go.
        drop(busy);
        let next = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.connection(one).await }
        });
        first.asked_to_leave().await;
        assert!(!others.iter().any(|connection| connection.leave.is_cancelled()));
        drop(first);
        assert!(!next.await.unwrap().unwrap().is_reserve());
    }

    #[tokio::test]
    async fn health_checks_are_answered_while_all_are_busy() {
        let limiter = ConnectionLimiter::new(1);
        let only = limiter.connection(HERE).await.unwrap();
        let busy = Connection::begin(&only);
        assert!(limiter.connection(HERE).await.unwrap().is_reserve());
        drop(busy);
        let next = limiter.connection(HERE);
        let (next, ()) = tokio::join!(next, async {
            only.asked_to_leave().await;
            drop(only);
        });
        assert!(!next.unwrap().is_reserve());
    }
}
