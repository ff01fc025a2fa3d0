//! What a token allows, and nothing else.

use gristmill::token::Scope;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use serde_json::{Value, json};

use super::routes::{About, Needs, ROUTES, Route};
use super::token;

on_both_stores! {
    every_route_is_open_to_its_scope_and_to_no_other
    an_operators_scope_holds_in_every_tenant
    a_missing_or_wrong_token_gets_no_information
    without_a_token_in_the_store_everything_is_allowed_to_this_machine
    a_token_cannot_create_a_token_with_more_rights
    a_token_without_scopes_or_for_an_unknown_tenant_comes_with_a_warning
    a_tenants_admin_keeps_its_tokens_and_no_others
    only_an_operator_sees_where_the_store_is
    a_client_that_may_only_push_sees_jobs_that_it_stored_and_of_others_their_state
    a_refusal_names_the_scope_that_is_needed_and_those_that_the_token_has
}

async fn runner(on: On) -> TestRunner {
    super::runner(on).await
}

const ACME: About<'_> = About { tenant: "acme", ..About::NOTHING };

/// Whether somebody with this scope, in acme or everywhere, may come in there.
fn allows(route: &Route, scope: Scope, everywhere: bool) -> bool {
    match route.needs {
        Needs::Nothing => true,
        Needs::Tenant(needed) => needed == scope,
        Needs::Everywhere(needed) => needed == scope && everywhere,
    }
}

async fn every_route_is_open_to_its_scope_and_to_no_other(runner: TestRunner) {
    for scope in Scope::ALL {
        let text = token(&*runner.store, Some("acme"), &[scope]).await;
        for route in ROUTES {
            let answer = route.ask(&runner.client().with_token(&text), ACME).await;
            let allowed = allows(route, scope, false);
            assert_eq!(answer.status != 403, allowed, "{scope:?} {} {}: {}", route.method, route.path, answer.text());
            assert!(answer.status < 500 && answer.status != 401, "{} {}: {}", route.method, route.path, answer.text());
        }
    }
    let nothing = token(&*runner.store, Some("acme"), &[]).await;
    for route in ROUTES.iter().filter(|route| !matches!(route.needs, Needs::Nothing)) {
        assert_eq!(route.ask(&runner.client().with_token(&nothing), ACME).await.status, 403, "{}", route.path);
    }
}

async fn an_operators_scope_holds_in_every_tenant(runner: TestRunner) {
    for scope in Scope::ALL {
        let text = token(&*runner.store, None, &[scope]).await;
        for about in [ACME, About { tenant: "other", ..ACME }] {
            for route in ROUTES {
                let answer = route.ask(&runner.client().with_token(&text), about).await;
                let allowed = allows(route, scope, true);
                assert_eq!(answer.status != 403, allowed, "{scope:?} {} {}", route.method, route.path);
            }
        }
    }
}

async fn a_missing_or_wrong_token_gets_no_information(runner: TestRunner) {
    let text = token(&*runner.store, None, &Scope::ALL).await;
    // Until this server has heard of the first token.
    let client = runner.client();
    until("the door to close", SOON, async || (client.get("/v1").await.status == 401).then_some(())).await;
    for route in ROUTES {
        for (client, code) in [
            (runner.client(), "token-missing"),
            (runner.client().with_token("gm_wrong"), "token-invalid"),
            (runner.client().with_token(&text[..text.len() - 1]), "token-invalid"),
            (runner.client().with_token(&text.to_lowercase()), "token-invalid"),
        ] {
            let answer = route.ask(&client, ACME).await;
            assert_eq!((answer.status, &answer.json()["code"]), (401, &json!(code)), "{}", route.path);
            assert!(answer.header("www-authenticate").starts_with("Bearer"));
            assert!(!answer.text().contains(&text[3..]), "no answer repeats a token");
        }
    }
    assert_eq!(
        runner.client().get(&format!("/v1?token={text}")).await.status,
        401,
        "what is in the query is in the logs"
    );
    let other_header = Request::get("/v1").header("x-token", &text);
    assert_eq!(runner.client().send(other_header, Vec::new()).await.status, 200);
    for open in ["/healthz", "/readyz"] {
        assert_eq!(runner.client().get(open).await.status, 200, "{open}");
    }
}

async fn without_a_token_in_the_store_everything_is_allowed_to_this_machine(runner: TestRunner) {
    for route in ROUTES.iter().filter(|route| route.method == "GET") {
        let answer = route.ask(&runner.client(), ACME).await;
        assert!(![401, 403].contains(&answer.status), "{}: {}", route.path, answer.text());
    }
    let made = runner.client().post("/v1/tokens", &json!({ "all_tenants": true, "scopes": ["admin"] })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(runner.client().get("/v1").await.status, 401, "from the first token on");
    let text = made.json()["text"].as_str().unwrap().to_owned();
    let tokens = runner.client().with_token(&text).get("/v1/tokens").await;
    assert_eq!(tokens.json()["tokens"][0]["id"], made.json()["token"]["id"]);
    assert!(!tokens.text().contains(&text), "the text is told once");
}

async fn a_token_without_scopes_or_for_an_unknown_tenant_comes_with_a_warning(runner: TestRunner) {
    let job = json!({ "id": "j", "body": 1 });
    assert_eq!(runner.client().post("/v1/tenants/globex/topics/mail/jobs", &job).await.status, 201);
    let admin = token(&*runner.store, None, &Scope::ALL).await;
    let client = runner.client().with_token(&admin);
    let warnings = async |tenant: &str, scopes: &[&str]| {
        let made = client.post("/v1/tokens", &json!({ "tenant": tenant, "scopes": scopes })).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["warnings"].clone()
    };
    assert_eq!(warnings("globex", &["push"]).await, json!(null));
    assert_eq!(warnings("default", &["push"]).await, json!(null));
    assert_eq!(warnings("globex", &[]).await, json!(["the token has no scope, so it allows nothing"]));
    let unknown = "no job and no section of the manifest is of a tenant `globx` (did you mean `globex`?)";
    assert_eq!(warnings("globx", &["push"]).await, json!([unknown]));
}

async fn a_token_cannot_create_a_token_with_more_rights(runner: TestRunner) {
    let admin = super::limited(&*runner.store, Some("acme"), &[Scope::Admin, Scope::Push], Some(1000)).await;
    let client = runner.client().with_token(&admin);
    let rate = json!({ "requests": { "per_second": 1000, "burst": 1000 } });
    let make = async |more: serde_json::Value| {
        let mut new = json!({ "scopes": ["push"], "limits": rate });
        new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post("/v1/tenants/acme/tokens", &new).await
    };
    let refused = [
        (json!({ "scopes": ["push", "read"] }), 403),
        (json!({ "limits": {} }), 403),
        (json!({ "limits": { "requests": { "per_second": 1001, "burst": 1 } } }), 403),
        (json!({ "limits": { "requests": { "per_second": 1, "burst": 1001 } } }), 403),
        (json!({ "limits": { "requests": { "per_second": 0, "burst": 1 } } }), 400),
        (json!({ "all_tenants": true }), 400),
        (json!({ "tenant": "other" }), 400),
        (json!({ "scopes": ["all"] }), 400),
        (json!({ "scope": ["push"] }), 400),
        (json!({ "expires_in_ms": 0 }), 400),
        (json!({ "description": "x".repeat(1025) }), 413),
    ];
    for (more, status) in refused {
        let answer = make(more.clone()).await;
        assert_eq!(answer.status, status, "{more}: {}", answer.text());
    }
    for more in [json!({}), json!({ "scopes": ["admin", "push"], "description": "x".repeat(1024) })] {
        assert_eq!(make(more.clone()).await.status, 201, "{more}");
    }
    let made = make(json!({ "tenant": "acme" })).await.json();
    let limits = format!("/v1/tenants/acme/tokens/{}/limits", made["token"]["id"].as_str().unwrap());
    let put = async |limits_of: &str, document: &str| {
        let request = Request::put(limits_of).header("content-type", "application/json");
        client.send(request, document.as_bytes().to_vec()).await.status
    };
    assert_eq!(put(&limits, "{}").await, 403, "nor make a greater one of what is there");
    assert_eq!(put(&limits, r#"{"requests":{"per_second":1,"burst":1}}"#).await, 200);
}

async fn a_tenants_admin_keeps_its_tokens_and_no_others(runner: TestRunner) {
    let admin = token(&*runner.store, Some("acme"), &[Scope::Admin]).await;
    let theirs = token(&*runner.store, Some("other"), &[Scope::Read]).await;
    let operators = token(&*runner.store, None, &[Scope::Read]).await;
    let client = runner.client().with_token(&admin);
    let made = client.post("/v1/tenants/acme/tokens", &json!({ "scopes": [] })).await.json();
    let listed = client.get("/v1/tenants/acme/tokens").await.json();
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2, "{listed}");
    for text in [&theirs, &operators] {
        let id = gristmill::token::TokenHash::of(text).id();
        let path = format!("/v1/tenants/acme/tokens/{id}");
        assert_eq!(client.delete(&path).await.json(), json!({ "revoked": false }));
        let request = Request::put(format!("{path}/limits")).header("content-type", "application/json");
        assert_eq!(client.send(request, b"{}".to_vec()).await.json()["code"], "token-unknown");
        assert!(runner.store.find_token(&id).await.unwrap().is_some());
    }
    let own = format!("/v1/tenants/acme/tokens/{}", made["token"]["id"].as_str().unwrap());
    assert_eq!(client.delete(&own).await.json(), json!({ "revoked": true }));
    let secret = made["text"].as_str().unwrap();
    assert_eq!(runner.client().with_token(secret).get("/v1").await.status, 401, "at once");
}

async fn only_an_operator_sees_where_the_store_is(runner: TestRunner) {
    let about = async |tenant| {
        let text = token(&*runner.store, tenant, &[Scope::Read]).await;
        runner.client().with_token(&text).get("/v1").await.json()
    };
    let (operators, tenants) = (about(None).await, about(Some("acme")).await);
    assert!(operators["store"].is_string() && operators["pid"].is_number(), "{operators}");
    let [version, store_id, instance] = ["version", "store_id", "instance"].map(|field| operators[field].clone());
    assert_eq!(tenants, json!({ "version": version, "store_id": store_id, "instance": instance }));
}

async fn a_client_that_may_only_push_sees_jobs_that_it_stored_and_of_others_their_state(runner: TestRunner) {
    const JOBS: &str = "/v1/tenants/acme/topics/mail/jobs";
    let all = runner.client().with_token(&token(&*runner.store, Some("acme"), &Scope::ALL).await);
    let push = runner.client().with_token(&token(&*runner.store, Some("acme"), &[Scope::Push]).await);
    let of = |more: Value| {
        let mut job = json!({ "body": "secret", "metadata": { "auth": "secret" } });
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    all.post(JOBS, &of(json!({ "id": "ready" }))).await;
    all.post(JOBS, &of(json!({ "id": "later", "delay_ms": 600_000, "unique": { "value": "customer" } }))).await;
    let dead = super::bury(&runner, "acme/other").await;
    for (asked, status, id, state) in [
        (json!({ "id": "ready" }), "exists", "ready", "ready"),
        (json!({ "unique": { "value": "customer" } }), "duplicate", "later", "delayed"),
        (json!({ "id": dead.as_str() }), "exists", dead.as_str(), "dead"),
    ] {
        let answer = push.post(&format!("{JOBS}?wait_ms=1"), &asked).await;
        let shown = answer.json();
        assert_eq!((&shown["status"], &shown["id"]), (&json!(status), &json!(id)), "{shown}");
        assert_eq!((&shown["job"]["state"], &shown["job"]["job"]), (&json!(state), &json!(null)), "{shown}");
        let hidden = ["secret", "c2VjcmV0", "InNlY3JldCI"].iter().all(|text| !answer.text().contains(text));
        assert!(hidden && shown["job"]["last_failure"].is_null(), "{shown}");
        let whole = all.post(&format!("{JOBS}?wait_ms=1"), &asked).await.json();
        assert!(!whole["job"]["job"].is_null(), "who may read sees it: {whole}");
    }
    let own = push.post(&format!("{JOBS}?wait_ms=1"), &of(json!({ "id": "own" }))).await.json();
    assert_eq!(own["job"]["job"]["spec"]["id"], "own", "{own}");
    let with_key = async |body: &[u8]| {
        let request = Request::post(format!("{JOBS}?wait_ms=1")).header("content-type", "application/json");
        push.send(request.header("idempotency-key", "k"), body.to_vec()).await
    };
    // Whoever guesses a key and its request could have sent it.
    for is_hidden in [false, true] {
        let again = with_key(b"{}").await.json();
        assert_eq!((&again["status"], again["job"]["job"].is_null()), (&json!("stored"), is_hidden), "{again}");
    }
    let stored = with_key(b"{}").await.json()["id"].as_str().unwrap().to_owned();
    let reused = with_key(br#"{"body":1}"#).await;
    assert!(reused.status == 422 && !reused.text().contains(&stored), "{}", reused.text());
}

async fn a_refusal_names_the_scope_that_is_needed_and_those_that_the_token_has(runner: TestRunner) {
    let client = runner.client().with_token(&token(&*runner.store, Some("acme"), &[Scope::Push, Scope::Work]).await);
    let here = client.get("/v1/tenants/acme/topics").await;
    let elsewhere = client.get("/v1/tenants/nobody/topics").await;
    for part in ["`read`", "`push`, `work`", "`acme`"] {
        assert!(here.status == 403 && here.text().contains(part), "{part}: {}", here.text());
    }
    assert_eq!(here.text(), elsewhere.text().replace("nobody", "acme"), "nothing tells whether there is such a tenant");
    assert!(client.get("/v1/tokens").await.text().contains("of all tenants"));
    // What it may do in its own tenant, it says.
    let push = async |tenant: &str| {
        client.post(&format!("/v1/tenants/{tenant}/topics/mail/jobs"), &json!({ "body": 1 })).await
    };
    assert_eq!(push("default").await.json()["tenant"], "acme");
    assert!(push("acme").await.status == 201 && here.json()["tenant"].is_null());
}
