//! Consume: one or several, from one queue or from several, now or when there is something.

use std::time::{Duration, Instant};

use gristmill::store::JobState;
use gristmill::time::Timestamp;
use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use super::{Client, counts, data, error, runner, view};

on_both_stores! {
    an_empty_queue_has_no_job_available
    the_first_published_is_the_first_consumed
    the_order_of_names_is_strict
    several_are_an_array_which_may_be_short
    parameters_of_a_consume_are_refused_in_lmstfys_words
    a_long_poll_ends_with_the_first_job
    a_long_poll_ends_with_its_timeout
    each_job_wakes_one_waiting_client
    a_batch_that_waits_gets_what_there_is
    consume_skips_and_counts_expired_jobs
    a_job_is_due_again_when_its_ttr_ends_and_dead_after_its_last_try
    a_ttr_of_zero_is_over_at_once
    a_ttr_is_cut_to_a_day
    a_paused_queue_gives_nothing
}

async fn an_empty_queue_has_no_job_available(runner: TestRunner) {
    let client = Client::of(&runner);
    for path in ["q", "q1,q2", "q?count=3", "q?timeout=0"] {
        let answer = client.get(path).await;
        assert_eq!((answer.status, answer.json()), (404, json!({ "msg": "no job available" })), "{path}");
    }
}

async fn the_first_published_is_the_first_consumed(runner: TestRunner) {
    let client = Client::of(&runner);
    let mut published = Vec::new();
    for n in 0..5 {
        published.push(client.publish("q", &n.to_string()).await);
    }
    for id in published {
        assert_eq!(client.consume("q").await["job_id"], id);
    }
}

async fn the_order_of_names_is_strict(runner: TestRunner) {
    let client = Client::of(&runner);
    client.publish("a", "a1").await;
    client.publish("b", "b1").await;
    client.publish("b", "b2").await;
    for expected in ["b1", "b2", "a1"] {
        let job = client.get("b,,a,").await.json();
        assert_eq!((data(&job).as_str(), &job["queue"]), (expected, &Value::from(&expected[..1])));
    }
    client.publish("a", "a2").await;
    let job = client.get("_x,b,a?timeout=1").await.json();
    assert_eq!(data(&job), "a2");
}

async fn several_are_an_array_which_may_be_short(runner: TestRunner) {
    let client = Client::of(&runner);
    for n in 0..4 {
        client.publish(if n < 3 { "a" } else { "b" }, &n.to_string()).await;
    }
    let all = |answer: gristmill_tests::http_client::Answer| -> Vec<String> {
        assert_eq!(answer.status, 200);
        answer.json().as_array().unwrap().iter().map(data).collect()
    };
    assert_eq!(all(client.get("b,a?count=3").await), ["3", "0", "1"]);
    assert_eq!(all(client.get("b,a?count=100").await), ["2"]);
    assert_eq!(client.get("b,a?count=3").await.status, 404);
    for _ in 0..30 {
        client.put("c/bulk", b"[1,2,3,4]").await;
    }
    assert_eq!(all(client.get("c?count=100").await).len(), 100);
    assert_eq!(client.size("c").await, 20);
}

async fn parameters_of_a_consume_are_refused_in_lmstfys_words(runner: TestRunner) {
    let client = Client::of(&runner);
    let many: Vec<String> = (0..129).map(|n| format!("q{n}")).collect();
    for (path, text) in [
        ("q?ttr=x&timeout=x", "invalid ttr"),
        ("q?ttr=4294967296", "invalid ttr"),
        ("q?timeout=-1&count=0", "invalid timeout"),
        ("q?count=0", "invalid count"),
        ("q?count=101", "invalid count"),
        ("q?count=x", "invalid count"),
        (",,?count=1", "invalid queue name(s)"),
        ("q.1", "queue name contains forbidden characters"),
        (many.join(",").as_str(), "too many queues, cannot exceed 128"),
    ] {
        let answer = client.get(path).await;
        assert_eq!((answer.status, error(&answer)), (400, text.into()), "{path}");
    }
    assert_eq!(client.get(&many[..128].join(",")).await.status, 404);
    assert_eq!(client.get("q?ttr=4294967295").await.status, 404);
}

async fn a_long_poll_ends_with_the_first_job(runner: TestRunner) {
    let client = Client::of(&runner);
    // As long as it goes: nothing may run over.
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.get("b,a?timeout=4294967295").await }
    });
    let id = client.publish("a?delay=1", "at last").await;
    let answer = tokio::time::timeout(SOON, waiting).await.expect("an answer").unwrap();
    assert_eq!((answer.status, &answer.json()["job_id"]), (200, &id.into()));
}

async fn a_long_poll_ends_with_its_timeout(runner: TestRunner) {
    let client = Client::of(&runner);
    let begun = Instant::now();
    assert_eq!(client.get("q?timeout=1").await.status, 404);
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

async fn each_job_wakes_one_waiting_client(runner: TestRunner) {
    const MANY: usize = 20;
    let client = Client::of(&runner);
    let waiting: Vec<_> = (0..MANY)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.consume("a,b").await["job_id"].as_str().unwrap().to_owned() })
        })
        .collect();
    let mut published = Vec::new();
    for n in 0..MANY {
        published.push(client.publish(if n % 2 == 0 { "a" } else { "b" }, "").await);
    }
    let mut consumed = Vec::new();
    for one in waiting {
        consumed.push(one.await.unwrap());
    }
    published.sort();
    consumed.sort();
    assert_eq!(consumed, published);
}

async fn a_batch_that_waits_gets_what_there_is(runner: TestRunner) {
    let client = Client::of(&runner);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.consume("q?count=5").await }
    });
    let id = client.publish("q", "").await;
    assert_eq!(waiting.await.unwrap()[0]["job_id"], id);
}

async fn consume_skips_and_counts_expired_jobs(runner: TestRunner) {
    let client = Client::of(&runner);
    for _ in 0..30 {
        client.publish("q?delay=1&ttl=1", "over").await;
    }
    client.until_size("q", 30).await;
    let id = client.publish("q", "live").await;
    let next = async || (client.get("q/peek").await.json()["job_id"] == id).then_some(());
    until("all others to be over", SOON, next).await;
    assert_eq!(client.get("q").await.json()["job_id"], id);
    assert_eq!((client.get("q").await.status, client.size("q").await), (404, 0));
    assert_eq!(counts(&runner, "q").await.totals["expired"], 30);
}

async fn a_job_is_due_again_when_its_ttr_ends_and_dead_after_its_last_try(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q?tries=2", "").await;
    for left in [1, 0] {
        let job = client.consume("q?ttr=1").await;
        assert_eq!((&job["job_id"], &job["remain_tries"]), (&id.clone().into(), &left.into()));
    }
    client.until_dead("q", 1).await;
    let dead = client.get("q/deadletter").await.json();
    assert_eq!((&dead["deadletter_size"], &dead["deadletter_head"]), (&1.into(), &id.into()));
    assert_eq!(client.get("q").await.status, 404);
}

async fn a_ttr_of_zero_is_over_at_once(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q?tries=3", "").await;
    for left in [2, 1, 0] {
        let job = client.consume("q?ttr=0").await;
        assert_eq!((&job["job_id"], &job["remain_tries"]), (&id.clone().into(), &left.into()));
    }
    client.until_dead("q", 1).await;
}

async fn a_paused_queue_gives_nothing(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q", "").await;
    let topic = counts(&runner, "q").await.topic;
    runner.store.set_paused(&topic, true).await.unwrap();
    assert_eq!(client.get("q").await.status, 404);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.consume("q").await }
    });
    runner.store.set_paused(&topic, false).await.unwrap();
    assert_eq!(waiting.await.unwrap()["job_id"], id);
}

async fn a_ttr_is_cut_to_a_day(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q", "").await;
    client.consume("q?ttr=4294967295").await;
    let JobState::Running { lease_until, .. } = view(&runner, &id).await.unwrap().state else { panic!("it runs") };
    let day = Duration::from_secs(24 * 3600);
    assert!(lease_until <= Timestamp::now().plus(day), "{lease_until}");
}
