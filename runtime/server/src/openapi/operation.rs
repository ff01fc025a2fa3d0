//! One operation, while its arguments and its answer describe it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::problem::Code;

/// What is known of an operation so far.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    /// Schemas of what clients send.
    requests: &'a mut SchemaGenerator,
    /// Schemas of what they receive.
    answers: &'a mut SchemaGenerator,
    /// The rest of the path after the names that have a schema; names are in braces.
    path: &'a str,
    parameters: Vec<Value>,
    body: Map<String, Value>,
    responses: BTreeMap<u16, Value>,
    problems: BTreeMap<u16, BTreeSet<Code>>,
}

impl<'a> Operation<'a> {
    pub(super) fn new(path: &'a str, requests: &'a mut SchemaGenerator, answers: &'a mut SchemaGenerator) -> Self {
        let (parameters, body) = (Vec::new(), Map::new());
        let (responses, problems) = (BTreeMap::new(), BTreeMap::new());
        Self { requests, answers, path, parameters, body, responses, problems }
    }

    /// Gives the next name in the path its type.
    pub(crate) fn in_path<T: JsonSchema>(&mut self) {
        let name = self.path.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        if let Some((name, rest)) = name {
            self.path = rest;
            let schema = self.requests.subschema_for::<T>();
            self.parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        }
    }

    /// Adds the fields of `T` as parameters of the query.
    pub(crate) fn in_query<T: JsonSchema>(&mut self) {
        let schema = T::json_schema(self.requests);
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let mut parameter = json!({ "name": name, "in": "query", "schema": without_null(field) });
            if required.contains(&Value::from(name.as_str())) {
                insert(&mut parameter, "required", true.into());
            }
            self.parameters.push(parameter);
        }
    }

    pub(crate) fn in_header(&mut self, name: &str, description: &str, schema: Value) {
        let parameter = json!({ "name": name, "in": "header", "description": description, "schema": schema });
        self.parameters.push(parameter);
    }

    /// A body of JSON.
    pub(crate) fn document<T: JsonSchema>(&mut self) {
        let schema = self.requests.subschema_for::<T>();
        self.body("application/json", schema);
    }

    pub(crate) fn body(&mut self, media_type: &str, schema: impl Into<Value>) {
        self.body.insert(media_type.into(), json!({ "schema": schema.into() }));
    }

    /// An answer of JSON, in the words of its type.
    pub(crate) fn answer<T: JsonSchema>(&mut self, status: u16) {
        let whole = T::json_schema(self.answers);
        let description = whole.get("description").and_then(Value::as_str).unwrap_or("The answer.").to_owned();
        let schema = self.answers.subschema_for::<T>();
        self.content(status, &description, "application/json", json!({ "schema": schema }));
    }

    /// An answer in text. Of one that goes on, `T` is what each part of it is.
    pub(crate) fn stream<T: JsonSchema>(&mut self, description: &str, media_type: &str) {
        let item: Schema = self.answers.subschema_for::<T>();
        self.content(200, description, media_type, json!({ "schema": { "type": "string" }, "x-item-schema": item }));
    }

    pub(crate) fn text(&mut self, description: &str, media_type: &str) {
        self.content(200, description, media_type, json!({ "schema": { "type": "string" } }));
    }

    fn content(&mut self, status: u16, description: &str, media_type: &str, content: Value) {
        let response =
            self.responses.entry(status).or_insert_with(|| json!({ "description": description, "content": {} }));
        if let Some(all) = response.get_mut("content") {
            insert(all, media_type, content);
        }
    }

    /// Adds a problem that the operation may be answered by.
    pub(crate) fn fails(&mut self, code: Code) {
        self.problems.entry(code.status().as_u16()).or_default().insert(code);
    }

    /// The description of every success, and its headers: names and descriptions.
    pub(super) fn succeeds(&mut self, description: Option<&str>, headers: &[(&str, &str)]) {
        for response in self.responses.values_mut() {
            if let Some(description) = description {
                insert(response, "description", description.into());
            }
            let mut all = json!({ "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" } });
            for (name, description) in headers {
                insert(&mut all, name, json!({ "description": description, "schema": { "type": "string" } }));
            }
            insert(response, "headers", all);
        }
    }

    /// The members of an operation object.
    pub(super) fn into_members(self) -> Map<String, Value> {
        let mut members = Map::new();
        if !self.parameters.is_empty() {
            members.insert("parameters".into(), self.parameters.into());
        }
        if !self.body.is_empty() {
            members.insert("requestBody".into(), json!({ "required": true, "content": self.body }));
        }
        let mut responses: Map<String, Value> =
            self.responses.into_iter().map(|(status, response)| (status.to_string(), response)).collect();
        for (status, codes) in self.problems {
            let codes: Vec<_> = codes.iter().filter_map(|code| serde_json::to_value(code).ok()).collect();
            let names: Vec<_> = codes.iter().filter_map(Value::as_str).map(|code| format!("`{code}`")).collect();
            let problem = json!({ "$ref": "#/components/responses/Problem", "description": names.join(" or ") });
            responses.insert(status.to_string(), problem);
        }
        responses.insert("default".into(), json!({ "$ref": "#/components/responses/Problem" }));
        members.insert("responses".into(), responses.into());
        members
    }
}

/// The schema of a field that may be left out, for a query, in which nothing is null.
fn without_null(field: &Value) -> Value {
    let is_null = |option: &Value| *option == json!("null") || option["type"] == "null";
    let mut field = field.clone();
    for member in ["type", "anyOf"] {
        let Some(options) = field.get(member).and_then(Value::as_array).cloned() else { continue };
        let others: Vec<Value> = options.into_iter().filter(|option| !is_null(option)).collect();
        match &*others {
            [only] if member == "type" => insert(&mut field, member, only.clone()),
            _ => insert(&mut field, member, others.into()),
        }
    }
    field
}

/// Adds a member to an object.
pub(super) fn insert(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.into(), value);
    }
}
