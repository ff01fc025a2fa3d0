//! Bulk actions: counted first, confirmed, and carried out on the jobs that still fit.

use gristmill::token::Scope::{self, Admin, Read};
use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use puppet::{Cause, End, Script};
use serde_json::{Value, json};

use super::{ECHO, NOBODY, PUPPET, job_path, refused, runner, script, until_it_is};
use crate::metrics::stream::Stream;
use crate::tokens::token;

on_both_stores! {
    what_was_counted_and_confirmed_is_done_and_nothing_else
    a_count_that_differs_starts_nothing
    jobs_that_moved_on_are_skipped_and_counted
    the_dead_are_respawned_and_deleted_topic_by_topic
    a_running_job_is_cancelled_too
    jobs_are_made_due_and_get_another_priority
    an_action_that_was_counted_can_be_aborted
    a_bulk_action_that_makes_no_sense_is_refused_with_the_remedy
    it_needs_read_and_admin
    events_say_who_did_what_to_how_many
    what_there_is_of_a_person_is_erased_in_every_state
}

const BULK: &str = "/v1/tenants/default/bulk";
/// As many events as a bulk action has.
const EVENTS: &str = "/v1/tenants/default/events?kind=bulk-started,bulk-ended";

async fn make(runner: &TestRunner, action: &str, q: &str) -> String {
    let answer = runner.client().post(BULK, &json!({ "q": q, "action": action })).await;
    let made = answer.json();
    assert_eq!(
        (answer.status, &made["state"], &made["actor"]),
        (201, &json!("counting"), &json!("operator")),
        "{made}"
    );
    made["id"].as_str().unwrap().to_owned()
}

async fn until_state(runner: &TestRunner, id: &str, state: &str) -> Value {
    until(format!("{id} to be {state}"), SOON, async || {
        let bulk = runner.client().get(&format!("{BULK}/{id}")).await.json();
        (bulk["state"] == state).then_some(bulk)
    })
    .await
}

async fn counted(runner: &TestRunner, action: &str, q: &str) -> Value {
    let id = make(runner, action, q).await;
    until_state(runner, &id, "counted").await
}

/// Starts it with this count.
async fn start(runner: &TestRunner, bulk: &Value, expect: &Value) -> Value {
    let id = bulk["id"].as_str().unwrap();
    let answer = runner.client().post(&format!("{BULK}/{id}/start"), &json!({ "expect": expect })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    until_state(runner, id, "done").await
}

/// From the first look to the end.
async fn carried_out(runner: &TestRunner, action: &str, q: &str) -> Value {
    let bulk = counted(runner, action, q).await;
    start(runner, &bulk, &bulk["matched"]).await
}

async fn push(runner: &TestRunner, path: &str, jobs: Vec<Value>) {
    for jobs in jobs.chunks(1000) {
        let answer = runner.client().post(path, &json!({ "jobs": jobs })).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
}

/// Jobs that say whose they are.
fn of_customer(customer: &str, from: usize, to: usize, delay_ms: u64) -> Vec<Value> {
    let job =
        |n| json!({ "id": format!("{customer}-{n}"), "metadata": { "customer": customer }, "delay_ms": delay_ms });
    (from..to).map(job).collect()
}

/// A handler rejects these.
async fn bury(runner: &TestRunner, code: &str, ids: &[&str]) {
    for id in ids {
        let cause = Cause { code: code.into(), message: String::new(), ..Cause::default() };
        let mut job = script(&Script::end(End::Reject(cause)));
        job["id"] = json!(id);
        runner.client().post(PUPPET, &job).await;
        until_it_is(runner, id, "dead").await;
    }
}

async fn found(runner: &TestRunner, q: &str) -> usize {
    let q = super::find::encoded(q);
    let answer = runner.client().get(&format!("/v1/tenants/default/jobs?limit=1000&q={q}")).await.json();
    answer["jobs"].as_array().unwrap().len()
}

async fn what_was_counted_and_confirmed_is_done_and_nothing_else(runner: TestRunner) {
    // More than one step, in several lists and topics, with jobs of others in between.
    push(&runner, NOBODY, of_customer("other", 0, 5, 0)).await;
    push(&runner, NOBODY, of_customer("acme", 0, 2100, 0)).await;
    push(&runner, NOBODY, of_customer("other", 5, 10, 0)).await;
    push(&runner, NOBODY, of_customer("acme", 2100, 2200, 3_600_000)).await;
    push(&runner, PUPPET, of_customer("acme", 2200, 2210, 3_600_000)).await;
    let bulk = counted(&runner, "cancel", "meta.customer:acme").await;
    assert_eq!(
        (&bulk["matched"], &bulk["looked_at"], &bulk["changed"]),
        (&json!(2210), &json!(2220), &json!(0)),
        "{bulk}"
    );
    assert_eq!(bulk["samples"].as_array().unwrap().len(), 5, "{bulk}");
    assert_eq!(bulk["samples"][0], json!({ "id": "acme-0", "topic": "nobody", "state": "ready" }));
    assert_eq!(found(&runner, "meta.customer:acme state:delayed").await, 110, "a dry run changes nothing");
    // Who confirmed did not see this one.
    push(&runner, NOBODY, of_customer("acme", 5000, 5001, 1)).await;
    let done = start(&runner, &bulk, &bulk["matched"]).await;
    assert_eq!((&done["changed"], &done["skipped"]), (&json!(2210), &json!({})), "{done}");
    assert!(done["ended_at_ms"].as_u64() >= done["started_at_ms"].as_u64(), "{done}");
    assert_eq!(found(&runner, "meta.customer:*").await, 11, "those of the other, and the late one");
    let again = json!({ "expect": 2210 });
    let id = done["id"].as_str().unwrap();
    let detail = refused(&runner.client().post(&format!("{BULK}/{id}/start"), &again).await, 409, "bulk-refused");
    assert!(detail.contains("it is done: make another"), "{detail}");
    refused(&runner.client().post(&format!("{BULK}/{id}/abort"), &json!({})).await, 409, "too-late");
    assert_eq!(runner.client().get(BULK).await.json(), json!({ "bulk": [done] }));
}

async fn a_count_that_differs_starts_nothing(runner: TestRunner) {
    push(&runner, NOBODY, of_customer("acme", 0, 3, 0)).await;
    let bulk = counted(&runner, "cancel", "meta.customer:acme").await;
    let path = format!("{BULK}/{}/start", bulk["id"].as_str().unwrap());
    let detail = refused(&runner.client().post(&path, &json!({ "expect": 2 })).await, 409, "bulk-refused");
    assert!(detail.contains("has counted 3 jobs, not 2"), "{detail}");
    assert_eq!(runner.client().get(BULK).await.json()["bulk"][0], bulk);
    assert_eq!(start(&runner, &bulk, &json!(3)).await["changed"], 3);
}

async fn jobs_that_moved_on_are_skipped_and_counted(runner: TestRunner) {
    push(&runner, NOBODY, of_customer("acme", 0, 4, 0)).await;
    let bulk = counted(&runner, "cancel", "meta.customer:acme").await;
    assert_eq!(runner.client().delete(&job_path(&json!("acme-1"))).await.status, 200);
    let done = start(&runner, &bulk, &bulk["matched"]).await;
    assert_eq!((&done["changed"], &done["skipped"]), (&json!(3), &json!({ "no-longer-fits": 1 })), "{done}");
}

async fn the_dead_are_respawned_and_deleted_topic_by_topic(runner: TestRunner) {
    bury(&runner, "full", &["a", "b"]).await;
    bury(&runner, "gone", &["c"]).await;
    push(&runner, NOBODY, of_customer("acme", 0, 1, 0)).await;
    let none = counted(&runner, "delete", "id:acme-0").await;
    assert_eq!((&none["matched"], &none["samples"]), (&json!(0), &json!([])), "it is not dead");
    let respawned = carried_out(&runner, "respawn", "code:gone").await;
    assert_eq!((&respawned["changed"], &respawned["skipped"]), (&json!(1), &json!({})), "{respawned}");
    // Rejected once more.
    until("c to die again", SOON, async || (found(&runner, "state:dead code:gone").await == 1).then_some(())).await;
    let deleted = carried_out(&runner, "delete", "topic:pup* code:full,gone").await;
    assert_eq!((&deleted["changed"], &deleted["matched"]), (&json!(3), &json!(3)), "{deleted}");
    assert_eq!(found(&runner, "state:dead").await, 0);
}

async fn a_running_job_is_cancelled_too(runner: TestRunner) {
    let mut job = script(&Script::new([puppet::Step::WaitUntilCancelled, puppet::Step::End(End::Complete)]));
    (job["id"], job["keep_result_ms"]) = (json!("runs"), json!(3_600_000));
    runner.client().post(PUPPET, &job).await;
    until_it_is(&runner, "runs", "running").await;
    let done = carried_out(&runner, "cancel", "id:runs").await;
    assert_eq!((&done["changed"], &done["samples"][0]["state"]), (&json!(1), &json!("running")), "{done}");
    until_it_is(&runner, "runs", "finished").await;
}

async fn jobs_are_made_due_and_get_another_priority(runner: TestRunner) {
    push(&runner, NOBODY, of_customer("acme", 0, 1200, 3_600_000)).await;
    push(&runner, NOBODY, of_customer("acme", 1200, 1210, 0)).await;
    push(&runner, NOBODY, of_customer("other", 0, 1, 3_600_000)).await;
    let change = async |change: Value| {
        let mut new = json!({ "q": "meta.customer:acme", "action": "change" });
        new.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let made = runner.client().post(BULK, &new).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let bulk = until_state(&runner, made.json()["id"].as_str().unwrap(), "counted").await;
        start(&runner, &bulk, &bulk["matched"]).await
    };
    // Those that are changed come behind the others, and are not met twice.
    let later = change(json!({ "due": { "after_ms": 7_200_000 }, "priority": "high" })).await;
    assert_eq!(
        (&later["changed"], &later["matched"], &later["skipped"]),
        (&json!(1210), &json!(1210), &json!({})),
        "{later}"
    );
    assert_eq!(found(&runner, "meta.customer:acme state:delayed due>1h priority:high").await, 1000, "the first page");
    let now = change(json!({ "due": "now" })).await;
    assert_eq!((&now["changed"], &now["skipped"]), (&json!(1210), &json!({})), "{now}");
    let again = change(json!({ "due": "now", "priority": "high" })).await;
    assert_eq!((&again["matched"], &again["changed"]), (&json!(0), &json!(0)), "they are so: {again}");
    assert_eq!(found(&runner, "state:delayed").await, 1);
    let client = runner.client();
    let no_change = json!({ "q": "key:a", "action": "change" });
    refused(&client.post(BULK, &no_change).await, 400, "bad-request");
    let with_cancel = json!({ "q": "key:a", "action": "cancel", "priority": "low" });
    let detail = refused(&client.post(BULK, &with_cancel).await, 400, "bad-request");
    assert!(detail.contains("go with the action `change`"), "{detail}");
}

async fn an_action_that_was_counted_can_be_aborted(runner: TestRunner) {
    push(&runner, NOBODY, of_customer("acme", 0, 3, 0)).await;
    let bulk = counted(&runner, "cancel", "meta.customer:acme").await;
    let path = format!("{BULK}/{}", bulk["id"].as_str().unwrap());
    let aborted = runner.client().post(&format!("{path}/abort"), &json!({})).await.json();
    assert_eq!((&aborted["state"], &aborted["changed"]), (&json!("aborted"), &json!(0)), "{aborted}");
    refused(&runner.client().post(&format!("{path}/start"), &json!({ "expect": 3 })).await, 409, "bulk-refused");
    assert_eq!(found(&runner, "meta.customer:acme").await, 3);
}

async fn a_bulk_action_that_makes_no_sense_is_refused_with_the_remedy(runner: TestRunner) {
    let client = runner.client();
    for q in ["", "state:ready", "topic:nobody -state:dead"] {
        let detail = refused(&client.post(BULK, &json!({ "q": q, "action": "cancel" })).await, 400, "bad-request");
        assert!(detail.contains("no condition besides topics and states"), "{detail}");
    }
    refused(&client.post(BULK, &json!({ "q": "x:y", "action": "cancel" })).await, 400, "bad-request");
    refused(&client.post(BULK, &json!({ "q": "key:a", "action": "burn" })).await, 400, "bad-request");
    refused(&client.get(&format!("{BULK}/none")).await, 404, "bulk-unknown");
    refused(&client.post(&format!("{BULK}/none/start"), &json!({ "expect": 0 })).await, 404, "bulk-unknown");
    refused(&client.post(&format!("{BULK}/none/abort"), &json!({})).await, 404, "bulk-unknown");
    assert_eq!(client.get(BULK).await.json(), json!({ "bulk": [] }));
}

async fn it_needs_read_and_admin(runner: TestRunner) {
    push(&runner, NOBODY, of_customer("acme", 0, 1, 0)).await;
    let make = json!({ "q": "meta.customer:acme", "action": "cancel" });
    let client =
        async |scopes: &[Scope]| runner.client().with_token(&token(&*runner.store, Some("default"), scopes).await);
    let (both, admin, read) = (client(&[Admin, Read]).await, client(&[Admin]).await, client(&[Read]).await);
    refused(&admin.post(BULK, &make).await, 403, "forbidden");
    refused(&read.post(BULK, &make).await, 403, "forbidden");
    let made = both.post(BULK, &make).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let path = format!("{BULK}/{}", made.json()["id"].as_str().unwrap());
    let is_counted = async || (read.get(&path).await.json()["state"] == "counted").then_some(());
    until("the dry run", SOON, is_counted).await;
    for client in [&admin, &read] {
        refused(&client.post(&format!("{path}/start"), &json!({ "expect": 1 })).await, 403, "forbidden");
        refused(&client.post(&format!("{path}/abort"), &json!({})).await, 403, "forbidden");
    }
    refused(&admin.get(&path).await, 403, "forbidden");
    assert_eq!(both.post(&format!("{path}/start"), &json!({ "expect": 1 })).await.status, 200);
}

async fn events_say_who_did_what_to_how_many(runner: TestRunner) {
    push(&runner, NOBODY, of_customer("acme", 0, 3, 0)).await;
    let mut stream = Stream::open(&runner, EVENTS).await;
    let done = carried_out(&runner, "cancel", "meta.customer:acme").await;
    let events = stream.take(2).await;
    assert_eq!([&*events[0].name, &*events[1].name], ["bulk-started", "bulk-ended"]);
    let facts = |state: &str, changed: u64| {
        json!({
            "id": done["id"], "action": "cancel", "q": "meta.customer:acme", "actor": "operator", "state": state,
            "matched": 3, "changed": changed, "skipped": 0,
        })
    };
    assert_eq!((&events[0].data["bulk"], &events[1].data["bulk"]), (&facts("running", 0), &facts("done", 3)));
    assert_eq!((&events[1].data["tenant"], events[1].data.get("topic")), (&json!("default"), None));
}

async fn what_there_is_of_a_person_is_erased_in_every_state(runner: TestRunner) {
    push(&runner, NOBODY, vec![
        json!({ "id": "waits", "body": { "to": "Ann M\u{fc}ller" } }),
        json!({ "id": "delayed", "metadata": { "to": "ann m\u{fc}ller" }, "delay_ms": 3_600_000, "keep_result_ms": 600_000 }),
        json!({ "id": "other", "body": { "to": "Bob" } }),
    ])
    .await;
    push(
        &runner,
        ECHO,
        vec![
            json!({ "id": "over", "body": "for Ann M\u{fc}ller", "keep_result_ms": 600_000 }),
            json!({ "id": "over-other", "body": "for Bob", "keep_result_ms": 600_000 }),
        ],
    )
    .await;
    let cause = Cause { code: "full".into(), message: "no room for Ann M\u{fc}ller".into(), ..Cause::default() };
    let mut dead = script(&Script::end(End::Reject(cause)));
    (dead["id"], dead["keep_result_ms"]) = (json!("dead"), json!(600_000));
    push(&runner, PUPPET, vec![dead]).await;
    for id in ["dead", "over", "over-other"] {
        until_it_is(&runner, id, if id == "dead" { "dead" } else { "finished" }).await;
    }
    let bulk = carried_out(&runner, "erase", "\"ann m\u{fc}ller\"").await;
    assert_eq!((&bulk["matched"], &bulk["changed"]), (&json!(4), &json!(4)), "{bulk}");
    for id in ["waits", "delayed", "dead", "over"] {
        let view = runner.client().get(&job_path(&json!(id))).await.json();
        assert!(view["result"].is_null() && view["job"].is_null(), "{id}: {view}");
    }
    let attempts = runner.client().get("/v1/tenants/default/attempts").await.text();
    assert!(!attempts.contains("no room for") && attempts.contains("over-other"), "{attempts}");
    assert_eq!(runner.client().get(&job_path(&json!("other"))).await.json()["state"], "ready");
    let kept = runner.client().get(&job_path(&json!("over-other"))).await.json();
    assert_eq!(kept["result"]["outcome"], "complete", "{kept}");
    let again = counted(&runner, "erase", "\"ann m\u{fc}ller\"").await;
    assert_eq!(again["matched"], 0, "{again}");
}
