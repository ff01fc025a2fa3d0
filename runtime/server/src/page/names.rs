//! Short names for the variables of the page's scripts.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::ops::Range;

use super::script::is_of_word;

/// What stands for a variable in a tight script, or a keyword.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) place: Range<usize>,
    /// It also names a member of an object, so that its short name comes beside it.
    pub(super) is_shorthand: bool,
}

/// The text with short names: for those in `declared`, which are the same everywhere, and for what a statement declares inside of it. The
/// most frequent ones are the shortest. No name becomes a word that stands for something else there.
pub(super) fn shortened(text: &str, words: &[Word], declared: &BTreeSet<&str>, statements: &[usize]) -> String {
    let mut names: Vec<String> = words.iter().map(|word| text[word.place.clone()].to_owned()).collect();
    shorten(&mut names, |name| declared.contains(name));
    let mut begin = 0;
    for statement in statements.iter().copied().chain([text.len()]) {
        let end = words.partition_point(|word| word.place.start < statement);
        let locals: BTreeSet<&str> = words
            .iter()
            .take(end)
            .skip(begin)
            .filter(|word| is_local(&text[..word.place.start], &text[word.place.end..]))
            .map(|word| &text[word.place.clone()])
            .filter(|name| !declared.contains(name))
            .collect();
        shorten(names.get_mut(begin..end).unwrap_or_default(), |name| locals.contains(name));
        begin = end;
    }

    let (mut out, mut end) = (String::new(), 0);
    for (Word { place, is_shorthand }, name) in words.iter().zip(&names) {
        let word = &text[place.clone()];
        out += &text[end..place.start];
        if *is_shorthand && word != name {
            out += word;
            out.push(':');
        }
        out += name;
        end = place.end;
    }
    out + &text[end..]
}

/// Exchanges those names for short ones that none of the others is.
fn shorten(names: &mut [String], is_meant: impl Fn(&str) -> bool) {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &*names {
        *uses.entry(name).or_default() += 1;
    }
    let mut meant: Vec<_> = uses.iter().filter(|(name, _)| is_meant(name)).collect();
    meant.sort_by_key(|(name, uses)| (usize::MAX - **uses, **name));
    let unused = successors(Some(String::from("a")), |last| Some(after(last)))
        .filter(|name| uses.get(name.as_str()).is_none_or(|_| is_meant(name)) && !KEYWORDS.contains(&name.as_str()));
    let short: BTreeMap<String, String> = meant.into_iter().map(|(name, _)| (*name).to_owned()).zip(unused).collect();
    for name in names {
        if let Some(short) = short.get(name.as_str()) {
            name.clone_from(short);
        }
    }
}

/// Short keywords.
const KEYWORDS: [&str; 4] = ["do", "if", "in", "of"];

/// Whether the word between is declared there: after `let`, in a pattern after it, or as an argument of a function.
fn is_local(before: &str, after: &str) -> bool {
    if before.ends_with("let ") || after.starts_with("=>") {
        return true;
    }
    if !before.ends_with(['(', '[', '{', ',', ':', '.']) {
        return false;
    }
    let mut closed = 0;
    for (at, one) in before.char_indices().rev() {
        closed += i32::from(")]}".contains(one)) - i32::from("([{".contains(one));
        if closed >= 0 {
            continue;
        }
        closed = 0;
        let outside = &before[..at];
        let is_function = |name: &str| name == "catch" || outside[..outside.len() - name.len()].ends_with("function ");
        match one {
            '(' => return is_function(last_word(outside)) || closing(after).is_some_and(|rest| rest.starts_with("=>")),
            _ if last_word(outside) == "let" => return true,
            _ if !outside.ends_with(['(', '[', '{', ',', ':']) => return false,
            _ => {}
        }
    }
    false
}

/// The word at the end.
fn last_word(text: &str) -> &str {
    &text[text.trim_end_matches(is_of_word).len()..]
}

/// What is behind the parenthesis that is open at the beginning, and the brackets in it.
fn closing(text: &str) -> Option<&str> {
    let mut open = 0;
    let end = text.char_indices().find(|(_, one)| {
        open += i32::from("([{".contains(*one)) - i32::from(")]}".contains(*one));
        open < 0 && *one == ')'
    });
    end.map(|(at, _)| &text[at + 1..])
}

/// The next name: `a` to `z`, `aa` to `zz`, and so on.
fn after(name: &str) -> String {
    match name.strip_suffix('z') {
        Some("") => "aa".into(),
        Some(rest) => after(rest) + "a",
        None => {
            let mut letters: Vec<char> = name.chars().collect();
            if let Some(last) = letters.last_mut() {
                *last = char::from(*last as u8 + 1);
            }
            letters.into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_each_other() {
        for (name, next) in [("a", "b"), ("z", "aa"), ("az", "ba"), ("zz", "aaa")] {
            assert_eq!(after(name), next);
        }
    }
}
