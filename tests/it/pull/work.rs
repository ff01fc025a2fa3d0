//! A pull worker's day: claim, extend, settle.

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gristmill::job::{Due, JobId, NewJob};
use gristmill::outcome::Reason;
use gristmill::store::{JobState, ResultView};
use gristmill_tests::test_runner::{TestRunner, tenant};
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use super::{claim, claim_one, counts, id, plain, runner, settle, state, view};

on_both_stores! {
    a_worker_claims_a_job_and_its_result_is_kept
    a_worker_learns_what_became_of_the_jobs_before_its_own
    a_claim_without_spans_of_the_server_has_the_context_of_the_producer
    many_jobs_are_claimed_and_settled_at_once
    a_claim_that_waits_is_woken_by_a_push
    a_claim_that_waits_is_woken_by_a_due_time
    a_claim_that_waits_in_vain_is_answered_with_nothing
    waiting_clients_are_served_in_turn_and_no_job_twice
    the_topics_that_are_named_first_are_served_first
    a_failed_job_is_tried_again_until_its_attempts_run_out
    the_end_of_a_job_lets_the_next_one_of_its_key_start
    a_buried_job_is_dead_at_once
    a_released_or_snoozed_job_has_used_no_attempt
    a_lease_that_ran_out_is_lost_and_a_late_settle_changes_nothing
    extending_a_lease_shows_that_the_job_was_cancelled
    the_lease_of_a_killed_job_is_lost
    a_checkpoint_is_there_in_the_next_attempt
    a_checkpoint_may_be_as_long_as_its_topic_allows
    a_checkpoint_of_a_tenant_that_is_full_is_refused
    follow_ups_appear_with_the_ack
    a_job_over_its_time_to_live_is_not_handed_out
    workers_are_listed_with_the_jobs_that_they_have
    only_external_topics_are_claimed_and_no_runner_claims_those
    a_malformed_settle_is_refused_and_settles_nothing
    an_edited_lease_gains_no_attempts
    an_edited_lease_keeps_no_result
    an_edited_lease_is_of_no_other_delivery_and_no_other_topic
}

const BODY: &str = "aGVsbG8=";

async fn a_worker_claims_a_job_and_its_result_is_kept(runner: TestRunner) {
    let client = runner.client();
    let pushed = runner.push("print", b"hello").await;
    let claim = claim_one(&client, "print").await;
    assert_eq!((id(&claim), &claim["attempt"], &claim["attempts_max"]), (pushed.clone(), &json!(1), &json!(3)));
    assert_eq!(claim["job"]["spec"]["body"]["text"], "hello");
    let ack = json!({ "result": { "base64": BODY, "content_type": "text/plain" } });
    assert_eq!(settle(&client, json!([{ "lease": claim["lease"], "ack": ack }])).await, json!(["done"]));
    let view = view(&runner, &pushed).await.unwrap();
    assert_eq!((view.state, view.attempts), (JobState::Finished, 1));
    let Some(ResultView::Complete(Some(result))) = view.result else { panic!("{:?}", view.result) };
    assert_eq!((result.data, result.content_type.as_deref()), (b"hello".to_vec(), Some("text/plain")));
    assert_eq!(counts(&runner, "print").await.totals["acked"], 1);
}

async fn a_worker_learns_what_became_of_the_jobs_before_its_own(runner: TestRunner) {
    let client = runner.client();
    let pushed = runner.push("print", b"hello").await;
    let after = json!({ "after": [pushed.as_str()], "after_failed": "run" });
    assert_eq!(client.post("/v1/tenants/default/topics/print/jobs", &after).await.status, 201);
    let first = claim_one(&client, "print").await;
    let bury = json!({ "error": { "code": "jam", "message": "paper" } });
    assert_eq!(settle(&client, json!([{ "lease": first["lease"], "bury": bury }])).await, json!(["done"]));
    let second = claim_one(&client, "print").await;
    let metadata = &second["job"]["spec"]["metadata"];
    let learned = json!([
        ["predecessors", format!(r#"[{{"id":"{pushed}","ended":"dead"}}]"#)],
        ["predecessors-total", "1"],
        ["predecessors-failed", "1"],
    ]);
    assert_eq!(*metadata, learned);
}

async fn a_claim_without_spans_of_the_server_has_the_context_of_the_producer(runner: TestRunner) {
    let client = runner.client();
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (given, expected) in [(json!({ "traceparent": given }), json!(given)), (json!({}), Value::Null)] {
        let job = json!({ "body": "hello", "metadata": given });
        assert_eq!(client.post("/v1/tenants/default/topics/print/jobs", &job).await.status, 201);
        assert_eq!(claim_one(&client, "print").await["traceparent"], expected);
    }
    let job = json!({ "body": "hello", "metadata": { "traceparent": "nonsense" } });
    assert_eq!(client.post("/v1/tenants/default/topics/print/jobs", &job).await.status, 201);
    assert_eq!(
        claim_one(&client, "print").await["traceparent"],
        Value::Null,
        "what breaks the standard counts as missing"
    );
}

async fn push_many(runner: &TestRunner, topic: &str, count: usize) -> HashSet<JobId> {
    let jobs: Vec<NewJob> = (0..count).map(|_| NewJob { spec: plain(topic, b"x"), due: Due::Now }).collect();
    runner.store.push(&jobs).await.unwrap();
    jobs.into_iter().map(|job| job.spec.id).collect()
}

fn acks(claims: &[Value]) -> Value {
    claims.iter().map(|claim| json!({ "lease": claim["lease"], "ack": {} })).collect()
}

async fn workers_are_listed_with_the_jobs_that_they_have(runner: TestRunner) {
    let client = runner.client();
    push_many(&runner, "print", 2).await;
    push_many(&runner, "post", 1).await;
    for (topic, worker) in [("print", "press"), ("print", "press"), ("post", "van")] {
        assert_eq!(claim(&client, topic, json!({ "wait_ms": 30_000, "worker": worker })).await.len(), 1);
    }
    let workers = async || client.get("/v1/workers").await.json();
    // The runner has no job, and says that it lives.
    until("a heartbeat", SOON, async || workers().await["workers"][0]["heartbeat_at_ms"].as_u64()).await;
    let Value::Object(listed) = workers().await else { panic!("no object") };
    let [own, press, van] = listed["workers"].as_array().unwrap().as_slice() else { panic!("{listed:?}") };
    assert_eq!((&own["kind"], &own["running"], &listed["complete"]), (&json!("runner"), &json!(0), &json!(true)));
    let pull = |worker: &str, running: u64, topic: &str| json!({ "worker": worker, "kind": "pull", "heartbeat_at_ms": null, "running": running, "topics": [topic] });
    assert_eq!((press, van), (&pull("press", 2, "print"), &pull("van", 1, "post")));
}

async fn many_jobs_are_claimed_and_settled_at_once(runner: TestRunner) {
    let client = runner.client();
    let pushed = push_many(&runner, "print", 1001).await;
    let asked = json!({ "max": 1000, "lease_ms": 600_000 });
    let first = claim(&client, "print", asked.clone()).await;
    let last = claim(&client, "print", asked).await;
    assert_eq!((first.len(), last.len()), (1000, 1));
    assert_eq!(first.iter().chain(&last).map(id).collect::<HashSet<_>>(), pushed);
    let settled = settle(&client, acks(&first)).await;
    assert!(settled.as_array().unwrap().iter().all(|settled| settled == "done"));
    settle(&client, acks(&last)).await;
    let counts = counts(&runner, "print").await;
    assert_eq!((counts.ready, counts.running, counts.totals["acked"]), (0, 0, 1001));
}

async fn a_claim_that_waits_is_woken_by_a_push(runner: TestRunner) {
    let client = runner.client();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { claim_one(&client, "print").await }
    });
    // Whether it waits already or looks only now, it gets the job.
    let pushed = runner.push("print", b"hello").await;
    assert_eq!(id(&waiting.await.unwrap()), pushed);
}

async fn a_claim_that_waits_is_woken_by_a_due_time(runner: TestRunner) {
    let pushed = runner.push_job(plain("print", b"x"), Due::After(Duration::from_millis(300))).await;
    let claim = claim_one(&runner.client(), "print").await;
    assert_eq!(id(&claim), pushed);
    let (due, claimed) = (&claim["job"]["due_at_ms"], &claim["claimed_at_ms"]);
    assert!(due.as_u64().unwrap() <= claimed.as_u64().unwrap(), "due at {due}, claimed at {claimed}");
}

async fn a_claim_that_waits_in_vain_is_answered_with_nothing(runner: TestRunner) {
    assert!(claim(&runner.client(), "print", json!({ "wait_ms": 50 })).await.is_empty());
}

async fn waiting_clients_are_served_in_turn_and_no_job_twice(runner: TestRunner) {
    let client = runner.client();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { claim_one(&client, "print").await })
        })
        .collect();
    let pushed = push_many(&runner, "print", 20).await;
    let mut got = HashSet::new();
    for waiting in waiting {
        assert!(got.insert(id(&waiting.await.unwrap())), "two workers got one job");
    }
    assert_eq!(got, pushed);
}

async fn the_topics_that_are_named_first_are_served_first(runner: TestRunner) {
    let client = runner.client();
    let (prints, posts) = (push_many(&runner, "print", 2).await, push_many(&runner, "post", 2).await);
    let asked = json!({ "topics": ["post", "print"], "max": 3 });
    let answer = client.post("/v1/tenants/default/claim", &asked).await.json();
    let got: Vec<JobId> = answer["claims"].as_array().unwrap().iter().map(id).collect();
    assert_eq!(got[..2].iter().cloned().collect::<HashSet<_>>(), posts);
    assert!(got.len() == 3 && prints.contains(&got[2]));
}

async fn a_failed_job_is_tried_again_until_its_attempts_run_out(runner: TestRunner) {
    let (client, pushed) = (runner.client(), runner.push("print", b"x").await);
    for attempt in 1..=3 {
        let claim = claim_one(&client, "print").await;
        assert_eq!((id(&claim), &claim["attempt"]), (pushed.clone(), &json!(attempt)));
        assert_eq!(claim["previous"], if attempt == 1 { Value::Null } else { json!("failed") });
        let retry = json!({ "after_ms": 1, "error": { "code": "jam", "message": "paper" } });
        assert_eq!(settle(&client, json!([{ "lease": claim["lease"], "retry": retry }])).await, json!(["done"]));
    }
    let view = view(&runner, &pushed).await.unwrap();
    let failure = view.last_failure.unwrap();
    assert!(matches!(view.state, JobState::Dead { .. }));
    assert_eq!((failure.reason, failure.detail.code.as_str()), (Reason::Failed, "jam"));
    assert!(matches!(view.result, Some(ResultView::Dead(_))));
}

async fn the_end_of_a_job_lets_the_next_one_of_its_key_start(runner: TestRunner) {
    let client = runner.client();
    let jobs: Vec<_> = (0..4).map(|body| json!({ "body": body, "key": "cust-17" })).collect();
    assert_eq!(client.post("/v1/tenants/default/topics/print/jobs", &json!(jobs)).await.status, 201);
    let error = json!({ "code": "jam", "message": "paper" });
    let ends =
        [json!({ "ack": {} }), json!({ "bury": { "error": error } }), json!({ "ack": {} }), json!({ "ack": {} })];
    for (body, end) in ends.into_iter().enumerate() {
        let [claim] = claim(&client, "print", json!({ "wait_ms": 30_000, "max": 10 })).await.try_into().unwrap();
        assert_eq!(claim["job"]["spec"]["body"]["text"], body.to_string());
        let mut settlement = end;
        settlement["lease"] = claim["lease"].clone();
        assert_eq!(settle(&client, json!([settlement])).await, json!(["done"]));
    }
}

async fn a_buried_job_is_dead_at_once(runner: TestRunner) {
    let (client, pushed) = (runner.client(), runner.push("print", b"x").await);
    let claim = claim_one(&client, "print").await;
    let bury = json!({ "error": { "code": "no-such-printer" } });
    settle(&client, json!([{ "lease": claim["lease"], "bury": bury }])).await;
    let view = view(&runner, &pushed).await.unwrap();
    assert!(matches!(view.state, JobState::Dead { .. }));
    assert_eq!(view.last_failure.unwrap().reason, Reason::Rejected);
}

async fn a_released_or_snoozed_job_has_used_no_attempt(runner: TestRunner) {
    let client = runner.client();
    runner.push("print", b"x").await;
    for end in [json!({ "release": {} }), json!({ "snooze_ms": 100 }), json!({ "release": {} })] {
        let claim = claim_one(&client, "print").await;
        assert_eq!(claim["attempt"], 1);
        let mut settlement = end;
        settlement["lease"] = claim["lease"].clone();
        assert_eq!(settle(&client, json!([settlement])).await, json!(["done"]));
    }
}

async fn a_lease_that_ran_out_is_lost_and_a_late_settle_changes_nothing(runner: TestRunner) {
    let (client, pushed) = (runner.client(), runner.push("print", b"x").await);
    let late = claim(&client, "print", json!({ "lease_ms": 100 })).await.remove(0);
    let second = claim_one(&client, "print").await;
    assert_eq!(
        (id(&second), &second["attempt"], &second["previous"]),
        (pushed.clone(), &json!(2), &json!("lease-expired"))
    );
    let bury = json!({ "error": { "code": "late" } });
    assert_eq!(settle(&client, json!([{ "lease": late["lease"], "bury": bury }])).await, json!(["lease-lost"]));
    let extend = json!({ "leases": [late["lease"], second["lease"]], "lease_ms": 60_000 });
    let extended = client.post("/v1/tenants/default/leases/extend", &extend).await.json();
    assert_eq!(extended["extended"], json!(["lease-lost", "extended"]));
    assert!(matches!(state(&runner, &pushed).await, Some(JobState::Running { delivery: 2, .. })));
    let ack = json!([{ "lease": second["lease"], "ack": {} }]);
    assert_eq!(settle(&client, ack.clone()).await, json!(["done"]));
    assert_eq!(settle(&client, ack).await, json!(["lease-lost"]));
}

async fn extending_a_lease_shows_that_the_job_was_cancelled(runner: TestRunner) {
    let (client, pushed) = (runner.client(), runner.push("print", b"x").await);
    let claim = claim_one(&client, "print").await;
    let extend = json!({ "leases": [claim["lease"]], "lease_ms": 3_600_000 });
    let path = "/v1/tenants/default/leases/extend";
    assert_eq!(client.post(path, &extend).await.json()["extended"], json!(["extended"]));
    let Some(JobState::Running { lease_until, .. }) = state(&runner, &pushed).await else { panic!("it runs") };
    assert!(lease_until.as_millis() > claim["lease_until_ms"].as_u64().unwrap() + 3_000_000);
    runner.store.cancel(&tenant(), std::slice::from_ref(&pushed)).await.unwrap();
    assert_eq!(client.post(path, &extend).await.json()["extended"], json!(["cancelled"]));
    assert_eq!(settle(&client, json!([{ "lease": claim["lease"], "release": {} }])).await, json!(["cancelled"]));
    assert_eq!(view(&runner, &pushed).await.unwrap().result, Some(ResultView::Cancelled));
}

async fn the_lease_of_a_killed_job_is_lost(runner: TestRunner) {
    let (client, pushed) = (runner.client(), runner.push("print", b"x").await);
    let claim = claim_one(&client, "print").await;
    let answer = client.delete(&format!("/v1/tenants/default/jobs/{pushed}?kill=true")).await;
    assert_eq!(answer.json()["status"], "gone");
    let extend = json!({ "leases": [claim["lease"]], "lease_ms": 60_000 });
    assert_eq!(
        client.post("/v1/tenants/default/leases/extend", &extend).await.json()["extended"],
        json!(["lease-lost"])
    );
    assert_eq!(settle(&client, json!([{ "lease": claim["lease"], "ack": {} }])).await, json!(["lease-lost"]));
    assert_eq!(view(&runner, &pushed).await.unwrap().result, Some(ResultView::Cancelled));
}

async fn a_checkpoint_is_there_in_the_next_attempt(runner: TestRunner) {
    let client = runner.client();
    runner.push("print", b"x").await;
    let claim = claim_one(&client, "print").await;
    assert_eq!(claim["checkpoint"], Value::Null);
    let path = "/v1/tenants/default/leases/checkpoint";
    let save = json!({ "lease": claim["lease"], "state": BODY });
    assert_eq!(client.post(path, &save).await.json(), json!({ "saved": true }));
    settle(&client, json!([{ "lease": claim["lease"], "release": {} }])).await;
    assert_eq!(client.post(path, &save).await.json(), json!({ "saved": false }));
    assert_eq!(claim_one(&client, "print").await["checkpoint"], BODY);
}

async fn a_checkpoint_of_a_tenant_that_is_full_is_refused(runner: TestRunner) {
    let client = runner.client();
    runner.push("post", b"x").await;
    let lease = claim_one(&client, "post").await["lease"].clone();
    runner.rewrite(&format!("{}\n[limits]\nstored-bytes = \"64KiB\"\n", super::MANIFEST));
    let save = async |bytes: usize| {
        let save = json!({ "lease": lease, "state": STANDARD.encode(vec![7; bytes]) });
        client.post("/v1/tenants/default/leases/checkpoint", &save).await
    };
    let refused = until("a checkpoint to be refused", SOON, async || {
        let answer = save(100_000).await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("too-many-bytes")));
}

async fn a_checkpoint_may_be_as_long_as_its_topic_allows(runner: TestRunner) {
    let client = runner.client();
    runner.push("post", b"x").await;
    let claim = claim_one(&client, "post").await;
    let save = async |bytes: usize| {
        let state = STANDARD.encode(vec![7; bytes]);
        let save = json!({ "lease": claim["lease"], "state": state });
        client.post("/v1/tenants/default/leases/checkpoint", &save).await.status
    };
    assert_eq!((save(2 << 20).await, save((2 << 20) + 1).await), (200, 413));
}

async fn follow_ups_appear_with_the_ack(runner: TestRunner) {
    let client = runner.client();
    runner.push("print", b"x").await;
    let claim = claim_one(&client, "print").await;
    let follow_up = |topic: &str| json!({ "id": "next", "topic": topic });
    let settlement = |topic| json!([{ "lease": claim["lease"], "ack": {}, "follow_ups": [follow_up(topic)] }]);
    let refused = json!({ "settlements": settlement("nowhere") });
    assert_eq!(client.post("/v1/tenants/default/leases/settle", &refused).await.status, 400);
    assert_eq!(state(&runner, &"next".parse().unwrap()).await, None);
    assert_eq!(settle(&client, settlement("post")).await, json!(["done"]));
    assert_eq!(id(&claim_one(&client, "post").await).as_str(), "next");
}

async fn a_job_over_its_time_to_live_is_not_handed_out(runner: TestRunner) {
    let client = runner.client();
    let mut spec = plain("print", b"x");
    spec.options.ttl = Some(Duration::from_millis(500));
    runner.push_job(spec, Due::Now).await;
    // Put off beyond its time; on a slow machine that is over already.
    for claim in claim(&client, "print", json!({})).await {
        settle(&client, json!([{ "lease": claim["lease"], "snooze_ms": 600 }])).await;
    }
    until("the job to be expired", SOON, async || {
        assert!(claim(&client, "print", json!({ "wait_ms": 50 })).await.is_empty());
        counts(&runner, "print").await.totals.get("expired").filter(|expired| **expired == 1).map(drop)
    })
    .await;
}

async fn only_external_topics_are_claimed_and_no_runner_claims_those(runner: TestRunner) {
    let client = runner.client();
    for topic in ["done-here", "nowhere"] {
        let refused = client.post(&format!("/v1/tenants/default/topics/{topic}/claim"), &json!({})).await;
        assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("not-external")));
    }
    // A component of that name changes nothing: it is refused, and says why.
    let component = std::fs::read(gristmill_tests::guests::PUPPET).unwrap();
    runner.drop_in("external", &component);
    runner.drop_in("done-here", &component);
    let done = runner.push("done-here", &puppet::Script::new([]).to_json()).await;
    until("the component to be used", 4 * SOON, async || (!runner.attempts_at(&done).is_empty()).then_some(())).await;
    let pushed = runner.push("print", b"x").await;
    assert_eq!(id(&claim_one(&client, "print").await), pushed);
    assert!(runner.attempts_at(&pushed).is_empty());
}

async fn a_malformed_settle_is_refused_and_settles_nothing(runner: TestRunner) {
    let (client, pushed) = (runner.client(), runner.push("print", b"x").await);
    let path = "/v1/tenants/default/topics/print/claim";
    for asked in [
        json!({ "max": 0 }),
        json!({ "max": 1001 }),
        json!({ "wait_ms": 60_001 }),
        json!({ "lease_ms": 99 }),
        json!({ "lease_ms": 86_400_001 }),
        json!({ "worker": "no name" }),
        json!({ "wait": 1 }),
    ] {
        let refused = client.post(path, &asked).await;
        assert!(refused.status == 400 || refused.status == 422, "{asked}: {}", refused.text());
    }
    assert_eq!(client.post("/v1/tenants/default/claim", &json!({ "topics": [] })).await.status, 400);
    let edges = json!({ "max": 1000, "wait_ms": 60_000, "lease_ms": 86_400_000, "worker": "press" });
    let claim = claim(&client, "print", edges).await.remove(0);
    let good = json!({ "lease": claim["lease"], "ack": {} });
    let result = |bytes| json!({ "result": { "base64": base64_of(bytes) } });
    for bad in [
        json!({ "lease": "x", "ack": {} }),
        json!({ "lease": claim["lease"] }),
        json!({ "lease": claim["lease"], "ack": {}, "release": {} }),
        json!({ "lease": claim["lease"], "ack": result(1025) }),
        json!({ "lease": claim["lease"], "snooze_ms": 1_000_000_000_000_u64 }),
        json!({ "lease": claim["lease"], "retry": { "error": { "code": "jam" }, "after_ms": u64::MAX } }),
        json!({ "lease": claim["lease"], "release": {}, "follow_ups": [
            { "id": "next", "tenant": "default", "topic": "post" }
        ] }),
        json!({ "lease": claim["lease"], "ack": {}, "follow_ups": [
            { "id": "next", "tenant": "other", "topic": "post" }
        ] }),
        json!({ "lease": claim["lease"], "ack": {}, "follow_ups": [
            { "id": "first", "topic": "post" },
            { "id": "next", "topic": "post", "batch": "first" }
        ] }),
    ] {
        let refused = client.post("/v1/tenants/default/leases/settle", &json!({ "settlements": [good, bad] })).await;
        assert!(refused.status == 400 || refused.status == 413, "{}", refused.text());
        assert!(refused.text().contains("settlements[1]"), "{}", refused.text());
        for (end, field) in [("snooze_ms", "`snooze_ms`"), ("retry", "`retry.after_ms`")] {
            let named = format!("the {field} of ");
            assert!(bad[end].is_null() || refused.text().contains(&named), "{}", refused.text());
        }
    }
    assert!(matches!(state(&runner, &pushed).await, Some(JobState::Running { .. })));
    assert_eq!(settle(&client, json!([{ "lease": claim["lease"], "ack": result(1024) }])).await, json!(["done"]));
}

/// So many zero bytes.
fn base64_of(bytes: usize) -> String {
    let whole = "AAAA".repeat(bytes / 3);
    match bytes % 3 {
        0 => whole,
        1 => whole + "AA==",
        _ => whole + "AAA=",
    }
}

/// The lease of a claim with another value at `key`.
fn edited(claim: &Value, key: &str, value: Value) -> String {
    let lease = URL_SAFE_NO_PAD.decode(claim["lease"].as_str().unwrap()).unwrap();
    let mut lease: Value = serde_json::from_slice(&lease).unwrap();
    lease[key] = value;
    URL_SAFE_NO_PAD.encode(lease.to_string())
}

async fn an_edited_lease_gains_no_attempts(runner: TestRunner) {
    let (client, pushed) = (runner.client(), runner.push("print", b"x").await);
    for _ in 1..=3 {
        let claim = claim_one(&client, "print").await;
        let lease = edited(&claim, "attempt", json!(1));
        let retry = json!({ "after_ms": 1, "error": { "code": "jam" } });
        assert_eq!(settle(&client, json!([{ "lease": lease, "retry": retry }])).await, json!(["done"]));
    }
    assert!(matches!(state(&runner, &pushed).await, Some(JobState::Dead { .. })));
}

async fn an_edited_lease_keeps_no_result(runner: TestRunner) {
    let client = runner.client();
    let pushed = runner.push_job(plain("print", b"x"), Due::Now).await;
    let claim = claim_one(&client, "print").await;
    let ack = json!({ "result": { "base64": BODY } });
    let lease = edited(&claim, "keep_result", json!(true));
    assert_eq!(settle(&client, json!([{ "lease": lease, "ack": ack }])).await, json!(["done"]));
    assert_eq!(view(&runner, &pushed).await, None);
}

async fn an_edited_lease_is_of_no_other_delivery_and_no_other_topic(runner: TestRunner) {
    let (client, pushed) = (runner.client(), runner.push("print", b"x").await);
    let claim = claim_one(&client, "print").await;
    let JobState::Running { worker, .. } = state(&runner, &pushed).await.unwrap() else { panic!("it runs") };
    let worker = worker.strip_prefix("pull:").unwrap();
    for (key, value) in [
        ("delivery", json!(2)),
        ("delivery", json!(0)),
        ("worker", json!(worker.replace("worker:", "press:"))),
        ("worker", json!(worker.replace(":print", ":post"))),
    ] {
        let lease = edited(&claim, key, value.clone());
        for end in [json!({ "ack": {} }), json!({ "bury": { "error": { "code": "x" } } })] {
            let mut settlement = end;
            settlement["lease"] = lease.clone().into();
            assert_eq!(settle(&client, json!([settlement])).await, json!(["lease-lost"]), "{key} {value}");
        }
    }
    assert!(matches!(state(&runner, &pushed).await, Some(JobState::Running { .. })));
    assert_eq!(settle(&client, json!([{ "lease": claim["lease"], "ack": {} }])).await, json!(["done"]));
}
