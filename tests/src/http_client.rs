//! Asks over HTTP, as any client would: one request a connection.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For an answer that should take milliseconds, or as long as was asked for: longer than any request may wait or compile.
const ANSWER_TIME: Duration = Duration::from_secs(200);

/// Somebody who knows where a server is, and perhaps a token.
#[derive(Debug, Clone)]
pub struct HttpClient {
    pub address: SocketAddr,
    pub token: Option<String>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl HttpClient {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, token: None }
    }

    /// The same server, with a token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.into()), ..self.clone() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path), Vec::new()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Request::delete(path).header("content-type", "application/json"), Vec::new()).await
    }

    /// A document, as JSON.
    pub async fn post(&self, path: &str, document: &Value) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request, serde_json::to_vec(document).unwrap()).await
    }

    /// Any request. A `Host` and the token are added.
    pub async fn send(&self, request: hyper::http::request::Builder, body: Vec<u8>) -> Answer {
        let answer = async {
            let response = self.begin(request, body).await;
            let (head, body) = response.into_parts();
            let body = body.collect().await.unwrap().to_bytes().to_vec();
            Answer { status: head.status.as_u16(), headers: head.headers, body }
        };
        timeout(ANSWER_TIME, answer).await.expect("an answer")
    }

    /// The same; `None` if no answer comes, for whatever reason.
    pub async fn try_send(&self, request: hyper::http::request::Builder, body: Vec<u8>) -> Option<Answer> {
        let answer = async {
            let (head, body) = self.try_begin(request, body).await.ok()?.into_parts();
            let body = body.collect().await.ok()?.to_bytes().to_vec();
            Some(Answer { status: head.status.as_u16(), headers: head.headers, body })
        };
        timeout(ANSWER_TIME, answer).await.ok()?
    }

    /// The same as [`Self::send`], and leaves the answer's body to be read: it may have no end.
    pub async fn begin(&self, request: hyper::http::request::Builder, body: Vec<u8>) -> Response<Incoming> {
        self.try_begin(request, body).await.unwrap()
    }

    async fn try_begin(
        &self,
        request: hyper::http::request::Builder,
        body: Vec<u8>,
    ) -> anyhow::Result<Response<Incoming>> {
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move { drop(connection.await) });
        let request = request.header("host", self.address.to_string());
        let request = match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        Ok(sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await?)
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header that every answer of this kind has.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no `{name}` in {:?}", self.headers)).to_str().unwrap()
    }
}
