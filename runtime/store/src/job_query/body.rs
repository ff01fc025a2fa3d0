//! Values inside of JSON bodies: the names that are asked for are a tree, and a body is read once, whatever the tree is.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Larger bodies are not looked into.
const BODY_BYTES: usize = 1 << 20;

/// Called with each text that a body has at the end of a path, and the number of the path.
pub(super) type TextVisitor<'f> = dyn FnMut(usize, &str) + Send + 'f;

/// Paths into bodies, each with its number.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    /// The path that ends here.
    path: Option<usize>,
    /// At most as many as a query has conditions.
    children: Vec<Child>,
}

/// What is asked of the field of this name, or of the element of this index.
#[derive(Debug, Clone)]
struct Child {
    name: String,
    index: Option<usize>,
    tree: Tree,
}

/// Digits of an index: no body of [`BODY_BYTES`] has an element with more.
const INDEX_DIGITS: usize = 7;

impl Tree {
    /// Adds a path, whose number is `next` unless it has one. Returns its number.
    pub(super) fn add(&mut self, path: &[String], next: usize) -> usize {
        match path {
            [] => *self.path.get_or_insert(next),
            [name, rest @ ..] => {
                if let Some(child) = self.children.iter_mut().find(|child| child.name == *name) {
                    return child.tree.add(rest, next);
                }
                let (index, mut tree) = (name.parse().ok().filter(|_| name.len() <= INDEX_DIGITS), Self::default());
                let number = tree.add(rest, next);
                self.children.push(Child { name: name.clone(), index, tree });
                number
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Calls `visit` with the text of each value that a path leads to: of a string its characters, of a number its digits as they were
    /// written; `true`, `false` and `null` by name. Each element of an array is tried, and each of several fields with the same name.
    ///
    /// Returns `false` if the body is no JSON, or is larger than 1 MiB: what was found then does not count.
    pub(super) fn read(&self, body: &[u8], visit: &mut TextVisitor<'_>) -> bool {
        let text = Some(body).filter(|body| body.len() <= BODY_BYTES).and_then(|body| std::str::from_utf8(body).ok());
        text.is_some_and(|text| self.read_container(text, visit).is_ok())
    }

    fn read_container(&self, text: &str, visit: &mut TextVisitor<'_>) -> serde_json::Result<()> {
        let mut json = serde_json::Deserializer::from_str(text);
        json.deserialize_any(Reader { tree: self, visit })?;
        json.end()
    }

    /// A value that a path may end at, or an element of one.
    fn read_value(&self, text: &str, visit: &mut TextVisitor<'_>) -> serde_json::Result<()> {
        match (scalar(text), self.path) {
            (Some(text), Some(path)) => visit(path, &text),
            (None, _) => self.read_container(text, visit)?,
            (Some(_), None) => {}
        }
        Ok(())
    }
}

/// The text of a value that is neither array nor object.
fn scalar(json: &str) -> Option<Cow<'_, str>> {
    match json.as_bytes().first()? {
        b'{' | b'[' => None,
        b'"' if json.contains('\\') => serde_json::from_str(json).ok().map(Cow::Owned),
        _ => Some(Cow::Borrowed(json.trim_matches('"'))),
    }
}

/// Reads one value: skips what no path leads to. No deeper than a path has names.
struct Reader<'t, 'f, 'g> {
    tree: &'t Tree,
    visit: &'f mut TextVisitor<'g>,
}

/// A name, borrowed from the body unless something in it is escaped.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Reader<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        if self.tree.path.is_none() {
            return json.deserialize_any(self);
        }
        // As text, since no other form has all digits of a number. Paths that are parts of others are as many as conditions, at most.
        let value = <&RawValue>::deserialize(json)?;
        self.tree.read_value(value.get(), self.visit).map_err(Error::custom)
    }
}

impl<'de> Visitor<'de> for Reader<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(FieldName(name)) = fields.next_key()? {
            match self.tree.children.iter().find(|child| child.name == *name) {
                Some(Child { tree, .. }) => fields.next_value_seed(Reader { tree, visit: &mut *self.visit })?,
                None => _ = fields.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let children = &self.tree.children;
        for index in 0.. {
            let mut here = children.iter().filter(|child| child.index == Some(index)).peekable();
            if self.tree.path.is_none() && here.peek().is_none() {
                if elements.next_element::<IgnoredAny>()?.is_none() {
                    break;
                }
                continue;
            }
            let Some(element) = elements.next_element::<&RawValue>()? else { break };
            if let (Some(path), Some(text)) = (self.tree.path, scalar(element.get())) {
                (self.visit)(path, &text);
            }
            for child in here {
                child.tree.read_value(element.get(), self.visit).map_err(Error::custom)?;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
