//! Producers that know nothing of Gristmill but two key names.

use gristmill::job::TopicId;
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner, tenant};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script};

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
