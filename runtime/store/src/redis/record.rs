//! What is stored about a job besides itself: its last failure, and what became of it. MessagePack maps.

use serde::{Deserialize, Serialize};

use crate::ResultView;
use gristmill_core::job::Payload;
use gristmill_core::outcome::{Failure, Verdict};

/// What became of a job, as stored.
#[derive(Serialize, Deserialize)]
struct StoredResult {
    attempts: u32,
    end: End,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum End {
    Complete(Option<Payload>),
    Dead(Failure),
    Expired,
    Cancelled,
}

pub(super) fn write_failure(failure: &Failure) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(failure)
}

/// None for nothing, and for what a later version wrote: a failure is told, never needed.
pub(super) fn read_failure(stored: &[u8]) -> Option<Failure> {
    rmp_serde::from_slice(stored).ok()
}

/// None for verdicts that do not end the job.
pub(super) fn write_result(verdict: &Verdict, attempts: u32) -> Result<Option<Vec<u8>>, rmp_serde::encode::Error> {
    let end = match verdict {
        Verdict::Ack(payload) => End::Complete(payload.clone()),
        Verdict::Bury(failure) => End::Dead(failure.clone()),
        Verdict::Expire => End::Expired,
        Verdict::Retry { .. } | Verdict::Snooze(_) | Verdict::Release(_) => return Ok(None),
    };
    rmp_serde::to_vec_named(&StoredResult { attempts, end }).map(Some)
}

/// The result of a job that was cancelled while it ran. For one that waited, `cancel.lua` writes the same.
pub(super) fn write_cancelled(attempts: u32) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(&StoredResult { attempts, end: End::Cancelled })
}

/// The attempts it took, and the end.
pub(super) fn read_result(stored: &[u8]) -> Option<(u32, ResultView)> {
    let StoredResult { attempts, end } = rmp_serde::from_slice(stored).ok()?;
    let view = match end {
        End::Complete(payload) => ResultView::Complete(payload),
        End::Dead(failure) => ResultView::Dead(failure),
        End::Expired => ResultView::Expired,
        End::Cancelled => ResultView::Cancelled,
    };
    Some((attempts, view))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::outcome::{FailureDetail, Reason};

    #[test]
    fn results_are_read_as_they_are_written() {
        let detail = FailureDetail { code: "c".into(), message: "m".into(), context: None };
        let failure = Failure { reason: Reason::Trap, detail, backtrace: Some("main".into()) };
        let read = |verdict| {
            let (attempts, view) = read_result(&write_result(&verdict, 3).unwrap().unwrap()).unwrap();
            assert_eq!(attempts, 3);
            view
        };
        let payload = Payload { data: vec![1], content_type: None };
        assert_eq!(read(Verdict::Ack(Some(payload.clone()))), ResultView::Complete(Some(payload)));
        assert_eq!(read(Verdict::Ack(None)), ResultView::Complete(None));
        assert_eq!(read(Verdict::Bury(failure.clone())), ResultView::Dead(failure.clone()));
        assert_eq!(read(Verdict::Expire), ResultView::Expired);
        assert_eq!(read_result(&write_cancelled(3).unwrap()), Some((3, ResultView::Cancelled)));
        assert_eq!(read_failure(&write_failure(&failure).unwrap()), Some(failure));
        assert_eq!(read_failure(b""), None);
    }
}
