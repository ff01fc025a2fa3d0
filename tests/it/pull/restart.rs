//! A server that is killed and comes back: leases are the store's, and a pull worker outlives the server.

use std::time::Duration;

use gristmill_tests::http_client::HttpClient;
use gristmill_tests::process::Process;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use super::{claim, claim_one, id};

const MANIFEST: &str = "
    [topics.print]
    handler = \"external\"
    ";

/// Whoever asks the server that is the `nth` to write into this log.
async fn client(server: &Process, nth: usize) -> HttpClient {
    let listens = async || {
        let log = server.log();
        let address =
            log.split("listening on http://").nth(nth)?.split(|c: char| c.is_whitespace() || c == '"').next()?;
        log.matches("ready for jobs").nth(nth - 1).and_then(|_| address.parse().ok()).map(HttpClient::new)
    };
    until("the server to be ready", SOON, listens).await
}

async fn push(client: &HttpClient, name: &str) {
    let job = json!({ "id": name, "topic": "print" });
    assert_eq!(client.post("/v1/jobs", &json!({ "jobs": [job] })).await.status, 200);
}

async fn settle(client: &HttpClient, claim: &Value) -> Value {
    let settlement = json!({ "settlements": [{ "lease": claim["lease"], "ack": {} }] });
    client.post("/v1/tenants/default/leases/settle", &settlement).await.json()["settled"].clone()
}

async fn a_restarted_server_honours_leases(project: TestProject) {
    let server = project.serve().await;
    let before = client(&server, 1).await;
    for name in ["kept", "left"] {
        push(&before, name).await;
    }
    let kept = claim(&before, "print", json!({ "lease_ms": 3_600_000, "worker": "press" })).await.remove(0);
    let left = claim(&before, "print", json!({ "lease_ms": 1000 })).await.remove(0);
    server.kill();
    let server = project.serve().await;
    let after = client(&server, 2).await;
    // The one whose lease ran out comes back by that, and by nothing else.
    let again = claim_one(&after, "print").await;
    assert_eq!((id(&again), &again["previous"]), (id(&left), &json!("lease-expired")));
    // Long enough for a dead worker's job to be taken back: this worker has no heartbeat that could have stopped.
    assert!(claim(&after, "print", json!({ "wait_ms": Duration::from_secs(9).as_millis() as u64 })).await.is_empty());
    assert_eq!(settle(&after, &kept).await, json!(["done"]));
    assert_eq!(settle(&after, &left).await, json!(["lease-lost"]));
    assert_eq!(settle(&after, &again).await, json!(["done"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_honours_leases_of_its_file() {
    a_restarted_server_honours_leases(TestProject::new(MANIFEST, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_honours_leases_in_redis() {
    a_restarted_server_honours_leases(TestProject::on_redis(MANIFEST, &[]).await).await;
}
