//! One connection for each request: commands send few requests.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::body::Bytes;
use axum::http::{HeaderName, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::address::{ServerAddress, Stream};
use crate::problem::{Code, Problem, UNCONFIRMED};
use crate::serve::accept::HttpService;
use crate::wire::MEANT_STORE;
use gristmill_core::token::TokenText;
use gristmill_store::{StoreError, StoreId};

const CONNECT_TIME: Duration = Duration::from_secs(2);
/// A little more than the server gives itself, so that it can say what took so long.
const ANSWER_TIME: Duration = Duration::from_secs(25);
/// The most that an answer may bring: a page of dead jobs. The first may be as large as a job can be.
const ANSWER_BYTES: usize = 256 << 20;

/// A server, by its address.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) address: ServerAddress,
    /// As errors name it.
    pub(super) name: String,
    /// Sent with every request.
    pub(super) token: Option<TokenText>,
    /// The store that every request is meant for, once it is known.
    pub(super) meant: Option<StoreId>,
    /// It is in this process, and at no address.
    pub(super) inside: Option<Arc<HttpService>>,
}

/// What was asked for makes no sense, or is larger than allowed: the source of a [`StoreError::Refused`]. No repetition helps, and nothing is
/// wrong with the store.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongRequest(pub String);

/// A request.
#[derive(Debug)]
pub(super) struct Question {
    method: Method,
    path: String,
    body: Option<Vec<u8>>,
    /// What the body is.
    media: &'static str,
    /// The only version of what is named that the request is about.
    version: Option<u64>,
    /// Its `Idempotency-Key`.
    key: Option<String>,
    /// How long the answer may take.
    patience: Duration,
    /// As in "failed to …".
    doing: &'static str,
}

impl Question {
    pub(super) fn get(path: String, doing: &'static str) -> Self {
        Self::new(Method::GET, path, None, doing)
    }

    pub(super) fn post<T: Serialize>(path: String, body: &T, doing: &'static str) -> Self {
        Self::bring(Method::POST, path, body, doing)
    }

    pub(super) fn put<T: Serialize>(path: String, body: &T, doing: &'static str) -> Self {
        Self::bring(Method::PUT, path, body, doing)
    }

    pub(super) fn delete(path: String, doing: &'static str) -> Self {
        Self::new(Method::DELETE, path, Some(Vec::new()), doing)
    }

    fn bring<T: Serialize>(method: Method, path: String, body: &T, doing: &'static str) -> Self {
        // Every type that is sent can be written as JSON.
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self::new(method, path, Some(body), doing)
    }

    fn new(method: Method, path: String, body: Option<Vec<u8>>, doing: &'static str) -> Self {
        Self { method, path, body, media: "application/json", version: None, key: None, patience: ANSWER_TIME, doing }
    }

    /// One that brings a component, which the server may have to compile.
    pub(super) fn put_component(path: String, wasm: Vec<u8>, patience: Duration, doing: &'static str) -> Self {
        Self { patience, media: "application/wasm", ..Self::new(Method::PUT, path, Some(wasm), doing) }
    }

    /// The same with this `Idempotency-Key`, if there is one.
    pub(super) fn named(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// The same about this version only, if one is named.
    pub(super) fn if_version(self, version: Option<u64>) -> Self {
        Self { version, ..self }
    }
}

impl Server {
    /// Asks, and reads the answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, question: Question) -> Result<T, StoreError> {
        let doing = question.doing;
        self.ask_if_known(question).await?.map_err(|problem| self.refused(doing, &problem))
    }

    /// The same. `None`: the server refuses with one of these codes, since it does not know what is asked about.
    pub(super) async fn ask_about<T: DeserializeOwned>(
        &self,
        question: Question,
        unknown: &[Code],
    ) -> Result<Option<T>, StoreError> {
        let doing = question.doing;
        match self.ask_if_known(question).await? {
            Ok(answer) => Ok(Some(answer)),
            Err(problem) if unknown.contains(&problem.code) => Ok(None),
            Err(problem) => Err(self.refused(doing, &problem)),
        }
    }

    /// The same, but a refusal with a reason is no error.
    pub(super) async fn ask_if_known<T: DeserializeOwned>(
        &self,
        question: Question,
    ) -> Result<Result<T, Problem>, StoreError> {
        let (doing, patience) = (question.doing, question.patience);
        let answer = async {
            let (status, body) = self.exchange(question).await.map_err(|error| self.unavailable(error))?;
            self.read(doing, status, &body)
        };
        tokio::time::timeout(patience, answer).await.unwrap_or_else(|_| Err(self.unavailable(too_slow())))
    }

    /// Asks for an answer that goes on.
    pub(super) async fn listen(&self, question: Question) -> Result<Incoming, StoreError> {
        let doing = question.doing;
        let response = tokio::time::timeout(ANSWER_TIME, self.send(question));
        let response = response.await.unwrap_or_else(|_| Err(too_slow())).map_err(|error| self.unavailable(error))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let status = response.status();
        let body = collect(response).await.map_err(|error| self.unavailable(error))?;
        let answer: Result<serde_json::Value, Problem> = self.read(doing, status, &body)?;
        let unexpected = || Problem::new(Code::Other, "an answer that is none");
        Err(self.refused(doing, &answer.err().unwrap_or_else(unexpected)))
    }

    async fn exchange(&self, question: Question) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = self.send(question).await?;
        Ok((response.status(), collect(response).await?))
    }

    async fn send(&self, question: Question) -> anyhow::Result<Response<Incoming>> {
        let connecting = async {
            match &self.inside {
                Some(inside) => Ok(Box::new(inside.connect().await?) as Box<dyn Stream>),
                None => self.address.connect().await,
            }
        };
        let stream = tokio::time::timeout(CONNECT_TIME, connecting).await.map_err(|_| too_slow())??;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The connection ends with the answer, or when the answer is dropped.
        tokio::spawn(async move { drop(connection.await) });
        let answer = sender.send_request(self.request(question)?).await;
        let answer = answer.map_err(|error| match error.is_parse() {
            true => anyhow!("its answer is no HTTP ({error}): {}", self.address.remedy()),
            false => error.into(),
        })?;
        match answer.headers().get(header::LOCATION) {
            Some(elsewhere) if answer.status().is_redirection() => {
                bail!("it redirects to {}: name that address", String::from_utf8_lossy(elsewhere.as_bytes()))
            }
            _ => Ok(answer),
        }
    }

    fn request(&self, question: Question) -> anyhow::Result<Request<Full<Bytes>>> {
        let Question { method, path, body, media, version, key, .. } = question;
        let path = format!("{}{path}", self.address.path());
        let request = Request::builder().method(method).uri(path).header(header::HOST, self.address.authority());
        let headers = [
            (header::AUTHORIZATION, self.token.as_ref().map(|token| format!("Bearer {}", token.as_str()))),
            (MEANT_STORE, self.meant.as_ref().map(StoreId::to_string)),
            (header::CONTENT_TYPE, body.as_ref().map(|_| media.to_owned())),
            (header::IF_MATCH, version.map(|version| format!("\"{version}\""))),
            (HeaderName::from_static("idempotency-key"), key),
        ];
        let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        request.body(Full::from(body.unwrap_or_default())).context("failed to make a request")
    }

    fn read<T: DeserializeOwned>(
        &self,
        doing: &'static str,
        status: StatusCode,
        body: &[u8],
    ) -> Result<Result<T, Problem>, StoreError> {
        let misread = |source: anyhow::Error| StoreError::Refused { store: self.name.clone(), doing, source };
        if status.is_success() {
            let answer = serde_json::from_slice(body).context("its answer makes no sense: is it another version?");
            return answer.map(Ok).map_err(misread);
        }
        let problem: Problem = serde_json::from_slice(body)
            .map_err(|_| misread(anyhow!("it answered {status} and no reason: is it a gristmill?")))?;
        let store = problem.store.clone().unwrap_or_else(|| self.name.clone());
        match problem.code {
            Code::StoreUnavailable | Code::Timeout => {
                Err(StoreError::Unavailable { store, source: anyhow!(problem.detail) })
            }
            // The error itself says that the jobs are stored.
            Code::Unconfirmed => {
                let why = problem.detail.strip_prefix(UNCONFIRMED).unwrap_or(&problem.detail).to_owned();
                Err(StoreError::Unconfirmed { store, source: anyhow!(why) })
            }
            _ => Ok(Err(problem)),
        }
    }

    pub(super) fn refused(&self, doing: &'static str, problem: &Problem) -> StoreError {
        let store = problem.store.clone().unwrap_or_else(|| self.name.clone());
        let source = match (problem.code, &problem.tenant) {
            (Code::Forbidden, Some(own)) => {
                anyhow!(
                    "{} (commands name that tenant with --tenant {own}, or before a topic: {own}/TOPIC)",
                    problem.detail
                )
            }
            (Code::TokenMissing | Code::TokenInvalid, _) => {
                anyhow!("{} (commands say one with --token or GRISTMILL_TOKEN)", problem.detail)
            }
            (Code::BadRequest | Code::TooLarge, _) => anyhow::Error::new(WrongRequest(problem.detail.clone())),
            _ => anyhow!("{}", problem.detail),
        };
        StoreError::Refused { store, doing, source }
    }

    fn unavailable(&self, source: anyhow::Error) -> StoreError {
        StoreError::Unavailable { store: self.name.clone(), source }
    }
}

/// Whether a server lives, or whether it is ready for jobs: what it says about that.
///
/// # Errors
/// It does not answer, or it is not ready; the text says why.
pub async fn health(address: ServerAddress, ready: bool) -> anyhow::Result<String> {
    let name = address.to_string();
    let path = if ready { "/readyz" } else { "/healthz" };
    let server = Server { address, name: name.clone(), token: None, meant: None, inside: None };
    let answer = tokio::time::timeout(ANSWER_TIME, server.exchange(Question::get(path.into(), "say how it is")));
    let answer = answer.await.unwrap_or_else(|_| Err(too_slow()));
    let (status, body) = answer.with_context(|| format!("failed to ask {name} for {path}"))?;
    if status.is_success() {
        return Ok(String::from_utf8_lossy(&body).into_owned());
    }
    let problem: Option<Problem> = serde_json::from_slice(&body).ok();
    let why = problem.map_or_else(|| format!("it answered {status}"), |problem| problem.detail);
    bail!("{name} is not {}: {why}", if ready { "ready" } else { "healthy" })
}

async fn collect(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    match Limited::new(response.into_body(), ANSWER_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => bail!("the answer broke off: {error}"),
    }
}

fn too_slow() -> anyhow::Error {
    anyhow!("it does not answer")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What a server that answers this says about its health.
    async fn health_of(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().into();
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            // An answer before the question would be another mistake.
            stream.read_u8().await.unwrap();
            stream.write_all(answer).await.unwrap();
            stream
        };
        let (asked, _stream) = tokio::join!(health(address, false), answer);
        format!("{:#}", asked.unwrap_err())
    }

    #[tokio::test]
    async fn a_server_elsewhere_is_named_with_the_remedy() {
        // An alert is what TLS answers to what it does not know.
        let error = health_of(b"\x15\x03\x03\0\x02\x02\x32").await;
        assert!(error.contains("http://127.0.0.1:") && error.contains("write https:// in place of http://"), "{error}");
        let error = health_of(b"HTTP/1.1 301 Moved Permanently\r\nLocation: https://jobs.example.org/\r\n\r\n").await;
        assert!(error.ends_with("it redirects to https://jobs.example.org/: name that address"), "{error}");
    }
}
