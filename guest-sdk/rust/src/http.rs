//! Requests over HTTP, to the hosts that the manifest grants this topic.
//!
//! ```
//! # use std::time::Duration;
//! # use gristmill_guest::{Failure, http};
//! # fn handle(order: &str) -> Result<(), Failure> {
//! let answer = http::post("https://api.example.com/orders")
//!     .header("content-type", "application/json")
//!     .header("idempotency-key", order)
//!     .body(order)
//!     .timeout(Duration::from_secs(5))
//!     .send()?; // a request that is not granted is rejected, one without an answer is retried
//! if !answer.is_success() {
//!     return Err(Failure::retry("upstream", format!("it said {}", answer.status)));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A component that uses this module imports `gristmill:job/http`, and runs only where `[topics.NAME.http]` is granted.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::Failure;
use crate::bindings::http::gristmill::job::http as wire;
pub use crate::bindings::http::gristmill::job::http::Response;
use crate::host::http as host;
use crate::outcome::whole_millis;

/// Begins a GET.
pub fn get(url: impl Into<String>) -> Request {
    request("GET", url)
}

/// Begins a POST.
pub fn post(url: impl Into<String>) -> Request {
    request("POST", url)
}

/// Begins a PUT.
pub fn put(url: impl Into<String>) -> Request {
    request("PUT", url)
}

/// Begins a DELETE.
pub fn delete(url: impl Into<String>) -> Request {
    request("DELETE", url)
}

/// Begins a request with any other method.
pub fn request(method: impl Into<String>, url: impl Into<String>) -> Request {
    let (method, url) = (method.into(), url.into());
    Request(wire::Request { method, url, headers: Vec::new(), body: None, timeout: None, redirects: 0 })
}

/// A request in the making.
#[derive(Debug, Clone)]
#[must_use = "a request is sent by `.send()`"]
pub struct Request(wire::Request);

impl Request {
    /// Adds a header; names may repeat. `host`, `content-length`, `connection` and their like are the host's to set.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.headers.push((name.into(), value.into()));
        self
    }

    /// Bytes or text, as they are. Say what they are with the header `content-type`.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.0.body = Some(body.into());
        self
    }

    /// For all of it, redirects included; in whole milliseconds, and no longer than the topic is granted.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.0.timeout = Some(whole_millis(limit));
        self
    }

    /// Follows this many redirects, 20 at most, each checked like a request of its own. None unless asked for: then the
    /// redirect itself is the answer.
    pub fn redirects(mut self, count: u32) -> Self {
        self.0.redirects = count;
        self
    }

    /// Sends it and waits for the whole answer, whatever its status.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn send(self) -> Result<Response, Error> {
        host::send(&self.0).map_err(Error::from)
    }
}

impl Response {
    /// Whether the status is one of 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first value of this header, in whatever case it is asked for.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    ///
    /// Retries with the code `bad-answer`: an answer that is no such JSON is seldom what its sender means to say twice.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Failure> {
        let answer = serde_json::from_slice(&self.body);
        answer.map_err(|error| Failure::retry("bad-answer", format!("the answer is not the expected JSON: {error}")))
    }
}

/// Why there is no answer. Through `?` it fails the attempt: with a retry if another try may end differently, else with
/// a reject.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum Error {
    /// The manifest does not let this topic go there; what was refused.
    Denied(String),
    /// The request cannot be sent; what is wrong with it.
    Invalid(String),
    /// No whole answer in time.
    Timeout,
    /// The request's body or the answer is larger than granted.
    TooLarge { limit_bytes: u64 },
    /// This attempt has sent as many requests as it may.
    TooMany { limit: u32 },
    /// Nothing answers there, or it broke off.
    Unreachable(String),
}

impl Error {
    /// Whether another try may end differently.
    pub fn is_worth_a_retry(&self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable(_))
    }

    /// Stable, for machines: such as `http-denied`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied(_) => "http-denied",
            Self::Invalid(_) => "http-invalid",
            Self::Timeout => "http-timeout",
            Self::TooLarge { .. } => "http-too-large",
            Self::TooMany { .. } => "http-too-many",
            Self::Unreachable(_) => "http-unreachable",
        }
    }
}

impl From<wire::HttpError> for Error {
    fn from(error: wire::HttpError) -> Self {
        match error {
            wire::HttpError::Denied(what) => Self::Denied(what),
            wire::HttpError::Invalid(problem) => Self::Invalid(problem),
            wire::HttpError::Timeout => Self::Timeout,
            wire::HttpError::TooLarge(limit_bytes) => Self::TooLarge { limit_bytes },
            wire::HttpError::TooMany(limit) => Self::TooMany { limit },
            wire::HttpError::Unreachable(why) => Self::Unreachable(why),
        }
    }
}

#[cfg(not(target_family = "wasm"))]
impl From<Error> for wire::HttpError {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied(what) => Self::Denied(what),
            Error::Invalid(problem) => Self::Invalid(problem),
            Error::Timeout => Self::Timeout,
            Error::TooLarge { limit_bytes } => Self::TooLarge(limit_bytes),
            Error::TooMany { limit } => Self::TooMany(limit),
            Error::Unreachable(why) => Self::Unreachable(why),
        }
    }
}

/// It does not implement `std::error::Error`: that conversion makes a retry of every error, and some of these are not worth one.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        if error.is_worth_a_retry() { Self::retry(error.code(), message) } else { Self::reject(error.code(), message) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(what) => write!(f, "the request is not granted: {what}"),
            Self::Invalid(problem) => write!(f, "the request cannot be sent: {problem}"),
            Self::Timeout => write!(f, "no answer in time"),
            Self::TooLarge { limit_bytes } => write!(f, "the request or its answer is larger than {limit_bytes} bytes"),
            Self::TooMany { limit } => write!(f, "one attempt may send no more than {limit} requests"),
            Self::Unreachable(why) => write!(f, "nothing answers: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Host, job};

    #[test]
    fn a_request_carries_everything_it_was_given() {
        let send = |_| -> Result<String, Failure> {
            let request = post("https://a.example/b").header("x", "1").header("x", "2").body("c");
            Ok(request.timeout(Duration::from_secs(2)).redirects(3).send()?.text())
        };
        let run = Host::new().answer(testing::answer(200).body("fine").build()).run(send, job("t"));
        assert_eq!(run.text(), "fine");
        let [request] = run.requests() else { panic!("one request: {run:?}") };
        assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://a.example/b"));
        assert_eq!(request.headers, [("x".into(), "1".into()), ("x".into(), "2".into())]);
        assert_eq!((request.body.as_deref(), request.timeout), (Some(&b"c"[..]), Some(2_000)));
        assert_eq!(request.redirects, 3);
    }

    #[test]
    fn answers_come_in_the_order_they_were_queued_and_then_nothing_is_granted() {
        let send = |_| -> Result<String, Failure> {
            let first = get("https://a.example").send()?.status;
            let second = get("https://a.example").send();
            let third = delete("https://a.example").send();
            Ok(format!("{first} {second:?} {}", third.is_err()))
        };
        let host = Host::new().answer(testing::answer(404).build()).no_answer(Error::Timeout);
        assert_eq!(host.run(send, job("t")).text(), "404 Err(Timeout) true");
    }

    #[test]
    fn an_answer_is_looked_at() {
        let answer = testing::answer(201).header("Retry-After", "7").body("{\"id\": 5}").build();
        assert!(answer.is_success());
        assert_eq!((answer.header("retry-after"), answer.header("x")), (Some("7"), None));
        assert_eq!(answer.json(), Ok(std::collections::BTreeMap::from([("id", 5)])));
        let failure = answer.json::<Vec<u8>>().expect_err("it is no list");
        assert_eq!((failure.code(), failure.is_retry()), ("bad-answer", true));
    }

    #[test]
    fn an_error_says_whether_another_try_is_worth_it() {
        for error in [Error::Timeout, Error::Unreachable("x".into())] {
            assert!(Failure::from(error.clone()).is_retry(), "{error}");
        }
        let never = [
            Error::Denied("x".into()),
            Error::Invalid("x".into()),
            Error::TooLarge { limit_bytes: 1 },
            Error::TooMany { limit: 1 },
        ];
        for error in never {
            let failure = Failure::from(error.clone());
            assert!(!failure.is_retry() && failure.code() == error.code(), "{error}");
        }
    }
}
