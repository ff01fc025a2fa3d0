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
/// Each request that is answered may hold a whole batch in memory, so few are at once, and each has its time. One that only
/// waits holds next to nothing: it takes no such permit, but one of those that wait.
#[derive(Debug, Clone)]
pub(crate) struct RequestLimiter {
    at_once: Shares<Name>,
    time: Duration,
    waits: Shares<Name>,
    event_streams: Shares<Name>,
    event_streams_by_network: Shares<IpAddr>,
    body_kib: Shares<Name>,
}

/// A permit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _share: Share<Name>,
    /// Of what is shared out by address, too.
    _of_network: Option<Share<IpAddr>>,
}

impl From<Share<Name>> for Permit {
    fn from(share: Share<Name>) -> Self {
        Self { _share: share, _of_network: None }
    }
}

/// In the extensions of a request that is answered at once: it takes a permit before its handler runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakesPermit;

impl RequestLimiter {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        let bytes = limits.body_bytes / KIB;
        Self {
            at_once: Shares::new(limits.at_once, limits.at_once.div_ceil(2)),
            time: limits.request_time,
            waits: Shares::new(limits.waits, limits.waits.div_ceil(4)),
            event_streams: Shares::new(limits.event_streams, limits.event_streams.div_ceil(4)),
            event_streams_by_network: Shares::new(limits.event_streams, limits.event_streams.div_ceil(2)),
            body_kib: Shares::new(bytes, bytes.div_ceil(4)),
        }
    }

    /// How long a request may take that does not wait.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Waits for a permit to be answered. `tenant`: the tenant of the client; `None` for one of all tenants. Cancel-safe.
    pub(crate) async fn permit(&self, tenant: Option<&Name>) -> Permit {
        self.at_once.acquire(tenant).await.into()
    }

    /// Does this with a permit, and within its time.
    ///
    /// # Errors
    /// Those of the work, and [`Code::Timeout`]: then the work was dropped.
    pub(crate) async fn within<T>(
        &self,
        tenant: Option<&Name>,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        self.in_time(async {
            let _permit = self.permit(tenant).await;
            work.await
        })
        .await
    }

    /// Does this within the time of a request.
    ///
    /// # Errors
    /// Those of the work, and [`Code::Timeout`]: then the work was dropped.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        let late = || Problem::new(Code::Timeout, format!("not done within {:?}", self.time));
        tokio::time::timeout(self.time, work).await.unwrap_or_else(|_| Err(late()))
    }

    /// A permit to wait.
    ///
    /// # Errors
    /// [`Code::Busy`]: too many requests of the tenant wait, or of all.
    pub(crate) fn wait(&self, tenant: Option<&Name>) -> Result<Permit, Problem> {
        let busy = || Problem::new(Code::Busy, "too many requests are waiting for something: ask again in a moment");
        self.waits.try_acquire(tenant, 1).map(Into::into).ok_or_else(busy)
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
        Ok(Permit { _share: share, _of_network: Some(of_network) })
    }

    /// A permit to hold a body of so many bytes.
    ///
    /// # Errors
    /// [`Code::Busy`]: the bodies of the tenant's requests take as much memory as they may, or those of all requests.
    pub(crate) fn hold_body(&self, tenant: Option<&Name>, bytes: usize) -> Result<Permit, Problem> {
        let busy = || Problem::new(Code::Busy, "the bodies of other requests take all memory: ask again in a moment");
        let kib = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        self.body_kib.try_acquire(tenant, kib).map(Into::into).ok_or_else(busy)
    }
}

/// For routes that wait by themselves: not longer than this, whatever they wait for.
pub(crate) async fn in_time(State(time): State<Duration>, request: Request, next: Next) -> Response {
    let late = |_| Problem::new(Code::Timeout, format!("not done within {time:?}")).into_response();
    tokio::time::timeout(time, next.run(request)).await.unwrap_or_else(late)
}

/// For routes that never wait: [`receive`](crate::receive::receive) takes their permit, once it has read the body.
pub(crate) async fn take_permit(State(limiter): State<RequestLimiter>, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(TakesPermit);
    limiter.in_time(async { Ok(next.run(request).await) }).await.unwrap_or_else(IntoResponse::into_response)
}

#[cfg(test)]
mod tests {
    use super::*;

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
