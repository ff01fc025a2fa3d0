//! Lists of documents, which end while they are read: what a list would hold in memory is many times what its text takes, so a limit that is
//! checked afterwards comes too late.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::object::Object;

/// What all lists of a document may take in memory, besides their texts.
const MEMORY: usize = 32 << 20;

/// What an entry takes besides its own size, at least: the allocations of its texts.
const ENTRY_BYTES: usize = 32;

/// Room for this many entries is made before they come.
const AT_ONCE: usize = 64;

/// Begins each error about a list that is too long.
pub const TOO_LONG: &str = "too long a list: ";

thread_local! {
    /// What the lists of the document that this thread reads may still take. `None`: it reads none.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A document is being read on this thread. The outermost counts.
#[derive(Debug)]
pub(super) struct Reading {
    is_outermost: bool,
}

impl Reading {
    pub(super) fn begin() -> Self {
        let is_outermost = LEFT.get().is_none();
        if is_outermost {
            LEFT.set(Some(MEMORY));
        }
        Self { is_outermost }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.is_outermost {
            LEFT.set(None);
        }
    }
}

/// Reads several documents of a request as one: together their lists take no more memory than those of one may.
pub fn together<T>(read: impl FnOnce() -> T) -> T {
    let _reading = Reading::begin();
    read()
}

/// Counts an entry of a list.
fn count<T, E: Error>() -> Result<(), E> {
    let Some(left) = LEFT.get() else { return Ok(()) };
    let left = left.checked_sub(size_of::<T>() + ENTRY_BYTES);
    LEFT.set(Some(left.unwrap_or_default()));
    left.map(drop)
        .ok_or_else(|| E::custom(format!("{TOO_LONG}the lists of a document take at most {MEMORY} bytes of memory")))
}

fn more_than<E: Error>(most: usize) -> E {
    E::custom(format!("{TOO_LONG}at most {most} are allowed"))
}

/// A list of at most `N`.
#[derive(Debug)]
struct AtMost<const N: usize, T>(Vec<T>);

impl<'de, const N: usize, T: Deserialize<'de>> Deserialize<'de> for AtMost<N, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<const N: usize, T>(PhantomData<T>);
        impl<'de, const N: usize, T: Deserialize<'de>> Visitor<'de> for Entries<N, T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
                let mut all = Vec::with_capacity(from.size_hint().unwrap_or_default().min(N).min(AT_ONCE));
                while all.len() < N {
                    let Some(entry) = from.next_element()? else { return Ok(all) };
                    count::<T, A::Error>()?;
                    all.push(entry);
                }
                // Keeps nothing of what is too much.
                from.next_element::<IgnoredAny>()?.map_or(Ok(all), |_| Err(more_than(N)))
            }
        }
        deserializer.deserialize_seq(Entries::<N, T>(PhantomData)).map(Self)
    }
}

/// For a field that is a list: `#[serde(deserialize_with = "at_most::list::<1000, _, _>")]`.
///
/// # Errors
/// It is no list of these, or longer.
pub fn list<'de, const N: usize, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    AtMost::<N, T>::deserialize(from).map(|AtMost(all)| all)
}

/// For a list that may be null, or left out.
///
/// # Errors
/// It is neither null nor such a list.
pub fn maybe<'de, const N: usize, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    Option::<AtMost<N, T>>::deserialize(from).map(|maybe| maybe.map(|AtMost(all)| all))
}

/// For a list of structs that are read from objects only.
///
/// # Errors
/// It is no list of such objects, or longer.
pub fn objects<'de, const N: usize, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    list::<N, D, Object<T>>(from).map(|all| all.into_iter().map(|Object(one)| one).collect())
}

/// For a set. Repeated entries count.
///
/// # Errors
/// It is no list of these, or longer.
pub fn set<'de, const N: usize, D: Deserializer<'de>, T: Deserialize<'de> + Ord>(
    from: D,
) -> Result<BTreeSet<T>, D::Error> {
    list::<N, D, T>(from).map(BTreeSet::from_iter)
}

/// For an object of texts, whose order stays and whose names may repeat.
///
/// # Errors
/// It is no such object, or longer.
pub fn pairs<'de, const N: usize, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    struct Pairs<const N: usize>;
    impl<'de, const N: usize> Visitor<'de> for Pairs<N> {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of texts")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = from.next_entry()? {
                if pairs.len() == N {
                    return Err(more_than(N));
                }
                count::<(String, String), A::Error>()?;
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }
    from.deserialize_map(Pairs::<N>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Lists {
        #[serde(default, deserialize_with = "list::<3, _, _>")]
        list: Vec<u8>,
        #[serde(default, deserialize_with = "pairs::<2, _>")]
        pairs: Vec<(String, String)>,
        #[serde(default, deserialize_with = "maybe::<3, _, _>")]
        maybe: Option<Vec<u8>>,
        #[serde(default, deserialize_with = "set::<3, _, _>")]
        set: BTreeSet<u8>,
        #[serde(default, deserialize_with = "list::<10_000_000, _, _>")]
        large: Vec<String>,
    }

    fn read(text: &str) -> Result<Lists, String> {
        serde_json::from_str::<Object<Lists>>(text).map(|Object(lists)| lists).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_is_read_up_to_its_limit_and_what_follows_is_not_looked_at() {
        let whole = read(r#"{"list":[1,2,3],"pairs":{"a":"b","a":"c"},"maybe":[1],"set":[2,2,1]}"#).unwrap();
        assert_eq!((whole.list.len(), whole.pairs.len(), whole.maybe, whole.set.len()), (3, 2, Some(vec![1]), 2));
        assert_eq!(read(r#"{"maybe":null}"#).unwrap().maybe, None);
        // The reader that went on would stumble over the rest.
        for long in [
            r#"{"list":[1,2,3,4 no JSON"#,
            r#"{"pairs":{"":"","":"","":"" no JSON"#,
            r#"{"maybe":[1,2,3,{} no JSON"#,
            r#"{"set":[1,1,1,1 no JSON"#,
        ] {
            assert!(read(long).unwrap_err().starts_with(TOO_LONG), "{long}: {:?}", read(long));
        }
    }

    #[test]
    fn all_lists_of_a_document_together_take_a_bounded_amount_of_memory() {
        let entries = MEMORY / (size_of::<String>() + ENTRY_BYTES);
        let document = |count: usize| format!(r#"{{"large":[{}""]}}"#, r#""","#.repeat(count - 1));
        assert_eq!(read(&document(entries)).unwrap().large.len(), entries);
        assert!(read(&document(entries + 1)).unwrap_err().starts_with(TOO_LONG));
        assert_eq!(read(&document(entries)).unwrap().large.len(), entries, "each document begins anew");
        let both = together(|| read(&document(entries)).and_then(|_| read(&document(1))));
        assert!(both.unwrap_err().starts_with(TOO_LONG), "documents of one request count together");
    }
}
