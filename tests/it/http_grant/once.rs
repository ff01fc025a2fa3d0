//! Answers that get lost, and providers that know `Idempotency-Key`.

use std::collections::HashMap;
use std::sync::Arc;

use caller::Call;
use gristmill::store::JobState;
use gristmill_tests::guests;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_runner::TestRunner;
use parking_lot::Mutex;

const JOBS: usize = 300;
const MANIFEST: &str = r#"
    [topics.caller]
    attempts = 4
    backoff = "10ms"
    [topics.caller.http]
    allow = ["http://*:*"]
    networks = ["127.0.0.1"]
    idempotency = true
"#;

fn key_of(request: &str) -> &str {
    request.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).expect("a key")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_loses_answers_charges_each_job_once() {
    let asked = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let seen = Arc::clone(&asked);
    // Each key is a charge. Of a part of them the first answer is lost, of some the second one too.
    let server = Server::start(move |request| {
        let mut asked = seen.lock();
        let to_lose = match asked.len() {
            charge if charge % 25 == 0 => 2,
            charge if charge % 5 == 0 => 1,
            _ => 0,
        };
        let left = asked.entry(key_of(request).to_owned()).or_insert(to_lose);
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => return Answer::ok("charged"),
        }
        Answer::Lost
    })
    .await;
    let runner = TestRunner::start(MANIFEST, &[("caller", guests::CALLER)]).await;
    let charge = Call { method: "POST".into(), body: Some("5 EUR".into()), must: true, ..Call::get(server.url("/")) };
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(runner.push("caller", &charge.clone().alone()).await);
    }
    let mut attempts = 0;
    for job in &jobs {
        let view = runner.end_of(job).await;
        assert_eq!(view.state, JobState::Finished, "{view:?}");
        attempts += view.attempts as usize;
    }
    assert_eq!(asked.lock().len(), JOBS, "charges");
    assert_eq!((attempts, server.requests().len()), (JOBS + JOBS / 5 + JOBS / 25, attempts), "answers were lost");
}
