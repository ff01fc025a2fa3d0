//! Sends spans to the collector: OTLP over HTTP, many with one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
pub(super) use opentelemetry_sdk::trace::SpanData;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::sync::mpsc;
use url::Url;

use super::client::Client;
use gristmill_core::job::WorkerId;

/// Spans of one request.
const AT_ONCE: usize = 512;
/// How long a span waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// For one request.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Why no spans can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The machine trusts no certificate authority.
    #[error(
        "[otel]: this machine trusts no certificate authority: install its ca-certificates, or name a file with SSL_CERT_FILE"
    )]
    Roots(#[source] std::io::Error),
    /// A setting of the environment makes no sense.
    #[error("[otel]: what the environment says in OTEL_EXPORTER_OTLP_… is no address")]
    Environment(#[source] ExporterBuildError),
}

/// The collector.
#[derive(Debug)]
pub(super) struct Collector {
    exporter: SpanExporter,
    lost: Arc<AtomicU64>,
    /// The last request failed, and was warned of.
    failing: bool,
}

impl Collector {
    /// `endpoint` is the base address; without one, the environment says it. Tokens and other headers are in
    /// `OTEL_EXPORTER_OTLP_HEADERS`; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say what this service is.
    pub(super) fn new(endpoint: Option<&Url>, worker: &WorkerId, lost: Arc<AtomicU64>) -> Result<Self, TracesError> {
        let builder = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(ANSWER_TIME)
            .with_http_client(Client::new(ANSWER_TIME).map_err(TracesError::Roots)?);
        let builder = match endpoint {
            Some(endpoint) => builder.with_endpoint(format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/'))),
            None => builder,
        };
        let mut exporter = builder.build().map_err(TracesError::Environment)?;
        exporter.set_resource(&resource(worker));
        Ok(Self { exporter, lost, failing: false })
    }

    /// Sends until every sender is dropped and the queue is empty.
    pub(super) async fn run(mut self, mut spans: mpsc::Receiver<SpanData>) {
        let mut batch = Vec::with_capacity(AT_ONCE);
        while spans.recv_many(&mut batch, AT_ONCE).await > 0 {
            let gather = async { while batch.len() < AT_ONCE && spans.recv_many(&mut batch, AT_ONCE).await > 0 {} };
            // A span that is received is in the batch: nothing is lost by an end of the wait.
            tokio::time::timeout(GATHER, gather).await.ok();
            self.send(std::mem::take(&mut batch)).await;
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        match self.exporter.export(batch).await {
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("the collector of [otel] takes spans again");
            }
            Ok(()) => {}
            Err(error) => {
                self.lost.fetch_add(spans as u64, Ordering::Relaxed);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(spans, "the collector of [otel] does not take spans, they are dropped: {error}");
                }
            }
        }
    }
}

fn resource(worker: &WorkerId) -> Resource {
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let builder = Resource::builder().with_attribute(KeyValue::new("service.instance.id", worker.to_string()));
    if named { builder.build() } else { builder.with_service_name("gristmill").build() }
}
