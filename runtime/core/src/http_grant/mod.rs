//! What a topic's requests over HTTP may reach, and how much of it: the grant `[topics.NAME.http]`.
//!
//! Two gates, both of which a request must pass: [`HostPattern`] holds what its URL says, [`HttpGrant::refuses`] what the
//! name in it resolves to. The second alone would do against an attacker who owns a name; the first is what an operator
//! means.

mod address;
mod pattern;
mod withheld;

use std::net::IpAddr;
use std::time::Duration;

pub use ipnet::IpNet;
use url::Url;

pub use address::{parse_network, special};
pub use pattern::{BadPattern, HostPattern};
pub use withheld::{WITHHELD_BYTES, Withheld, WithheldKind};

/// What one topic may reach, and what one request and one attempt may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGrant {
    /// A URL must match one of them.
    pub allow: Vec<HostPattern>,
    /// Addresses that may be reached although they are not public ones.
    pub networks: Vec<IpNet>,
    /// For one request: names, connections and redirects included.
    pub timeout: Duration,
    /// Bytes of a request's body.
    pub request_bytes: u64,
    /// Bytes of an answer's body, as they come over the wire.
    pub response_bytes: u64,
    /// Requests of one attempt; each redirect that is followed counts as one.
    pub requests: u32,
    /// Each POST and PATCH carries an `Idempotency-Key`, which is the same over all attempts of its job.
    pub idempotency: bool,
}

impl HttpGrant {
    /// A grant of these hosts, with every limit at its default.
    pub fn of(allow: Vec<HostPattern>) -> Self {
        Self {
            allow,
            networks: Vec::new(),
            timeout: Duration::from_secs(10),
            request_bytes: 1 << 20,
            response_bytes: 1 << 20,
            requests: 100,
            idempotency: false,
        }
    }

    /// Whether scheme, host and port are granted.
    pub fn allows(&self, url: &Url) -> bool {
        self.allow.iter().any(|pattern| pattern.matches(url))
    }

    /// Why a connection to this address is refused, such as "private"; none if it may be made. `is_own` returns whether an
    /// address of the public Internet is one of this machine, where services may listen that a firewall hides from others.
    pub fn refuses(&self, address: IpAddr, is_own: impl FnOnce(IpAddr) -> bool) -> Option<&'static str> {
        let address = address.to_canonical();
        if self.networks.iter().any(|network| network.contains(&address)) {
            return None;
        }
        special(address).or_else(|| is_own(address).then_some("this machine's own"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_granted_network_opens_what_lies_in_it_and_nothing_else() {
        let mut grant = HttpGrant::of(Vec::new());
        grant.networks = vec!["10.1.2.0/24".parse().unwrap(), "::1/128".parse().unwrap()];
        let refuses = |address: &str| grant.refuses(address.parse().unwrap(), |_| false);
        assert_eq!((refuses("10.1.2.255"), refuses("::1"), refuses("8.8.8.8")), (None, None, None));
        assert_eq!(refuses("::ffff:10.1.2.3"), None, "the same address in another form");
        assert_eq!(refuses("10.1.3.0"), Some("private"));
        assert_eq!(refuses("::ffff:10.1.3.0"), Some("private"));
        assert_eq!(refuses("64:ff9b::10.1.2.3"), Some("a translated private or reserved address"));
        assert_eq!(refuses("127.0.0.1"), Some("loopback"));
    }
}
