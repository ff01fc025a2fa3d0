//! How a server answers.

use std::sync::Arc;

use crate::limits::HttpLimits;
use gristmill_config::TlsSettings;
use gristmill_metrics::Metrics;
use gristmill_runner::handlers::HandlerRegistry;

/// How a server is to let others in.
#[derive(Debug, Clone, Default)]
pub struct HttpServerSettings {
    pub limits: HttpLimits,
    /// Whether everybody may come in who can reach it, as long as there are no tokens. On loopback that is so anyway.
    pub insecure: bool,
    /// None: plain HTTP.
    pub tls: Option<TlsSettings>,
    /// The topics and tenants as the manifest has them, without handlers: what is known while those are being read.
    pub plan: Arc<HandlerRegistry>,
    /// Where it is counted what comes in.
    pub metrics: Arc<Metrics>,
}
