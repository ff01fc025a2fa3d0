//! As much of JSON Schema as our OpenAPI document uses.

use serde_json::Value;

/// What is wrong with a value, and where; nothing if it fits the schema.
pub(super) fn mistakes(document: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut at = |text: String| wrong.push(format!("{place}: {text}"));
    if let Some(target) = schema["$ref"].as_str() {
        return mistakes(document, resolve(document, target), value, place);
    }
    if !schema["type"].is_null() && !kinds(&schema["type"]).iter().any(|kind| is(kind, value)) {
        at(format!("{value} is no {}", schema["type"]));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        at(format!("{value} is none of {}", schema["enum"]));
    }
    if let Some(constant) = schema.get("const")
        && constant != value
    {
        at(format!("{value} is not {constant}"));
    }
    for (name, limit) in [("minimum", -1.0), ("maximum", 1.0)] {
        if let (Some(bound), Some(number)) = (schema[name].as_f64(), value.as_f64())
            && (number - bound) * limit > 0.0
        {
            at(format!("{value} is beyond the {name} {bound}"));
        }
    }
    let fitting =
        |options: &[Value]| options.iter().filter(|it| mistakes(document, it, value, place).is_empty()).count();
    if let Some(options) = schema["anyOf"].as_array()
        && fitting(options) == 0
    {
        at(format!("{value} fits none of {}", schema["anyOf"]));
    }
    if let Some(options) = schema["oneOf"].as_array()
        && fitting(options) != 1
    {
        at(format!("{value} fits none of {}, or several", schema["oneOf"]));
    }
    wrong.extend(inside(document, schema, value, place));
    wrong
}

/// The parts of an object or an array.
fn inside(document: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        let each = values.iter().enumerate();
        wrong.extend(each.flat_map(|(index, value)| mistakes(document, items, value, &format!("{place}[{index}]"))));
    }
    let Some(fields) = value.as_object() else { return wrong };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            wrong.push(format!("{place}: `{name}` is missing"));
        }
    }
    for (name, value) in fields {
        let place = format!("{place}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => wrong.push(format!("{place}: is not in the document")),
            (Value::Null, Value::Null) if !schema["properties"].is_null() => {
                wrong.push(format!("{place}: is not in the document"));
            }
            (Value::Null, extra @ Value::Object(_)) => wrong.extend(mistakes(document, extra, value, &place)),
            (Value::Null, _) => {}
            (known, _) => wrong.extend(mistakes(document, known, value, &place)),
        }
    }
    wrong
}

/// What a reference such as `#/components/schemas/Job` points at.
pub(super) fn resolve<'d>(document: &'d Value, target: &str) -> &'d Value {
    let path = target.strip_prefix('#').expect("a reference within the document");
    document.pointer(path).unwrap_or_else(|| panic!("{target} points at nothing"))
}

fn kinds(kind: &Value) -> Vec<&str> {
    match kind {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    }
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("`{other}` is no type"),
    }
}
