//! How a job ends, and what its producer asked for at its end.

use std::borrow::Cow;
use std::time::Duration;

use crate::EndedAs;
use gristmill_core::job::{Ended, JobId, Payload};
use gristmill_core::outcome::Failure;

/// What the producer of a job asked for at its end.
pub(in crate::embedded) struct EndOptions<'a> {
    pub(in crate::embedded) job: &'a JobId,
    /// The value that the end of the job sets free.
    pub(in crate::embedded) unique: Option<&'a str>,
    /// Attempts made, kept with the result.
    pub(in crate::embedded) attempts: u32,
    /// How long it is remembered how the job ended; zero: not at all.
    pub(in crate::embedded) remember: Duration,
    /// How long the result is kept; zero: not at all.
    pub(in crate::embedded) keep_result: Duration,
    /// A client may be waiting for the end of this job.
    pub(in crate::embedded) notify: bool,
}

/// How a job ends.
pub(in crate::embedded) enum How<'a> {
    Acked(Option<&'a Payload>),
    /// It becomes dead, and its row stays.
    Dead(&'a Failure),
    Expired,
    Cancelled,
    /// It was dead, and over the limits of its topic.
    Discarded,
    /// It was dead, and an operator deletes it.
    Deleted,
}

impl How<'_> {
    /// The total that the job is added to.
    pub(in crate::embedded) fn total(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Acked(_) => "acked".into(),
            Self::Dead(failure) => format!("dead-{}", failure.reason).into(),
            Self::Expired => "expired".into(),
            Self::Cancelled => "cancelled".into(),
            Self::Discarded => "discarded".into(),
            Self::Deleted => return None,
        })
    }

    /// How it is remembered; `None` of a job that stays.
    pub(in crate::embedded) fn remembered(&self) -> Option<EndedAs> {
        match self {
            Self::Acked(_) => Some(EndedAs::Complete),
            Self::Expired => Some(EndedAs::Expired),
            Self::Cancelled => Some(EndedAs::Cancelled),
            Self::Discarded | Self::Deleted => Some(EndedAs::Deleted),
            Self::Dead(_) => None,
        }
    }

    /// What those learn of it that wait for the job; `None` of one that was dead.
    pub(in crate::embedded) fn ended(&self) -> Option<Ended> {
        match self {
            Self::Acked(_) => Some(Ended::Complete),
            Self::Dead(_) => Some(Ended::Dead),
            Self::Expired => Some(Ended::Expired),
            Self::Cancelled => Some(Ended::Cancelled),
            Self::Discarded | Self::Deleted => None,
        }
    }
}
