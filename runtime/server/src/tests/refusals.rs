//! What a refusal says.

use serde_json::json;

use super::TestServer;

#[tokio::test]
async fn an_option_that_a_path_does_not_take_is_refused() {
    let tested = TestServer::start().await;
    for (method, path, body) in [
        // The document has the limit.
        ("POST", "/v1/tenants/acme/topics/a/dead/delete?limit=1", r#"{ "all": true }"#),
        ("GET", "/v1/tenants/acme/schedules?limit=1", ""),
        ("GET", "/v1/me?limit=1&x", ""),
    ] {
        let (status, problem) = tested.ask(method, path, body).await;
        let detail = format!("there is no option `limit`: with {method} this path takes no query");
        assert_eq!((status, &problem["detail"]), (400, &json!(detail)), "{path}: {problem}");
    }
    for path in ["/v1/me?", "/v1/tenants/acme/attempts?limit=1", "/healthz?limit=1", "/metrics?limit=1"] {
        assert_eq!(tested.ask("GET", path, "").await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn a_problem_names_what_is_wrong() {
    let tested = TestServer::start().await;
    for (method, path, body, detail) in [
        ("POST", "/", "{}", "this path takes GET, not POST"),
        ("GET", "/v1/tenants/acme/attempts?limit=1001", "", "`limit`: 1001 in one request; at most 1000 are allowed"),
        ("GET", "/v1/tenants/acme/attempts?limit=0", "", "`limit`: a page has 1 to 1000 entries, not 0"),
        (
            "POST",
            "/v1/tokens",
            r#"{ "tenant": "acme", "scopes": ["read"], "expires_in_ms": 18446744073709551615 }"#,
            "`expires_in_ms` is 18446744073709551615, longer than ten years: leave it out for a token that does not end",
        ),
        (
            "POST",
            "/v1/tenants/acme/leases/extend",
            r#"{ "leases": ["x"] }"#,
            "`leases[0]`: this is not a lease: give back the text that the claim came with",
        ),
    ] {
        let (_, problem) = tested.ask(method, path, body).await;
        assert_eq!(problem["detail"], detail, "{path}");
    }
}
