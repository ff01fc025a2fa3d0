//! What is in the jobs of a tenant that hides it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gristmill::job::JobId;
use gristmill::token::Scope;
use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use super::token;

const MANIFEST: &str = r#"
    [tenants.acme.limits]
    hide-payloads = true
    [tenants.acme.topics.puppet]
    attempts = 1
    result-retention = "1h"
    [tenants.acme.topics.by-hand]
    handler = "external"
    [tenants.acme.topics.stuck]
    state = true
    [tenants.acme.topics.stuck.schedule.yearly]
    cron = "0 3 1 1 *"
    body = "hush-hush"
    metadata = { told = "hush-hush" }
"#;
const TENANT: &str = "/v1/tenants/acme";
/// What nobody may read, and what of it is base64.
const SECRET: &str = "hush-hush";

/// Waits until a job of the tenant is in this state.
async fn until_it_is(client: &HttpClient, id: &str, state: &str) {
    let is = async || {
        let job = client.get(&format!("{TENANT}/jobs/{id}")).await.json();
        (job["state"] == state).then_some(())
    };
    until(format!("{id} to be {state}"), SOON, is).await;
}

/// A runner with secrets wherever payloads are, and the client of an operator.
async fn runner() -> (TestRunner, HttpClient, HttpClient) {
    let runner = TestRunner::start(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let all = [Scope::Push, Scope::Work, Scope::Read, Scope::Admin];
    let operator = token(&*runner.store, None, &all).await;
    let own = token(&*runner.store, Some("acme"), &all).await;
    let (operator, own) = (runner.client().with_token(&operator), runner.client().with_token(&own));
    let push = async |topic: &str, id: &str, body: Value| {
        let job = json!({ "id": id, "body": body, "metadata": { "told": SECRET }, "keep_result_ms": 600_000 });
        let answer = operator.post(&format!("{TENANT}/topics/{topic}/jobs"), &job).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    };
    push("stuck", "ready", json!(SECRET)).await;
    push("by-hand", "by-hand", json!(SECRET)).await;
    let cause = json!({ "code": "bad", "message": "no", "context": SECRET });
    push(
        "puppet",
        "dead",
        json!({ "do": [{ "log": SECRET }, { "checkpoint": SECRET }, { "end": { "reject": cause } }] }),
    )
    .await;
    push("puppet", "done", json!({ "do": [{ "log": SECRET }, { "end": { "text": SECRET } }] })).await;
    let wait = json!({ "do": [{ "checkpoint": SECRET }, "wait-until-cancelled"] });
    push("puppet", "running", wait).await;
    for (id, state) in [("dead", "dead"), ("done", "finished"), ("running", "running")] {
        until_it_is(&operator, id, state).await;
    }
    (runner, operator, own)
}

/// Whether a text has the secret: as it is, or in some base64 of the text.
fn tells(text: &str) -> bool {
    let in_base64 = text
        .split('"')
        .any(|part| BASE64_STANDARD.decode(part).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(SECRET)));
    in_base64 || text.contains(SECRET)
}

/// Every route of the API that only reads, about each of the tenant's jobs and topics.
async fn reading_routes(operator: &HttpClient) -> Vec<String> {
    let document = operator.get("/v1/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let mut routes = Vec::new();
    for (path, _) in paths.iter().filter(|(path, of)| path.contains("{tenant}") && !of["get"].is_null()) {
        if path.ends_with("/events") || path.contains("/placement") {
            continue;
        }
        for (id, topic) in [("ready", "stuck"), ("dead", "puppet"), ("done", "puppet"), ("running", "puppet")] {
            let path = path.replace("{tenant}", "acme").replace("{topic}", topic).replace("{key}", "k");
            let path = path.replace("{schedule}", "yearly").replace("{job}", id).replace("{id}", id);
            for query in ["", "?state=ready", "?state=dead", "?state=running", "?q=id:*", "?wait_ms=1", "?failed=true"]
            {
                routes.push(format!("{path}{query}"));
            }
        }
    }
    assert!(routes.iter().any(|route| route.starts_with("/v1/tenants/acme/jobs/dead")), "{routes:?}");
    routes.sort();
    routes.dedup();
    routes
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_do_everything_sees_what_a_tenant_hides() {
    let (_runner, operator, own) = runner().await;
    let mut told = 0;
    for route in reading_routes(&operator).await {
        let (seen, hidden) = (operator.get(&route).await, own.get(&route).await);
        told += usize::from(tells(&seen.text()));
        assert!(!tells(&hidden.text()), "{route}: {}", hidden.text());
        // All of these is hidden, and not parts of it.
        let is_refused = ["/state/", "/recording", "/versions/"].iter().any(|part| route.contains(part));
        assert!(seen.status == hidden.status || is_refused && hidden.status == 403, "{route}: {}", hidden.text());
    }
    // A job four ways, three lists, two of schedules, attempts.
    assert!(told >= 10, "the operator saw it in {told} answers");

    let job = own.get(&format!("{TENANT}/jobs/ready")).await.json();
    assert_eq!(job["job"]["spec"]["body"], json!({ "text": "", "content_type": "application/x-hidden" }));
    assert_eq!(job["job"]["spec"]["metadata"], json!([["told", "hidden"]]));
    // What a producer waits for.
    let again = json!({ "id": "done", "body": {} });
    let answer = own.post(&format!("{TENANT}/topics/puppet/jobs?wait_ms=1000"), &again).await;
    assert!(answer.json()["job"]["result"].is_object() && !tells(&answer.text()), "{}", answer.text());
    // A worker gets what it needs.
    let claimed = own.post(&format!("{TENANT}/topics/by-hand/claim"), &json!({ "wait_ms": 30_000 })).await;
    assert!(tells(&claimed.text()), "{}", claimed.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_hides_cannot_be_searched_for() {
    let (runner, operator, own) = runner().await;
    for q in ["meta.told:hush-hush", "body.user:1", "hush", "-meta.told:x", "body.n>1"] {
        let escaped = q.replace(':', "%3A").replace('>', "%3E");
        for route in ["jobs", "topics/stuck/jobs", "dead/groups"] {
            let route = format!("{TENANT}/{route}?q={escaped}");
            let refused = own.get(&route).await;
            assert_eq!(refused.status, 403, "{route}: {}", refused.text());
            assert!(refused.text().contains("hide-payloads"), "{}", refused.text());
            assert_eq!(operator.get(&route).await.status, 200, "{route}");
        }
        let (bulk, dead) = (json!({ "q": q, "action": "cancel" }), json!({ "q": q }));
        // All who may look at the tenant see the query of a bulk action.
        for client in [&own, &operator] {
            assert_eq!(client.post(&format!("{TENANT}/bulk"), &bulk).await.status, 403, "{q}");
        }
        assert_eq!(own.post(&format!("{TENANT}/topics/puppet/dead/delete"), &dead).await.status, 403, "{q}");
    }
    assert_eq!(own.get(&format!("{TENANT}/jobs?q=reason:rejected")).await.status, 200);
    let dead: JobId = "dead".parse().unwrap();
    assert!(runner.store.job(&"acme".parse().unwrap(), &dead).await.unwrap().is_some());
}
