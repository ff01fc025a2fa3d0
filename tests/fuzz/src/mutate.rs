//! Makes an input of known ones.

use std::iter::repeat_with;
use std::ops::Range;

use fastrand::Rng;

/// Longer inputs only cost time: limits on length have tests of their own.
const BYTES_MAX: usize = 16 << 10;

/// What parsers are sensitive to: ends of ranges, nesting, escapes, odd text.
const WORDS: &[&[u8]] = &[
    b"0",
    b"-1",
    b"1e999",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775807",
    b"4294967296",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":",
    b"\"\"",
    b"\\u0000",
    b"\\ud800",
    b"%00",
    b"%2e%2e%2f",
    b"../",
    b"*",
    b"::",
    b"[::1]",
    b"@",
    b"\r\n",
    b"\0",
    b"\x7f",
    b"\xff\xfe",
    b"\xc0\x80",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"\xf0\x9f\x92\xa9",
    b"'''",
    b"\"\"\"",
    b"#",
    b"=",
    b".",
    b"..",
    b"99999999999999999999w",
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
];

/// One of `corpus` with one to eight changes.
///
/// All of them are of one kind. A format with lengths in it refuses nearly everything that was made longer or shorter, and a text of
/// named values nearly everything that was not changed by whole words: each kind gets past what refuses the others.
pub(crate) fn mutate(corpus: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut input = one_of(corpus, random).cloned().unwrap_or_default();
    let change = *one_of(&[change_anywhere, change_in_place, change_a_word], random).unwrap();
    for _ in 0..length(random).min(8) {
        change(&mut input, corpus, random);
    }
    input.truncate(BYTES_MAX);
    input
}

fn change_anywhere(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Rng) {
    let at = random.usize(0..=input.len());
    let end = (at + length(random)).min(input.len());
    match random.u8(0..7) {
        0 => drop(input.drain(at..end)),
        1 => insert(input, at, &noise(random)),
        2 => insert(input, at, &input[at..end].to_vec().repeat(random.usize(1..=16))),
        3 => insert(input, at, one_of(WORDS, random).unwrap()),
        4 => drop(input.splice(at..end, one_of(WORDS, random).unwrap().iter().copied())),
        5 => input.truncate(at),
        _ => continue_with(input, at, corpus, random),
    }
}

/// Keeps the input's length.
#[expect(clippy::ptr_arg, reason = "it is one of several functions of one type")]
fn change_in_place(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Rng) {
    match random.u8(0..3) {
        0 => flip_bit(input, random),
        1 => set_byte(input, random),
        _ => {
            let (from, to) = (one_of(corpus, random).unwrap(), random.usize(0..=input.len()));
            let begin = random.usize(0..=from.len());
            for (byte, other) in input[to..].iter_mut().zip(&from[begin..]).take(length(random)) {
                *byte = *other;
            }
        }
    }
}

/// Takes a word out, or puts one of the corpus or of [`WORDS`] before it or in its place.
fn change_a_word(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Rng) {
    let word = word(input, random);
    let other = one_of(corpus, random).unwrap();
    let other = match random.u8(0..3) {
        0 => one_of(WORDS, random).unwrap(),
        _ => &other[self::word(other, random)],
    };
    match random.u8(0..6) {
        0 => drop(input.drain(word)),
        1 => insert(input, word.start, other),
        _ => drop(input.splice(word, other.iter().copied())),
    }
}

/// Where one of the words is. A word is a row of letters, digits, `_` and `-`, or any other byte.
fn word(input: &[u8], random: &mut Rng) -> Range<usize> {
    let of_a_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let at = random.usize(0..=input.len());
    let after = input[at..].iter().take_while(|byte| of_a_word(byte)).count();
    let before = if after == 0 { 0 } else { input[..at].iter().rev().take_while(|byte| of_a_word(byte)).count() };
    at - before..(at + after.max(1)).min(input.len())
}

fn flip_bit(input: &mut [u8], random: &mut Rng) {
    if !input.is_empty() {
        let at = random.usize(..input.len());
        input[at] ^= 1 << random.u8(0..8);
    }
}

fn set_byte(input: &mut [u8], random: &mut Rng) {
    if !input.is_empty() {
        let at = random.usize(..input.len());
        input[at] = *one_of(&[0, 1, 0x7f, 0x80, 0xff, b'"', b'0', random.u8(..)], random).unwrap();
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// The beginning of this input and the end of another.
fn continue_with(input: &mut Vec<u8>, at: usize, corpus: &[Vec<u8>], random: &mut Rng) {
    if let Some(other) = one_of(corpus, random) {
        input.truncate(at);
        input.extend(&other[random.usize(0..=other.len())..]);
    }
}

fn noise(random: &mut Rng) -> Vec<u8> {
    let bytes = length(random);
    repeat_with(|| random.u8(..)).take(bytes).collect()
}

/// Mostly short.
fn length(random: &mut Rng) -> usize {
    let longest = random.usize(0..=8);
    1 << random.usize(0..=longest)
}

fn one_of<'a, T>(of: &'a [T], random: &mut Rng) -> Option<&'a T> {
    random.choice(of)
}
