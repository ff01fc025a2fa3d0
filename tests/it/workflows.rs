//! Jobs that wait for other jobs, by real components, over HTTP and from the command line.

use gristmill::job::{AfterFailed, Due, JobId, JobSpec, Links};
use gristmill::outcome::Reason;
use gristmill::store::{JobState, JobView, ResultView};
use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner, spec};
use puppet::{Cause, End, Report, Script};
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [defaults]
    backoff = "1ms"
    result-retention = "1h"
    [topics.puppet]
    [topics.later]
    handler = "puppet"
    # Nobody works here.
    [topics.still]
    handler = "nobody"
"#;

on_both_stores! {
    a_handler_gets_the_results_of_the_jobs_before_it
    a_job_is_dead_if_the_one_before_it_is
    a_job_may_run_though_the_one_before_it_is_dead
    a_batch_is_pushed_sealed_and_looked_at_over_http
    a_push_that_names_an_unknown_job_is_refused_over_http
}

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("puppet", guests::PUPPET)]).await
}

fn script(end: End) -> Vec<u8> {
    Script::end(end).to_json()
}

fn report() -> Vec<u8> {
    script(End::Report { config: vec![], secrets: vec![] })
}

async fn push(runner: &TestRunner, body: &[u8], links: Links) -> JobId {
    runner.push_job(JobSpec { links, ..spec("puppet", body) }, Due::Now).await
}

/// What the handler learned of the jobs before its own.
fn predecessors(view: &JobView) -> Value {
    let Some(ResultView::Complete(Some(payload))) = &view.result else { panic!("no result but {:?}", view.result) };
    let report: Report = serde_json::from_slice(&payload.data).unwrap();
    let (_, text) = report.metadata.iter().find(|(name, _)| name == "predecessors").expect("what became of them");
    serde_json::from_str(text).unwrap()
}

async fn a_handler_gets_the_results_of_the_jobs_before_it(runner: TestRunner) {
    let first = push(&runner, &script(End::Text("flour".into())), Links::default()).await;
    let second = push(&runner, &script(End::Complete), Links::default()).await;
    let links = Links { after: vec![first.clone(), second.clone()], ..Links::default() };
    let third = push(&runner, &report(), links).await;
    let mut expected = [
        json!({ "id": first.as_str(), "ended": "complete", "text": "flour" }),
        json!({ "id": second.as_str(), "ended": "complete" }),
    ];
    expected.sort_by_key(|job| job["id"].to_string());
    assert_eq!(predecessors(&runner.end_of(&third).await), json!(expected));
}

async fn a_job_is_dead_if_the_one_before_it_is(runner: TestRunner) {
    let first = push(&runner, &script(End::Reject(Cause::default())), Links::default()).await;
    let second = push(&runner, &report(), Links { after: vec![first.clone()], ..Links::default() }).await;
    let third = push(&runner, &report(), Links { after: vec![second.clone()], ..Links::default() }).await;
    for (id, before) in [(&second, &first), (&third, &second)] {
        let view = runner.end_of(id).await;
        assert!(matches!(view.state, JobState::Dead { .. }), "{:?}", view.state);
        let failure = view.last_failure.unwrap();
        assert_eq!(failure.reason, Reason::Predecessor);
        assert!(failure.detail.message.contains(before.as_str()), "{}", failure.detail.message);
    }
}

async fn a_job_may_run_though_the_one_before_it_is_dead(runner: TestRunner) {
    let first = push(&runner, &script(End::Reject(Cause::default())), Links::default()).await;
    let links = Links { after: vec![first.clone()], after_failed: AfterFailed::Run, ..Links::default() };
    let second = push(&runner, &report(), links).await;
    let expected = json!([{ "id": first.as_str(), "ended": "dead" }]);
    assert_eq!(predecessors(&runner.end_of(&second).await), expected);
}

async fn a_batch_is_pushed_sealed_and_looked_at_over_http(runner: TestRunner) {
    let client = runner.client();
    let jobs = "/v1/tenants/default/topics/puppet/jobs";
    let body: Value = serde_json::from_slice(&report()).unwrap();
    let batch = client.post(jobs, &json!({ "body": body, "open": true })).await.json()["id"].clone();
    let batch: JobId = batch.as_str().unwrap().parse().unwrap();
    let members =
        json!({ "jobs": [{ "body": body, "batch": batch.as_str() }, { "body": body, "batch": batch.as_str() }] });
    assert_eq!(client.post(jobs, &members).await.status, 201);
    let path = format!("/v1/tenants/default/jobs/{batch}");
    let why = client.get(&format!("{path}/why")).await.json();
    assert_eq!(why["reason"], "waiting");
    let shown = client.get(&path).await.json();
    assert_eq!(
        (&shown["state"], &shown["waits_for"]["open"], &shown["waits_for"]["total"]),
        (&json!("waiting"), &json!(true), &json!(2))
    );
    assert_eq!(client.post(&format!("{path}/seal"), &json!({})).await.json()["status"], "sealed");
    let end = runner.end_of(&batch).await;
    assert_eq!(predecessors(&end).as_array().unwrap().len(), 2);
    assert_eq!(client.post(&format!("{path}/seal"), &json!({})).await.status, 409);
}

async fn a_push_that_names_an_unknown_job_is_refused_over_http(runner: TestRunner) {
    let client = runner.client();
    let jobs = "/v1/tenants/default/topics/still/jobs";
    let refused = client.post(jobs, &json!({ "after": ["nobody"] })).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("job `nobody` is not known"), "{}", refused.text());
    let listed = client.post(jobs, &json!({ "jobs": [{ "after": ["nobody"] }, {}] })).await.json();
    assert_eq!((&listed["jobs"][0]["status"], &listed["jobs"][1]["status"]), (&json!("refused"), &json!("stored")));
    let first = listed["jobs"][1]["id"].clone();
    let waiting = client.post(jobs, &json!({ "after": [first] })).await.json();
    let links = client.get(&format!("/v1/tenants/default/jobs/{}/links", first.as_str().unwrap())).await.json();
    assert_eq!((&links["waits_for"], &links["waiters"]), (&Value::Null, &json!([waiting["id"]])));
}
