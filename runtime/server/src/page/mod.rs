//! The page for people: files of `runtime/server/page`, which the build script has joined and compressed into the binary. They use the
//! public API and nothing else, so they need no token; a person without one sees only a form that asks for it.

#[cfg(test)]
mod files;
#[cfg(test)]
mod script;

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::state::AppState;
use gristmill_config::PageSettings;

/// Scripts and styles come from this server only, a script cannot turn text into code, and no other site can frame the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

macro_rules! files {
    ($($path:literal $name:literal $media_type:literal)*) => {
        [$(File {
            path: $path,
            media_type: $media_type,
            plain: include_bytes!(concat!(env!("OUT_DIR"), "/page/", $name)),
            compressed: include_bytes!(concat!(env!("OUT_DIR"), "/page/", $name, ".gz")),
        }),*]
    };
}

const FILES: [File; 3] = files![
    "/" "index.html" "text/html; charset=utf-8"
    "/page/style.css" "style.css" "text/css; charset=utf-8"
    "/page/app.js" "app.js" "text/javascript; charset=utf-8"
];

/// A file as it is in the binary: for browsers, and for clients that take no gzip.
#[derive(Debug)]
struct File {
    path: &'static str,
    media_type: &'static str,
    plain: &'static [u8],
    compressed: &'static [u8],
}

/// `/` and, below `/page/`, the files that it names. Nothing if the manifest turns the page off.
pub(crate) fn routes(settings: &PageSettings) -> Router<AppState> {
    let files = if settings.enabled { &FILES[..] } else { &[] };
    files.iter().fold(Router::new(), |router, file| {
        let page = Page::of(file);
        router.route(file.path, get(async move |headers: HeaderMap| page.answer(&headers)))
    })
}

/// A file with its headers.
#[derive(Debug, Clone)]
struct Page {
    file: &'static File,
    headers: HeaderMap,
}

impl Page {
    fn of(file: &'static File) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::CONTENT_TYPE, file.media_type),
            // Names stay the same from version to version, so browsers ask each time.
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::VARY, "accept-encoding"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let tag = format!("W/\"{}\"", hex::encode(Sha256::digest(file.plain)));
        headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
        Self { file, headers }
    }

    /// The file, or 304 if the browser has it.
    fn answer(&self, request: &HeaderMap) -> Response {
        let known = request.get(header::IF_NONE_MATCH);
        let known = known.is_some_and(|known| Some(known) == self.headers.get(header::ETAG));
        let mut headers = self.headers.clone();
        let codings =
            request.get(header::ACCEPT_ENCODING).and_then(|codings| codings.to_str().ok()).unwrap_or_default();
        if known {
            (StatusCode::NOT_MODIFIED, headers).into_response()
        } else if codings.split(',').any(|coding| coding.trim() == "gzip") {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            (headers, Bytes::from_static(self.file.compressed)).into_response()
        } else {
            (headers, Bytes::from_static(self.file.plain)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;

    use super::*;

    /// Bytes of all files together, as they are and compressed.
    const PLAIN: usize = 200_000;
    const COMPRESSED: usize = 60_000;

    #[test]
    fn the_page_is_small() {
        let sum = |of: fn(&File) -> usize| FILES.iter().map(of).sum::<usize>();
        let (plain, compressed) = (sum(|file| file.plain.len()), sum(|file| file.compressed.len()));
        assert!(plain <= PLAIN && compressed <= COMPRESSED, "{plain} bytes, {compressed} compressed");
    }

    #[test]
    fn the_build_script_has_made_the_files_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        for (file, (name, text)) in FILES.iter().zip(files::served(&folder).unwrap()) {
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(file.compressed).read_to_end(&mut unpacked).unwrap();
            assert!(file.plain == text.as_bytes() && unpacked == file.plain, "{name}");
        }
    }
}
