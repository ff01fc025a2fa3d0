//! Which attempts are kept, and where in which trace their spans are.

use std::time::Duration;

use super::super::record::{AttemptRecord, Run};
use gristmill_config::{OtelSettings, Relation};
use gristmill_core::job::Claim;
use gristmill_core::outcome::Settled;
use gristmill_core::trace::TraceContext;

/// A job that is due this much later than it was pushed begins a trace: operators do not look for it in its producer's trace.
const APART: Duration = Duration::from_secs(3600);
const MILLION: u64 = 1_000_000;

/// What the manifest says about it.
#[derive(Debug)]
pub(super) struct Choice {
    sample_per_million: u64,
    slower_than: Duration,
    relation: Relation,
}

/// The ids of the span of an attempt, and of those that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanIds {
    /// Of the attempt. Sampled, if the context that it comes from is, or by chance: known from its beginning.
    pub(super) context: TraceContext,
    /// The span that it is a child of.
    pub(super) parent: Option<TraceContext>,
    /// The span of another trace that it comes from.
    pub(super) link: Option<TraceContext>,
}

impl Choice {
    pub(super) fn of(settings: &OtelSettings) -> Self {
        let OtelSettings { sample_per_million, slower_than, relation, .. } = *settings;
        Self { sample_per_million: sample_per_million.into(), slower_than, relation }
    }

    /// The same for each call with a claim of the same delivery.
    pub(super) fn span_ids(&self, claim: &Claim) -> SpanIds {
        let job = &claim.job;
        let mut context = TraceContext::of_attempt(claim);
        let came_from = TraceContext::of_creation(&job.spec);
        let at_once = job.due_at.since(job.enqueued_at) <= APART;
        let goes_on = match self.relation {
            Relation::Child => at_once,
            Relation::Link => at_once && TraceContext::was_passed_on(&job.spec),
            Relation::None => false,
        };
        let parent = came_from.filter(|_| goes_on);
        let link = came_from.filter(|_| !goes_on && self.relation != Relation::None);
        if let Some(parent) = parent {
            context.trace = parent.trace;
        }
        context.sampled = came_from.is_some_and(|from| from.sampled) || self.by_chance(&context.trace);
        SpanIds { context, parent, link }
    }

    /// By the trace's last bytes, which are random: all runners choose alike.
    fn by_chance(&self, trace: &[u8; 16]) -> bool {
        let random = trace.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        random % MILLION < self.sample_per_million
    }

    /// Keeps what is sampled, and what people look for: failures, attempts after a failure, slow ones, and those that were not counted.
    pub(super) fn keeps(&self, sampled: bool, record: &AttemptRecord, run: &Run) -> bool {
        sampled
            || record.verdict.failure().is_some()
            || record.claim.attempt > 1
            || run.duration > self.slower_than
            || record.settled != Some(Settled::Done)
    }
}
