//! Which addresses no handler may reach: all that are not in the public Internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IANA's special-purpose registry for IPv4, multicast, and what clouds keep for themselves.
const SPECIAL_V4: [(&str, &str); 17] = [
    ("0.0.0.0/8", "this host"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by a carrier's customers"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "for documentation"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    // Azure's wire server: it answers every virtual machine there, like a metadata service.
    ("168.63.129.16/32", "a cloud's own"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("255.255.255.255/32", "broadcast"),
];

/// Exceptions within global unicast, 2000::/3; outside of it everything is special.
const SPECIAL_V6: [(&str, &str); 3] =
    [("2001::/23", "reserved"), ("2001:db8::/32", "for documentation"), ("3fff::/20", "for documentation")];

/// Outside of global unicast, by name.
const NAMED_V6: [(&str, &str); 7] = [
    ("::1/128", "loopback"),
    ("::/128", "unspecified"),
    ("::/96", "an embedded IPv4 address"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
];

/// What kind of address it is if it is none of the public Internet's; completes "the address … is".
///
/// Forms that carry an IPv4 address are looked at as what they lead to: mapped (`::ffff:…`), NAT64 (`64:ff9b::…`, which
/// must work where there is nothing but IPv6) and 6to4 (`2002:…`).
pub fn special(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    static TABLE: LazyLock<Vec<(Ipv4Net, &str)>> = LazyLock::new(|| table(&SPECIAL_V4));
    TABLE.iter().find(|(network, _)| network.contains(&address)).map(|(_, kind)| *kind)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    static SPECIAL: LazyLock<Vec<(Ipv6Net, &str)>> = LazyLock::new(|| table(&SPECIAL_V6));
    static NAMED: LazyLock<Vec<(Ipv6Net, &str)>> = LazyLock::new(|| table(&NAMED_V6));
    let [a, b, c, d, e, f, g, h] = address.segments();
    if let [0x64, 0xff9b, 0, 0, 0, 0] = [a, b, c, d, e, f] {
        return special_v4(v4(g, h)).map(|_| TRANSLATED);
    }
    if a == 0x2002 {
        return special_v4(v4(b, c)).map(|_| TRANSLATED);
    }
    let within = |table: &[(Ipv6Net, &'static str)]| {
        table.iter().find(|(network, _)| network.contains(&address)).map(|(_, kind)| *kind)
    };
    let global_unicast = a & 0xe000 == 0x2000;
    if global_unicast { within(&SPECIAL) } else { Some(within(&NAMED).unwrap_or("reserved")) }
}

const TRANSLATED: &str = "a translated private or reserved address";

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

/// The constants above are networks: a test reads every one of them.
fn table<N: std::str::FromStr>(rows: &[(&str, &'static str)]) -> Vec<(N, &'static str)> {
    rows.iter().filter_map(|(network, kind)| Some((network.parse().ok()?, *kind))).collect()
}

/// Reads `10.1.2.0/24`, or a single address.
///
/// # Errors
/// What is wrong with it, as in "… is no network: …".
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let network = match text.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => text
            .parse::<IpAddr>()
            .map(IpNet::from)
            .map_err(|_| "write an address such as \"127.0.0.1\", or a range such as \"10.1.2.0/24\"".to_owned())?,
    };
    if network.trunc() != network {
        return Err(format!("it names a host within a network: write \"{}\"", network.trunc()));
    }
    match network {
        // Addresses are looked at in their IPv4 form, which this would never match.
        IpNet::V6(mapped) if mapped.addr().to_ipv4_mapped().is_some() => {
            Err("write an IPv4 network in its IPv4 form".to_owned())
        }
        _ => Ok(network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_network() {
        assert_eq!(table::<Ipv4Net>(&SPECIAL_V4).len(), SPECIAL_V4.len());
        assert_eq!(table::<Ipv6Net>(&SPECIAL_V6).len(), SPECIAL_V6.len());
        assert_eq!(table::<Ipv6Net>(&NAMED_V6).len(), NAMED_V6.len());
    }

    #[test]
    fn nothing_leads_inside() {
        let inside = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "168.63.129.16",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:53aa:64c::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "2002:a9fe:a9fe::",
            "2002:c0a8:101::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff:ffff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "1::1",
        ];
        for address in inside {
            assert!(special(address.parse().unwrap()).is_some(), "{address} is taken for public");
        }
    }

    #[test]
    fn what_is_public_is_not_refused() {
        let outside = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "168.63.129.15",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "2001:200::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ];
        for address in outside {
            assert_eq!(special(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn networks_are_read_or_refused_with_the_remedy() {
        assert_eq!(parse_network("127.0.0.1").unwrap().to_string(), "127.0.0.1/32");
        assert_eq!(parse_network("fd00::/8").unwrap().to_string(), "fd00::/8");
        let refused = |text: &str| parse_network(text).unwrap_err();
        assert!(refused("10.1.2.3/24").contains("write \"10.1.2.0/24\""));
        assert!(refused("::ffff:10.0.0.0/104").contains("IPv4 form"));
        for text in ["", "localhost", "10.1.2", "10.0.0.0/33", "10.0.0.0/", "0x7f000001"] {
            assert!(refused(text).contains("write an address"), "{text}");
        }
    }
}
