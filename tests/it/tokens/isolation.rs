//! Nothing of one tenant is seen by another: not by id, not by path, not in a list, not in the text of an error.

use gristmill::token::{Scope, TokenHash};
use gristmill_tests::http_client::{Answer, HttpClient};
use gristmill_tests::test_runner::{On, TestRunner};
use serde_json::Value;

use super::routes::{About, Needs, ROUTES, push_of};
use super::{bury, push, token};

on_both_stores! {
    other_tenants_cannot_see_whether_a_thing_exists
    another_tenants_job_is_not_found_under_ones_own_name
    lists_hold_what_is_ones_own
    a_push_for_another_tenant_is_refused
    a_tenant_does_not_receive_signals_of_others
}

async fn runner(on: On) -> TestRunner {
    super::runner(on).await
}

/// What two answers must agree in: all but when and as which they were given, and the tenant that they were asked about.
fn shown(answer: &Answer, tenant: &str) -> (u16, Vec<(String, String)>, Value) {
    let apart = ["date", "x-request-id", "content-length"];
    let headers = answer.headers.iter().filter(|(name, _)| !apart.contains(&name.as_str()));
    let mut headers: Vec<_> =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    headers.sort();
    let body = answer.text().replace(&format!("`{tenant}`"), "`…`");
    let mut body: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
    if let Some(body) = body.as_object_mut() {
        body.remove("request_id");
        body.remove("instance");
    }
    (answer.status, headers, body)
}

async fn acme(runner: &TestRunner) -> HttpClient {
    runner.client().with_token(&token(&*runner.store, Some("acme"), &Scope::ALL).await)
}

async fn other_tenants_cannot_see_whether_a_thing_exists(runner: TestRunner) {
    let (dead, waiting) = (bury(&runner, "other/mail").await, push(&runner, "other/mail").await);
    let theirs = TokenHash::of(&token(&*runner.store, Some("other"), &Scope::ALL).await).id();
    let client = acme(&runner).await;
    for route in ROUTES.iter().filter(|route| !matches!(route.needs, Needs::Nothing)) {
        let nothing = route.ask(&client, About::NOTHING).await;
        assert_eq!(nothing.status, 403, "{} {}", route.method, route.path);
        for job in [&waiting, &dead] {
            let about = About { tenant: "other", topic: "mail", job: job.as_str(), token: theirs.as_str() };
            let there = route.ask(&client, about).await;
            assert_eq!(
                shown(&there, "other"),
                shown(&nothing, About::NOTHING.tenant),
                "{} {}",
                route.method,
                route.path
            );
        }
    }
    assert!(runner.store.find_token(&theirs).await.unwrap().is_some());
    let counts = runner.store.counts(&"other".parse().unwrap()).await.unwrap();
    assert_eq!((counts[0].ready + counts[0].dead, counts[0].paused), (2, false), "nothing was done to them");
}

async fn another_tenants_job_is_not_found_under_ones_own_name(runner: TestRunner) {
    let (dead, waiting) = (bury(&runner, "other/mail").await, push(&runner, "other/mail").await);
    let client = acme(&runner).await;
    let own = |job| About { tenant: "acme", topic: "mail", job, ..About::NOTHING };
    for route in ROUTES.iter().filter(|route| route.path.contains("{job}") || route.path.contains("/dead/")) {
        let nothing = route.ask(&client, own("no-such-job")).await;
        for job in [waiting.as_str(), dead.as_str()] {
            let there = route.ask(&client, own(job)).await;
            let same = there.text().replace(job, "no-such-job");
            assert_eq!((there.status, same), (nothing.status, nothing.text()), "{} {}", route.method, route.path);
        }
    }
    let cancelled = serde_json::json!({ "ids": [waiting, dead] });
    let answer = client.post("/v1/tenants/acme/cancel", &cancelled).await;
    assert_eq!(answer.json()["cancelled"], serde_json::json!(["too-late", "too-late"]));
    assert!(runner.store.job(&"other".parse().unwrap(), &waiting).await.unwrap().is_some());
}

async fn lists_hold_what_is_ones_own(runner: TestRunner) {
    for topic in ["other/mail", "other/payroll", "acme/mail"] {
        bury(&runner, topic).await;
    }
    let client = acme(&runner).await;
    token(&*runner.store, Some("other"), &Scope::ALL).await;
    for path in ["/v1/tenants/acme/topics", "/v1/tenants/acme/topics/mail/jobs?state=dead", "/v1/tenants/acme/tokens"] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.text().contains("other") && !answer.text().contains("payroll"), "{path}: {}", answer.text());
    }
    assert_eq!(client.get("/v1/tenants/acme/topics").await.json()["topics"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/v1/tenants/acme/tokens").await.json()["tokens"].as_array().unwrap().len(), 1);
}

async fn a_push_for_another_tenant_is_refused(runner: TestRunner) {
    let client = acme(&runner).await;
    let mut both = push_of("acme", 1, "");
    both["jobs"].as_array_mut().unwrap().extend(push_of("other", 1, "")["jobs"].as_array().unwrap().clone());
    assert_eq!(client.post("/v1/jobs", &both).await.status, 403);
    assert!(runner.store.tenants().await.unwrap().is_empty(), "not even one's own half");
    assert_eq!(client.post("/v1/jobs", &push_of("acme", 1, "")).await.status, 200);
}

async fn a_tenant_does_not_receive_signals_of_others(runner: TestRunner) {
    let client = acme(&runner).await;
    for (tenants, status) in [("acme", 200), ("acme,other", 403), ("other,acme", 403), ("acme,nobody", 403)] {
        let response = client.begin(hyper::Request::get(format!("/v1/signals?tenants={tenants}")), Vec::new()).await;
        assert_eq!(response.status().as_u16(), status, "{tenants}");
    }
}
