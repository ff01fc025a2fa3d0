//! The address of a request's client, and what counts as one client.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::Extensions;
use axum::http::request::Parts;

use crate::openapi::Argument;

/// The address of a request's client, as an argument of a route function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl<S: Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(client_address(&parts.extensions)))
    }
}

impl Argument for ClientAddress {}

/// The address of the client whose request has these extensions, or of the last proxy before the server.
pub(crate) fn client_address(extensions: &Extensions) -> IpAddr {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_canonical());
    peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into())
}

/// What counts as one client: an IPv4 address, or a /64 of IPv6, which is what one gets.
pub(crate) fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::from((address.to_bits() & !u128::from(u64::MAX)).to_be_bytes())
        }
        address => address,
    }
}

/// What has a share of a pool. Returns `None` for this machine: a proxy on it sends the requests of many clients.
pub(crate) fn network_with_share(client: IpAddr) -> Option<IpAddr> {
    Some(network(client)).filter(|network| !network.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_no_share() {
        let of = |address: &str| network_with_share(address.parse().unwrap());
        assert_eq!((of("127.0.0.1"), of("::1"), of("::ffff:127.0.0.1")), (None, None, None));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }

    #[test]
    fn one_gets_a_64_of_ipv6() {
        let of = |address: &str| network(address.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert!(of("::1").is_loopback() && of("::ffff:127.0.0.1").is_loopback());
    }
}
