//! Which dead jobs the same thing has killed.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::inspect::JobView;

/// Characters of a message that count.
const MESSAGE: usize = 200;
/// A word with a digit that is as long as this is an id, of which no part is kept.
const ID: usize = 8;

/// The name of a job's group: digits of a hash.
pub(super) fn group_of(view: &JobView) -> String {
    let failure = view.last_failure.as_ref();
    let mut hasher = DefaultHasher::new();
    failure.map(|failure| (failure.reason.as_str(), &failure.detail.code)).hash(&mut hasher);
    message_of(view).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

pub(super) fn message_of(view: &JobView) -> String {
    view.last_failure.as_ref().map(|failure| without_numbers(&failure.detail.message)).unwrap_or_default()
}

/// The first line, with `#` for each number, and for each id: a long word with a digit.
fn without_numbers(message: &str) -> String {
    let line: String = message.lines().next().unwrap_or_default().chars().take(MESSAGE).collect();
    let is_of_word = |char: char| char.is_alphanumeric() || char == '-' || char == '_';
    let (mut plain, mut rest) = (String::new(), line.as_str());
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|char: char| is_of_word(char) != is_of_word(first)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        if !word.contains(|char: char| char.is_ascii_digit()) {
            plain.push_str(word);
        } else if word.len() >= ID {
            plain.push('#');
        } else {
            for char in word.chars() {
                match char.is_ascii_digit() {
                    true if plain.ends_with('#') => {}
                    true => plain.push('#'),
                    false => plain.push(char),
                }
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn messages_differ_by_more_than_their_numbers() {
        for (message, plain) in [
            ("ran longer than 1500ms", "ran longer than #ms"),
            ("no user 01KAFQ6Y8D2Z0V9X5T3N7M1R4C here", "no user # here"),
            ("10.0.0.17:443 refused\nmore", "#.#.#.#:# refused"),
            ("", ""),
            ("größe 3 über 2", "größe # über #"),
            ("user 1a2b3c4d-0f0f-4d4d-8a8a-0123456789ab", "user #"),
        ] {
            assert_eq!(without_numbers(message), plain);
        }
    }
}
