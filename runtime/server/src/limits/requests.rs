//! Bounds requests: in time, in number and in bytes. What all requests share is shared out by tenant, so that a tenant's
//! clients cannot hold the server.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::network_with_share;
use super::shares::{Share, Shares};
use crate::limits::HttpLimits;
use crate::problem::{Code, Problem};
use gristmill_core::job::Name;

/// The unit in which bodies are counted.
const KIB: usize = 1024;

/// The pools of requests. Clones share them.
///
/// Each request that is answered may hold a whole batch in memory, so few are answered at once, each in bounded time. A request that only
/// waits holds next to nothing: it takes no such permit, but one of those that wait.
#[derive(Debug, Clone)]
pub(crate) struct RequestLimiter {
    at_once: Shares<Name>,
    time: Duration,
    waits: Shares<Name>,
    /// The connections that are busy with a tenant's requests, and those whose requests wait.
    busy: Shares<Name>,
    waiting: Shares<Name>,
    event_streams: Shares<Name>,
    event_streams_by_network: Shares<IpAddr>,
    body_kib: Shares<Name>,
}

/// A permit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _share: Share<Name>,
    /// A share of the connections whose requests wait.
    _waiting: Option<Share<Name>>,
    /// Also its share of what is shared out by address.
    _of_network: Option<Share<IpAddr>>,
}

impl From<Share<Name>> for Permit {
    fn from(share: Share<Name>) -> Self {
        Self { _share: share, _waiting: None, _of_network: None }
    }
}

/// What a permit is taken in exchange for: whatever holds one cannot take a second one, for which it would wait while others
/// wait for its own.
///
/// A route function that has it among its arguments runs without a permit. All others run with one.
#[derive(Debug)]
pub(crate) struct NoPermit(());

impl NoPermit {
    /// For what begins here: a request before its route function, a step of a bulk action.
    pub(crate) fn at_beginning() -> Self {
        Self(())
    }
}

impl RequestLimiter {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        let bytes = limits.body_bytes / KIB;
        Self {
            at_once: Shares::new(limits.at_once, limits.at_once.div_ceil(2)).with_keyless(limits.at_once.div_ceil(2)),
            time: limits.request_time,
            waits: Shares::new(limits.waits, limits.waits.div_ceil(4)),
            busy: Shares::new(limits.connections, limits.connections.div_ceil(2)),
            waiting: Shares::new(limits.connections - limits.connections / 4, limits.connections.div_ceil(4)),
            event_streams: Shares::new(limits.event_streams, limits.event_streams.div_ceil(4)),
            event_streams_by_network: Shares::new(limits.event_streams, limits.event_streams.div_ceil(2)),
            // A large answer of the operator's always fits: it is a few MiB, or one job.
            body_kib: Shares::new(bytes, bytes.div_ceil(4)).with_keyless(bytes.div_ceil(2)),
        }
    }

    /// How long a request may take that does not wait.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Waits for a permit to be answered. `tenant`: the tenant of the client; `None` for one of all tenants, of which all together have half
    /// of the permits. Cancel-safe.
    pub(crate) async fn permit(&self, _: NoPermit, tenant: Option<&Name>) -> Permit {
        self.at_once.acquire(tenant).await.into()
    }

    /// Does this with a permit, and within its time.
    ///
    /// # Errors
    /// Those of the work, and [`Code::Timeout`]: then the work was dropped.
    pub(crate) async fn within<T>(
        &self,
        none: NoPermit,
        tenant: Option<&Name>,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        self.in_time(async {
            let _permit = self.permit(none, tenant).await;
            work.await
        })
        .await
    }

    /// Does this within the time of a request.
    ///
    /// # Errors
    /// Those of the work, and [`Code::Timeout`]: then the work was dropped.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        tokio::time::timeout(self.time, work).await.unwrap_or_else(|_| Err(self.late()))
    }

    /// What a request is answered that is not done within its time.
    pub(crate) fn late(&self) -> Problem {
        Problem::new(Code::Timeout, format!("not done within {:?}", self.time))
    }

    /// A permit to wait.
    ///
    /// # Errors
    /// [`Code::Busy`]: too many requests of the tenant wait, or of all.
    pub(crate) fn wait(&self, tenant: Option<&Name>) -> Result<Permit, Problem> {
        let busy = || Problem::new(Code::Busy, "too many requests are waiting for something: ask again in a moment");
        let share = self.waits.try_acquire(tenant, 1).ok_or_else(busy)?;
        Ok(Permit { _waiting: Some(self.keep_waiting(tenant)?), ..Permit::from(share) })
    }

    /// The part of a request that waits of the connections.
    ///
    /// # Errors
    /// [`Code::Busy`]: requests of the tenant that wait keep as many connections as they may, or those of all.
    pub(crate) fn keep_waiting(&self, tenant: Option<&Name>) -> Result<Share<Name>, Problem> {
        let detail = "too many connections are kept by requests that wait: ask again in a moment, and without a wait";
        self.waiting.try_acquire(tenant, 1).ok_or_else(|| Problem::new(Code::Busy, detail))
    }

    /// The part of any request of a tenant of the connections.
    ///
    /// # Errors
    /// [`Code::Busy`]: requests of the tenant keep half of the connections.
    pub(crate) fn keep_busy(&self, tenant: &Name) -> Result<Share<Name>, Problem> {
        let detail = "requests of the tenant keep as many connections as they may: ask again in a moment";
        self.busy.try_acquire(Some(tenant), 1).ok_or_else(|| Problem::new(Code::Busy, detail))
    }

    /// A permit for a stream of events to a client of this tenant at this address.
    ///
    /// # Errors
    /// [`Code::TooManyStreams`]: the tenant has its share of streams, the client's address has, or all are taken.
    pub(crate) fn stream_events(&self, tenant: Option<&Name>, client: IpAddr) -> Result<Permit, Problem> {
        let network = network_with_share(client);
        let of_network = self.event_streams_by_network.try_acquire(network.as_ref(), 1);
        let share = of_network.and_then(|of_network| Some((self.event_streams.try_acquire(tenant, 1)?, of_network)));
        let (share, of_network) = share.ok_or_else(|| {
            let detail = "too many streams of events are open, of this tenant, from this address or in all: close one";
            Problem::new(Code::TooManyStreams, detail)
        })?;
        Ok(Permit { _share: share, _waiting: None, _of_network: Some(of_network) })
    }

    /// A permit to hold a body of this many bytes.
    ///
    /// # Errors
    /// [`Code::Busy`]: the bodies of the tenant's requests take as much memory as they may, or those of the operator's, or those of all requests.
    pub(crate) fn hold_body(&self, tenant: Option<&Name>, bytes: usize) -> Result<Permit, Problem> {
        let busy = || Problem::new(Code::Busy, "the bodies of other requests take all memory: ask again in a moment");
        let kib = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        self.body_kib.try_acquire(tenant, kib).map(Into::into).ok_or_else(busy)
    }
}

/// For routes that wait inside: not longer than this, whatever they wait for.
pub(crate) async fn in_time(State(time): State<Duration>, request: Request, next: Next) -> Response {
    let late = |_| Problem::new(Code::Timeout, format!("not done within {time:?}")).into_response();
    tokio::time::timeout(time, next.run(request)).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenants_requests_keep_half_of_the_connections_and_a_quarter_of_them_waiting() {
        let limiter = RequestLimiter::new(&HttpLimits { connections: 8, ..HttpLimits::default() });
        let (acme, other): (Name, Name) = ("acme".parse().unwrap(), "other".parse().unwrap());
        let busy: Vec<_> = (0..4).map(|_| limiter.keep_busy(&acme).unwrap()).collect();
        assert_eq!(limiter.keep_busy(&acme).unwrap_err().code, Code::Busy);
        assert!(limiter.keep_busy(&other).is_ok());
        let wait = limiter.wait(Some(&acme)).unwrap();
        let claim = limiter.keep_waiting(Some(&acme)).unwrap();
        assert!(limiter.wait(Some(&acme)).is_err() && limiter.keep_waiting(Some(&acme)).is_err());
        let all: Vec<_> = std::iter::from_fn(|| limiter.keep_waiting(None).ok()).collect();
        assert_eq!(all.len(), 4, "all tenants and the operator leave a quarter to requests that do not wait");
        drop((busy, wait, claim));
        assert!(limiter.keep_busy(&acme).is_ok() && limiter.wait(Some(&acme)).is_ok());
    }

    #[test]
    fn a_tenant_has_a_quarter_of_the_event_streams_and_an_address_half() {
        let limiter = RequestLimiter::new(&HttpLimits { event_streams: 8, ..HttpLimits::default() });
        let (acme, other): (Name, Name) = ("acme".parse().unwrap(), "other".parse().unwrap());
        let (near, far) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let open = |tenant, client| limiter.stream_events(tenant, client);
        let mut streams = vec![open(Some(&acme), near).unwrap(), open(Some(&acme), far).unwrap()];
        assert_eq!(open(Some(&acme), far).unwrap_err().code, Code::TooManyStreams);
        streams.extend([open(Some(&other), near).unwrap(), open(None, near).unwrap(), open(None, near).unwrap()]);
        assert_eq!(open(None, near).unwrap_err().code, Code::TooManyStreams, "also with a token for all tenants");
        streams.extend((0..3).map(|_| open(None, [127, 0, 0, 1].into()).unwrap()));
        assert!(open(None, [127, 0, 0, 1].into()).is_err(), "all are taken");
        streams.remove(0);
        assert!(open(Some(&acme), near).is_ok());
    }
}
