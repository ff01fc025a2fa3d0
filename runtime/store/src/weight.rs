//! How many bytes something holds, of all that clients and handlers gave: what answers and requests are bounded by.

use crate::inspect::{JobView, ResultView};
use crate::transfer::StoredJob;
use gristmill_core::job::{Claim, Job, Payload};
use gristmill_core::outcome::Failure;

/// What is bounded by the bytes that it holds.
pub trait Weigh {
    /// How many bytes it holds, all its parts together.
    fn weight(&self) -> usize;
}

impl<T: Weigh> Weigh for Option<T> {
    fn weight(&self) -> usize {
        self.as_ref().map_or(0, Weigh::weight)
    }
}

impl Weigh for Payload {
    fn weight(&self) -> usize {
        self.data.len() + self.content_type.as_ref().map_or(0, String::len)
    }
}

impl Weigh for Job {
    /// With key, unique value, metadata and links.
    fn weight(&self) -> usize {
        let links: usize = self.spec.options.after.iter().map(|id| id.as_str().len()).sum();
        let headers = usize::try_from(self.spec.header_bytes()).unwrap_or(usize::MAX);
        self.spec.body.data.len().saturating_add(headers).saturating_add(links)
    }
}

impl Weigh for Failure {
    fn weight(&self) -> usize {
        let texts = self.detail.code.len() + self.detail.message.len();
        texts + self.detail.context.weight() + self.backtrace.as_ref().map_or(0, String::len)
    }
}

impl Weigh for ResultView {
    fn weight(&self) -> usize {
        match self {
            Self::Complete(output) => output.weight(),
            Self::Dead(failure) => failure.weight(),
            Self::Expired | Self::Cancelled => 0,
        }
    }
}

impl Weigh for JobView {
    fn weight(&self) -> usize {
        self.job.weight() + self.last_failure.weight() + self.checkpoint.weight() + self.result.weight()
    }
}

impl Weigh for Claim {
    fn weight(&self) -> usize {
        self.job.weight() + self.checkpoint.as_ref().map_or(0, Vec::len)
    }
}

impl Weigh for StoredJob {
    fn weight(&self) -> usize {
        let sealed = self.sealed.as_ref().map_or(0, |sealed| sealed.bytes.len());
        self.job.weight() + sealed + self.last_failure.weight() + self.checkpoint.as_ref().map_or(0, Vec::len)
    }
}
