//! Workers that are gone before they have read their answer.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use gristmill::job::{Due, JobId};
use gristmill::store::JobState;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{claim, counts, id, plain, runner, settle, state};

on_both_stores! {
    a_worker_that_hangs_up_while_waiting_gets_no_job
    no_job_is_lost_to_workers_that_leave_at_any_moment
    a_server_that_ends_answers_waiting_requests
}

/// Sends a claim by hand, and leaves the answer to whoever wants it.
async fn begin_claim(client: &HttpClient, lease_ms: u64) -> TcpStream {
    let mut stream = TcpStream::connect(client.address).await.unwrap();
    let (head, body) = written(client, lease_ms, "");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

/// The same, and the server is known to have begun with it: only who reads a request says that its body may come.
async fn begun_claim(client: &HttpClient, lease_ms: u64) -> TcpStream {
    const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut stream = TcpStream::connect(client.address).await.unwrap();
    let (head, body) = written(client, lease_ms, "Expect: 100-continue\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = [0; GO_ON.len()];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(said, GO_ON);
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

/// Head and body of a claim that waits for long.
fn written(client: &HttpClient, lease_ms: u64, header: &str) -> (String, String) {
    let body = json!({ "wait_ms": 60_000, "lease_ms": lease_ms }).to_string();
    let head = format!(
        "POST /v1/tenants/default/topics/print/claim HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         {header}Content-Length: {}\r\n\r\n",
        client.address,
        body.len()
    );
    (head, body)
}

async fn a_worker_that_hangs_up_while_waiting_gets_no_job(runner: TestRunner) {
    let client = runner.client();
    for _ in 0..10 {
        drop(begin_claim(&client, 1000).await);
    }
    let pushed = runner.push_job(plain("print", b"x"), Due::Now).await;
    // One that stays gets it, whoever of the others was served before the server saw that they had gone.
    let claims = until("the job", SOON, async || {
        Some(claim(&client, "print", json!({ "wait_ms": 1000 })).await).filter(|claims| !claims.is_empty())
    })
    .await;
    assert_eq!(id(&claims[0]), pushed);
    assert_eq!(settle(&client, json!([{ "lease": claims[0]["lease"], "ack": {} }])).await, json!(["done"]));
    assert_eq!(counts(&runner, "print").await.running, 0);
}

async fn no_job_is_lost_to_workers_that_leave_at_any_moment(runner: TestRunner) {
    const JOBS: usize = 60;
    let client = runner.client();
    let leaving = tokio::spawn({
        let client = client.clone();
        async move {
            for n in 0..JOBS as u64 {
                let stream = begin_claim(&client, 500).await;
                // In all sorts of moments: while it is read, while it waits, while it is answered.
                for _ in 0..n % 30 {
                    tokio::task::yield_now().await;
                }
                drop(stream);
            }
        }
    });
    let mut pushed = HashSet::new();
    for _ in 0..JOBS {
        // Few enough attempts that one wasted on each would not show; enough for a few that were.
        let mut spec = plain("print", b"x");
        spec.options.max_attempts = Some(50);
        pushed.insert(runner.push_job(spec, Due::Now).await);
    }
    leaving.await.unwrap();
    let mut done: HashSet<JobId> = HashSet::new();
    until("every job to be done once", SOON * 2, async || {
        let claims = claim(&client, "print", json!({ "max": 100, "wait_ms": 1000 })).await;
        let acks = claims.iter().map(|claim| json!({ "lease": claim["lease"], "ack": {} })).collect();
        let settled = settle(&client, acks).await;
        assert!(settled.as_array().unwrap().iter().all(|settled| settled == "done"), "{settled}");
        for claim in &claims {
            assert!(done.insert(id(claim)), "a job was done twice");
        }
        (done.len() == JOBS).then_some(())
    })
    .await;
    assert_eq!(done, pushed);
    let counts = counts(&runner, "print").await;
    assert_eq!((counts.ready, counts.delayed, counts.running, counts.dead), (0, 0, 0, 0));
}

async fn a_server_that_ends_answers_waiting_requests(mut runner: TestRunner) {
    let on = if runner.redis.is_some() { On::Redis } else { On::Memory };
    // What has begun has two seconds. On a machine that stands still for so long it may be cut off: then once more.
    until("a server to end in time", SOON, async || {
        let client = runner.client();
        let mut waiting = begun_claim(&client, 1000).await;
        // One that came later was served: so the first one is waiting, or is about to.
        assert!(claim(&client, "print", json!({ "wait_ms": 50 })).await.is_empty());
        let begun = Instant::now();
        runner.shutdown().await;
        if begun.elapsed() >= Duration::from_secs(2) {
            runner = super::runner(on).await;
            return None;
        }
        let mut answer = String::new();
        let read = waiting.read_to_string(&mut answer).await;
        let whole = answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(r#"{"claims":[]}"#);
        assert!(read.is_ok() && whole, "{read:?} {answer}");
        Some(())
    })
    .await;
    let pushed = runner.push_job(plain("print", b"x"), Due::Now).await;
    assert_eq!(state(&runner, &pushed).await, Some(JobState::Ready));
}
