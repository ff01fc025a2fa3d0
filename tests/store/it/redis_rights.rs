//! The rights of the documented Redis user, compared with what the store sends. The conformance suite runs as that user, but does not
//! notice a command that a script may go on without.

use std::collections::BTreeSet;

use crate::redis_sources::redis_sources;
use gristmill_store_tests::deployment::documented_rule;

/// Commands that only a cluster, a sentinel or `acknowledged-by = "disks"` needs, or only a warning.
const WITHOUT_RIGHTS: [&str; 4] = ["cluster", "config", "sentinel", "waitaof"];

/// The upper-case words that stand in quotes in the first argument behind `opening`.
fn commands(text: &str, opening: &str, quote: char) -> Vec<String> {
    let found = text.split(opening).skip(1).filter_map(|rest| rest.split([')', ',']).next());
    let quoted = found.flat_map(|call| call.split(quote).skip(1).step_by(2));
    let is_command = |word: &&str| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
    quoted.filter(is_command).map(str::to_lowercase).collect()
}

#[test]
fn a_connection_asks_for_every_command_that_scripts_use() {
    let (mut of_scripts, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in redis_sources() {
        if path.extension().is_some_and(|extension| extension == "lua") {
            for opening in ["redis.call(", "redis.pcall(", "many(", "call("] {
                of_scripts.extend(commands(&text, opening, '\''));
            }
        }
        if let Some((_, list)) = text.split_once("const OF_SCRIPTS: &str = \"") {
            asked.extend(list.split('"').next().unwrap().split_whitespace().map(str::to_lowercase));
            asked.remove("\\");
        }
    }
    assert!(of_scripts.len() > 40, "{of_scripts:?}");
    assert_eq!(asked, of_scripts);
}

#[test]
fn the_documented_redis_user_may_send_every_command_of_the_store() {
    let rule: BTreeSet<&str> =
        documented_rule().iter().filter_map(|word| word.strip_prefix('+')?.split('|').next()).collect();
    let mut sent = BTreeSet::new();
    for (_, text) in redis_sources() {
        let text = text.split("#[cfg(test)]").next().unwrap();
        for (opening, quote) in [("redis.call(", '\''), ("redis.pcall(", '\''), ("many(", '\''), ("cmd(", '"')] {
            sent.extend(commands(text, opening, quote));
        }
        if text.contains(".atomic()") {
            sent.extend(["multi".to_owned(), "exec".to_owned()]);
        }
    }
    assert!(sent.len() > 40, "{sent:?}");
    let missing: Vec<_> =
        sent.iter().filter(|word| !rule.contains(word.as_str()) && !WITHOUT_RIGHTS.contains(&word.as_str())).collect();
    assert!(missing.is_empty(), "docs/guides/operating.md, *A Redis user with few rights*, lacks {missing:?}");
}
