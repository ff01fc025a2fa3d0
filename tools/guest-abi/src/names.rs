//! Names of the contract, which are in kebab-case, as languages spell them.

/// `max-attempts` becomes `max_attempts`.
pub(crate) fn snake(name: &str) -> String {
    name.replace('-', "_")
}

/// `max-attempts` becomes `MaxAttempts`.
pub(crate) fn pascal(name: &str) -> String {
    name.split('-').map(capitalized).collect()
}

/// `max-attempts` becomes `maxAttempts`.
pub(crate) fn camel(name: &str) -> String {
    let (first, rest) = name.split_once('-').unwrap_or((name, ""));
    format!("{first}{}", pascal(rest))
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_uppercase() + rest
}

/// Each line of `text` behind so many levels of `indent`.
pub(crate) fn indented(text: &str, indent: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") }).collect()
}
