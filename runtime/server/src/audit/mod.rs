//! The audit log: one line of JSON for each change that needs the scope `admin`, and for each refusal. Format and use:
//! `docs/reference/audit.md`. The last ones are in memory, also without a log.
//!
//! [`Recorder::record`] is around all routes. On its way a request finds out who its client is and what its route does, and notes that
//! in its [`RequestFacts`]. The line is written when the request ends, also if the client has hung up before the answer.

mod line;
mod recent;
mod request_facts;

use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use parking_lot::Mutex;
use tokio::time::Instant;

pub use self::line::AuditLine;
use self::line::PendingLine;
pub(crate) use self::recent::{Action, RecentActions};
pub(crate) use self::request_facts::{ClientKind, RequestFacts};
use crate::limits::network;
use crate::limits::rate::Rates;
use gristmill_core::token::Rate;
use gristmill_metrics::{MetricType, Metrics};
use gristmill_runner::LineFile;

/// Refusals of one address that are written down in a second in the long run, and at once. More are counted.
const REFUSALS: Rate =
    Rate { per_second: NonZero::<u32>::MIN.saturating_add(9), burst: NonZero::<u32>::MIN.saturating_add(99) };

/// An open audit log.
pub type AuditLog = LineFile<AuditLine>;

/// Keeps the last lines, and writes to an audit log if there is one. A client that is refused again and again must not push the lines of others out of the files, so
/// not every refusal of an address is written down.
#[derive(Debug)]
pub(crate) struct Recorder {
    log: Option<AuditLog>,
    recent: RecentActions,
    refusals: Mutex<Refusals>,
}

#[derive(Debug, Default)]
struct Refusals {
    written: Rates<IpAddr>,
    /// Refusals since the last line that were not written down.
    omitted: u64,
}

impl Recorder {
    pub(crate) fn new(log: Option<AuditLog>, recent: RecentActions, metrics: &Metrics) -> Arc<Self> {
        if let Some(log) = &log {
            let help = "Lines that are missing in the audit log because its disk did not keep up.";
            metrics.register("gristmill_node_audit_lost_total", MetricType::Counter, help, log.lost());
        }
        Arc::new(Self { log, recent, refusals: Mutex::default() })
    }

    /// Answers a request, and writes a line about it when it ends, if it is one that the log is about.
    pub(crate) async fn record(
        self: Arc<Self>,
        request: Request,
        answer: impl AsyncFnOnce(Request) -> Response,
    ) -> Response {
        let (mut request, pending) = PendingLine::of(self, request).await;
        request.extensions_mut().insert(pending.facts());
        let response = answer(request).await;
        pending.answered(&response);
        response
    }

    fn write(&self, line: AuditLine, actor: String) {
        self.recent.add(Action::new(&line, actor));
        if let Some(log) = &self.log {
            log.append(std::iter::once(line));
        }
    }

    /// How many refusals were not written down since the last line, if one of this address may be written now.
    fn admit_refusal(&self, address: IpAddr) -> Option<u64> {
        let mut refusals = self.refusals.lock();
        if refusals.written.count(network(address), REFUSALS, Instant::now()).is_err() {
            refusals.omitted += 1;
            return None;
        }
        Some(std::mem::take(&mut refusals.omitted))
    }

    /// How many refusals were not written down since the last line.
    fn take_omitted(&self) -> u64 {
        std::mem::take(&mut self.refusals.lock().omitted)
    }
}

/// Whether the log has a line for every answer with this status.
fn is_refusal(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::MISDIRECTED_REQUEST
            | StatusCode::TOO_MANY_REQUESTS
    )
}
