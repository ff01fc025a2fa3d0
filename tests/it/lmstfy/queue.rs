//! Peek, size, destroy.

use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use super::{Client, data, error, runner, view};

on_both_stores! {
    peek_shows_the_next_job_and_leaves_it_there
    a_job_is_peeked_wherever_it_is
    an_empty_queue_and_an_unknown_job_have_different_answers
    size_counts_what_is_ready
    destroy_deletes_what_is_ready_and_leaves_the_rest
}

async fn peek_shows_the_next_job_and_leaves_it_there(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q?ttl=0&tries=4", "first").await;
    client.publish("q", "second").await;
    let mut job = client.get("q/peek").await.json();
    assert!(job["elapsed_ms"].take().is_u64());
    let expected = json!({
        "namespace": "ns", "queue": "q", "job_id": id, "data": "Zmlyc3Q=", "ttl": 0, "elapsed_ms": null,
        "remain_tries": 4, "attributes": null
    });
    assert_eq!(job, expected);
    assert_eq!(client.size("q").await, 2);
}

async fn a_job_is_peeked_wherever_it_is(runner: TestRunner) {
    let client = Client::of(&runner);
    let delayed = client.publish("q?delay=3600", "delayed").await;
    let ready = client.publish("q", "ready").await;
    let peek = async |id: &str| data(&client.get(&format!("q/job/{id}")).await.json());
    assert_eq!((peek(&delayed).await, peek(&ready).await), ("delayed".into(), "ready".into()));
    client.consume("q").await;
    assert_eq!(peek(&ready).await, "ready");
    let dead = client.kill("q", "dead").await;
    assert_eq!(peek(&dead).await, "dead");
}

async fn an_empty_queue_and_an_unknown_job_have_different_answers(runner: TestRunner) {
    let client = Client::of(&runner);
    let answer = client.get("q/peek").await;
    assert_eq!((answer.status, error(&answer)), (404, "the queue is empty".into()));
    let id = client.publish("other", "").await;
    for id in ["01H", "%20", &id] {
        let answer = client.get(&format!("q/job/{id}")).await;
        assert_eq!((answer.status, error(&answer)), (404, "job not found".into()), "{id}");
    }
    let over = client.publish("q?delay=1&ttl=1", "").await;
    // It is ready before it is over, and stays there: nobody consumes.
    client.until_size("q", 1).await;
    let path = format!("q/job/{over}");
    until("the job to be over", SOON, async || (client.get(&path).await.status == 404).then_some(())).await;
    assert_eq!(client.get("q/peek").await.status, 404);
}

async fn size_counts_what_is_ready(runner: TestRunner) {
    let client = Client::of(&runner);
    assert_eq!(client.get("q/size").await.json(), json!({ "namespace": "ns", "queue": "q", "size": 0 }));
    client.publish("q", "").await;
    client.publish("q", "").await;
    client.publish("q?delay=3600", "").await;
    client.consume("q").await;
    assert_eq!(client.size("q").await, 1);
}

async fn destroy_deletes_what_is_ready_and_leaves_the_rest(runner: TestRunner) {
    let client = Client::of(&runner);
    let running = client.publish("q?tries=2", "running").await;
    client.consume("q?ttr=600").await;
    let delayed = client.publish("q?delay=3600", "delayed").await;
    let bulk: Vec<Value> = vec![json!(1); 64];
    for _ in 0..10 {
        client.put("q/bulk", &serde_json::to_vec(&bulk).unwrap()).await;
    }
    assert_eq!(client.delete("q").await.status, 204);
    assert_eq!((client.size("q").await, client.get("q").await.status), (0, 404));
    assert!(view(&runner, &running).await.is_some() && view(&runner, &delayed).await.is_some());
    assert_eq!(client.delete("never-was").await.status, 204);
}
