//! Structs that are read from objects only. What serde derives for a struct also takes a list of its values, in the order of
//! our source, which no document describes.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::at_most::Reading;

/// A struct that is written as an object.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let _reading = Reading::begin();
        deserializer.deserialize_map(OfMap(PhantomData)).map(Self)
    }
}

struct OfMap<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// For a field: `#[serde(deserialize_with = "object::one")]`.
///
/// # Errors
/// It is no object, or not one of this type.
pub fn one<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(one)| one)
}

/// For a field that may be left out or null.
///
/// # Errors
/// It is neither null nor an object of this type.
pub fn maybe<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::<Object<T>>::deserialize(deserializer).map(|maybe| maybe.map(|Object(one)| one))
}
