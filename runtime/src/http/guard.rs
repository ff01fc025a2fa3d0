//! Keeps out what a web page can make a browser send, and ends what takes too long.
//!
//! A page of any site may send requests to this machine. Two rules are enough against it: a request that changes
//! something must be JSON, for which a browser asks first and gets no leave (we answer no CORS); and the `Host` must be a
//! name of this machine, or a site could have its own name resolved to 127.0.0.1 and read the answers as its own
//! ("DNS rebinding").

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use super::problem::{Code, Problem};

/// Only so many at once.
pub(super) async fn take_turn(State(turns): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    // Nobody closes it.
    let _turn = turns.acquire().await;
    next.run(request).await
}

pub(super) async fn guard(State(time): State<Duration>, request: Request, next: Next) -> Response {
    if let Err(problem) = check_host(&request).and_then(|()| check_media_type(&request)) {
        return problem.into_response();
    }
    match tokio::time::timeout(time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(Code::Timeout, format!("not done within {time:?}")).into_response(),
    }
}

fn check_host(request: &Request) -> Result<(), Problem> {
    let hosts: Vec<_> = request.headers().get_all(header::HOST).iter().collect();
    let [host] = hosts.as_slice() else {
        return Err(Problem::new(Code::HostRefused, "a request has one `Host`"));
    };
    let named = host.to_str().ok().and_then(|host| host.parse().ok());
    // RFC 9112 §3.2.2: a request target in absolute form has a say of its own.
    let target_fits = request.uri().authority().is_none_or(is_loopback);
    if named.as_ref().is_some_and(is_loopback) && target_fits {
        return Ok(());
    }
    Err(Problem::new(Code::HostRefused, "the `Host` must be localhost or a loopback address, such as 127.0.0.1"))
}

fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    // A user before the host is nobody we know.
    !authority.as_str().contains('@')
        && (host.eq_ignore_ascii_case("localhost") || literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

fn check_media_type(request: &Request) -> Result<(), Problem> {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !(changes || has_body(request.headers())) || is_json(request.headers()) {
        return Ok(());
    }
    Err(Problem::new(Code::MediaType, "say `Content-Type: application/json`"))
}

fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    length.is_some_and(|length| length.as_bytes() != b"0") || headers.contains_key(header::TRANSFER_ENCODING)
}

fn is_json(headers: &HeaderMap) -> bool {
    let written = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = written.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        let loopback = |host: &str| host.parse().is_ok_and(|host| is_loopback(&host));
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:7331", "127.1.2.3", "[::1]", "[::1]:7331"] {
            assert!(loopback(host), "{host}");
        }
        let others = [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "127.0.0.1@example.org",
            "example.org@127.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
            "[::]",
            "[::2]:7331",
        ];
        for host in others {
            assert!(!loopback(host), "{host}");
        }
    }
}
