//! The public API as a producer or an operator meets it, on either kind of store.

mod attempts;
mod bulk;
mod dead;
mod document;
mod find;
mod hostile;
mod idempotency;
mod idle;
mod look;
mod properties;
mod push;
mod slow;
mod topics;
mod upload;
mod validate;

use gristmill::job::JobId;
use gristmill::store::JobState;
use gristmill_tests::guests;
use gristmill_tests::http_client::Answer;
use gristmill_tests::test_runner::{On, TestRunner, tenant};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use puppet::Script;
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [topics.puppet]
    timeout = "60s"
    attempts = 1
    [topics.echo]
    [topics.nobody]
    [topics.small]
    handler = "echo"
    payload-limit = 10
"#;

const ECHO: &str = "/v1/tenants/default/topics/echo/jobs";
const PUPPET: &str = "/v1/tenants/default/topics/puppet/jobs";
/// Nobody does its jobs.
const NOBODY: &str = "/v1/tenants/default/topics/nobody/jobs";

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, MANIFEST, &[("echo", guests::ECHO), ("puppet", guests::PUPPET)]).await
}

/// Pushes a document, with a key.
async fn push_with_key(runner: &TestRunner, path: &str, key: &str, document: &Value) -> Answer {
    let request = Request::post(path).header("content-type", "application/json").header("idempotency-key", key);
    runner.client().send(request, document.to_string().into_bytes()).await
}

/// A job for the puppet.
fn script(script: &Script) -> Value {
    json!({ "body": script })
}

fn job_path(id: &Value) -> String {
    format!("/v1/tenants/default/jobs/{}", id.as_str().expect("an id"))
}

/// Waits until the job is in such a state.
async fn until_state(runner: &TestRunner, id: &Value, fits: impl Fn(&JobState) -> bool) {
    let id: JobId = id.as_str().unwrap().parse().unwrap();
    until("the job's state", SOON, async || {
        let view = runner.store.job(&tenant(), &id).await.unwrap()?;
        fits(&view.state).then_some(())
    })
    .await;
}

/// Holds an answer to be a problem of this kind; what it says about it.
#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) -> String {
    let problem = answer.json();
    assert_eq!((answer.status, &problem["code"]), (status, &json!(code)), "{problem}");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    problem["detail"].as_str().unwrap().to_owned()
}

/// Waits until the job of this id is `running`, `dead`, and so on, as the API calls it.
pub(crate) async fn until_it_is(runner: &TestRunner, id: &str, state: &str) {
    until(format!("{id} to be {state}"), SOON, async || {
        let view = runner.client().get(&job_path(&id.into())).await.json();
        (view["state"] == state).then_some(())
    })
    .await;
}
