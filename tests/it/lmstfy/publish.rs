//! Publish, publish many, publish anew.

use std::time::Duration;

use gristmill::store::JobState;
use gristmill_tests::test_runner::TestRunner;
use hyper::Request;
use serde_json::{Value, json};

use super::{Client, data, error, runner, view};

on_both_stores! {
    a_job_is_consumed_as_it_was_published
    a_body_may_be_empty_or_any_bytes_up_to_a_mebibyte
    parameters_are_checked_in_order_and_refused_in_lmstfys_words
    names_are_checked_before_anything_else
    a_delayed_job_cannot_be_claimed_before_it_is_due
    a_ttl_of_zero_is_for_ever
    attributes_come_back_if_the_version_is_asked_for
    sixteen_attributes_are_allowed_and_not_one_more
    many_are_published_at_once_as_they_are_written
    an_array_has_one_to_sixty_four_jobs
    a_job_published_anew_has_a_new_id_and_the_old_one_is_gone
    nothing_happens_to_the_old_job_if_the_new_one_makes_no_sense
}

async fn a_job_is_consumed_as_it_was_published(runner: TestRunner) {
    let client = Client::of(&runner);
    let answer = client.put("q?ttl=600&tries=3", b"hello").await;
    assert_eq!(answer.status, 201);
    let id = answer.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(answer.json(), json!({ "msg": "published", "job_id": id }));
    assert_eq!(id.len(), 26);

    let answer = client.get("q?ttr=60").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json; charset=utf-8"));
    let mut job = answer.json();
    assert!(job["elapsed_ms"].take().as_u64().is_some_and(|elapsed| elapsed < 60_000));
    assert!(job["ttl"].take().as_u64().is_some_and(|ttl| (540..=600).contains(&ttl)));
    let expected = json!({
        "msg": "new job", "namespace": "ns", "queue": "q", "job_id": id, "data": "aGVsbG8=", "ttl": null,
        "elapsed_ms": null, "remain_tries": 2, "attributes": null
    });
    assert_eq!(job, expected);
}

async fn a_body_may_be_empty_or_any_bytes_up_to_a_mebibyte(runner: TestRunner) {
    let client = Client::of(&runner);
    client.publish("q", "").await;
    assert_eq!(client.consume("q").await["data"], "");
    let most = "x".repeat(1 << 20);
    client.publish("q", &most).await;
    assert_eq!(data(&client.consume("q").await), most);
    let answer = client.put("q", format!("{most}x").as_bytes()).await;
    assert_eq!((answer.status, error(&answer)), (413, "body too large".into()));
    assert_eq!(client.put("q", &[0, 0xff, 0x0a]).await.status, 201);
    assert_eq!(client.consume("q").await["data"], "AP8K");
}

async fn parameters_are_checked_in_order_and_refused_in_lmstfys_words(runner: TestRunner) {
    let client = Client::of(&runner);
    for (query, text) in [
        ("delay=x&ttl=x", "invalid delay"),
        ("delay=4294967296", "invalid delay"),
        ("delay=-1", "invalid delay"),
        ("ttl=&tries=0", "invalid ttl"),
        ("delay=11&ttl=10&tries=x", "ttl is shorter than delay"),
        ("tries=65536", "invalid tries"),
        ("tries=0", "tries shouldn't be zero"),
    ] {
        for path in ["q", "q/bulk", "q/job/01H"] {
            let answer = client.put(&format!("{path}?{query}"), b"[1]").await;
            assert_eq!((answer.status, error(&answer)), (400, text.into()), "{path}?{query}");
        }
    }
    for query in ["delay=4294967295&ttl=4294967295", "delay=5&ttl=0", "tries=65535", "freeze_tries=false"] {
        assert_eq!(client.put(&format!("q?{query}"), b"").await.status, 201, "{query}");
    }
}

async fn names_are_checked_before_anything_else(runner: TestRunner) {
    let client = Client::of(&runner);
    for (path, text) in [
        ("_q?delay=x", "queue name contains forbidden characters"),
        ("q.1", "queue name contains forbidden characters"),
        ("q1,q2", "queue name contains forbidden characters"),
        ("%ff", "queue name contains forbidden characters"),
        ("q".repeat(129).as_str(), "namespace or queue name too long"),
        ("q".repeat(256).as_str(), "namespace or queue name too long"),
    ] {
        let answer = client.put(path, b"").await;
        assert_eq!((answer.status, error(&answer)), (400, text.into()), "{path}");
    }
    let answer = client.within("n%20s").put("q", b"").await;
    assert_eq!((answer.status, error(&answer)), (400, "namespace name contains forbidden characters".into()));
    let (queue, odd) = ("-q".to_owned() + &"x".repeat(124), client.within("_-odd"));
    odd.publish(&queue, "odd").await;
    let job = odd.consume(&queue).await;
    assert_eq!((&job["namespace"], &job["queue"]), (&"_-odd".into(), &queue.into()));
}

async fn a_delayed_job_cannot_be_claimed_before_it_is_due(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q?delay=3600", "later").await;
    assert!(matches!(view(&runner, &id).await.unwrap().state, JobState::Delayed { .. }));
    assert_eq!((client.get("q").await.status, client.size("q").await), (404, 0));
    let soon = client.publish("q?delay=1", "soon").await;
    assert_eq!(client.consume("q").await["job_id"], soon);
}

async fn a_ttl_of_zero_is_for_ever(runner: TestRunner) {
    let client = Client::of(&runner);
    let id = client.publish("q?ttl=0", "").await;
    assert_eq!(view(&runner, &id).await.unwrap().job.unwrap().spec.options.ttl, None);
    assert_eq!(client.consume("q").await["ttl"], 0);
    let id = client.publish("q", "").await;
    assert_eq!(view(&runner, &id).await.unwrap().job.unwrap().spec.options.ttl, Some(Duration::from_secs(86_400)));
}

async fn attributes_come_back_if_the_version_is_asked_for(runner: TestRunner) {
    let client = Client::of(&runner);
    let with = |version: &str| {
        let request = Request::put(client.path("q")).header("Job-Attr-Hello", "World").header("Job-Attr-Foo", "bar");
        request.header("Enable-Job-Version", version)
    };
    let id = client.send(with("yes"), b"a").await.json()["job_id"].clone();
    assert_eq!(id.as_str().map(|id| (id.len(), id.starts_with('1'))), Some((27, true)));
    assert_eq!(client.consume("q").await["attributes"], json!({ "hello": "World", "foo": "bar" }));
    client.send(with("no"), b"a").await;
    assert_eq!(client.consume("q").await["attributes"], Value::Null);
}

async fn sixteen_attributes_are_allowed_and_not_one_more(runner: TestRunner) {
    let client = Client::of(&runner);
    let with = |count: usize| {
        let request = Request::put(client.path("q")).header("Enable-Job-Version", "YES");
        (0..count).fold(request, |request, n| request.header(format!("Job-Attr-{n}"), "v"))
    };
    assert_eq!(client.send(with(16), b"").await.status, 201);
    let answer = client.send(with(17), b"").await;
    assert_eq!((answer.status, error(&answer)), (400, "too many attributes, cannot exceed 16".into()));
}

async fn many_are_published_at_once_as_they_are_written(runner: TestRunner) {
    let client = Client::of(&runner);
    let answer = client.put("q/bulk?tries=2", br#"["hello", 1e2 , {"a" :1}, [ ], null]"#).await;
    assert_eq!((answer.status, &answer.json()["msg"]), (201, &"published".into()));
    for (id, text) in
        answer.json()["job_ids"].as_array().unwrap().iter().zip(["\"hello\"", "1e2", "{\"a\" :1}", "[ ]", "null"])
    {
        let job = client.consume("q").await;
        assert_eq!((&job["job_id"], data(&job).as_str(), &job["remain_tries"]), (id, text, &1.into()));
    }
    assert_eq!(client.size("q").await, 0);
}

async fn an_array_has_one_to_sixty_four_jobs(runner: TestRunner) {
    let client = Client::of(&runner);
    let many = |count: usize| serde_json::to_vec(&vec![7; count]).unwrap();
    assert_eq!(client.put("q/bulk", &many(64)).await.json()["job_ids"].as_array().unwrap().len(), 64);
    let large = format!("[\"{}\"]", "x".repeat((1 << 20) - 2));
    assert_eq!(client.put("q/bulk", large.as_bytes()).await.status, 201);
    let too_large = large.replacen('x', "xx", 1).into_bytes();
    let not_an_array = "request body should be an array of objects";
    for (body, status, text) in [
        (many(65), 400, "too many jobs"),
        (b"[]".to_vec(), 400, "no jobs"),
        (b"{}".to_vec(), 400, not_an_array),
        (b"[1,".to_vec(), 400, not_an_array),
        (b"".to_vec(), 400, not_an_array),
        (too_large, 413, "job too large"),
    ] {
        let answer = client.put("q/bulk", &body).await;
        assert_eq!((answer.status, error(&answer)), (status, text.into()));
    }
    assert_eq!(client.size("q").await, 65, "of what was refused nothing was stored");
}

async fn a_job_published_anew_has_a_new_id_and_the_old_one_is_gone(runner: TestRunner) {
    let client = Client::of(&runner);
    let old = client.publish("q", "old").await;
    assert_eq!(client.consume("q").await["job_id"], old);
    let new = client.publish(&format!("q/job/{old}?ttl=600"), "new").await;
    assert_ne!(new, old);
    let job = client.consume("q").await;
    assert_eq!((&job["job_id"], data(&job)), (&new.into(), "new".into()));
    assert!(view(&runner, &old).await.is_none());
    // Nobody asks where the old one is, or whether there was one.
    client.publish("q/job/never-was", "newer").await;
}

async fn nothing_happens_to_the_old_job_if_the_new_one_makes_no_sense(runner: TestRunner) {
    let client = Client::of(&runner);
    let old = client.publish("q", "old").await;
    let large = vec![0; (1 << 20) + 1];
    assert_eq!(client.put(&format!("q/job/{old}?tries=0"), b"new").await.status, 400);
    assert_eq!(client.put(&format!("q/job/{old}"), &large).await.status, 413);
    assert_eq!(client.consume("q").await["job_id"], old);
}
