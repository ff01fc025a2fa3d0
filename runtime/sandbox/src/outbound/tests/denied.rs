//! Addresses: of names, in URLs, and after a second thought.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::server::{Server, ok};
use super::*;

#[tokio::test]
async fn a_name_that_leads_inside_is_denied() {
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "fe80::1",
        "fd00:ec2::254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ] {
        let answer = send(&resolving(&[address]), grant(&["*"], &[]), get("https://innocent.example/")).await;
        assert!(denial(answer).contains("innocent.example"), "{address}");
    }
}

#[tokio::test]
async fn an_address_in_a_url_is_looked_at_in_every_form() {
    let any = || grant(&["*:*", "http://*:*"], &[]);
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "１２７.0.0.1",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[fe80::1]",
        "[fc00::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:9/");
            let answer = send(&Outbound::new(), any(), get(&url)).await;
            assert!(
                denial(answer).contains(
                    "has no address that this topic is granted: one that is not public has to be in `networks`"
                ),
                "{url}"
            );
        }
    }
}

#[tokio::test]
async fn this_machines_own_name_is_denied() {
    for name in ["localhost", "LOCALHOST", "localhost."] {
        let answer = send(&Outbound::new(), grant(&["*"], &[]), get(format!("https://{name}/"))).await;
        assert!(
            denial(answer)
                .contains("has no address that this topic is granted: one that is not public has to be in `networks`"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn of_several_addresses_only_granted_ones_are_connected_to() {
    let server = Server::saying(&ok("hello")).await;
    // Nothing could answer at the refused ones; that they are tried at all would show in the time it takes.
    let mixed = resolving(&["10.255.255.1", "169.254.169.254", "127.0.0.1", "192.168.255.1"]);
    assert_eq!(send(&mixed, local(), get(server.url("/"))).await.unwrap().body, b"hello");
    let none = resolving(&["10.255.255.1", "169.254.169.254"]);
    let denial = denial(send(&none, local(), get(server.url("/"))).await);
    assert!(denial.contains("granted") && !denial.contains("255") && !denial.contains("169"), "{denial}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_name_is_resolved_once_for_a_connection_and_looked_at_each_time() {
    let server = Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
    let lookups = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lookups);
    // The first answer is granted; every later one leads to a service of the cloud.
    let rebinding = Resolver::Fixed(Arc::new(move |_| {
        let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        vec![if first { "127.0.0.1" } else { "169.254.169.254" }.parse().unwrap()]
    }));
    let outbound = Outbound::with(rebinding, TrustedRoots::only(RootCertStore::empty()));
    assert_eq!(send(&outbound, local(), get(server.url("/"))).await.unwrap().status, 200);
    assert_eq!(lookups.load(Ordering::Relaxed), 1);
    assert!(denial(send(&outbound, local(), get(server.url("/"))).await).contains("that this topic is granted"));
}

#[tokio::test]
async fn what_is_not_among_the_hosts_is_denied_without_a_lookup() {
    let resolver = Resolver::Fixed(Arc::new(|name| panic!("{name} was looked up")));
    let outbound = Outbound::with(resolver, TrustedRoots::only(RootCertStore::empty()));
    for url in [
        "https://evil.example/",
        "http://good.example/",
        "https://good.example:444/",
        "https://good.example.evil.example/",
        "https://notgood.example/",
        "ftp://good.example/",
        "file:///etc/passwd",
        "gopher://good.example/",
        "unix:/run/docker.sock",
    ] {
        let sent = sent(&outbound, grant(&["good.example"], &[]), get(url), REMAINING).await;
        assert_eq!((end(&sent.answer), sent.requests), ("denied", 0), "{url}");
    }
}

#[tokio::test]
async fn a_denial_names_neither_path_nor_query() {
    let url = "https://evil.example/path-secret?token=query-secret";
    let answer = send(&Outbound::new(), grant(&["good.example"], &[]), get(url)).await;
    let remedy = "if the topic may ask it, add \"https://evil.example\" to `allow` in its `http`";
    assert_eq!(denial(answer), format!("`https://evil.example` is not among the hosts that `allow` names; {remedy}"));
}

#[tokio::test]
async fn a_name_without_an_address_is_unreachable() {
    let answer = send(&resolving(&[]), grant(&["*"], &[]), get("https://nowhere.example/")).await;
    assert_eq!(end(&answer), "unreachable");
}
