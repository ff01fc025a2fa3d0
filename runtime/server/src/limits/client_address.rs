//! The address of a request's client, and what counts as one client.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::Extensions;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_gets_a_64_of_ipv6() {
        let of = |address: &str| network(address.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert!(of("::1").is_loopback() && of("::ffff:127.0.0.1").is_loopback());
    }
}
