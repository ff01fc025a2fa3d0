//! Requests to a server.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::{Agent, Body};

use crate::types::Error;

/// For an answer. A stream is opened anew after the longer one, whether or not it is silent.
pub(crate) const ANSWER: Duration = Duration::from_secs(60);
pub(crate) const STREAM: Duration = Duration::from_secs(3600);

/// The body of a good answer.
pub(crate) type Reader = Box<dyn Read + Send>;

/// The document of a request, and its `Idempotency-Key`.
pub(crate) type Document<'a> = Option<&'a Value>;
pub(crate) type Key<'a> = Option<&'a str>;

/// A request, and how long it may take.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) document: Document<'a>,
    pub(crate) key: Key<'a>,
    pub(crate) time: Duration,
}

/// What a client asks: a server, or a fake.
pub(crate) trait Transport: Send + Sync + fmt::Debug {
    fn send(&self, asked: &Asked<'_>) -> Result<Reader, Error>;
}

#[derive(Debug)]
pub(crate) struct Http {
    agent: Agent,
    url: String,
    token: Option<String>,
}

impl Http {
    pub(crate) fn new(url: &str, token: Option<String>) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0);
        #[cfg(feature = "tls")]
        let config = if url.starts_with("https:") { config.tls_config(tls()) } else { config };
        Self { agent: config.build().into(), url: url.trim_end_matches('/').into(), token }
    }

    fn exchange(&self, asked: &Asked<'_>) -> Result<Response<Body>, ureq::Error> {
        let mut request = Request::builder().method(asked.method).uri(format!("{}{}", self.url, asked.path));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(key) = asked.key {
            request = request.header("idempotency-key", key);
        }
        let body = asked.document.map(Value::to_string).unwrap_or_default();
        let request = request.header("content-type", "application/json").body(body)?;
        self.agent.run(self.agent.configure_request(request).timeout_global(Some(asked.time)).build())
    }
}

impl Transport for Http {
    fn send(&self, asked: &Asked<'_>) -> Result<Reader, Error> {
        // Without the user and the password of the address: they are nobody's business in a log.
        let server = self.url.rsplit('@').next().unwrap_or_default();
        let no_answer = |cause| {
            no_answer_of(&format!("the server at {server}"), format!("{cause}; does it run there, with that scheme?"))
        };
        let (head, mut body) = self.exchange(asked).map_err(no_answer)?.into_parts();
        if head.status.is_success() {
            return Ok(Box::new(body.into_reader()));
        }
        let text = body.read_to_string().map_err(no_answer)?;
        let problem: Value = serde_json::from_str(&text).unwrap_or_default(); // nothing in it: a proxy's answer
        let named = |name: &str, other| problem[name].as_str().unwrap_or(other);
        let elsewhere =
            head.headers.get("location").and_then(|to| to.to_str().ok()).filter(|_| head.status.is_redirection());
        let text = elsewhere.map_or(text, |to| format!("the server redirects to {to}: name that address"));
        let (title, detail) = (named("title", "Not an answer of Gristmill"), named("detail", &text));
        let mut error = Error::of(named("code", "no-problem-document"), title, detail, head.status.as_u16());
        let after = head.headers.get("retry-after").and_then(|it| it.to_str().ok()?.parse().ok());
        error.retry_after = Duration::from_secs(after.unwrap_or(0));
        Err(error)
    }
}

pub(crate) fn no_answer(cause: impl fmt::Display) -> Error {
    no_answer_of("the server", cause)
}

fn no_answer_of(server: &str, cause: impl fmt::Display) -> Error {
    Error::of("unreachable", "No answer", format!("failed to get an answer of {server}: {cause}"), 0)
}

#[cfg(feature = "tls")]
fn tls() -> ureq::tls::TlsConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted = trusted.iter().map(|certificate| ureq::tls::Certificate::from_der(certificate).to_owned());
    let roots = ureq::tls::RootCerts::from(trusted.collect::<Vec<_>>());
    ureq::tls::TlsConfig::builder().unversioned_rustls_crypto_provider(provider).root_certs(roots).build()
}

/// A number that nobody else has: the standard library seeds each such hasher from the system.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A part of a path.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
