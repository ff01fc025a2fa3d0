//! Attempts that are recorded, and replays of them: the same end, to the bit, or a verdict that says why not.

use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::guest::{handler, handler_in};
use super::{attempt, load};
use crate::{
    Attempt, BadRecording, Component, LogLine, LogSink, RECORDING_BYTES_MAX, Record, Recording, ReplayInput,
    ReplayRefused, ReplayVerdict, Report, StateReader, StateRequest,
};
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::outcome::Outcome;
use gristmill_core::topic::{Capability, Grants};

const SECRET: &[u8] = b"correct horse battery staple";

/// Asks everything there is, keeps the answers from 4000 on, and logs some of them.
const ASK: &str = r#"
    (import "gristmill:job/config@0.1.0" "secret" (func $secret (param i32 i32 i32)))
    (import "gristmill:job/http@0.1.0" "send" (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32)))
    (import "gristmill:job/state@0.1.0" "get" (func $state (param i32)))
    (import "gristmill:job/state@0.1.0" "set" (func $set (param i32 i32 i32 i32)))
    (import "gristmill:job/log@0.1.0" "enabled" (func $enabled (param i32) (result i32)))
    (data (i32.const 2200) "GETmailregiontoken")
    (func $ask (param $job i32)
        (i64.store (i32.const 4000) (call $now))
        (i64.store (i32.const 4008) (call $fuel))
        (i32.store (i32.const 4016) (i32.add (call $is_cancelled) (call $enabled (i32.const 0))))
        (call $checkpoint (i32.const 2100) (i32.const 3) (i32.const 4104))
        (call $get (i32.const 2207) (i32.const 6) (i32.const 4200))
        (call $secret (i32.const 2213) (i32.const 5) (i32.const 4256))
        (call $emit (i32.const 2) (i32.load (i32.const 4204)) (i32.load (i32.const 4208)) (i32.const 0) (i32.const 0))
        (call $state (i32.const 4304))
        (call $set (i32.const 1) (i32.const 4000) (i32.const 8) (i32.const 4360))
        (call $send (i32.const 2200) (i32.const 3)
            (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 0) (i32.const 0)
            (i32.const 1) (i32.const 2100) (i32.const 5) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 4400))
        ;; The body of the answer, if there is one.
        (if (i32.eqz (i32.load8_u (i32.const 4400)))
          (then (call $emit (i32.const 2) (i32.load (i32.const 4420)) (i32.load (i32.const 4424)) (i32.const 0) (i32.const 0)))))
"#;

pub(super) async fn asking(end: &str) -> Component {
    let handle = format!("(call $ask (local.get $job)) {end}");
    load(&handler_in(&[], "gristmill:job/job-handler-all", ASK, &handle)).await
}

/// Ends with all that it was answered as its result.
pub(super) const RETURN: &str = "(call $return (i32.const 4000) (i32.const 500))";

fn grants(url: &str) -> Grants {
    let mut http = HttpGrant::of(vec![url.parse().unwrap()]);
    http.networks = vec!["127.0.0.0/8".parse().unwrap()];
    Grants {
        http: Some(Arc::new(http)),
        switches: [Capability::State].into(),
        config: [("region".into(), "eu".into())].into(),
        secrets: [("token".into(), SECRET.to_vec())].into(),
        ..Grants::default()
    }
}

/// Answers every request with this body.
async fn server(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"hi") {
                let mut part = [0; 1024];
                let read = stream.read(&mut part).await.unwrap();
                request.extend_from_slice(&part[..read]);
            }
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nx-number: 7\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}

fn states(value: &'static [u8]) -> StateReader {
    let (requests, mut received) = mpsc::channel::<StateRequest>(1);
    tokio::spawn(async move {
        while let Some(request) = received.recv().await {
            request.reply.send(Ok(Some(value.to_vec()))).unwrap();
        }
    });
    StateReader(requests)
}

pub(super) async fn recorded(
    component: &Component,
    record: Record,
    body: &'static str,
) -> (Report, Vec<LogLine>, String) {
    let url = server(body).await;
    let mut attempt = Attempt { record, grants: Arc::new(grants(&url)), ..attempt(url.as_str()) };
    Arc::make_mut(&mut attempt.job).spec.options.key = Some("ann".into());
    attempt.limits.fuel = 2_000_000;
    attempt.states = Some(states(b"what was before"));
    let lines = super::listen(&mut attempt);
    let report = component.invoke(attempt).await;
    let lines = lines.lock().clone();
    (report, lines, url)
}

pub(super) fn input(body: &str) -> (ReplayInput, Arc<Mutex<Vec<LogLine>>>) {
    let lines = Arc::default();
    let secrets = [("token".to_owned(), SECRET.to_vec())].into();
    let logs = LogSink::Collect(Arc::clone(&lines));
    (ReplayInput { body: body.into(), secrets, env: Default::default(), logs }, lines)
}

/// By way of its bytes, as a recording travels.
pub(super) fn carried(report: &mut Report) -> Arc<Recording> {
    let bytes = report.recording.take().expect("it is recorded").to_bytes().unwrap();
    Arc::new(Recording::parse(&bytes).unwrap())
}

async fn verdict(component: &Component, recording: &Arc<Recording>, body: &str) -> ReplayVerdict {
    component.replay(recording, input(body).0).await.unwrap().verdict
}

#[tokio::test]
async fn an_attempt_that_failed_ends_the_same_from_its_recording() {
    for end in ["unreachable", "(call $fail (i32.const 1))", "(loop $more (br $more)) unreachable"] {
        let component = asking(end).await;
        let (mut report, lines, url) = recorded(&component, Record::Failures, "an answer").await;
        let recording = carried(&mut report);
        assert_eq!((lines[0].message.as_str(), lines[1].message.as_str()), ("eu", "an answer"));
        let (input, again) = input(&url);
        let replayed = component.replay(&recording, input).await.unwrap();
        assert_eq!(replayed.verdict, ReplayVerdict::Same, "{end}");
        assert_eq!((replayed.report.outcome, replayed.report.fuel), (report.outcome, report.fuel));
        assert_eq!(*again.lock(), lines);
    }
}

#[tokio::test]
async fn all_answers_are_those_that_were_recorded() {
    let component = asking(RETURN).await;
    let (mut report, _, url) = recorded(&component, Record::All, "an answer").await;
    let recording = carried(&mut report);
    let calls: Vec<_> = recording.calls().map(|call| call.to_string()).collect();
    let send = format!("http.send (GET {url})");
    let expected = [
        "context.now",
        "context.fuel-remaining",
        "context.is-cancelled",
        "log.enabled (TRACE)",
        "context.checkpoint",
        "config.get (region)",
        "config.secret (token)",
        "state.get",
        "state.set",
        &send,
    ];
    assert_eq!(calls, expected);
    let answered: Vec<_> = recording.calls().skip(5).map(|call| call.answered).collect();
    let sealed = "not kept: it is a secret, or may have one in it";
    assert_eq!(answered, ["eu", sealed, "15 bytes: what was before", "taken", "200, 9 bytes: an answer"]);
    let replayed = component.replay(&recording, input(&url).0).await.unwrap();
    assert_eq!((replayed.verdict, &replayed.report.outcome), (ReplayVerdict::Same, &report.outcome));
    assert_eq!(recording.lines().unwrap().iter().map(|line| line.after).collect::<Vec<_>>(), [7, 10]);
}

#[tokio::test]
async fn only_what_is_wanted_is_recorded() {
    let (fine, broken) = (load(&handler("", "(call $done)")).await, load(&handler("", "unreachable")).await);
    let cases = [
        (&fine, Record::Off, false),
        (&fine, Record::Failures, false),
        (&fine, Record::All, true),
        (&broken, Record::Off, false),
        (&broken, Record::Failures, true),
    ];
    for (component, record, is_recorded) in cases {
        let report = component.invoke(Attempt { record: record.clone(), ..attempt("") }).await;
        assert_eq!(report.recording.is_some(), is_recorded, "{record:?}");
    }
}

/// To the byte: one more, and a replay needs the body from elsewhere. A secret in it is kept nowhere.
#[tokio::test]
async fn where_all_is_recorded_the_body_is_too_as_far_as_there_is_room() {
    let component = load(&handler("", "(call $done)")).await;
    let most = "x".repeat(RECORDING_BYTES_MAX);
    let secret = String::from_utf8(SECRET.to_vec()).unwrap();
    for (body, is_kept) in [("some", true), (&*most, true), (&*format!("{most}x"), false), (&*secret, false)] {
        let mut attempt = Attempt { record: Record::All, ..attempt(body) };
        attempt.grants = Arc::new(grants("http://127.0.0.1:1"));
        let mut report = component.invoke(attempt).await;
        let recording = carried(&mut report);
        assert_eq!((&report.outcome, recording.body.is_some()), (&Outcome::Complete(None), is_kept));
        let kept = recording.body.as_ref().map_or(body.as_bytes(), |kept| kept);
        assert_eq!(verdict(&component, &recording, std::str::from_utf8(kept).unwrap()).await, ReplayVerdict::Same);
    }
    let broken = load(&handler("", "unreachable")).await;
    let mut report = broken.invoke(Attempt { record: Record::Failures, ..attempt("some") }).await;
    assert_eq!(carried(&mut report).body, None, "the store has the job");
}

#[tokio::test]
async fn another_component_diverges_where_it_asks_something_else() {
    let (mut report, _, url) = recorded(&asking(RETURN).await, Record::All, "an answer").await;
    let recording = carried(&mut report);
    let first = load(&handler("", "(call $get (i32.const 2100) (i32.const 3) (i32.const 4000)) (call $done)")).await;
    let ReplayVerdict::AsksElse(diverged) = verdict(&first, &recording, &url).await else { panic!() };
    assert_eq!((diverged.number, diverged.recorded.as_deref()), (1, Some("context.now")));
    assert_eq!((diverged.asked.as_str(), diverged.is_sealed), ("config.get (abc)", false));
    let more = asking("(drop (call $now)) (call $done)").await;
    let ReplayVerdict::AsksElse(diverged) = verdict(&more, &recording, &url).await else { panic!() };
    assert_eq!((diverged.number, diverged.recorded, diverged.asked.as_str()), (11, None, "context.now"));
    let less = load(&handler("", "(drop (call $now)) (call $done)")).await;
    let ReplayVerdict::Differs(differences) = verdict(&less, &recording, &url).await else { panic!() };
    assert!(differences.iter().any(|difference| difference == "calls: 10 were recorded, now it made 1"));
    assert!(differences[0].starts_with("output: it is complete again"), "{differences:?}");
}

#[tokio::test]
async fn the_same_name_with_another_question_is_something_else() {
    let ask = |place: u32| {
        handler("", &format!("(call $get (i32.const {place}) (i32.const 3) (i32.const 4000)) unreachable"))
    };
    let mut report = load(&ask(2100)).await.invoke(Attempt { record: Record::All, ..attempt("") }).await;
    let recording = carried(&mut report);
    let ReplayVerdict::AsksElse(diverged) = verdict(&load(&ask(2101)).await, &recording, "").await else { panic!() };
    assert_eq!((diverged.recorded.as_deref(), diverged.asked.as_str()), (Some("config.get (abc)"), "config.get (bch)"));
}

#[tokio::test]
async fn no_secret_is_in_a_recording() {
    let component = asking(RETURN).await;
    let (mut report, _, url) = recorded(&component, Record::All, "an answer").await;
    let bytes = report.recording.as_ref().unwrap().to_bytes().unwrap();
    assert!(memchr::memmem::find(&bytes, SECRET).is_none());
    let recording = carried(&mut report);
    let other = ReplayInput { secrets: [("token".to_owned(), b"another".to_vec())].into(), ..input(&url).0 };
    let ReplayVerdict::AsksElse(diverged) = component.replay(&recording, other).await.unwrap().verdict else {
        panic!()
    };
    assert_eq!((diverged.asked.as_str(), diverged.is_sealed), ("config.secret (token)", true));

    // Where an answer has it, the answer is not kept, nor is the line that the guest makes of it.
    let (report, lines, url) = recorded(&component, Record::All, "correct horse battery staple!").await;
    assert!(lines[1].message.contains("correct horse"), "the guest got it");
    let recording = Arc::new(*report.recording.unwrap());
    assert!(memchr::memmem::find(&recording.to_bytes().unwrap(), SECRET).is_none());
    assert_eq!(recording.lines(), None);
    let refused = component.replay(&recording, input(&url).0).await.unwrap_err();
    assert_eq!(refused, ReplayRefused::Incomplete("an answer has a secret in it, and is not kept".into()));
}

#[tokio::test]
async fn a_recording_that_grows_too_large_says_only_how_the_attempt_ended() {
    let count = (RECORDING_BYTES_MAX / 32) + 1;
    let handle = format!(
        "(local $n i32) (loop $more (drop (call $now))
            (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const {count}))))
         unreachable"
    );
    let component = load(&handler("", &handle)).await;
    let mut report = component.invoke(Attempt { record: Record::Failures, ..attempt("") }).await;
    let recording = carried(&mut report);
    assert_eq!((recording.calls().len(), recording.end.outcome.as_str()), (0, "trapped"));
    let refused = component.replay(&recording, input("").0).await.unwrap_err();
    assert!(refused.to_string().ends_with("its calls and log lines have more than 256 KiB"), "{refused}");
}

#[tokio::test]
async fn what_is_repeated_is_written_once() {
    let again = |times: usize| {
        let gets = "(call $get (i32.const 2100) (i32.const 3) (i32.const 4000))".repeat(times);
        handler("", &format!("{gets} unreachable"))
    };
    let bytes = async |times| {
        let mut granted = Attempt { record: Record::All, ..attempt("") };
        granted.grants = Arc::new(Grants { config: [("abc".into(), "x".repeat(1000))].into(), ..Grants::default() });
        let report = load(&again(times)).await.invoke(granted).await;
        report.recording.unwrap().plain().unwrap().len()
    };
    let (once, often) = (bytes(1).await, bytes(21).await);
    assert!(often - once < 20 * 20, "{once}, {often}");
}

/// Of a hundred answers of some bytes each, of one of a thousand, of none, and of none with a body of a thousand.
#[tokio::test]
async fn a_recording_has_little_more_than_what_was_new() {
    let get = "(call $get (i32.const 2100) (i32.const 3) (i32.const 4000))".to_owned();
    let value: String = (0..1000).map(|_| fastrand::alphanumeric()).collect();
    let nows = "(drop (call $now))".repeat(100);
    for (calls, body, new) in
        [(nows, "", 100 * 6), (get, "", 1000), (String::new(), "", 0), (String::new(), &*value, 1000)]
    {
        let mut granted = Attempt { record: Record::All, ..attempt(body) };
        granted.grants =
            Arc::new(Grants { config: [("abc".into(), value.clone())].into(), ..(*granted.grants).clone() });
        let report = load(&handler("", &format!("{calls} unreachable"))).await.invoke(granted).await;
        let recording = report.recording.unwrap();
        let bytes = recording.to_bytes().unwrap();
        assert_eq!(Recording::parse(&bytes).as_ref(), Ok(&*recording));
        let most = new + new / 5 + 200;
        assert!(bytes.len() <= most, "{} bytes, at most {most}, of {} calls", bytes.len(), recording.calls().len());
    }
}

/// How deep that was is the build's affair, and with it the fuel. Of every other end the fuel counts.
#[tokio::test]
async fn an_attempt_that_called_too_deep_ends_the_same_with_other_fuel() {
    let deep = handler("(func $deep (call $deep))", "(call $deep) unreachable");
    for (text, is_same) in [(deep, true), (handler("", "unreachable"), false)] {
        let component = load(&text).await;
        let mut report = component.invoke(Attempt { record: Record::Failures, ..attempt("") }).await;
        let recording = carried(&mut report);
        assert_eq!(verdict(&component, &recording, "").await, ReplayVerdict::Same);
        let mut other = (*recording).clone();
        other.end.fuel += 1;
        let verdict = verdict(&component, &Arc::new(other), "").await;
        assert_eq!(verdict == ReplayVerdict::Same, is_same, "{verdict:?}");
    }
}

#[tokio::test]
async fn a_recording_of_another_job_is_refused() {
    let component = load(&handler("", "unreachable")).await;
    let mut report = component.invoke(Attempt { record: Record::All, ..attempt("one") }).await;
    let recording = carried(&mut report);
    assert_eq!(verdict(&component, &recording, "one").await, ReplayVerdict::Same);
    assert_eq!(component.replay(&recording, input("two").0).await.unwrap_err(), ReplayRefused::OtherBody);
    let mut other = Recording::clone(&recording);
    other.head.engine = "wasmtime 1".into();
    let refused = component.replay(&Arc::new(other.clone()), input("one").0).await.unwrap_err();
    assert_eq!(refused, ReplayRefused::OtherEngine("wasmtime 1".into()));
    other.head.component = [0; 32];
    assert_eq!(verdict(&component, &Arc::new(other), "one").await, ReplayVerdict::Same, "fuel says little of another");
}

#[tokio::test]
async fn an_attempt_that_time_ended_has_no_replay() {
    let mut late = Attempt { record: Record::Failures, ..attempt("") };
    late.limits.timeout = std::time::Duration::ZERO;
    let component = load(&handler("", "(loop $more (br $more)) unreachable")).await;
    let mut report = component.invoke(late).await;
    assert!(matches!(report.outcome, Outcome::TimedOut { .. }), "{report:?}");
    let recording = carried(&mut report);
    assert!(matches!(component.replay(&recording, input("").0).await, Err(ReplayRefused::Incomplete(_))));
}

#[tokio::test]
async fn damage_is_found() {
    let component = asking("unreachable").await;
    let (report, _, _) = recorded(&component, Record::All, "an answer").await;
    let bytes = report.recording.unwrap().to_bytes().unwrap();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x80;
        let expected = match place {
            0..3 => BadRecording::Foreign,
            3 => BadRecording::Form(bytes[3] ^ 0x80),
            _ => BadRecording::Damaged,
        };
        assert_eq!(Recording::parse(&damaged), Err(expected), "{place}");
        assert!(Recording::parse(&bytes[..place]).is_err(), "{place}");
    }
    assert_eq!(Recording::parse(&[bytes, vec![0]].concat()), Err(BadRecording::Damaged));
}

/// With a checksum that fits.
fn made_up(form: u8, body: &[u8]) -> Result<Recording, BadRecording> {
    use sha2::{Digest, Sha256};
    let all = [b"GMR".as_slice(), &[form], body].concat();
    Recording::parse(&[all.as_slice(), &Sha256::digest(&all)[..8]].concat())
}

/// Of the calls of the contract, and of those of WASI.
async fn plain_recordings() -> [Vec<u8>; 2] {
    let (report, _, _) = recorded(&asking("unreachable").await, Record::All, "an answer").await;
    let component = load(&numbers("unreachable")).await;
    let of_wasi = component.invoke(Attempt { record: Record::All, ..attempt("") }).await;
    [report, of_wasi].map(|report| report.recording.unwrap().plain().unwrap())
}

/// Those that are made up: read or refused, and what is read has an end.
#[tokio::test]
async fn made_up_recordings_are_refused_or_replayed_to_an_end() {
    let component = asking("unreachable").await;
    let url = server("an answer").await;
    let [contract, wasi] = plain_recordings().await;
    let read = Mutex::new(Vec::new());
    gristmill_fuzz::check("recording", &[&contract, &wasi], |body| {
        let recording = made_up(4, body)?;
        drop((recording.calls().collect::<Vec<_>>(), recording.lines(), recording.job()));
        let what = recording.incomplete.is_some();
        read.lock().push(recording);
        Ok::<_, BadRecording>(what)
    });
    let read = std::mem::take(&mut *read.lock());
    assert!(!read.is_empty());
    for mut recording in read.into_iter().take(200) {
        // An attempt without end is none of ours.
        recording.head.limits = attempt("").limits;
        recording.head.limits.fuel = 1_000_000;
        drop(component.replay(&Arc::new(recording), input(&url).0).await);
    }
}

/// The same in the form that takes fewer bytes: whatever they come to, it is no more than a recording may have.
#[tokio::test]
async fn made_up_deflated_recordings_are_refused_or_read() {
    let known = plain_recordings().await.map(|plain| {
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflated.write_all(&plain).unwrap();
        let deflated = deflated.finish().unwrap();
        assert_eq!(made_up(5, &deflated), made_up(4, &plain));
        deflated
    });
    gristmill_fuzz::check("deflated recording", &known.each_ref().map(Vec::as_slice), |body| {
        let recording = made_up(5, body)?;
        drop((recording.calls().collect::<Vec<_>>(), recording.lines(), recording.job()));
        Ok::<_, BadRecording>(recording.incomplete.is_some())
    });
}

/// Clocks and random numbers of WASI, which the guest returns.
const WASI: [&str; 3] = [
    "package wasi:random@0.2.0; interface random { get-random-bytes: func(len: u64) -> list<u8>; get-random-u64: func() -> u64; }
     interface insecure-seed { insecure-seed: func() -> tuple<u64, u64>; }",
    "package wasi:clocks@0.2.0;
     interface wall-clock { record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime; }
     interface monotonic-clock { now: func() -> u64; }",
    "package test:numbers; world numbers { include gristmill:job/job-handler@0.1.0;
        import wasi:random/random@0.2.0; import wasi:random/insecure-seed@0.2.0;
        import wasi:clocks/wall-clock@0.2.0; import wasi:clocks/monotonic-clock@0.2.0; }",
];

/// A guest that asks for them, and then does this.
fn numbers(end: &str) -> Vec<u8> {
    let functions = r#"
        (import "wasi:random/random@0.2.0" "get-random-bytes" (func $bytes (param i64 i32)))
        (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
        (import "wasi:random/insecure-seed@0.2.0" "insecure-seed" (func $seed (param i32)))
        (import "wasi:clocks/wall-clock@0.2.0" "now" (func $wall (param i32)))
        (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $ticks (result i64)))"#;
    let ask = "(i64.store (i32.const 4000) (call $random)) (i64.store (i32.const 4008) (call $ticks))
        (call $seed (i32.const 4016)) (call $wall (i32.const 4032)) (call $bytes (i64.const 16) (i32.const 4048))
        (memory.copy (i32.const 4056) (i32.load (i32.const 4048)) (i32.const 16))";
    handler_in(&WASI, "numbers", functions, &format!("{ask} {end}"))
}

#[tokio::test]
async fn clocks_and_random_numbers_of_wasi_are_those_that_were_recorded() {
    let component = load(&numbers("(call $return (i32.const 4000) (i32.const 72))")).await;
    let mut report = component.invoke(Attempt { record: Record::All, ..attempt("") }).await;
    let recording = carried(&mut report);
    let replayed = component.replay(&recording, input("").0).await.unwrap();
    assert_eq!((replayed.verdict, replayed.report.outcome), (ReplayVerdict::Same, report.outcome));
    // What ends the guest in a call ends it again.
    let greedy = load(&numbers("(call $bytes (i64.const 100000) (i32.const 4048)) unreachable")).await;
    let mut report = greedy.invoke(Attempt { record: Record::All, ..attempt("") }).await;
    assert!(matches!(&report.outcome, Outcome::Trapped { message, .. } if message.contains("limit")), "{report:?}");
    let recording = carried(&mut report);
    assert_eq!(verdict(&greedy, &recording, "").await, ReplayVerdict::Same);
}
