//! Keeps out what a web page can make a browser send.
//!
//! A page of any site may send requests to this machine. Two rules are enough against it: a request that changes something
//! must be one that a browser asks leave for first, which it does not get (we answer no CORS); and the `Host` must be a
//! name of this machine, or a site could have its own name resolved to 127.0.0.1 and read the answers as its own
//! ("DNS rebinding").
//!
//! What a browser sends without asking is listed in the Fetch standard ("CORS-safelisted"): GET, HEAD and POST, three media
//! types and a few headers.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};

use crate::problem::{Code, Problem};

/// Whatever a browser sends without asking leave has one of these, or none.
const OF_FORMS: [&str; 3] = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];
/// Headers that no browser sends to another site without asking.
const NEVER_UNASKED: [&str; 3] = ["authorization", "idempotency-key", "x-request-id"];

/// Checks where a request may come from, and that its body can be read. Writes the coding of its body as it is written where it is read.
///
/// # Errors
/// A page of another site may have made a browser send it, or its body is in a coding that is not read.
pub(crate) fn check(request: &mut Request) -> Result<(), Problem> {
    check_origin(request).and_then(|()| check_coding(request.headers_mut()))
}

/// Headers by which a proxy says for which client it asks.
const OF_PROXIES: [&str; 3] = ["forwarded", "x-forwarded-for", "via"];

/// Whether a request that needs no token comes from this machine; see above. A proxy on this machine may ask for a client of
/// another one.
pub(crate) fn check_is_local(request: &Request) -> Result<(), Problem> {
    if OF_PROXIES.iter().any(|name| request.headers().contains_key(*name)) {
        let what = "requests need no token yet, and this one came through a proxy, perhaps from another machine: make a token \
                    with `gristmill token create`";
        return Err(Problem::new(Code::HostRefused, what));
    }
    let hosts: Vec<_> = request.headers().get_all(header::HOST).iter().collect();
    let [host] = hosts.as_slice() else {
        let what = "requests need no token yet, so each must have exactly one `Host`: send `Host: localhost`, or make a token with \
                    `gristmill token create`";
        return Err(Problem::new(Code::HostRefused, what));
    };
    let named = host.to_str().ok().and_then(|host| host.parse().ok());
    // RFC 9112 §3.2.2: a request target in absolute form has a say of its own.
    let target_fits = request.uri().authority().is_none_or(is_loopback);
    if named.as_ref().is_some_and(is_loopback) && target_fits {
        return Ok(());
    }
    let what = "requests need no token yet, so the `Host` must be localhost or a loopback address, such as 127.0.0.1: send \
                that, or make a token with `gristmill token create`";
    Err(Problem::new(Code::HostRefused, what))
}

fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    // A user before the host is none of this server's.
    !authority.as_str().contains('@')
        && (host.eq_ignore_ascii_case("localhost") || literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// Whether the request says that a page of another site made a browser send it. Old browsers, and all towards plain HTTP on
/// other machines, send no `Sec-Fetch-Site`; most send one of these.
pub(crate) fn is_of_page_elsewhere(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_here = |value: &HeaderValue| {
        let uri = value.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
        let authority = uri.as_ref().and_then(Uri::authority).map(Authority::as_str);
        authority.is_some() && authority == host
    };
    let mut named = headers.get_all(header::ORIGIN).iter().chain(headers.get_all(header::REFERER));
    !named.all(is_here)
}

fn check_origin(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let unasked = matches!(*request.method(), Method::GET | Method::HEAD | Method::POST);
    let harmless = *request.method() != Method::POST && !has_body(headers);
    let announced = media_type(headers).is_some_and(|media| !OF_FORMS.contains(&media.as_str()));
    if !unasked || harmless || announced || NEVER_UNASKED.iter().any(|name| headers.contains_key(*name)) {
        return Ok(());
    }
    let what = "say `Content-Type: application/json` (and send `{}` where there is nothing to say), or, where the bytes \
                themselves are the job, what they are; what a web page could send by itself is refused, unless it brings an \
                `Idempotency-Key` or an `X-Request-Id`";
    Err(Problem::new(Code::MediaType, what))
}

/// The letters of a coding may be small or large.
fn check_coding(headers: &mut HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
    let (coding, is_last) = (codings.next(), codings.next().is_none());
    let coding = match coding {
        None => return Ok(()),
        Some(coding) if is_last && coding.eq_ignore_ascii_case(b"gzip") => "gzip",
        Some(coding) if is_last && coding.eq_ignore_ascii_case(b"identity") => "identity",
        Some(_) => {
            let what = "a body may be compressed once by `Content-Encoding: gzip`, and by nothing else";
            return Err(Problem::new(Code::MediaType, what));
        }
    };
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    Ok(())
}

fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    length.is_some_and(|length| length.as_bytes() != b"0") || headers.contains_key(header::TRANSFER_ENCODING)
}

/// What the body is announced to be: `type/subtype` in small letters, without parameters. None if it is not announced, or
/// in a way that others may read in another way.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(written), None) = (all.next(), all.next()) else { return None };
    let essence = written.to_str().ok()?.split(';').next()?.trim().to_ascii_lowercase();
    let is_token = |part: &str| !part.is_empty() && part.bytes().all(is_token_byte);
    let (kind, subtype) = essence.split_once('/')?;
    (is_token(kind) && is_token(subtype)).then_some(essence)
}

const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'!' | b'#' | b'$' | b'&' | b'-' | b'^' | b'_' | b'.' | b'+')
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

    #[test]
    fn a_refused_host_is_answered_with_the_remedy() {
        for headers in [&[][..], &[("host", "example.org")], &[("host", "localhost"), ("host", "localhost")]] {
            let refused = check_is_local(&request(Method::GET, headers)).unwrap_err();
            assert!(refused.detail.contains("`gristmill token create`"), "{headers:?}: {}", refused.detail);
        }
    }

    #[test]
    fn a_request_through_a_proxy_is_not_local() {
        let host = ("host", "127.0.0.1:7331");
        assert!(check_is_local(&request(Method::GET, &[host])).is_ok());
        for header in [("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=10.0.0.1"), ("via", "1.1 proxy")] {
            assert!(check_is_local(&request(Method::GET, &[host, header])).is_err(), "{header:?}");
        }
    }

    #[test]
    fn a_page_elsewhere_is_known_by_its_origin_or_its_address() {
        let of = |headers: &[(&'static str, &'static str)]| {
            let host = [("host", "127.0.0.1:7778")];
            is_of_page_elsewhere(request(Method::GET, &[&host, headers].concat()).headers())
        };
        for here in [&[][..], &[("origin", "http://127.0.0.1:7778")], &[("referer", "http://127.0.0.1:7778/a?b")]] {
            assert!(!of(here), "{here:?}");
        }
        for elsewhere in ["http://evil.example", "null", "", "http://127.0.0.1", "http://127.0.0.1:7778.evil.example/"]
        {
            assert!(of(&[("origin", elsewhere)]) && of(&[("referer", elsewhere)]), "{elsewhere}");
        }
        assert!(of(&[("origin", "http://127.0.0.1:7778"), ("referer", "http://evil.example/")]));
    }

    fn request(method: Method, headers: &[(&'static str, &'static str)]) -> Request {
        let mut request = Request::default();
        *request.method_mut() = method;
        for (name, value) in headers {
            request.headers_mut().append(*name, value.parse().unwrap());
        }
        request
    }

    #[test]
    fn what_a_page_can_send_by_itself_is_refused() {
        let announced = |media| vec![("content-length", "1"), ("content-type", media)];
        for media in
            ["text/plain", "TEXT/PLAIN; charset=x", "multipart/form-data", "x", "text/plain, image/png", "a/b(", ""]
        {
            assert!(check_origin(&request(Method::POST, &announced(media))).is_err(), "{media}");
        }
        for media in ["application/json", "Application/JSON; x", "image/png", "application/octet-stream"] {
            assert!(check_origin(&request(Method::POST, &announced(media))).is_ok(), "{media}");
        }
        let twice = [("content-type", "image/png"), ("content-type", "text/plain")];
        assert!(check_origin(&request(Method::POST, &twice)).is_err());
        assert!(check_origin(&request(Method::POST, &[])).is_err());
        assert!(check_origin(&request(Method::GET, &announced("text/plain"))).is_err());
        assert!(check_origin(&request(Method::GET, &[])).is_ok());
        // A browser asks before each of these.
        for method in [Method::PUT, Method::DELETE, Method::PATCH] {
            assert!(check_origin(&request(method, &announced("text/plain"))).is_ok());
        }
        let named = [("content-type", "text/plain"), ("idempotency-key", "k")];
        assert!(check_origin(&request(Method::POST, &named)).is_ok());
    }

    #[test]
    fn a_coding_is_read_whatever_the_case_of_its_letters() {
        let coded = |codings: &[&'static str]| {
            let named: Vec<_> = codings.iter().map(|coding| ("content-encoding", *coding)).collect();
            let mut request = request(Method::GET, &named);
            check(&mut request).map(|()| request.headers().get("content-encoding").cloned()).map_err(|no| no.code)
        };
        let known = |coding| Ok(Some(HeaderValue::from_static(coding)));
        assert_eq!((coded(&[]), coded(&["gzip"]), coded(&["GZip"])), (Ok(None), known("gzip"), known("gzip")));
        assert_eq!(coded(&["Identity"]), known("identity"));
        for wrong in [&["br"][..], &[""], &["gzip, gzip"], &["gzip", "gzip"], &["identity", "gzip"]] {
            assert_eq!(coded(wrong), Err(Code::MediaType), "{wrong:?}");
        }
    }
}
