//! Which key a server means that refuses a command because of a key of another type: its error names none.

use redis::{Arg, Cmd, ErrorKind, RedisError, RedisResult, Value};

use super::commands::Commands;
use crate::redis::key_names::read_key;

/// What begins the text of an error that names the key.
const THE_KEY: &str = "the key ";

/// How many answers of one round trip are explained. The others say the same, or are explained the next time.
const EXPLAINED: usize = 4;

/// The errors among the answers to these commands, with the key that is of another type than it has to be.
pub(super) async fn name_keys<'a>(
    connection: &mut Commands,
    prefix: &str,
    commands: impl Iterator<Item = &'a Cmd>,
    answers: &mut [RedisResult<Value>],
) {
    let wrong = commands.zip(answers).filter(|(_, answer)| answer.as_ref().is_err_and(is_wrong_type));
    for (command, answer) in wrong.take(EXPLAINED) {
        if let Some(named) = name_key(connection, prefix, std::iter::once(command)).await {
            *answer = Err(named);
        }
    }
}

/// The same for the only answer to commands.
pub(super) async fn name_key<'a>(
    connection: &mut Commands,
    prefix: &str,
    commands: impl Iterator<Item = &'a Cmd>,
) -> Option<RedisError> {
    let keys = keys_of(prefix, commands);
    let mut ask = redis::pipe();
    keys.iter().for_each(|key| _ = ask.cmd("TYPE").arg(key));
    let found: Vec<RedisResult<String>> = ask.ignore_errors().query_async(connection).await.ok()?;
    let problem = keys.iter().zip(found).find_map(|(key, found)| problem(prefix, key, &found.ok()?))?;
    Some((ErrorKind::UnexpectedReturnType, "a key is of the wrong type", problem).into())
}

/// The keys among the words of commands: what looks like one is asked for its type, and a body of a job is of none.
pub(super) fn keys_of<'a>(prefix: &str, commands: impl Iterator<Item = &'a Cmd>) -> Vec<&'a str> {
    let begin = format!("{prefix}:");
    let mut keys: Vec<&str> = commands
        .flat_map(Cmd::args_iter)
        .filter_map(|word| match word {
            Arg::Simple(word) => std::str::from_utf8(word).ok().filter(|word| word.starts_with(&begin)),
            _ => None,
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

pub(super) fn is_wrong_type(error: &RedisError) -> bool {
    error.to_string().contains("WRONGTYPE")
}

/// What [`name_key`] found, if the error is one.
pub(super) fn named(error: &RedisError) -> Option<anyhow::Error> {
    let problem = error.detail().filter(|detail| detail.starts_with(THE_KEY))?;
    Some(anyhow::Error::msg(problem.to_owned()))
}

/// Says that a key is of the type `found`, if it has to be of another one.
pub(in crate::redis) fn problem(prefix: &str, key: &str, found: &str) -> Option<String> {
    let known = read_key(prefix, key).filter(|known| found != "none" && found != known.kind)?;
    Some(format!(
        "{THE_KEY}{key} is a {found}, and has to be a {}: another program writes keys that begin with `{prefix}`. Remove the key, or set \
         another `prefix` in the store's section (WRONGTYPE)",
        known.kind
    ))
}
