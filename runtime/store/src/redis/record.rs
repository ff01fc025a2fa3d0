//! What is stored about a job besides itself: its last failure, and what became of it, as MessagePack maps; the state that it leaves.

use serde::{Deserialize, Serialize};

use crate::{ResultView, VersionedState};
use gristmill_core::job::{Name, Payload};
use gristmill_core::outcome::{Failure, StateChange, Verdict};

/// What became of a job, as stored.
#[derive(Serialize, Deserialize)]
struct StoredResult {
    attempts: u32,
    #[serde(with = "StoredEnd")]
    end: ResultView,
    /// Whose job it was. Those of cancelled jobs do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ResultView", rename_all = "lowercase")]
enum StoredEnd {
    Complete(Option<Payload>),
    Dead(Failure),
    Expired,
    Cancelled,
}

pub(super) fn write_failure(failure: &Failure) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(failure)
}

/// Returns `None` if nothing is stored, or what a later version wrote: a failure is shown, never needed.
pub(super) fn read_failure(stored: &[u8]) -> Option<Failure> {
    rmp_serde::from_slice(stored).ok()
}

/// The result of a job that ends with this verdict; `None` if the verdict does not end it. The result of a cancelled job
/// is written by `finish.lua`.
pub(super) fn write_result(
    verdict: &Verdict,
    attempts: u32,
    topic: Option<&Name>,
) -> Result<Option<Vec<u8>>, rmp_serde::encode::Error> {
    let end = match verdict {
        Verdict::Ack(payload) => ResultView::Complete(payload.clone()),
        Verdict::Bury(failure) => ResultView::Dead(failure.clone()),
        Verdict::Expire => ResultView::Expired,
        Verdict::Retry { .. } | Verdict::Snooze(_) | Verdict::Release(_) => return Ok(None),
    };
    rmp_serde::to_vec_named(&StoredResult { attempts, end, topic: topic.cloned() }).map(Some)
}

/// The stored form of a result.
pub(super) fn write_result_view(
    attempts: u32,
    end: ResultView,
    topic: Option<Name>,
) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(&StoredResult { attempts, end, topic })
}

/// How many attempts the job took, how it ended, and its topic.
pub(super) fn read_result(stored: &[u8]) -> Option<(u32, ResultView, Option<Name>)> {
    let StoredResult { attempts, end, topic } = rmp_serde::from_slice(stored).ok()?;
    Some((attempts, end, topic))
}

/// What the stored form of a state begins with.
const STATE_SET: u8 = b'1';

/// The stored form of a state that was deleted.
const STATE_DELETED: &[u8] = b"0";

/// What a settlement says of a state: `settle.lua` puts its version behind the first byte. `None`: nothing, and the key goes. Where an earlier state
/// may be found in another partition, a mark says that it was deleted.
pub(super) fn write_state(change: &StateChange, may_be_elsewhere: bool) -> Option<Vec<u8>> {
    match change {
        StateChange::Set(value) => Some([&[STATE_SET], value.as_slice()].concat()),
        StateChange::Delete => may_be_elsewhere.then(|| STATE_DELETED.to_vec()),
    }
}

/// The stored form of a state, `1version bytes`.
pub(super) fn stored_state(state: &VersionedState) -> Vec<u8> {
    [&[STATE_SET], state.version.to_string().as_bytes(), b" ", &state.value].concat()
}

/// The state of what is stored; `None` if it was deleted.
pub(super) fn read_state(mut stored: Vec<u8>) -> Option<VersionedState> {
    let space = stored.iter().position(|byte| *byte == b' ')?;
    let value = stored.split_off(space + 1);
    let version = std::str::from_utf8(stored.strip_prefix(&[STATE_SET])?).ok()?.trim_end().parse().ok()?;
    Some(VersionedState { value, version })
}

/// Whether this is the stored form of a state, or the mark of one that was deleted, as far as its first bytes say.
pub(super) fn is_state(stored: &[u8]) -> bool {
    stored == STATE_DELETED || read_state(stored.to_vec()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::job::Payload;
    use gristmill_core::outcome::{FailureDetail, Reason};

    #[test]
    fn states_are_read_as_they_are_written() {
        for value in [&b""[..], b" ", b"0", b"a b", &[0, 255, 32]] {
            let state = VersionedState { value: value.to_vec(), version: 1_800_000_000_001 };
            let stored = stored_state(&state);
            assert!(is_state(&stored));
            assert_eq!(read_state(stored), Some(state));
        }
        let marks = [&b"0"[..], b"", b"1", b"1 x", b"2 x", b"17", b"1-7 x", b"1\xff x"].map(|mark| mark.to_vec());
        assert_eq!(marks.clone().map(read_state), [const { None }; 8]);
        assert_eq!(marks.iter().filter(|mark| is_state(mark)).count(), 1, "the mark of a deleted one");
    }

    #[test]
    fn results_are_read_as_they_are_written() {
        let detail = FailureDetail { code: "c".into(), message: "m".into(), context: None };
        let failure = Failure { backtrace: Some("main".into()), ..Failure::new(Reason::Trap, detail) };
        let read = |verdict| {
            let (attempts, view, _) = read_result(&write_result(&verdict, 3, None).unwrap().unwrap()).unwrap();
            assert_eq!(attempts, 3);
            view
        };
        let payload = Payload { data: vec![1], content_type: None };
        assert_eq!(read(Verdict::Ack(Some(payload.clone()))), ResultView::Complete(Some(payload)));
        assert_eq!(read(Verdict::Ack(None)), ResultView::Complete(None));
        assert_eq!(read(Verdict::Bury(failure.clone())), ResultView::Dead(failure.clone()));
        assert_eq!(read(Verdict::Expire), ResultView::Expired);
        let stored =
            b"\x82\xa8attempts\x03\xa3end\x81\xa4dead\x83\xa6reason\xa4trap\xa6detail\x83\xa4code\xa1c\xa7message\xa1m\
            \xa7context\xc0\xa9backtrace\xa4main";
        assert_eq!(write_result(&Verdict::Bury(failure.clone()), 3, None).unwrap().unwrap(), stored);
        let stored = b"\x82\xa8attempts\x03\xa3end\x81\xa8complete\x82\xa4data\xc4\x01\x01\xaccontent_type\xc0";
        let payload = Payload { data: vec![1], content_type: None };
        assert_eq!(write_result(&Verdict::Ack(Some(payload)), 3, None).unwrap().unwrap(), stored);
        let cancelled = b"\x82\xa8attempts\x03\xa3end\xa9cancelled";
        assert_eq!(read_result(cancelled), Some((3, ResultView::Cancelled, None)), "as `finish.lua` writes it");
        assert_eq!(read_failure(&write_failure(&failure).unwrap()), Some(failure));
        assert_eq!(read_failure(b""), None);
    }
}
