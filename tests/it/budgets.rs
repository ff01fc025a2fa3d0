//! Budgets of tenants, with a runner that counts fuel and a manifest that changes.

use gristmill::outcome::Verdict;
use gristmill_tests::guests;
use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};
use serde_json::json;

fn manifest(fuel_per_hour: &str) -> String {
    format!(
        "[defaults]\nclock = true\n[limits]\nfuel-per-hour = \"{fuel_per_hour}\"\n[topics.puppet]\nconcurrency = 1\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_for_a_budget_until_the_manifest_raises_it() {
    let runner = TestRunner::start(&manifest("10k"), &[("puppet", guests::PUPPET)]).await;
    // Every attempt uses more fuel than that.
    let work = Script::new([Step::Burn(100_000), Step::End(End::Complete)]).to_json();
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(runner.push("puppet", &work).await);
    }
    let client = runner.client();
    let topic = async |what: &str| client.get(&format!("/v1/tenants/default/topics/puppet{what}")).await.json();
    // Should an hour end now, one more job runs.
    until("the budget to be used up", SOON, async || {
        (topic("").await["idle"]["reason"] == "fuel-per-hour-used-up").then_some(())
    })
    .await;
    let limited = topic("").await["limited"].clone();
    assert_eq!((&limited["limit"], &limited["budget"]), (&json!("fuel-per-hour"), &json!(10_000)), "{limited}");
    assert!(limited["used"].as_u64().unwrap() >= 10_000 && limited["until_ms"].is_u64(), "{limited}");
    let why = client.get(&format!("/v1/tenants/default/jobs/{}/why", jobs[3])).await.json();
    assert_eq!(why["reason"], "topic-idle");
    let detail = why["detail"].as_str().unwrap();
    let said = "a limit keeps it in line: `fuel-per-hour` of the tenant `default` is used up: ";
    assert!(detail.contains(said) && detail.contains(" of 10k, and the next jobs may start at "), "{detail}");

    runner.rewrite(&manifest("1T"));
    for job in &jobs {
        runner.end_of(job).await;
    }
    let records = runner.records();
    assert!(records.iter().all(|record| matches!(record.verdict, Verdict::Ack(_)) && record.claim.attempt == 1));
    assert_eq!(records.len(), jobs.len(), "waiting is no attempt");
}
