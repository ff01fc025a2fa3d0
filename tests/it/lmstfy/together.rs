//! One queue for lmstfy's clients, for ours, and for handlers.

use gristmill::job::{Due, JobSpec, NewJob, Payload, TopicId};
use gristmill::store::{JobState, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use puppet::{Script, Step};
use serde_json::json;

use super::{Client, data, view};

const MANIFEST: &str = r#"
    [tenants.ns.topics.puppet]
    result-retention = "10m"
"#;

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("puppet", guests::PUPPET)]).await
}

on_both_stores! {
    a_job_published_here_is_run_by_a_handler
    a_job_pushed_elsewhere_is_consumed_here
    a_job_with_an_id_of_its_own_is_acked_by_it
}

async fn a_job_published_here_is_run_by_a_handler(runner: TestRunner) {
    let client = Client::of(&runner);
    let script = Script::new([Step::Log("here".into())]);
    let id = client.publish("puppet?tries=1", &String::from_utf8(script.to_json()).unwrap()).await;
    until("the handler to be done", SOON, async || {
        let view = view(&runner, &id).await?;
        (view.state == JobState::Finished && matches!(view.result, Some(ResultView::Complete(_)))).then_some(())
    })
    .await;
    assert_eq!(client.get(&format!("puppet/job/{id}")).await.status, 404, "what is over is gone, to lmstfy's clients");
}

fn pushed(id: &str) -> NewJob {
    let body = Payload { data: b"pushed".to_vec(), content_type: Some("text/plain".into()) };
    let topic = TopicId { tenant: super::tenant(), topic: "q".parse().unwrap() };
    let metadata = vec![("a".into(), "1".into()), ("a".into(), "2".into()), ("B".into(), "3".into())];
    NewJob { spec: JobSpec { id: id.parse().unwrap(), metadata, ..JobSpec::new(topic, body) }, due: Due::Now }
}

async fn a_job_pushed_elsewhere_is_consumed_here(runner: TestRunner) {
    let client = Client::of(&runner);
    runner.store.push(&[pushed("order-17")]).await.unwrap();
    let job = client.consume("q").await;
    assert_eq!((job["job_id"].as_str(), data(&job).as_str()), (Some("order-17"), "pushed"));
    // As many tries as a topic has that says nothing of it.
    assert_eq!((&job["ttl"], &job["remain_tries"]), (&0.into(), &4.into()));
    assert_eq!(job["attributes"], json!({ "a": "1", "B": "3" }));
}

async fn a_job_with_an_id_of_its_own_is_acked_by_it(runner: TestRunner) {
    let client = Client::of(&runner);
    runner.store.push(&[pushed("a.b-c_1")]).await.unwrap();
    client.consume("q").await;
    assert_eq!(client.delete("q/job/a.b-c_1").await.status, 204);
    assert!(view(&runner, "a.b-c_1").await.is_none());
}
