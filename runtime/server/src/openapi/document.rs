//! The whole document.

use schemars::SchemaGenerator;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

use super::operation::{Operation, insert};
use super::schema::simplify;
use super::{Requirement, Route};
use crate::problem::{Code, Problem};

/// Examples of parameters and bodies, which a test sends to a server.
const EXAMPLES: &str = include_str!("examples.json");
/// Where schemas of requests are until it is clear whether they differ from those of answers of the same name.
const REQUESTS: &str = "#/components/requests/";
const SCHEMAS: &str = "#/components/schemas/";

/// The OpenAPI document of these routes.
///
/// # Errors
/// The file of examples is no JSON.
pub(crate) fn document(routes: &[Route]) -> serde_json::Result<Value> {
    let examples: Value = serde_json::from_str(EXAMPLES)?;
    let mut requests = generator("/components/requests", Contract::Deserialize);
    let mut answers = generator("/components/schemas", Contract::Serialize);
    answers.subschema_for::<Problem>();
    let mut paths = Map::new();
    for route in routes {
        let mut operation = describe(route, &mut requests, &mut answers);
        let method = route.method.as_str().to_lowercase();
        illustrate(&mut operation, &examples, &format!("{} {}", route.method, route.path));
        let path = paths.entry(route.path.clone()).or_insert_with(|| json!({}));
        insert(path, &method, operation);
    }
    let mut document = frame();
    insert(&mut document, "paths", paths.into());
    let (requests, answers) = (requests.take_definitions(true), answers.take_definitions(true));
    Ok(with_schemas(document, requests, answers))
}

fn generator(path: &str, contract: Contract) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = path.to_owned().into();
        settings.meta_schema = None;
        settings.contract = contract;
    });
    settings.into_generator()
}

fn describe(route: &Route, requests: &mut SchemaGenerator, answers: &mut SchemaGenerator) -> Value {
    let mut operation = Operation::new(&route.path, requests, answers);
    (route.docs.describe)(&mut operation);
    operation.succeeds(route.docs.answer, &route.docs.headers);
    let (codes, roles): (&[Code], Option<Vec<_>>) = match route.requires {
        Requirement::Nothing => (&[], Some(Vec::new())),
        Requirement::AnyToken => {
            (&[Code::TokenMissing, Code::TokenInvalid, Code::RateLimited, Code::StoreUnavailable], None)
        }
        Requirement::InTenant(scope) | Requirement::Everywhere(scope) => (
            &[Code::TokenMissing, Code::TokenInvalid, Code::Forbidden, Code::RateLimited, Code::StoreUnavailable],
            Some(vec![json!({}), json!({ "bearer": [scope] }), json!({ "x-token": [scope] })]),
        ),
    };
    codes.iter().chain(&route.docs.problems).for_each(|code| operation.fails(*code));
    let mut members = operation.into_members();
    members.insert("summary".into(), route.docs.summary.into());
    members.insert("tags".into(), json!([route.docs.tag]));
    members.extend(route.docs.description.map(|text| ("description".into(), text.into())));
    members.extend(roles.map(|roles| ("security".into(), roles.into())));
    members.into()
}

/// Adds the examples of a route's parameters, or those that all routes share, and of its body.
fn illustrate(operation: &mut Value, examples: &Value, name: &str) {
    let own = examples["operations"].get(name).unwrap_or(&Value::Null);
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default();
        let example = own.get(name).or_else(|| examples["parameters"].get(name)).cloned();
        if let Some(example) = example {
            insert(parameter, "example", example);
        }
    }
    let Some(content) = operation.pointer_mut("/requestBody/content/application~1json") else { return };
    for member in ["example", "examples"] {
        if let Some(example) = own.get(member) {
            insert(content, member, example.clone());
        }
    }
}

/// A type that is read and written has two schemas if they differ: that of requests has the suffix `-Input`.
fn with_schemas(mut document: Value, mut requests: Map<String, Value>, answers: Map<String, Value>) -> Value {
    simplify(&mut document);
    let mut schemas = Value::from(answers);
    simplify(&mut schemas);
    requests.values_mut().for_each(simplify);
    let mut renamed = Map::new();
    for (name, schema) in requests {
        let as_answer: Option<Value> = serde_json::from_str(&schema.to_string().replace(REQUESTS, SCHEMAS)).ok();
        let differs = schemas.get(&name).is_some_and(|answer| Some(answer) != as_answer.as_ref());
        let new = if differs { format!("{name}-Input") } else { name.clone() };
        insert(&mut schemas, &new, schema);
        renamed.insert(format!("{REQUESTS}{name}"), format!("{SCHEMAS}{new}").into());
    }
    if let Some(components) = document.get_mut("components") {
        insert(components, "schemas", schemas);
    }
    refer(&mut document, &renamed);
    document
}

/// Renames what references point at.
fn refer(value: &mut Value, renamed: &Map<String, Value>) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|value| refer(value, renamed)),
        Value::Object(members) => {
            members.values_mut().for_each(|value| refer(value, renamed));
            let target = members.get("$ref").and_then(Value::as_str).and_then(|target| renamed.get(target));
            if let Some(target) = target.cloned() {
                members.insert("$ref".into(), target);
            }
        }
        _ => {}
    }
}

/// What is around the paths and the schemas.
fn frame() -> Value {
    let request_id = "The request's own, if it has 1 to 64 letters, digits, `-`, `_` and `.`; else a new one. It is in the \
        server's log.";
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gristmill",
            "version": "1",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            "description": "Jobs in, results out. Times and waits are whole milliseconds, bytes are base64, unknown fields of \
                requests are refused, errors are problem documents. See docs/reference/http-api.md.",
        },
        "servers": [{ "url": "/" }],
        "security": [{}, { "bearer": [] }, { "x-token": [] }],
        "tags": [
            { "name": "jobs" },
            { "name": "topics" },
            { "name": "dead" },
            { "name": "workers", "description": "Runners and pull workers: see docs/guides/pull-workers.md." },
            { "name": "tokens" },
            { "name": "events" },
            { "name": "metrics" },
            { "name": "tenants", "description": "In which of several stores tenants are." },
            { "name": "health" },
            { "name": "commands", "description": "What Gristmill's own commands use." },
        ],
        "components": {
            "headers": { "X-Request-Id": { "description": request_id, "schema": { "type": "string" } } },
            "responses": {
                "Problem": {
                    "description": "What went wrong.",
                    "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
                    "headers": { "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" } },
                },
            },
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token, as long as the store has any. The roles of an operation are the scopes that it \
                        asks for. See docs/guides/tenants.md.",
                },
                "x-token": { "type": "apiKey", "in": "header", "name": "X-Token", "description": "The same." },
            },
        },
    })
}
