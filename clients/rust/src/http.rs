//! Requests to a server.

use std::fmt;
use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Request;
use ureq::{Agent, Body, http};

/// If the server asks for more patience, the caller gets its error.
const MOST_WAIT: Duration = Duration::from_secs(60);
/// A stream is opened anew after this, whether or not it is silent.
const STREAM: Duration = Duration::from_secs(3600);

/// What the server refused, by its problem document.
#[derive(Debug, Clone)]
pub struct Error {
    /// A stable word, such as `job-unknown`. Without an answer `unreachable` or `wait-timeout`.
    pub code: String,
    /// The status in words.
    pub title: String,
    /// What is wrong.
    pub detail: String,
    /// Of HTTP; 0 without an answer.
    pub status: u16,
    /// How long the server asks to wait.
    pub retry_after: Duration,
}

impl Error {
    pub(crate) fn of(code: &str, title: &str, detail: impl Into<String>, status: u16) -> Self {
        Self { code: code.into(), title: title.into(), detail: detail.into(), status, retry_after: Duration::ZERO }
    }

    fn unreachable(cause: impl fmt::Display) -> Self {
        Self::of("unreachable", "No answer", format!("failed to get an answer of the server: {cause}"), 0)
    }

    /// Whether another try may go better.
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, 429 | 502..=504) || self.code == "unreachable"
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

impl std::error::Error for Error {}

/// What a client asks: a server, or a fake.
pub(crate) trait Transport: Send + Sync + fmt::Debug {
    /// The answer's document. `key` is the `Idempotency-Key`.
    fn once(&self, method: &str, path: &str, document: Option<&Value>, key: Option<&str>) -> Result<Value, Error>;
    fn open(&self, path: &str) -> Result<Box<dyn Read + Send>, Error>;
    /// Whether a request may have to be repeated.
    fn repeats(&self) -> bool;

    /// The same until it is answered, and how many tries that took.
    fn call(
        &self,
        method: &str,
        path: &str,
        document: Option<&Value>,
        key: Option<&str>,
        tries: u32,
    ) -> Result<(Value, u32), Error> {
        let mut tried = 1;
        loop {
            let error = match self.once(method, path, document, key) {
                Ok(answer) => return Ok((answer, tried)),
                Err(error) => error,
            };
            let backoff = Duration::from_millis(100) * 2_u32.pow(tried.min(10));
            let wait = (backoff / 2 + (backoff / 2).mul_f64((random() % 1000) as f64 / 1000.0)).max(error.retry_after);
            if tried >= tries || !error.is_temporary() || wait > MOST_WAIT {
                return Err(error);
            }
            std::thread::sleep(wait);
            tried += 1;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) agent: Agent,
    pub(crate) url: String,
    pub(crate) token: Option<String>,
}

impl Http {
    pub(crate) fn new(url: &str, token: Option<String>) -> Self {
        let config = Agent::config_builder().http_status_as_error(false);
        #[cfg(feature = "tls")]
        let config = if url.starts_with("https:") { config.tls_config(tls()) } else { config };
        Self { agent: config.build().into(), url: url.trim_end_matches('/').into(), token }
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        document: Option<&Value>,
        key: Option<&str>,
        bound: Duration,
    ) -> Result<Body, Error> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let token = self.token.as_ref().map(|token| format!("Bearer {token}"));
        for (name, value) in [("authorization", token.as_deref()), ("idempotency-key", key)] {
            request = if let Some(value) = value { request.header(name, value) } else { request };
        }
        let sent = if let Some(document) = document {
            let request = request.header("content-type", "application/json").body(document.to_string());
            let request = self.agent.configure_request(request.map_err(Error::unreachable)?);
            self.agent.run(request.timeout_global(Some(bound)).build())
        } else {
            let request = self.agent.configure_request(request.body(()).map_err(Error::unreachable)?);
            self.agent.run(request.timeout_global(Some(bound)).build())
        };
        let (head, mut body) = sent.map_err(Error::unreachable)?.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let text = body.read_to_string().map_err(Error::unreachable)?;
        Err(problem(head.status.as_u16(), &head.headers, &text))
    }
}

impl Transport for Http {
    fn once(&self, method: &str, path: &str, document: Option<&Value>, key: Option<&str>) -> Result<Value, Error> {
        let body = self.send(method, path, document, key, Duration::from_secs(60))?;
        serde_json::from_reader(body.into_reader()).map_err(Error::unreachable)
    }

    fn open(&self, path: &str) -> Result<Box<dyn Read + Send>, Error> {
        Ok(Box::new(self.send("GET", path, None, None, STREAM)?.into_reader()))
    }

    fn repeats(&self) -> bool {
        true
    }
}

fn problem(status: u16, headers: &http::HeaderMap, text: &str) -> Error {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let said: Value = serde_json::from_str(text).unwrap_or_default();
    let mut error = match said["code"].as_str() {
        Some(code) => Error::of(
            code,
            said["title"].as_str().unwrap_or_default(),
            said["detail"].as_str().unwrap_or_default(),
            status,
        ),
        None => Error::of("no-problem-document", "Not an answer of Gristmill", text, status), // of a proxy
    };
    error.retry_after = Duration::from_secs(header("retry-after").parse().unwrap_or(0));
    error
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
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// A name that nobody else has.
pub(crate) fn unique_name() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// A part of a path.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
