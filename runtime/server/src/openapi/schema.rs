//! Schemas in the form that generators of clients understand best.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// One of two documents.
pub(crate) struct AnyOf<A, B>(PhantomData<(A, B)>);

impl<A: JsonSchema, B: JsonSchema> JsonSchema for AnyOf<A, B> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}Or{}", A::schema_name(), B::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<A>(), generator.subschema_for::<B>()] })
    }
}

/// Simplifies every schema in a document: enumerations of words become `enum`; objects that a word in one of their fields
/// distinguishes become one object; whole numbers have the format `int64`; descriptions have no links into Rust's documentation.
pub(super) fn simplify(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(simplify),
        Value::Object(members) => {
            members.values_mut().for_each(simplify);
            if members.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
                members.insert("format".into(), "int64".into());
            }
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = text.replace("[`", "`").replace("`]", "`");
            }
            if let Some(Value::Array(options)) = members.remove("oneOf")
                && !(enumerate(members, &options) || merge(members, &options))
            {
                members.insert("oneOf".into(), options.into());
            }
        }
        _ => {}
    }
}

/// The words that an option allows, if it allows only words.
fn words(option: &Value) -> Option<Vec<Value>> {
    match (option.get("const"), option.get("enum")) {
        (Some(word), _) => Some(vec![word.clone()]),
        (None, Some(words)) => words.as_array().cloned(),
        (None, None) => None,
    }
}

/// Writes options that are words as one `enum`.
fn enumerate(schema: &mut Map<String, Value>, options: &[Value]) -> bool {
    let Some(all) = options.iter().map(words).collect::<Option<Vec<_>>>() else { return false };
    let mut text = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (option, words) in options.iter().zip(&all) {
        if let (Some(description), [word]) = (option.get("description").and_then(Value::as_str), &**words) {
            text += &format!("\n- `{}`: {description}", word.as_str().unwrap_or_default());
        }
    }
    if !text.is_empty() {
        schema.insert("description".into(), text.trim_start().into());
    }
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), all.concat().into());
    true
}

/// The only word that a field of an option may have.
fn word<'v>(option: &'v Value, field: &str) -> Option<&'v str> {
    option["properties"].get(field)?.get("const")?.as_str()
}

/// The field whose one word distinguishes these options.
fn tag(options: &[Value]) -> Option<String> {
    let is_tag = |name: &str| options.iter().all(|option| word(option, name).is_some());
    options.first()?["properties"].as_object()?.keys().find(|name| is_tag(name)).cloned()
}

/// Writes options that a tag distinguishes as one object: a field that only some of them have says so.
fn merge(schema: &mut Map<String, Value>, options: &[Value]) -> bool {
    let Some(tag) = tag(options) else { return false };
    let mut fields = schema.remove("properties").and_then(|fields| fields.as_object().cloned()).unwrap_or_default();
    let mut required = schema.remove("required").and_then(|names| names.as_array().cloned()).unwrap_or_default();
    let has = |option: &Value, name: &str| option["properties"].get(name).is_some();
    let mut tags = Vec::new();
    for option in options {
        for (name, field) in option["properties"].as_object().into_iter().flatten() {
            if *name == tag {
                tags.extend(words(field).unwrap_or_default());
                continue;
            }
            let with: Vec<_> = options.iter().filter(|option| has(option, name)).collect();
            let mut field = field.clone();
            if with.len() < options.len() {
                let tags = with.iter().filter_map(|option| word(option, &tag));
                let only = format!(
                    "Only if `{tag}` is {}.",
                    tags.map(|tag| format!("`{tag}`")).collect::<Vec<_>>().join(" or ")
                );
                let text = field.get("description").and_then(Value::as_str);
                let text = text.map_or_else(|| only.clone(), |text| format!("{text} {only}"));
                super::operation::insert(&mut field, "description", text.into());
            } else if !required.contains(&json!(name)) {
                required.push(json!(name));
            }
            fields.entry(name).or_insert(field);
        }
    }
    fields.insert(tag.clone(), json!({ "type": "string", "enum": tags }));
    required.push(tag.into());
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), fields.into());
    schema.insert("required".into(), required.into());
    true
}
