//! Bytes that are replaced wherever they stand, also across the chunks of a stream.

use std::cmp::Reverse;
use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem::Finder;

/// What is replaced, and by what. Where two of them begin at the same place, the longer one is meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replacements(Vec<Replacement>);

#[derive(Debug, Clone)]
struct Replacement {
    find: Finder<'static>,
    by: Vec<u8>,
}

/// More bytes came of it than it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// A stream in which bytes are replaced.
#[derive(Debug)]
pub(crate) struct Replacer {
    what: Arc<Replacements>,
    /// What may be the begin of something that is replaced. Shorter than that.
    held: Vec<u8>,
    /// Bytes that may still come out.
    remaining: usize,
}

impl Replacements {
    /// Nothing can be replaced that has no bytes.
    pub(crate) fn add(&mut self, find: &[u8], by: &[u8]) {
        if !find.is_empty() {
            self.0.push(Replacement { find: Finder::new(find).into_owned(), by: by.to_vec() });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn are_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|replacement| replacement.find.find(bytes).is_some())
    }

    /// The bytes with all replaced; `None` if there is nothing to replace.
    ///
    /// # Errors
    /// They are more than `most`.
    pub(crate) fn apply(&self, bytes: &[u8], most: usize) -> Result<Option<Vec<u8>>, TooLong> {
        if !self.are_in(bytes) {
            return Ok(None);
        }
        let mut out = Vec::new();
        self.replace(bytes, true, most, &mut out)?;
        Ok(Some(out))
    }

    /// A text that may be of any length.
    pub(crate) fn text(&self, text: String) -> String {
        match self.apply(text.as_bytes(), usize::MAX) {
            Ok(Some(replaced)) => String::from_utf8_lossy(&replaced).into_owned(),
            _ => text,
        }
    }

    /// Writes the bytes with all replaced, up to where something begins that may go on after them. Returns where that is.
    fn replace(&self, bytes: &[u8], is_end: bool, most: usize, out: &mut Vec<u8>) -> Result<usize, TooLong> {
        let rest = |from: usize| bytes.get(from..).unwrap_or_default();
        let find = |what: &Replacement, from: usize| what.find.find(rest(from)).map(|place| from + place);
        let mut from = 0;
        let mut next: Vec<_> = self.0.iter().map(|what| find(what, 0)).collect();
        let mut open = if is_end { bytes.len() } else { self.open_at(bytes, 0) };
        loop {
            let found = self.0.iter().zip(&next).filter_map(|(what, place)| Some((what, (*place)?)));
            let first = found.min_by_key(|(what, place)| (*place, Reverse(what.find.needle().len())));
            let Some((what, place)) = first.filter(|(_, place)| *place < open) else {
                extend(out, bytes.get(from..open).unwrap_or_default(), most)?;
                return Ok(open);
            };
            extend(out, bytes.get(from..place).unwrap_or_default(), most)?;
            extend(out, &what.by, most)?;
            from = place + what.find.needle().len();
            for (what, place) in self.0.iter().zip(&mut next) {
                if place.is_some_and(|place| place < from) {
                    *place = find(what, from);
                }
            }
            if open < from {
                open = self.open_at(bytes, from);
            }
        }
    }

    /// Where, at or after `from`, something begins that may go on after these bytes; else their end.
    fn open_at(&self, bytes: &[u8], from: usize) -> usize {
        let begins = self.0.iter().filter_map(|what| {
            let needle = what.find.needle();
            let earliest = from.max(bytes.len().saturating_sub(needle.len() - 1));
            let tail = bytes.get(earliest..).unwrap_or_default();
            let mut places = memchr::memchr_iter(*needle.first()?, tail);
            places
                .find(|place| needle.starts_with(tail.get(*place..).unwrap_or_default()))
                .map(|place| earliest + place)
        });
        begins.min().unwrap_or(bytes.len())
    }
}

fn extend(out: &mut Vec<u8>, bytes: &[u8], most: usize) -> Result<(), TooLong> {
    if out.len().saturating_add(bytes.len()) > most {
        return Err(TooLong);
    }
    out.extend_from_slice(bytes);
    Ok(())
}

impl Replacer {
    /// One out of which at most `most` bytes come.
    pub(crate) fn new(what: Arc<Replacements>, most: u64) -> Self {
        Self { what, held: Vec::new(), remaining: usize::try_from(most).unwrap_or(usize::MAX) }
    }

    /// The bytes that are certain after these.
    pub(crate) fn push(&mut self, bytes: Bytes) -> Result<Bytes, TooLong> {
        let (held, bytes) = match self.held.as_slice() {
            [] => (Vec::new(), bytes),
            held => ([held, &bytes].concat(), Bytes::new()),
        };
        let all = if held.is_empty() { &bytes } else { held.as_slice() };
        let is_plain = !self.what.are_in(all) && self.what.open_at(all, 0) == all.len();
        let out = if is_plain && held.is_empty() {
            bytes
        } else {
            let mut out = Vec::new();
            let open = self.what.replace(all, false, self.remaining, &mut out)?;
            self.held = all.get(open..).unwrap_or_default().to_vec();
            Bytes::from(out)
        };
        self.count(out)
    }

    /// The bytes that were held back.
    pub(crate) fn finish(&mut self) -> Result<Bytes, TooLong> {
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::new();
        self.what.replace(&held, true, self.remaining, &mut out)?;
        self.count(Bytes::from(out))
    }

    fn count(&mut self, out: Bytes) -> Result<Bytes, TooLong> {
        self.remaining = self.remaining.checked_sub(out.len()).ok_or(TooLong)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Arc<Replacements> {
        let mut what = Replacements::default();
        pairs.iter().for_each(|(find, by)| what.add(find.as_bytes(), by.as_bytes()));
        Arc::new(what)
    }

    fn streamed(what: &Arc<Replacements>, chunks: &[&[u8]], most: u64) -> Result<Vec<u8>, TooLong> {
        let mut replacer = Replacer::new(Arc::clone(what), most);
        let mut out = Vec::new();
        for chunk in chunks {
            out.extend(replacer.push(Bytes::copy_from_slice(chunk))?);
        }
        out.extend(replacer.finish()?);
        Ok(out)
    }

    #[test]
    fn the_first_and_the_longest_are_replaced() {
        let what = of(&[("cd", "2"), ("abcde", "1"), ("cdx", "3"), ("aab", "4")]);
        for (text, expected) in [
            ("", None),
            ("abcd", Some("ab2")),
            ("abcde", Some("1")),
            ("cdxcd", Some("32")),
            ("abcdx", Some("ab3")),
            ("aabcde", Some("42e")),
            ("abcabcde", Some("abc1")),
            ("abc", None),
        ] {
            let out = what.apply(text.as_bytes(), usize::MAX).unwrap();
            assert_eq!(out.map(|out| String::from_utf8(out).unwrap()).as_deref(), expected, "{text}");
        }
    }

    /// However a text of few letters is cut, what comes of it is what comes of the whole.
    #[test]
    fn chunks_make_no_difference() {
        let what = of(&[("abab", "<1>"), ("ba", "<2>"), ("ababa", "<3>"), ("caab", "")]);
        let mut random = 7_u64;
        let mut below = |most: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % most
        };
        for _ in 0..5000 {
            let text: Vec<u8> = (0..below(24)).map(|_| b"abc"[below(3)]).collect();
            let mut chunks = Vec::new();
            let mut rest = text.as_slice();
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(1 + below(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let whole = what.apply(&text, usize::MAX).unwrap().unwrap_or_else(|| text.clone());
            assert_eq!(streamed(&what, &chunks, u64::MAX).unwrap(), whole, "{chunks:?}");
        }
    }

    #[test]
    fn no_more_comes_out_than_may() {
        let what = of(&[("a", "12345")]);
        assert_eq!(what.apply(b"xaa", 11).unwrap().unwrap(), b"x1234512345");
        assert_eq!(what.apply(b"xaa", 10), Err(TooLong));
        assert_eq!(streamed(&what, &[b"x", b"aa"], 11).unwrap(), b"x1234512345");
        assert_eq!(streamed(&what, &[b"x", b"aa"], 10), Err(TooLong));
        assert_eq!(streamed(&of(&[("ab", "")]), &[b"xxa"], 2), Err(TooLong), "what was held back counts");
        assert_eq!(streamed(&of(&[("ab", "")]), &[b"xxa", b"b"], 2).unwrap(), b"xx");
    }

    /// A guest that repeats one of several causes no repeated search for the others.
    #[test]
    fn many_of_one_take_no_time_for_the_others() {
        let what = of(&[("ab", "c"), ("not there at all", "d")]);
        let text = b"ab".repeat(1 << 20);
        let begun = std::time::Instant::now();
        assert_eq!(what.apply(&text, usize::MAX).unwrap().unwrap().len(), 1 << 20);
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
