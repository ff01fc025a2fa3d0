//! What a redirect asks for: the next request, as RFC 9110 §15.4 and browsers have it.

use bytes::Bytes;
use hyper::Response;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderName, LOCATION, PROXY_AUTHORIZATION};
use hyper::http::{Method, StatusCode};

use super::super::bindings::http::HttpError;
use super::outgoing::{Outgoing, URL_BYTES_MAX, tidy};

/// The request that follows; `None` if this is not a redirect, no more redirects are wanted, or it names no location.
///
/// It is held to the grant like any other. Whose origin is another gets neither credentials nor cookies.
///
/// # Errors
/// It leads where no request can go: to another scheme, or to a URL with a user in it.
pub(super) fn next<B>(request: &Outgoing, response: &Response<B>) -> Option<Result<Outgoing, HttpError>> {
    let location = response.headers().get(LOCATION).filter(|_| request.redirects > 0)?.to_str().ok()?;
    let status = response.status();
    let keeps_method = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request.method != Method::POST,
        StatusCode::SEE_OTHER => request.method == Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        _ => return None,
    };
    let mut url = request.url.join(location).ok()?;
    url.set_fragment(None);
    if url.as_str().len() > URL_BYTES_MAX {
        return Some(Err(HttpError::Denied(format!("a redirect: the URL is longer than {URL_BYTES_MAX} bytes"))));
    }
    let url = match tidy(url) {
        Ok(url) => url,
        Err(HttpError::Denied(what) | HttpError::Invalid(what)) => {
            return Some(Err(HttpError::Denied(format!("a redirect: {what}"))));
        }
        Err(other) => return Some(Err(other)),
    };
    let mut next = Outgoing { redirects: request.redirects - 1, ..request.clone() };
    if url.origin() != next.url.origin() {
        drop_all(&mut next, &[AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION]);
    }
    if !keeps_method {
        next.method = Method::GET;
        next.body = Bytes::new();
        drop_all(
            &mut next,
            &["content-type", "content-encoding", "content-language", "content-location"].map(HeaderName::from_static),
        );
    }
    next.url = url;
    Some(Ok(next))
}

fn drop_all(request: &mut Outgoing, names: &[HeaderName]) {
    for name in names {
        request.headers.remove(name);
    }
}
