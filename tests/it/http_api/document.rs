//! The OpenAPI document is what the server does: every route is in it and back, its examples are taken, and the answers to
//! them are as it says.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_tests::guests;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::SOON;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::find::encoded;
use super::validate::{mistakes, resolve};
use super::{MANIFEST, runner};

/// What pull workers do in the examples.
const EXTERNAL: &str = r#"
    [topics.print]
    handler = "external"
    [topics.label]
    handler = "external"
"#;

/// The parameters of an operation that are in the path, or in the query: name and example.
fn parameters(document: &Value, operation: &Value, place: &str) -> Vec<(String, String)> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let resolved = parameters.map(|one| one["$ref"].as_str().map_or(one, |target| resolve(document, target)));
    let given = resolved.filter(|one| one["in"] == place && !one["example"].is_null());
    let text = |value: &Value| value.to_string().trim_matches('"').to_owned();
    given.map(|one| (text(&one["name"]), text(&one["example"]))).collect()
}

/// Where an operation is asked for, with the examples of its parameters.
fn uri(document: &Value, path: &str, operation: &Value) -> String {
    let in_path = parameters(document, operation, "path");
    let path = in_path.iter().fold(path.to_owned(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
    assert!(!path.contains('{'), "{path}: a parameter has no example");
    let query = parameters(document, operation, "query");
    let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

/// What a path takes: the server itself says so to whoever asks in a way that it does not take.
async fn methods(runner: &TestRunner, uri: &str) -> Option<BTreeSet<String>> {
    let answer = runner.client().send(Request::trace(uri), Vec::new()).await;
    let allowed = (answer.status == 405).then(|| answer.header("allow").to_lowercase())?;
    Some(allowed.split(',').filter(|method| *method != "head").map(str::to_owned).collect())
}

async fn document(runner: &TestRunner) -> Value {
    runner.client().get("/v1/openapi.json").await.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_in_the_document_and_every_path_of_it_is_a_route() {
    let runner = runner(On::Memory).await;
    let document = document(&runner).await;
    let mut documented = BTreeMap::<String, BTreeSet<String>>::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let operations: BTreeSet<_> = operations.as_object().unwrap().keys().cloned().collect();
        documented.insert(path.clone(), operations);
    }
    let mut routes = BTreeMap::<String, BTreeSet<String>>::new();
    for route in gristmill::server::routes() {
        routes.entry(route.path).or_default().insert(route.method.as_str().to_lowercase());
    }
    assert_eq!(documented, routes, "docs/reference/openapi.json on the left, the server on the right");
    for (path, operations) in document["paths"].as_object().unwrap() {
        let uri = uri(&document, path, operations.as_object().unwrap().values().next().unwrap());
        assert_eq!(methods(&runner, &uri).await.as_ref(), documented.get(path), "{path}");
    }
}

/// Examples of an operation's body: media type and value.
fn examples(operation: &Value) -> Vec<(String, Value)> {
    let contents = operation["requestBody"]["content"].as_object().into_iter().flatten();
    let of = |content: &Value| match content["examples"].as_object() {
        Some(many) => many.values().map(|example| example["value"].clone()).collect(),
        None => content.get("example").cloned().into_iter().collect::<Vec<_>>(),
    };
    contents.flat_map(|(media, content)| of(content).into_iter().map(|value| (media.clone(), value))).collect()
}

/// What a stream tells: its media type, and the schema of each thing that is sent. None: the operation has no stream.
fn stream(operation: &Value) -> Option<(&str, &Value)> {
    let contents = operation["responses"]["200"]["content"].as_object()?;
    contents.iter().find_map(|(media, content)| Some((media.as_str(), content.get("x-item-schema")?)))
}

/// Answers without an end are read by a test of their own.
fn has_no_end(operation: &Value) -> bool {
    stream(operation).is_some() && operation["responses"]["200"]["content"]["application/json"].is_null()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_taken_and_answered_as_the_document_says() {
    // Of several stores, so that a tenant can be moved.
    let runner =
        TestRunner::start_on(On::ShardedStore, &format!("{MANIFEST}{EXTERNAL}"), &[("echo", guests::ECHO)]).await;
    let document = document(&runner).await;
    // Some examples make tokens, and from the first one on nobody comes in without.
    let everything = json!({ "all_tenants": true, "scopes": ["push", "work", "read", "admin"] });
    let token = runner.client().post("/v1/tokens", &everything).await.json();
    let client = runner.client().with_token(token["text"].as_str().unwrap());
    // The job that examples speak of.
    client.post("/v1/tenants/default/topics/echo/jobs", &json!({ "id": "order-17", "delay_ms": 3_600_000 })).await;
    // The schedule that they speak of.
    let nightly = Request::put("/v1/tenants/default/schedules/echo/nightly").header("content-type", "application/json");
    assert_eq!(client.send(nightly, json!({ "cron": "0 3 * * *" }).to_string().into_bytes()).await.status, 200);
    // What is made must be there before it is changed and deleted.
    let (mut asked, order) = (0, ["get", "post", "put", "delete"]);
    for method in order {
        for (path, operations) in document["paths"].as_object().unwrap() {
            let Some(operation) = operations.get(method) else { continue };
            // Components, jobs, batches and bulk actions come and go in tests of their own.
            let here = ["/tokens/", "/schedules/"].iter().any(|part| path.contains(part));
            let elsewhere = matches!(method, "put" | "delete") && !here
                || ["/seal", "/bulk/", "/handler/"].iter().any(|part| path.contains(part));
            if has_no_end(operation) || elsewhere {
                continue;
            }
            if path.ends_with("/claim") {
                client.post("/v1/tenants/default/topics/print/jobs", &json!({ "body": 1 })).await;
            }
            let uri = uri(&document, path, operation);
            let mut bodies = examples(operation);
            if bodies.is_empty() {
                assert!(operation["requestBody"].is_null(), "{method} {path}: its body has no example");
                bodies.push(("application/json".into(), Value::Null));
            }
            for (media, body) in bodies {
                let written = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
                if !body.is_null() {
                    let schema = &operation["requestBody"]["content"][&media]["schema"];
                    let wrong = mistakes(&document, schema, &body, "request");
                    assert!(wrong.is_empty(), "{method} {path}: {wrong:#?}");
                }
                let request = Request::builder().method(method.to_uppercase().as_str()).uri(&uri);
                let answer = client.send(request.header("content-type", media), written).await;
                assert!(answer.status < 300, "{method} {uri} {body}: {}", answer.text());
                let said = &operation["responses"][answer.status.to_string()];
                assert!(!said.is_null(), "{method} {path}: {} is not in the document", answer.status);
                let schema = &said["content"]["application/json"]["schema"];
                if !schema.is_null() {
                    let wrong = mistakes(&document, schema, &answer.json(), "answer");
                    assert!(wrong.is_empty(), "{method} {uri}: {wrong:#?}\n{}", answer.text());
                    assert_ne!(answer.json()["claims"], json!([]), "there was a job to claim");
                }
                asked += 1;
            }
        }
    }
    assert!(asked >= 40, "{asked} examples");
}

/// The first thing that a stream tells: a line of JSON, or the data of an event.
async fn first_event(body: &mut Incoming) -> Value {
    let mut text = String::new();
    loop {
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut event = whole.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        if let Some(event) = event.find(|line| line.starts_with('{')) {
            return serde_json::from_str(event).unwrap();
        }
        let frame = body.frame().await.expect("something to be sent").unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stream_matches_the_document() {
    let runner = runner(On::Memory).await;
    let document = document(&runner).await;
    let push = async |job: Value| runner.client().post("/v1/tenants/default/topics/echo/jobs", &job).await;
    push(json!({ "id": "order-17", "delay_ms": 3_600_000 })).await;
    let mut streams = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let operation = &operations["get"];
        let Some((media, schema)) = stream(operation) else { continue };
        let uri = uri(&document, path, operation);
        let mut answer = runner.client().begin(Request::get(&uri).header("accept", media), Vec::new()).await;
        assert_eq!((answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap()), (200, media));
        push(json!({ "body": 1 })).await;
        let event = timeout(SOON, first_event(answer.body_mut())).await.expect("to be sent");
        let wrong = mistakes(&document, schema, &event, "event");
        assert!(wrong.is_empty(), "{uri}: {wrong:#?}\n{event}");
        streams += 1;
    }
    assert_eq!(streams, 4, "signals, events, a tenant's events, a job");
}
