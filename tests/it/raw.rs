//! Producers that know nothing of Gristmill but two key names.

use gristmill::job::TopicId;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner, tenant};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script};
use serde_json::json;

const MANIFEST: &str = r#"
    [topics.puppet]
    raw-producers = true
"#;

async fn wait_for_acks(runner: &TestRunner, acks: u64) {
    let topic: TopicId = "puppet".parse().unwrap();
    until(format!("{acks} acks"), SOON, async || {
        let counts = runner.store.counts(&tenant()).await.unwrap();
        let acked = counts.iter().find(|counts| counts.topic == topic)?.totals.get("acked").copied()?;
        (acked >= acks).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_pushed_onto_the_list_or_into_the_zset_are_done_as_jobs() {
    let runner = TestRunner::start_on(On::Redis, MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let redis = runner.redis.as_ref().unwrap();
    let script = String::from_utf8(Script::end(End::Complete).to_json()).unwrap();
    redis.ask::<u64>("LPUSH", &["gm:{default/0}:ready:puppet", &script]).await.unwrap();
    wait_for_acks(&runner, 1).await;
    // Long due.
    redis.ask::<u64>("ZADD", &["gm:{default/0}:delayed:puppet", "1", &script]).await.unwrap();
    wait_for_acks(&runner, 2).await;
}

const PULLED: &str = r#"
    [topics.print]
    handler = "external"
    raw-producers = true
    payload-limit = "5B"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_worker_gets_no_raw_job_that_is_too_large() {
    let runner = TestRunner::start_on(On::Redis, PULLED, &[]).await;
    let redis = runner.redis.as_ref().unwrap();
    redis.ask::<u64>("LPUSH", &["gm:{default/0}:ready:print", "large!"]).await.unwrap();
    redis.ask::<u64>("LPUSH", &["gm:{default/0}:ready:print", "small"]).await.unwrap();

    let topic: TopicId = "print".parse().unwrap();
    let (mut claimed, client) = (Vec::new(), runner.client());
    until("the end of the refused job", SOON, async || {
        let answer = client.post("/v1/tenants/default/topics/print/claim", &json!({ "max": 10 })).await;
        let claims = answer.json()["claims"].as_array().unwrap().clone();
        claimed.extend(claims.iter().map(|claim| claim["job"]["spec"]["body"]["text"].clone()));
        let counts = runner.store.counts(&tenant()).await.unwrap();
        let counts = counts.iter().find(|counts| counts.topic == topic)?;
        (counts.dead == 1 && !claimed.is_empty()).then_some(())
    })
    .await;
    // The one that is small enough.
    assert_eq!(claimed, ["small"]);
}
