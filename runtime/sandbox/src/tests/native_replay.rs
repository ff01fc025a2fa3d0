//! What a native handler is answered from the recording of a component.

use std::sync::Arc;

use super::recording::{RETURN, asking, carried, input, recorded};
use crate::{
    Divergence, LogLine, NativeReplay, NativeRequest, Record, Recording, Refusal, ReplayRefused, ReplayVerdict,
};
use gristmill_core::job::Payload;
use gristmill_core::outcome::Outcome;

/// A recording of a component that asks everything, with how it ended.
struct Recorded {
    recording: Arc<Recording>,
    url: String,
    outcome: Outcome,
    lines: Vec<LogLine>,
}

impl Recorded {
    async fn new() -> Self {
        let (mut report, lines, url) = recorded(&asking(RETURN).await, Record::All, "an answer").await;
        Self { recording: carried(&mut report), url, outcome: report.outcome, lines }
    }

    fn replay(&self) -> NativeReplay {
        NativeReplay::new(&self.recording, input(&self.url).0).unwrap()
    }

    /// One that has asked what came before the request.
    fn replay_up_to_the_request(&self) -> NativeReplay {
        let mut replay = self.replay();
        let (seconds, nanoseconds) = replay.time();
        assert_eq!(replay.time(), (seconds, nanoseconds), "it is the only one, and so the last");
        assert_eq!(replay.is_cancelled(), Ok(false));
        assert_eq!(replay.is_enabled("trace"), Ok(true));
        assert!(replay.save_checkpoint(b"abc").is_err_and(|refusal| refusal.code == "unavailable"));
        assert_eq!(replay.setting("region"), Ok(Some("eu".to_owned())));
        assert_eq!(replay.secret("token"), Ok(Some(b"correct horse battery staple".to_vec())));
        assert_eq!(replay.state(), Ok(Some(b"what was before".to_vec())));
        let now = seconds * 1000 + u64::from(nanoseconds) / 1_000_000;
        assert_eq!(replay.set_state(Some(&now.to_le_bytes())), Ok(()));
        replay
    }

    fn request(&self) -> NativeRequest {
        NativeRequest {
            method: "GET".to_owned(),
            url: self.url.clone(),
            headers: Vec::new(),
            body: Some(Payload { data: b"abchi".to_vec(), content_type: None }),
            timeout: None,
            redirects: 0,
            is_by_library: false,
        }
    }
}

fn asks_else(replay: NativeReplay, outcome: &Outcome) -> Divergence {
    match replay.end(outcome.clone()).0.verdict {
        ReplayVerdict::AsksElse(diverged) => diverged,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_native_handler_is_answered_as_its_component_was_and_may_end_the_same() {
    let recorded = Recorded::new().await;
    let mut replay = recorded.replay_up_to_the_request();
    let answer = replay.send(&recorded.request()).unwrap();
    assert_eq!((answer.status, answer.body.data.as_slice()), (200, &b"an answer"[..]));
    assert!(answer.headers.contains(&("x-number".to_owned(), "7".to_owned())), "{answer:?}");
    recorded.lines.iter().cloned().for_each(|line| replay.log(line));
    let (replayed, notes) = replay.end(recorded.outcome.clone());
    assert_eq!((replayed.verdict, notes), (ReplayVerdict::Same, vec![]));
}

#[tokio::test]
async fn whatever_else_a_native_handler_asks_has_no_answer_and_is_named() {
    let recorded = Recorded::new().await;
    let mut replay = recorded.replay();
    let refused = replay.state().unwrap_err();
    let said = "call 3 was context.is-cancelled, and is now state.get";
    assert_eq!((refused.code, refused.message.as_str()), (Refusal::ASKS_ELSE, said));
    assert!(replay.is_cancelled().is_err(), "nothing is answered after that");
    let diverged = asks_else(replay, &recorded.outcome);
    assert_eq!((diverged.number, diverged.asked.as_str()), (3, "state.get"));

    let mut replay = recorded.replay_up_to_the_request();
    let other = NativeRequest { url: format!("{}/other", recorded.url), ..recorded.request() };
    assert!(replay.send(&other).unwrap_err().message.contains("as recorded, but with other contents"));
    assert_eq!(asks_else(replay, &recorded.outcome).number, 10);

    // A library has its version in its headers.
    let mut replay = recorded.replay_up_to_the_request();
    assert_eq!(replay.send(&NativeRequest { is_by_library: true, ..other }).unwrap().status, 200);
    assert!(replay.send(&recorded.request()).unwrap_err().message.contains("call 11"), "the recording has one request");
    let notes = recorded.replay_up_to_the_request();
    let (replayed, _) = notes.end(recorded.outcome.clone());
    let ReplayVerdict::Differs(differences) = replayed.verdict else { panic!("{replayed:?}") };
    assert!(differences[0].starts_with("calls: call 10 was http.send") && differences[0].ends_with("is not made now"));
    assert!(differences[1].starts_with("log: line 1 was \"eu\", and is now no line"), "{differences:?}");
}

#[tokio::test]
async fn another_secret_another_body_or_another_end_is_no_same_replay() {
    let recorded = Recorded::new().await;
    let (mut other, _) = input(&recorded.url);
    other.secrets.insert("token".to_owned(), b"another".to_vec());
    let mut replay = NativeReplay::new(&recorded.recording, other).unwrap();
    assert!(replay.is_cancelled().is_ok() && replay.is_enabled("trace").is_ok());
    assert!(replay.save_checkpoint(b"abc").is_err() && replay.setting("region").is_ok());
    assert!(replay.secret("token").unwrap_err().message.contains("the value here is another"));
    assert!(asks_else(replay, &recorded.outcome).is_sealed);
    let refused = NativeReplay::new(&recorded.recording, input("another body").0).unwrap_err();
    assert_eq!(refused, ReplayRefused::OtherBody);
    let limit = recorded.recording.head.limits.checkpoint_bytes;
    let too_large = vec![0; usize::try_from(limit).unwrap() + 1];
    assert_eq!(recorded.replay().save_checkpoint(&too_large).unwrap_err().code, "too-large");

    for (outcome, said) in [
        (Outcome::Complete(None), "output: it is complete again, with another result or message"),
        (Outcome::Expired, "outcome: complete was recorded, now it is expired"),
    ] {
        let mut replay = recorded.replay_up_to_the_request();
        replay.send(&recorded.request()).unwrap();
        recorded.lines.iter().cloned().for_each(|line| replay.log(line));
        let (replayed, _) = replay.end(outcome);
        assert_eq!(replayed.verdict, ReplayVerdict::Differs(vec![said.to_owned()]));
    }
}
