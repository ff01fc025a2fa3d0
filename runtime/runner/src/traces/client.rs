//! The HTTP client of the exporter: HTTP/1.1, with or without TLS.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio_rustls::rustls::crypto::ring;

/// An answer is empty, or says how many spans were refused and why.
const ANSWER_BYTES: usize = 1 << 20;

/// Keeps its connections. The client that comes with OpenTelemetry would bring HTTP/2 along.
#[derive(Debug)]
pub(super) struct Client {
    client: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    answer_time: Duration,
}

impl Client {
    /// # Errors
    /// The machine trusts no certificate authority.
    pub(super) fn new(answer_time: Duration) -> io::Result<Self> {
        let builder = HttpsConnectorBuilder::new().with_provider_and_native_roots(ring::default_provider())?;
        let connector = builder.https_or_http().enable_http1().build();
        Ok(Self { client: legacy::Client::builder(TokioExecutor::new()).build(connector), answer_time })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = self.client.request(request.map(Full::from)).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        tokio::time::timeout(self.answer_time, self.exchange(request)).await?
    }
}
