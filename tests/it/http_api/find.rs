//! Jobs found by a query, and the dead in groups.

use gristmill::token::Scope::{Admin, Read};
use gristmill_tests::test_runner::TestRunner;
use puppet::{Cause, End, Script};
use serde_json::{Value, json};

use super::{NOBODY, PUPPET, refused, runner, script, until_it_is};
use crate::tokens::token;

on_both_stores! {
    jobs_are_found_by_what_is_known_of_them
    a_search_through_many_jobs_goes_on_by_cursor
    the_dead_are_grouped_and_a_group_is_acted_on
    a_query_that_makes_no_sense_is_refused_with_the_remedy
    a_token_that_may_not_read_cannot_probe_jobs_by_a_query
    links_graphs_and_recordings_are_as_bounded_as_pages
}

const TENANT: &str = "/v1/tenants/default";
const DEAD: &str = "/v1/tenants/default/topics/puppet/dead";

pub(super) fn encoded(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn ids(answer: &Value) -> Vec<&str> {
    let jobs = answer["jobs"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let mut ids: Vec<_> = jobs.iter().map(|job| job["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// A handler rejects the job with this code and message.
async fn reject(runner: &TestRunner, id: &str, code: &str, message: &str) {
    let cause = Cause { code: code.into(), message: message.into(), ..Cause::default() };
    let mut job = script(&Script::end(End::Reject(cause)));
    job["id"] = json!(id);
    runner.client().post(PUPPET, &job).await;
    until_it_is(runner, id, "dead").await;
}

async fn jobs_are_found_by_what_is_known_of_them(runner: TestRunner) {
    let client = runner.client();
    let jobs = json!({ "jobs": [
        { "id": "a", "body": { "user": { "id": 42 } }, "key": "cust-1", "metadata": { "order": "17" } },
        { "id": "b", "body": { "user": { "id": 43 } }, "key": "cust-2", "priority": "high" },
        { "id": "c", "body": "no object", "delay_ms": 3_600_000 },
    ] });
    client.post(NOBODY, &jobs).await;
    reject(&runner, "d", "full", "mailbox 7 is full").await;
    for (query, wanted) in [
        ("", "a b c d"),
        ("state:ready", "a b"),
        ("topic:nob* -state:ready", "c"),
        ("body.user.id:42", "a"),
        ("body.user.id>=42 -id:a", "b"),
        ("key:cust-*", "a b"),
        ("meta.order:17 age<1h", "a"),
        ("priority:high,low", "b"),
        ("due>50m", "c"),
        ("reason:rejected code:full died<1h \"is full\"", "d"),
        ("id:d", "d"),
        ("id:d state:ready", ""),
        ("id:nothing", ""),
    ] {
        let found = client.get(&format!("{TENANT}/jobs?q={}", encoded(query))).await.json();
        assert_eq!(ids(&found).join(" "), wanted, "{query}: {found}");
        assert!(found["next"].is_null() && found["looked_at"].is_number(), "{query}: {found}");
    }
    let in_topic = client.get(&format!("{NOBODY}?q={}", encoded("body.user.id:42"))).await.json();
    assert_eq!(ids(&in_topic), ["a"]);
    let with_state = client.get(&format!("{NOBODY}?state=delayed&q=")).await.json();
    assert_eq!(ids(&with_state), ["c"]);
    let elsewhere = client.get(&format!("{NOBODY}?q=id:d")).await.json();
    assert_eq!(ids(&elsewhere), Vec::<&str>::new());
}

async fn a_search_through_many_jobs_goes_on_by_cursor(runner: TestRunner) {
    let client = runner.client();
    let jobs: Vec<Value> = (0..300).map(|n| json!({ "id": format!("j{n:03}"), "body": { "n": n % 10 } })).collect();
    client.post(NOBODY, &json!({ "jobs": jobs })).await;
    let delayed: Vec<Value> = (0..30)
        .map(|n| json!({ "id": format!("k{n:03}"), "body": { "n": n % 10 }, "delay_ms": 3_600_000 + n }))
        .collect();
    client.post(NOBODY, &json!({ "jobs": delayed })).await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{TENANT}/jobs?q=body.n:3&limit=7{after}")).await.json();
        assert!(ids(&page).len() <= 7);
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={}", encoded(next));
    }
    let wanted = (0..300).map(|n| format!("j{n:03}")).chain((0..30).map(|n| format!("k{n:03}")));
    assert_eq!(seen, wanted.filter(|id| id.ends_with('3')).collect::<Vec<_>>());
}

async fn the_dead_are_grouped_and_a_group_is_acted_on(runner: TestRunner) {
    let client = runner.client();
    reject(&runner, "a", "full", "mailbox 7 is full").await;
    reject(&runner, "b", "full", "mailbox 99 is full\nsecond line").await;
    reject(&runner, "c", "gone", "no such host").await;
    let answer = client.get(&format!("{TENANT}/dead/groups")).await.json();
    let groups = answer["groups"].as_array().unwrap();
    assert_eq!((&answer["looked_at"], &answer["next"], groups.len()), (&json!(3), &Value::Null, 2), "{answer}");
    let group = &groups[0];
    assert_eq!(group["count"], 2);
    assert_eq!(group["topic"], "puppet");
    assert_eq!((&group["reason"], &group["code"]), (&json!("rejected"), &json!("full")));
    assert_eq!((&group["message"], &group["sample"]), (&json!("mailbox # is full"), &json!("b")));
    assert!(group["first_ms"].as_u64() <= group["last_ms"].as_u64());
    let q = group["q"].as_str().unwrap();
    let found = client.get(&format!("{TENANT}/jobs?q={}", encoded(q))).await.json();
    assert_eq!(ids(&found), ["a", "b"]);
    let some = client.get(&format!("{TENANT}/dead/groups?q=code:gone")).await.json();
    assert_eq!(some["groups"].as_array().unwrap().len(), 1);

    let deleted = client.post(&format!("{DEAD}/delete"), &json!({ "q": q })).await.json();
    assert_eq!(deleted, json!({ "changed": 2, "looked_at": 3, "next": null }));
    let respawned = client.post(&format!("{DEAD}/respawn"), &json!({ "q": "code:gone", "limit": 1 })).await.json();
    assert_eq!(respawned["changed"], 1, "{respawned}");
}

async fn links_graphs_and_recordings_are_as_bounded_as_pages(runner: TestRunner) {
    let client = runner.client();
    client.post(NOBODY, &json!({ "id": "j", "body": 1 })).await;
    let (links, graph) = (format!("{TENANT}/jobs/j/links"), format!("{TENANT}/jobs/j/graph"));
    let recordings = format!("{NOBODY}/recordings").replace("/jobs/", "/");
    for (path, bounds) in [(&links, [0, 10_000]), (&graph, [1, 1000]), (&recordings, [1, 1000])] {
        for limit in bounds {
            let answer = client.get(&format!("{path}?limit={limit}")).await;
            assert_eq!(answer.status, 200, "{path} {limit}");
        }
        for limit in [bounds[1] + 1, 1 << 63, u64::MAX] {
            refused(&client.get(&format!("{path}?limit={limit}")).await, 413, "too-large");
        }
    }
    for path in [&graph, &recordings] {
        refused(&client.get(&format!("{path}?limit=0")).await, 400, "bad-request");
    }
    assert_eq!(client.get(&format!("{graph}?depth=1000")).await.status, 200);
    let detail = refused(&client.get(&format!("{graph}?depth=1001")).await, 413, "too-large");
    assert_eq!(detail, "`depth` is 1001: it may be 0 to 1000");
}

async fn a_query_that_makes_no_sense_is_refused_with_the_remedy(runner: TestRunner) {
    let client = runner.client();
    let detail = refused(&client.get(&format!("{TENANT}/jobs?q=state:ready+state:ded")).await, 400, "bad-request");
    assert_eq!(
        detail,
        "`q`: the query at character 13, `state:ded`: `ded` is no state: use ready, delayed, waiting, running, dead, finished"
    );
    refused(&client.get(&format!("{TENANT}/jobs")).await, 400, "bad-request");
    refused(&client.get(NOBODY).await, 400, "bad-request");
    refused(&client.get(&format!("{TENANT}/jobs?q=&after=x")).await, 400, "bad-request");
    refused(&client.get(&format!("{TENANT}/jobs?q=&limit=1001")).await, 413, "too-large");
    refused(&client.get(&format!("{TENANT}/dead/groups?q=x:y")).await, 400, "bad-request");
    // All dead jobs are chosen in another way, so that none is by a mistake.
    for q in ["", "state:dead", "topic:puppet -state:ready"] {
        let detail = refused(&client.post(&format!("{DEAD}/delete"), &json!({ "q": q })).await, 400, "bad-request");
        assert!(detail.contains("would choose every dead job"), "{detail}");
    }
    let both = json!({ "q": "code:a", "all": true });
    refused(&client.post(&format!("{DEAD}/respawn"), &both).await, 400, "bad-request");
}

async fn a_token_that_may_not_read_cannot_probe_jobs_by_a_query(runner: TestRunner) {
    reject(&runner, "a", "secret-code", "m").await;
    let admin = token(&*runner.store, Some("default"), &[Admin]).await;
    let both = token(&*runner.store, Some("default"), &[Admin, Read]).await;
    let client = runner.client().with_token(&admin);
    refused(&client.get(&format!("{TENANT}/jobs?q=code:secret-*")).await, 403, "forbidden");
    refused(&client.get(&format!("{TENANT}/dead/groups")).await, 403, "forbidden");
    let probe = json!({ "q": "body.do:* code:secret-*" });
    refused(&client.post(&format!("{DEAD}/respawn"), &probe).await, 403, "forbidden");
    let answer =
        runner.client().with_token(&both).post(&format!("{DEAD}/delete"), &json!({ "q": "code:secret-*" })).await;
    assert_eq!(answer.json()["changed"], 1);
}
