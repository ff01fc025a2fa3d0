//! Values inside of JSON bodies.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// Larger bodies are not looked into.
const BODY_BYTES: usize = 1 << 20;

/// Calls `test` with the text of the value that the path leads to, and says whether it was `true`: of a string its characters, of a
/// number its digits as they were written; `true`, `false` and `null` by name. Of an array each element is tried.
///
/// `false` if the body is no JSON, is larger than 1 MiB, or has no such value.
pub(super) fn any_text(body: &[u8], path: &[String], test: &mut dyn FnMut(&str) -> bool) -> bool {
    let text = Some(body).filter(|body| body.len() <= BODY_BYTES).and_then(|body| std::str::from_utf8(body).ok());
    let Some(Ok(mut value)) = text.map(serde_json::from_str::<&RawValue>) else { return false };
    for name in path {
        let Some(child) = child(value, name) else { return false };
        value = child;
    }
    match elements(value) {
        Some(elements) => elements.into_iter().any(|element| test_one(element, test)),
        None => test_one(value, test),
    }
}

/// A field of an object, or an element of an array by its number.
fn child<'a>(value: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    if let Some(elements) = elements(value) {
        return elements.get(name.parse::<usize>().ok()?).copied();
    }
    let mut fields: HashMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
    fields.remove(name)
}

fn elements(value: &RawValue) -> Option<Vec<&RawValue>> {
    value.get().starts_with('[').then(|| serde_json::from_str(value.get()).ok()).flatten()
}

fn test_one(value: &RawValue, test: &mut dyn FnMut(&str) -> bool) -> bool {
    match value.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(value.get()).is_ok_and(|text| test(&text)),
        Some(b'{' | b'[') | None => false,
        Some(_) => test(value.get()),
    }
}
