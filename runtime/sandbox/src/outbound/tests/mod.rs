//! What guests may ask of the network, and what the network may do to them, against raw servers of our own.

mod denied;
mod hostile;
mod kept;
mod redirects;
mod request_keys;
mod secrets;
mod server;
mod tls;
mod written;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::RootCertStore;

use super::super::bindings::http::{HttpError, Request, Response};
use super::resolve::Resolver;
use super::roots::TrustedRoots;
use super::{Egress, Outbound, Sent};
use gristmill_core::http_grant::HttpGrant;

/// Longer than any of these takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);
const REMAINING: u32 = 100;

fn grant(allow: &[&str], networks: &[&str]) -> HttpGrant {
    let allow = allow.iter().map(|pattern| pattern.parse().unwrap()).collect();
    let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
    HttpGrant { networks, timeout: PATIENCE, ..HttpGrant::of(allow) }
}

/// Whatever host, but of those that are not public only 127.0.0.1.
fn local() -> HttpGrant {
    grant(&["http://*:*", "*:*"], &["127.0.0.1/32"])
}

/// Every name has these addresses.
fn resolving(addresses: &[&str]) -> Outbound {
    let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Outbound::with(Resolver::Fixed(Arc::new(move |_| addresses.clone())), TrustedRoots::only(RootCertStore::empty()))
}

fn get(url: impl Into<String>) -> Request {
    let (method, url) = ("GET".to_owned(), url.into());
    Request { method, url, headers: Vec::new(), body: None, timeout: None, redirects: 0 }
}

async fn sent(outbound: &Outbound, grant: HttpGrant, request: Request, remaining: u32) -> Sent {
    outbound.send(&"t".parse().unwrap(), &Arc::new(grant), request, remaining, Egress::default()).await
}

async fn send(outbound: &Outbound, grant: HttpGrant, request: Request) -> Result<Response, HttpError> {
    sent(outbound, grant, request, REMAINING).await.answer
}

/// Sends to 127.0.0.1, by whatever name.
async fn fetch(request: Request) -> Result<Response, HttpError> {
    send(&resolving(&["127.0.0.1"]), local(), request).await
}

fn denial(answer: Result<Response, HttpError>) -> String {
    match answer {
        Err(HttpError::Denied(what)) => what,
        other => panic!("not denied: {other:?}"),
    }
}

/// A short name of how it ended.
fn end(answer: &Result<Response, HttpError>) -> &'static str {
    match answer {
        Ok(_) => "answer",
        Err(HttpError::Denied(_)) => "denied",
        Err(HttpError::Invalid(_)) => "invalid",
        Err(HttpError::Timeout) => "timeout",
        Err(HttpError::TooLarge(_)) => "too large",
        Err(HttpError::TooMany(_)) => "too many",
        Err(HttpError::Unreachable(_)) => "unreachable",
    }
}
