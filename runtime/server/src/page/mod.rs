//! The page for people: files of `runtime/server/page`, which are in the binary. They use the public API and nothing else, so
//! they need no token; a person without one sees only a form that asks for it.

mod files;
mod script;

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use sha2::{Digest, Sha256};

use self::files::{File, served};
use crate::state::AppState;
use gristmill_config::PageSettings;

/// Scripts and styles come from this server only, a script cannot turn text into code, and no other site can frame the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// `/` and, below `/page/`, the files that it names. Nothing if the manifest turns the page off.
pub(crate) fn routes(settings: &PageSettings) -> Router<AppState> {
    let files = if settings.enabled { served() } else { Vec::new() };
    files.iter().fold(Router::new(), |router, file| {
        let page = Page::of(file);
        router.route(&file.path(), get(async move |headers: HeaderMap| page.answer(&headers)))
    })
}

/// A file with its headers.
#[derive(Debug, Clone)]
struct Page {
    bytes: Bytes,
    headers: HeaderMap,
}

impl Page {
    fn of(file: &File) -> Self {
        let text = file.text();
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::CONTENT_TYPE, file.media_type()),
            // Names stay the same from version to version, so browsers ask each time.
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let tag = format!("W/\"{}\"", hex::encode(Sha256::digest(text)));
        headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
        Self { bytes: Bytes::copy_from_slice(text.as_bytes()), headers }
    }

    /// The file, or 304 if the browser has it.
    fn answer(&self, request: &HeaderMap) -> Response {
        let known = request.get(header::IF_NONE_MATCH);
        let known = known.is_some_and(|known| Some(known) == self.headers.get(header::ETAG));
        let headers = self.headers.clone();
        if known {
            (StatusCode::NOT_MODIFIED, headers).into_response()
        } else {
            (headers, self.bytes.clone()).into_response()
        }
    }
}
