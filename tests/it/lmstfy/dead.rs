//! Dead letters.

use gristmill_tests::test_runner::TestRunner;
use serde_json::json;

use super::{Client, data, error, runner};

on_both_stores! {
    no_dead_letter_is_an_empty_head
    the_oldest_job_is_claimed_first
    the_oldest_are_respawned_first_and_can_be_consumed
    the_oldest_are_deleted_first
    limits_and_times_are_refused_in_lmstfys_words
}

async fn no_dead_letter_is_an_empty_head(runner: TestRunner) {
    let client = Client::of(&runner);
    let expected = json!({ "namespace": "ns", "queue": "q", "deadletter_size": 0, "deadletter_head": "" });
    assert_eq!(client.get("q/deadletter").await.json(), expected);
    let expected = json!({ "namespace": "ns", "queue": "q", "size": 0 });
    assert_eq!(client.get("q/deadletter/size").await.json(), expected);
    assert_eq!(client.put("q/deadletter", b"").await.json(), json!({ "msg": "respawned", "count": 0 }));
    assert_eq!(client.delete("q/deadletter?limit=5").await.status, 204);
}

/// Three dead jobs, the oldest first.
async fn three(client: &Client) -> [String; 3] {
    let mut dead = [String::new(), String::new(), String::new()];
    for (n, id) in dead.iter_mut().enumerate() {
        *id = client.kill("q", &n.to_string()).await;
        client.until_dead("q", n as u64 + 1).await;
    }
    dead
}

async fn head(client: &Client) -> (u64, String) {
    let dead = client.get("q/deadletter").await.json();
    (dead["deadletter_size"].as_u64().unwrap(), dead["deadletter_head"].as_str().unwrap().to_owned())
}

async fn the_oldest_job_is_claimed_first(runner: TestRunner) {
    let client = Client::of(&runner);
    let [oldest, ..] = three(&client).await;
    assert_eq!(head(&client).await, (3, oldest));
}

async fn the_oldest_are_respawned_first_and_can_be_consumed(runner: TestRunner) {
    let client = Client::of(&runner);
    let [first, second, third] = three(&client).await;
    let answer = client.put("q/deadletter?limit=2&ttl=120", b"").await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "msg": "respawned", "count": 2 })));
    assert_eq!(head(&client).await, (1, third.clone()));
    for id in [first, second] {
        assert_eq!(client.get("q?ttr=600").await.json()["job_id"], id);
    }
    assert_eq!(client.put("q/deadletter?limit=9223372036854775807&ttl=0", b"").await.json()["count"], 1);
    let job = client.get("q?ttr=600").await.json();
    assert_eq!((&job["job_id"], data(&job)), (&third.into(), "2".into()));
}

async fn the_oldest_are_deleted_first(runner: TestRunner) {
    let client = Client::of(&runner);
    let [first, second, third] = three(&client).await;
    assert_eq!(client.delete("q/deadletter").await.status, 204);
    assert_eq!(head(&client).await, (2, second));
    assert_eq!(client.get(&format!("q/job/{first}")).await.status, 404);
    assert_eq!(client.delete("q/deadletter?limit=100").await.status, 204);
    assert_eq!(head(&client).await, (0, String::new()));
    assert_eq!(client.get(&format!("q/job/{third}")).await.status, 404);
}

async fn limits_and_times_are_refused_in_lmstfys_words(runner: TestRunner) {
    let client = Client::of(&runner);
    for (query, text) in
        [("limit=0", "invalid limit"), ("limit=-1&ttl=x", "invalid limit"), ("limit=x", "invalid limit")]
    {
        for answer in [
            client.put(&format!("q/deadletter?{query}"), b"").await,
            client.delete(&format!("q/deadletter?{query}")).await,
        ] {
            assert_eq!((answer.status, error(&answer)), (400, text.into()), "{query}");
        }
    }
    for query in ["ttl=-1", "ttl=x", "ttl="] {
        let answer = client.put(&format!("q/deadletter?{query}"), b"").await;
        assert_eq!((answer.status, error(&answer)), (400, "invalid ttl".into()), "{query}");
    }
}
