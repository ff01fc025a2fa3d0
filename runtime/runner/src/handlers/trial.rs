//! How two versions of a handler do that share a topic's jobs, on this runner.

use std::time::Instant;

use parking_lot::Mutex;

use gristmill_core::trial::{AttemptCost, Attempts, Judgement};
use gristmill_sandbox::Report;

/// The attempts of both versions, as far as this runner made them.
#[derive(Debug)]
pub struct Trial {
    /// Of the deployment that it is about.
    pub(super) generation: u64,
    began: Instant,
    stable: Mutex<Attempts>,
    candidate: Mutex<Attempts>,
}

impl Trial {
    pub(super) fn new(generation: u64) -> Self {
        Self { generation, began: Instant::now(), stable: Mutex::default(), candidate: Mutex::default() }
    }

    /// Adds an attempt of one of the two.
    pub(crate) fn note(&self, is_candidate: bool, report: &Report) {
        let of = if is_candidate { &self.candidate } else { &self.stable };
        let Report { outcome, fuel, memory_peak, duration, .. } = report;
        of.lock().add(outcome, AttemptCost { fuel: *fuel, memory: *memory_peak, time: *duration });
    }

    pub(crate) fn judge(&self) -> Option<Judgement> {
        self.candidate.lock().judge(&self.stable.lock(), self.began.elapsed())
    }
}
