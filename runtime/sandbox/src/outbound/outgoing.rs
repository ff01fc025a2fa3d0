//! A guest's request, read with suspicion: what another server could misread is not sent.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::Method;
use url::Url;

use super::super::bindings::http::{HttpError, Request};
use gristmill_core::http_grant::HttpGrant;

pub(super) const URL_BYTES_MAX: usize = 8 << 10;
const METHOD_BYTES_MAX: usize = 32;
const HEADERS_MAX: usize = 100;
/// Names and values together.
pub(super) const HEADER_BYTES_MAX: usize = 32 << 10;
/// As many as browsers follow.
const REDIRECTS_MAX: u32 = 20;

/// Headers that say how a message is framed, to whom it goes or what becomes of its connection: the host's to set.
const OURS: [&str; 12] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "trailers",
    "expect",
    "http2-settings",
    "via",
];

/// A request that may be sent, if its URL is granted.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    /// Of http or https, with a host; no user, no password, no fragment, no dot at the host's end.
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// Empty: none is sent.
    pub(super) body: Bytes,
    /// For all of it.
    pub(super) timeout: Duration,
    /// How many redirects may still be followed.
    pub(super) redirects: u32,
}

impl Outgoing {
    /// # Errors
    /// `invalid` or `too-large`: the message names the part, and nothing that may be a secret.
    pub(super) fn read(request: Request, grant: &HttpGrant) -> Result<Self, HttpError> {
        let body = request.body.unwrap_or_default();
        if body.len() as u64 > grant.request_bytes {
            return Err(HttpError::TooLarge(grant.request_bytes));
        }
        Ok(Self {
            method: method(&request.method)?,
            url: read_url(&request.url)?,
            headers: headers(&request.headers)?,
            body: Bytes::from(body),
            timeout: request.timeout.map_or(grant.timeout, Duration::from_millis).min(grant.timeout),
            redirects: request.redirects.min(REDIRECTS_MAX),
        })
    }
}

fn method(text: &str) -> Result<Method, HttpError> {
    let token = Method::from_bytes(text.as_bytes()).ok().filter(|_| text.len() <= METHOD_BYTES_MAX);
    match token {
        // One makes a tunnel of the connection, the other sends headers back to where a guest could read them.
        Some(method) if ["CONNECT", "TRACE", "TRACK"].iter().any(|no| no.eq_ignore_ascii_case(method.as_str())) => {
            Err(invalid(format!("the method {method} is never sent")))
        }
        Some(method) => Ok(method),
        None => Err(invalid("the method is no token such as GET or POST")),
    }
}

/// Reads a URL strictly: whatever parsers are known to disagree on is refused, not repaired.
fn read_url(text: &str) -> Result<Url, HttpError> {
    if text.len() > URL_BYTES_MAX {
        return Err(invalid(format!("the URL is longer than {URL_BYTES_MAX} bytes")));
    }
    if text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '\\') {
        return Err(invalid("the URL has a space, a backslash or a control character"));
    }
    let url = Url::parse(text).map_err(|error| invalid(format!("the URL cannot be read: {error}")))?;
    if url.has_host() && !has_two_slashes(text) {
        return Err(invalid("the URL must begin like `https://host`"));
    }
    if url.fragment().is_some() {
        return Err(invalid("the URL has a fragment (`#…`), which is never sent"));
    }
    tidy(url)
}

/// `https:host` and `https:///host` are repaired by browsers and by our parser, and by no other parser.
fn has_two_slashes(text: &str) -> bool {
    let rest = text.split_once(':').and_then(|(_, rest)| rest.strip_prefix("//"));
    rest.is_some_and(|rest| !rest.starts_with('/'))
}

/// What holds for the URL of a redirect, too.
pub(super) fn tidy(mut url: Url) -> Result<Url, HttpError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HttpError::Denied(format!("the scheme `{}`: there are https and http", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("the URL has a user or a password: put them into the header `authorization`"));
    }
    // With its last dot a name is the same; without, every parser writes it alike.
    let shorter = url.domain().and_then(|name| name.strip_suffix('.')).map(str::to_owned);
    if let Some(name) = shorter {
        url.set_host(Some(&name)).map_err(|_| invalid("the URL has no host"))?;
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("the URL has no host"));
    }
    Ok(url)
}

fn headers(pairs: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if pairs.len() > HEADERS_MAX || bytes > HEADER_BYTES_MAX {
        return Err(invalid(format!("there are more than {HEADERS_MAX} headers, or {HEADER_BYTES_MAX} bytes of them")));
    }
    let mut headers = HeaderMap::with_capacity(pairs.len() + 4);
    for (number, (name, value)) in (1..).zip(pairs) {
        // A name that is none may be anything, even a value in the wrong place: it is not repeated.
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("the name of header {number} is no token such as `accept`")))?;
        if OURS.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
            return Err(invalid(format!("the header `{name}` is the host's to set")));
        }
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| invalid(format!("the value of `{name}` has a line break or a control character")))?;
        headers.append(name, value);
    }
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("gristmill/", env!("CARGO_PKG_VERSION"))));
    Ok(headers)
}

pub(super) fn invalid(problem: impl Into<String>) -> HttpError {
    HttpError::Invalid(problem.into())
}
