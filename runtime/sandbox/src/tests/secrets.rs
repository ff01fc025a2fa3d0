//! Secrets that a guest never has: what it gets for them, and what remains of them after an attempt. Where they go is tested in `outbound`.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::commands::{command, preview1};
use super::guest::handler_in;
use super::{attempt, load};
use crate::{Attempt, Component, LogSink, Record, Recording, ReplayInput, ReplayVerdict, Report};
use gristmill_core::http_grant::{HostPattern, HttpGrant, Withheld, WithheldKind};
use gristmill_core::outcome::Outcome;
use gristmill_core::topic::{Grants, Program};

const SECRET: &[u8] = b"correct horse battery staple";

/// Sends the secret `token` to the URL in the body, logs it and the answer, and ends with the memory that has all of it.
async fn sender(end: &str) -> Component {
    let functions = r#"
        (import "gristmill:job/config@0.1.0" "secret" (func $secret (param i32 i32 i32)))
        (import "gristmill:job/http@0.1.0" "send" (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32)))
        (data (i32.const 2200) "POSTtoken")"#;
    let handle = format!(
        "(call $secret (i32.const 2204) (i32.const 5) (i32.const 4000))
        (call $emit (i32.const 2) (i32.load (i32.const 4004)) (i32.load (i32.const 4008)) (i32.const 0) (i32.const 0))
        (call $send (i32.const 2200) (i32.const 4)
            (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 0) (i32.const 0)
            (i32.const 1) (i32.load (i32.const 4004)) (i32.load (i32.const 4008))
            (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 4104))
        (call $emit (i32.const 2) (i32.load (i32.const 4124)) (i32.load (i32.const 4128)) (i32.const 0) (i32.const 0))
        {end}"
    );
    load(&handler_in(&[], "gristmill:job/job-handler-all", functions, &handle)).await
}

const RETURN: &str = "(call $return (i32.const 0) (i32.const 65536))";

fn withheld(kind: WithheldKind, hosts: &[HostPattern]) -> Vec<Arc<Withheld>> {
    vec![Arc::new(Withheld { kind, name: "token".into(), bytes: SECRET.to_vec(), hosts: hosts.to_vec() })]
}

fn granted(url: &str, record: Record) -> Attempt {
    let mut http = HttpGrant::of(vec![url.parse().unwrap()]);
    http.networks = vec!["127.0.0.0/8".parse().unwrap()];
    let withheld = withheld(WithheldKind::Secret, &http.allow);
    let grants = Grants { http: Some(Arc::new(http)), withheld, ..Grants::default() };
    Attempt { grants: Arc::new(grants), record, ..attempt(url) }
}

/// Answers with what it was sent, which it keeps.
async fn echo() -> (String, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let (mut bytes, mut part) = (Vec::new(), [0; 1024]);
                while let Ok(read @ 1..) = stream.read(&mut part).await {
                    bytes.extend_from_slice(&part[..read]);
                    let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") else { continue };
                    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                    if bytes.len() == end + 4 + length.parse::<usize>().unwrap() {
                        let body = bytes.split_off(end + 4);
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nx-echo: ");
                        let answer = [head.as_bytes(), &body, b"\r\n\r\n", &body].concat();
                        stream.write_all(&answer).await.unwrap();
                        log.lock().push(body);
                        bytes.clear();
                    }
                }
            });
        }
    });
    (url, seen)
}

fn has_secret(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, SECRET).is_some()
}

fn memory(report: &Report) -> &[u8] {
    let Outcome::Complete(Some(memory)) = &report.outcome else { panic!("{report:?}") };
    &memory.data
}

#[tokio::test]
async fn a_secret_is_in_the_request_and_nowhere_in_the_guest() {
    let (url, seen) = echo().await;
    let component = sender(RETURN).await;
    let mut placeholders = Vec::new();
    for _ in 0..2 {
        let mut attempt = granted(&url, Record::All);
        let lines = super::listen(&mut attempt);
        let mut report = component.invoke(attempt).await;
        assert!(!has_secret(memory(&report)));
        let recording = report.recording.take().unwrap();
        assert_eq!(recording.incomplete, None);
        assert!(!has_secret(&recording.to_bytes().unwrap()));
        let lines = lines.lock().clone();
        let [placeholder, echoed] = &lines[..] else { panic!("two lines") };
        assert!(placeholder.message.starts_with("gristmill-secret-") && placeholder.message.len() == 49);
        assert_eq!(echoed.message, placeholder.message);
        placeholders.push(placeholder.message.clone());
        let recording = Arc::new(Recording::parse(&recording.to_bytes().unwrap()).unwrap());
        // The machine that replays it need not have the secret, and may.
        for secrets in [Default::default(), [("token".to_owned(), SECRET.to_vec())].into()] {
            let again = Arc::default();
            let logs = LogSink::Collect(Arc::clone(&again));
            let input = ReplayInput { body: url.clone().into(), secrets, env: Default::default(), logs };
            let replayed = component.replay(&recording, input).await.unwrap();
            assert_eq!(replayed.verdict, ReplayVerdict::Same);
            assert_eq!((replayed.report.outcome, replayed.report.fuel), (report.outcome.clone(), report.fuel));
            assert_eq!(*again.lock(), lines);
        }
    }
    assert_eq!(*seen.lock(), [SECRET, SECRET]);
    assert_ne!(placeholders[0], placeholders[1], "another attempt has another one");
}

#[tokio::test]
async fn a_failed_attempt_with_a_placeholder_is_replayed() {
    let (url, _) = echo().await;
    let component = sender("unreachable").await;
    let report = component.invoke(granted(&url, Record::Failures)).await;
    let recording = Arc::new(*report.recording.unwrap());
    let input = ReplayInput {
        body: url.into(),
        secrets: Default::default(),
        env: Default::default(),
        logs: LogSink::Collect(Arc::default()),
    };
    assert_eq!(component.replay(&recording, input).await.unwrap().verdict, ReplayVerdict::Same);
}

#[tokio::test]
async fn a_recording_whose_job_had_the_secret_is_not_kept() {
    let (url, _) = echo().await;
    let mut attempt = granted(&url, Record::All);
    let metadata = ("note".to_owned(), String::from_utf8(SECRET.to_vec()).unwrap());
    Arc::make_mut(&mut attempt.job).spec.metadata.push(metadata);
    assert!(sender(RETURN).await.invoke(attempt).await.recording.is_none());
}

#[tokio::test]
async fn an_instance_that_is_used_again_keeps_its_placeholder() {
    let (url, seen) = echo().await;
    let component = sender(RETURN).await;
    let pool = component.instance_pool(2);
    let mut said = Vec::new();
    for _ in 0..3 {
        let mut attempt = granted(&url, Record::Off);
        let lines = super::listen(&mut attempt);
        assert!(!has_secret(memory(&pool.invoke(&component, attempt).await)));
        said.push(lines.lock()[0].message.clone());
    }
    assert_eq!(said[0], said[1]);
    assert_ne!(said[1], said[2], "two jobs are all that it does");
    assert_eq!(seen.lock().len(), 3);
    assert!(seen.lock().iter().all(|body| body == SECRET));
}

#[tokio::test]
async fn a_variable_can_be_a_placeholder() {
    let print = "(drop (call $environ_sizes_get (i32.const 1040) (i32.const 1044)))
        (drop (call $environ_get (i32.const 2000) (i32.const 4096)))
        (call $print (i32.const 4096) (i32.load (i32.const 1044)))";
    let component = load(&preview1(print)).await;
    let mut attempt = Attempt { record: Record::All, ..command("", Program::default()) };
    let grants = Arc::make_mut(&mut attempt.grants);
    grants.withheld = withheld(WithheldKind::Variable, &["api.example".parse().unwrap()]);
    grants.env.insert("ZONE".into(), "a".into());
    let mut report = component.invoke(attempt).await;
    let said = String::from_utf8(memory(&report).to_vec()).unwrap();
    let (_, value) = said.split_once("\0token=").unwrap();
    assert!(value.starts_with("gristmill-secret-") && said.contains("\0ZONE=a\0"), "{said}");
    let recording = Arc::new(*report.recording.take().unwrap());
    let env = [("ZONE".to_owned(), "a".to_owned())].into();
    let input = ReplayInput { body: Vec::new(), secrets: Default::default(), env, logs: LogSink::Trace };
    assert_eq!(component.replay(&recording, input).await.unwrap().verdict, ReplayVerdict::Same);
}
