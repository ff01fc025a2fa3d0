//! Short names for what the page's scripts declare at their top.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::ops::Range;

/// The text with the names in `declared` made short, the most frequent ones shortest. `words` are the places of its names, members and
/// keywords. A name is exchanged everywhere or nowhere, for a word that the text does not have: so each stands for what it stood for
/// before. One that is also a member's name, or may be, stays.
pub(super) fn shortened(text: &str, words: &[Range<usize>], declared: &BTreeSet<&str>) -> String {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let mut members = BTreeSet::new();
    for place in words {
        let word = &text[place.clone()];
        *uses.entry(word).or_default() += 1;
        if may_be_member(&text[..place.start], &text[place.end..]) {
            members.insert(word);
        }
    }
    let mut long: Vec<_> =
        uses.iter().filter(|(word, _)| declared.contains(*word) && !members.contains(*word)).collect();
    long.sort_by_key(|(word, uses)| (usize::MAX - **uses, **word));
    let unused = successors(Some(String::from("a")), |last| Some(after(last)))
        .filter(|name| !uses.contains_key(name.as_str()) && !KEYWORDS.contains(&name.as_str()));
    let short: BTreeMap<&str, String> = long.into_iter().map(|(word, _)| *word).zip(unused).collect();

    let (mut out, mut end) = (String::new(), 0);
    for place in words {
        let word = &text[place.clone()];
        out += &text[end..place.start];
        out += short.get(word).map_or(word, String::as_str);
        end = place.end;
    }
    out + &text[end..]
}

/// Short keywords; the text may not have them.
const KEYWORDS: [&str; 4] = ["do", "if", "in", "of"];

/// Whether what stands before and after a word in a tight script may make it a member's name: after a point, before a colon, or in
/// braces with neither. Methods are written as members with a function, so that they are seen.
fn may_be_member(before: &str, after: &str) -> bool {
    let is_listed = before.ends_with(['{', ',']) && !before.ends_with("${");
    before.ends_with('.') && !before.ends_with("...")
        || after.starts_with(':') && !before.ends_with('?')
        || is_listed && after.starts_with([',', '}', '='])
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
    fn only_names_that_are_no_members_become_short() {
        for (text, becomes) in [
            ("long a other", "b a other"),
            ("f(long,long)", "f(a,a)"),
            ("f?long:g", "f?a:g"),
            ("[...long]", "[...a]"),
            ("`${long}`", "`${a}`"),
            ("long.f", "a.f"),
            ("long f.long", "long f.long"),
            ("long {long:f}", "long {long:f}"),
            ("long {f,long}", "long {f,long}"),
            ("long {long=f}", "long {long=f}"),
        ] {
            let is_end = |one: char| !one.is_alphanumeric();
            let mut words = Vec::new();
            let mut begin = 0;
            for (at, one) in text.char_indices().chain([(text.len(), ' ')]) {
                if is_end(one) {
                    words.extend((begin < at).then_some(begin..at));
                    begin = at + 1;
                }
            }
            assert_eq!(shortened(text, &words, &BTreeSet::from(["long", "b", "absent"])), becomes);
        }
    }

    #[test]
    fn names_follow_each_other() {
        for (name, next) in [("a", "b"), ("z", "aa"), ("az", "ba"), ("zz", "aaa")] {
            assert_eq!(after(name), next);
        }
    }
}
