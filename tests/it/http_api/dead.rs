//! Pages of jobs, and what an operator does with the dead: one by one, by a query, or all.

use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use puppet::{Cause, End, Script};
use serde_json::{Value, json};

use super::{NOBODY, PUPPET, refused, runner, script};

on_both_stores! {
    pages_follow_each_other_by_cursor
    the_dead_are_chosen_by_what_killed_them
    a_query_works_in_bounded_steps
    a_choice_that_makes_no_sense_is_refused
}

const DEAD: &str = "/v1/tenants/default/topics/puppet/dead";

async fn pages_follow_each_other_by_cursor(runner: TestRunner) {
    let ids: Vec<String> = (0..7).map(|n| format!("j{n}")).collect();
    let jobs: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    runner.client().post(NOBODY, &json!({ "jobs": jobs })).await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = runner.client().get(&format!("{NOBODY}?state=ready&limit=3{after}")).await.json();
        let listed = page["jobs"].as_array().unwrap().clone();
        assert!(listed.len() <= 3);
        seen.extend(listed.into_iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, ids);
    assert_eq!(
        runner.client().get(&format!("{NOBODY}?state=delayed")).await.json(),
        json!({ "jobs": [], "next": null })
    );
    refused(&runner.client().get(&format!("{NOBODY}?state=asleep")).await, 400, "bad-request");
    refused(&runner.client().get(&format!("{NOBODY}?state=ready&after=x")).await, 400, "bad-request");
    refused(&runner.client().get(&format!("{NOBODY}?state=ready&limit=1001")).await, 413, "too-large");
}

/// Kills jobs: so many that are rejected with this code.
async fn reject(runner: &TestRunner, code: &str, count: usize) {
    let cause = Cause { code: code.into(), message: String::new(), ..Cause::default() };
    let job = script(&Script::end(End::Reject(cause)));
    runner.client().post(PUPPET, &json!({ "jobs": vec![job; count] })).await;
}

async fn dead(runner: &TestRunner) -> Vec<String> {
    let page = runner.client().get(&format!("{PUPPET}?state=dead&limit=1000")).await.json();
    let code = |dead: &Value| dead["last_failure"]["code"].as_str().unwrap_or("none").to_owned();
    let mut codes: Vec<_> = page["jobs"].as_array().unwrap().iter().map(code).collect();
    codes.sort();
    codes
}

async fn until_dead(runner: &TestRunner, count: usize) {
    until(format!("{count} dead jobs"), SOON, async || (dead(runner).await.len() == count).then_some(())).await;
}

async fn the_dead_are_chosen_by_what_killed_them(runner: TestRunner) {
    reject(&runner, "a", 2).await;
    reject(&runner, "b", 1).await;
    runner.client().post(PUPPET, &script(&Script::end(End::Unreachable))).await;
    until_dead(&runner, 4).await;
    let delete = async |q: &str| {
        let answer = runner.client().post(&format!("{DEAD}/delete"), &json!({ "q": q })).await.json();
        assert_eq!(answer["next"], Value::Null, "{answer}");
        answer["changed"].clone()
    };
    assert_eq!(delete("code:a reason:trap").await, 0);
    assert_eq!(delete("died>1d").await, 0);
    assert_eq!(delete("code:a reason:rejected died<1d").await, 2);
    assert_eq!(dead(&runner).await.len(), 2);
    assert_eq!(delete("reason:trap").await, 1);
    assert_eq!(dead(&runner).await, ["b"]);
    // Rejected once more.
    let answer = runner.client().post(&format!("{DEAD}/respawn"), &json!({ "all": true })).await.json();
    assert_eq!(answer["changed"], 1);
    until_dead(&runner, 1).await;
}

async fn a_query_works_in_bounded_steps(runner: TestRunner) {
    reject(&runner, "a", 5).await;
    until_dead(&runner, 5).await;
    let (mut changed, mut calls, mut body) = (0, 0, json!({ "q": "code:a", "limit": 2 }));
    loop {
        let answer = runner.client().post(&format!("{DEAD}/delete"), &body).await.json();
        assert!(answer["changed"].as_u64().unwrap() <= 2 && answer["looked_at"].as_u64().unwrap() <= 2, "{answer}");
        changed += answer["changed"].as_u64().unwrap();
        calls += 1;
        let Some(next) = answer["next"].as_str() else { break };
        body["after"] = json!(next);
    }
    assert!(changed == 5 && (3..=4).contains(&calls), "{changed} in {calls}");
    assert!(dead(&runner).await.is_empty());
}

async fn a_choice_that_makes_no_sense_is_refused(runner: TestRunner) {
    let choices = [
        json!({}),
        json!({ "all": false }),
        json!({ "ids": [], "all": true }),
        json!({ "ids": [], "q": "code:a" }),
        json!({ "q": "code:a", "all": true }),
        json!({ "ids": [], "limit": 1 }),
        json!({ "all": true, "limit": 0 }),
        json!({ "all": true, "limit": 1001 }),
        json!({ "q": "reason:bad-luck" }),
        json!({ "filter": {} }),
        json!({ "all": true, "after": "x" }),
    ];
    for choice in choices {
        refused(&runner.client().post(&format!("{DEAD}/respawn"), &choice).await, 400, "bad-request");
    }
    let too_many = json!({ "ids": vec!["j"; 1001] });
    refused(&runner.client().post(&format!("{DEAD}/delete"), &too_many).await, 413, "too-large");
}
