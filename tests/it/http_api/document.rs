//! The OpenAPI document is what the server does: every route is in it and back, its examples are taken, and the answers to
//! them are as it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gristmill_tests::guests;
use gristmill_tests::mill::{Mill, On};
use hyper::Request;
use serde_json::{Value, json};

use super::validate::{mistakes, resolve};
use super::{MANIFEST, mill};

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src/http")
}

/// Every path that a router of the API is given, as it is written there.
fn written_paths() -> BTreeSet<String> {
    let files = fs::read_dir(sources()).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let texts: Vec<String> = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    let routes = texts.iter().flat_map(|text| text.split(".route(").skip(1));
    routes.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next()).map(str::to_owned).collect()
}

/// With an example for each parameter.
fn filled(path: &str) -> String {
    path.replace("{tenant}", "default").replace("{topic}", "echo").replace("{id}", "order-17").replace("{worker}", "w")
}

/// What a path takes: the server itself says so to whoever asks in a way that it does not take.
async fn methods(mill: &Mill, path: &str) -> Option<BTreeSet<String>> {
    let answer = mill.asker().send(Request::trace(filled(path)), Vec::new()).await;
    let allowed = (answer.status == 405).then(|| answer.header("allow").to_lowercase())?;
    Some(allowed.split(',').filter(|method| *method != "head").map(str::to_owned).collect())
}

async fn document(mill: &Mill) -> Value {
    let document = mill.asker().get("/v1/openapi.json").await.json();
    let committed = fs::read(sources().join("../../../docs/openapi.json")).unwrap();
    assert_eq!(document, serde_json::from_slice::<Value>(&committed).unwrap());
    document
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_in_the_document_and_every_path_of_it_is_a_route() {
    let mill = mill(On::Memory).await;
    let document = document(&mill).await;
    let documented = document["paths"].as_object().unwrap();
    for (path, operations) in documented {
        let operations: BTreeSet<String> = operations.as_object().unwrap().keys().cloned().collect();
        assert_eq!(methods(&mill, path).await, Some(operations), "{path}");
    }
    for path in written_paths() {
        let full = format!("/v1{}", path.trim_end_matches('/'));
        assert!(
            documented.contains_key(&full) || documented.contains_key(&path),
            "{path} is a route, but not in docs/openapi.json: describe it there"
        );
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

fn query(document: &Value, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let resolved = parameters.map(|one| one["$ref"].as_str().map_or(one, |target| resolve(document, target)));
    let given = resolved.filter(|one| one["in"] == "query" && !one["example"].is_null());
    let pairs =
        given.map(|one| format!("{}={}", one["name"].as_str().unwrap(), one["example"].to_string().trim_matches('"')));
    let pairs: Vec<_> = pairs.collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_taken_and_answered_as_the_document_says() {
    let mill = Mill::start(MANIFEST, &[("echo", guests::ECHO)]).await;
    let document = document(&mill).await;
    // The job that examples speak of.
    mill.asker()
        .post("/v1/tenants/default/topics/echo/jobs", &json!({ "id": "order-17", "delay_ms": 3_600_000 }))
        .await;
    let (mut asked, order) = (0, ["get", "post"]);
    for method in order {
        for (path, operations) in document["paths"].as_object().unwrap() {
            let Some(operation) = operations.get(method) else { continue };
            // It has no end.
            if path == "/v1/signals" {
                continue;
            }
            let uri = format!("{}{}", filled(path), query(&document, operation));
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
                let answer = mill.asker().send(request.header("content-type", media), written).await;
                assert!(answer.status < 300, "{method} {uri} {body}: {}", answer.text());
                let said = &operation["responses"][answer.status.to_string()];
                assert!(!said.is_null(), "{method} {path}: {} is not in the document", answer.status);
                let schema = &said["content"]["application/json"]["schema"];
                if !schema.is_null() {
                    let wrong = mistakes(&document, schema, &answer.json(), "answer");
                    assert!(wrong.is_empty(), "{method} {uri}: {wrong:#?}\n{}", answer.text());
                }
                asked += 1;
            }
        }
    }
    assert!(asked >= 20, "{asked} examples");
}
