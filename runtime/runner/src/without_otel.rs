//! In place of traces, which this program is built without.

use super::record::AttemptRecord;
use gristmill_core::job::Claim;
use gristmill_core::trace::TraceContext;
use gristmill_sandbox::RequestTrace;

/// There is none.
#[derive(Debug, Clone)]
pub enum Traces {}

impl Traces {
    pub(super) fn begin(&self, _: &Claim) -> TraceContext {
        match *self {}
    }

    /// The context of an attempt that a pull worker begins.
    pub fn receive(&self, _: &Claim) -> TraceContext {
        match *self {}
    }

    pub(super) fn record(&self, _: &AttemptRecord, _: Option<&RequestTrace>) {
        match *self {}
    }

    /// How to learn how many spans were dropped.
    pub fn lost(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        || 0
    }

    /// Sends what waits.
    pub async fn close(self) {
        match self {}
    }
}
