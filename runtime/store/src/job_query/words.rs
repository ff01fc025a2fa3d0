//! Words that may be anywhere in a text, whatever the case of their letters.

use std::borrow::Cow;

/// So much of a body is looked at before others have their turn.
const PIECE: usize = 64 << 10;
/// The longest escape of a character in JSON: two times `\uXXXX`.
const ESCAPE: usize = 12;

/// The words of a query. Each is known by its bit.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    words: Vec<(u32, String)>,
    /// The bits of all.
    all: u32,
}

impl Words {
    pub(super) fn add(&mut self, bit: u32, word: &str) {
        self.words.push((bit, lower(word).into_owned()));
        self.all |= bit;
    }

    /// Those of them that are in a text.
    pub(super) fn within(&self, text: &str) -> u32 {
        if self.words.is_empty() { 0 } else { self.within_lower(&lower(text)) }
    }

    fn within_lower(&self, text: &str) -> u32 {
        self.words.iter().filter(|(_, word)| text.contains(word.as_str())).fold(0, |bits, (bit, _)| bits | bit)
    }

    /// Those of them that are in a body, as it is or with the characters that are escaped in it, as in JSON. Bytes that are no text are
    /// left out. `found`: those that are not looked for any more.
    pub(super) async fn within_body(&self, body: &[u8], mut found: u32) -> u32 {
        if self.words.is_empty() {
            return found;
        }
        let mut as_it_is = Window::default();
        let mut unescaped = body.contains(&b'\\').then(Window::default);
        let (mut rest, mut cut) = (body, String::new());
        while !rest.is_empty() && found & self.all != self.all {
            let (piece, behind) = rest.split_at(rest.len().min(PIECE));
            let (piece, left) = text_of(piece, behind.is_empty());
            rest = rest.get(rest.len() - behind.len() - left..).unwrap_or_default();
            found |= as_it_is.look(self, &piece);
            if let Some(window) = &mut unescaped {
                cut.push_str(&piece);
                let (plain, open) = unescape(&cut);
                found |= window.look(self, &plain);
                cut = open.to_owned();
            }
            if !rest.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        found
    }
}

/// What was seen last of a text that is looked at piece by piece, so that a word is found that is in two of them.
#[derive(Default)]
struct Window(String);

impl Window {
    fn look(&mut self, words: &Words, piece: &str) -> u32 {
        self.0.push_str(&lower(piece));
        let found = words.within_lower(&self.0);
        let longest = words.words.iter().map(|(_, word)| word.len()).max().unwrap_or(0);
        let begin = self.0.floor_char_boundary(self.0.len().saturating_sub(longest));
        self.0.drain(..begin);
        found
    }
}

/// Letter by letter, so that a part of a text is in lower case what it is in the whole.
fn lower(text: &str) -> Cow<'_, str> {
    match text.is_ascii() {
        true if text.bytes().any(|byte| byte.is_ascii_uppercase()) => Cow::Owned(text.to_ascii_lowercase()),
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().flat_map(char::to_lowercase).collect()),
    }
}

/// The text in some bytes, and how many of the last ones are the beginning of a character whose end is behind them.
fn text_of(bytes: &[u8], is_last: bool) -> (Cow<'_, str>, usize) {
    let cut = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && !is_last => bytes.len() - error.valid_up_to(),
        _ => 0,
    };
    let whole = bytes.get(..bytes.len() - cut).unwrap_or_default();
    (String::from_utf8_lossy(whole), cut)
}

/// A text with characters in place of their escapes in JSON; what is none stays. Behind it what may be the first part of an escape.
fn unescape(text: &str) -> (String, &str) {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, escape)) = rest.find('\\').map(|at| rest.split_at(at)) {
        plain.push_str(before);
        match first_escape(escape) {
            Some((char, length)) => {
                plain.push(char);
                rest = escape.get(length..).unwrap_or_default();
            }
            None if escape.len() < ESCAPE => return (plain, escape),
            None => {
                plain.push('\\');
                rest = escape.get(1..).unwrap_or_default();
            }
        }
    }
    plain.push_str(rest);
    (plain, "")
}

/// The character of the escape that a text begins with, and how long that is. `None`: it is no escape, or not all of one.
fn first_escape(text: &str) -> Option<(char, usize)> {
    let char = match text.as_bytes().get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return unicode_escape(text),
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        _ => return None,
    };
    Some((char, 2))
}

fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |from: usize| u16::from_str_radix(text.get(from..from + 6)?.strip_prefix("\\u")?, 16).ok();
    let first = unit(0)?;
    if let Some(char) = char::from_u32(first.into()) {
        return Some((char, 6));
    }
    // One half of a character beyond the first 65,536.
    let char = char::decode_utf16([first, unit(6)?]).next()?.ok()?;
    Some((char, ESCAPE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Words {
        let mut all = Words::default();
        words.iter().enumerate().for_each(|(n, word)| all.add(1 << n, word));
        all
    }

    #[tokio::test]
    async fn words_are_found_that_are_escaped_in_json() {
        let words = words(&["MÜLLER & söhne", "😀", "C:\\TEMP\\new", "say \"hi\"", "<b>"]);
        for (body, found) in [
            (r#"{"to": "M\u00fcller \u0026 S\u00F6hne"}"#, 0b1),
            ("Müller & Söhne", 0b1),
            (r#"["\ud83d\uDE00"]"#, 0b10),
            (r#"["\ud83d", "\uDE00", "\u12"#, 0),
            (r"c:\temp\new", 0b100),
            (r#"["c:\\temp\\new"]"#, 0b100),
            (r#"["Say \"hi\" to \u003cb\u003E"]"#, 0b11000),
            (r"\", 0),
        ] {
            assert_eq!(words.within_body(body.as_bytes(), 0).await, found, "{body}");
        }
    }

    #[tokio::test]
    async fn a_word_is_found_wherever_a_large_body_is_cut() {
        let words = words(&["grün", "\u{1f600}!"]);
        for before in (PIECE - 14)..(PIECE + 1) {
            let body = format!("{}Gr\\u00FCn{}grÜn\\ud83d\\ude00!", "x".repeat(before), "ü".repeat(PIECE / 2));
            assert_eq!(words.within_body(body.as_bytes(), 0).await, 0b11, "{before}");
            let plain = format!("{}grün 😀!", "x".repeat(before));
            assert_eq!(words.within_body(plain.as_bytes(), 0).await, 0b11, "{before}");
        }
        let mut no_text = vec![0xff; PIECE + 7];
        no_text.extend("GRÜN".as_bytes());
        assert_eq!(words.within_body(&no_text, 0).await, 0b1);
        assert_eq!(words.within_body(b"", 0).await, 0);
    }
}
