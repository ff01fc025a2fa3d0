//! Pull workers: topics that are worked over HTTP, under the same leases and the same fence as a runner.

mod abort;
mod example;
mod restart;
mod work;

use gristmill::job::{JobId, JobOptions, JobSpec, TopicId};
use gristmill::store::{JobState, JobView, TopicCounts};
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::{On, TestRunner, tenant};
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [topics.print]
    handler = "external"
    attempts = 3
    backoff = "1ms"
    output-limit = "1KiB"
    [topics.post]
    handler = "external"
    checkpoint-limit = "2MiB"
    [topics.done-here]
"#;

pub(crate) async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[]).await
}

/// What a claim of `topic` brings.
async fn claim(client: &HttpClient, topic: &str, asked: Value) -> Vec<Value> {
    let answer = client.post(&format!("/v1/tenants/default/topics/{topic}/claim"), &asked).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["claims"].as_array().unwrap().clone()
}

async fn claim_one(client: &HttpClient, topic: &str) -> Value {
    let mut claims = claim(client, topic, json!({ "wait_ms": 30_000 })).await;
    assert_eq!(claims.len(), 1);
    claims.remove(0)
}

async fn settle(client: &HttpClient, settlements: Value) -> Value {
    let answer = client.post("/v1/tenants/default/leases/settle", &json!({ "settlements": settlements })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["settled"].clone()
}

fn id(claim: &Value) -> JobId {
    claim["job"]["spec"]["id"].as_str().unwrap().parse().unwrap()
}

async fn view(runner: &TestRunner, job: &JobId) -> Option<JobView> {
    runner.store.job(&tenant(), job).await.unwrap()
}

async fn state(runner: &TestRunner, job: &JobId) -> Option<JobState> {
    view(runner, job).await.map(|view| view.state)
}

async fn counts(runner: &TestRunner, topic: &str) -> TopicCounts {
    let topic: TopicId = topic.parse().unwrap();
    let counts = runner.store.counts(&tenant()).await.unwrap();
    counts.into_iter().find(|counts| counts.topic == topic).unwrap()
}

/// A job whose end nobody keeps.
fn plain(topic: &str, body: &[u8]) -> JobSpec {
    JobSpec { options: JobOptions::default(), ..gristmill_tests::test_runner::spec(topic, body) }
}
