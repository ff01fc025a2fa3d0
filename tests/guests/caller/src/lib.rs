//! A handler that sends requests: the guest of the tests of what a topic may reach.
//!
//! The payload is a list of [`Call`]s in JSON, the result a list of [`Reply`]s. It is not part of the puppet, because a
//! component that sends requests imports `http`, and runs only where that is granted.

#![allow(missing_docs, reason = "the tests are its only callers, and the names say what the fields are")]

use std::time::Duration;

use gristmill_guest::{Failure, Job, Json, config, context, handler, http, log};
use serde::{Deserialize, Serialize};

handler!(call_all);

/// A request, sent `times` over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Call {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
    /// As many `x` after the body.
    pub body_bytes: usize,
    pub timeout_ms: Option<u64>,
    pub redirects: u32,
    pub times: u32,
    /// The secret that takes the place of `$SECRET` in URL, headers and body. The handler does with it what it should not: it logs it, and saves
    /// it as a checkpoint.
    pub secret: Option<String>,
    /// Whether the job fails, to be tried again, if there is no answer.
    pub must: bool,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The body as text; what is not UTF-8 is replaced.
    Answer { status: u16, headers: Vec<(String, String)>, body: String, url: String },
    /// Such as `http-denied`.
    Error { code: String, message: String },
}

impl Default for Call {
    fn default() -> Self {
        Self {
            method: "GET".into(),
            url: String::new(),
            headers: Vec::new(),
            body: None,
            body_bytes: 0,
            timeout_ms: None,
            redirects: 0,
            times: 1,
            secret: None,
            must: false,
        }
    }
}

impl Call {
    pub fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// The payload of a job with one call.
    pub fn alone(self) -> Vec<u8> {
        payload(&[self])
    }
}

/// The payload of a job with these calls.
#[expect(clippy::expect_used, reason = "no map in it has a key that is no string")]
pub fn payload(calls: &[Call]) -> Vec<u8> {
    serde_json::to_vec(calls).expect("calls are JSON")
}

pub fn call_all(job: Job) -> Result<Json<Vec<Reply>>, Failure> {
    let calls: Vec<Call> = job.json()?;
    let repeated = calls.iter().flat_map(|call| (0..call.times).map(move |_| call));
    let replies: Result<Vec<_>, _> = repeated.map(|call| answered(call, reply(&with_secret(call)))).collect();
    Ok(Json(replies?))
}

fn answered(call: &Call, reply: Reply) -> Result<Reply, Failure> {
    match reply {
        Reply::Error { code, message } if call.must => Err(Failure::retry(&code, message)),
        reply => Ok(reply),
    }
}

fn with_secret(call: &Call) -> Call {
    let Some(name) = &call.secret else { return call.clone() };
    let secret = String::from_utf8(config::secret(name).unwrap_or_default()).unwrap_or_default();
    log::info(&secret, &[("secret", &secret)]);
    context::checkpoint(&secret).ok();
    let filled = |text: &String| text.replace("$SECRET", &secret);
    Call {
        url: filled(&call.url),
        headers: call.headers.iter().map(|(name, value)| (name.clone(), filled(value))).collect(),
        body: call.body.as_ref().map(filled),
        ..call.clone()
    }
}

fn reply(call: &Call) -> Reply {
    let mut request = http::request(&call.method, &call.url).redirects(call.redirects);
    for (name, value) in &call.headers {
        request = request.header(name, value);
    }
    if call.body.is_some() || call.body_bytes > 0 {
        let mut body = call.body.clone().unwrap_or_default().into_bytes();
        body.resize(body.len() + call.body_bytes, b'x');
        request = request.body(body);
    }
    if let Some(millis) = call.timeout_ms {
        request = request.timeout(Duration::from_millis(millis));
    }
    match request.send() {
        Ok(answer) => {
            let body = answer.text();
            Reply::Answer { status: answer.status, headers: answer.headers, body, url: answer.url }
        }
        Err(error) => Reply::Error { code: error.code().into(), message: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use gristmill_guest::testing::{Host, answer, job};

    use super::*;

    #[test]
    fn every_call_gets_its_reply() {
        let calls = payload(&[Call { times: 2, ..Call::get("https://a.example") }]);
        let run = Host::new().answer(answer(200).body("a").build()).run(call_all, job("t").body(calls));
        let replies: Vec<Reply> = run.json();
        assert!(matches!(&replies[0], Reply::Answer { status: 200, body, .. } if body == "a"));
        assert!(matches!(&replies[1], Reply::Error { code, .. } if code == "http-denied"));
    }
}
