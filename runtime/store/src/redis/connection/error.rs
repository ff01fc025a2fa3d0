//! Which of Redis' errors mean that the server is unavailable, and which that it refused this one request.

use std::io;

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};

use super::wrong_type;
use crate::StoreError;

/// Codes of errors with which the server refuses everything, or everything that writes, until its state passes or an operator
/// changes it: a script that blocks it, too few replicas, a failover, a disk that takes no snapshot, a changed password.
const OF_THE_SERVER: [&str; 6] = ["BUSY", "NOREPLICAS", "UNBLOCKED", "MISCONF", "NOAUTH", "WRONGPASS"];

/// An error as the store's callers see it. `doing` completes "refused to".
pub(in crate::redis) fn store_error(address: &str, doing: &'static str, error: RedisError) -> StoreError {
    let store = address.to_owned();
    if let Some(remedy) = remedy(&error) {
        StoreError::Unavailable { store, source: remedy }
    } else if lacks_rights(&error) {
        StoreError::Unavailable { store, source: once(&error).context(RIGHTS) }
    } else if is_unavailable(&error) {
        StoreError::Unavailable { store, source: in_words(error) }
    } else if is_full(&error) {
        StoreError::Full { store, doing, source: once(&error).context(FULL) }
    } else {
        StoreError::Refused { store, doing, source: in_words(error) }
    }
}

/// What a part of an error's text means, and what an operator can do about it.
const MEANINGS: [(&str, &str); 7] = [
    (
        "read only replica",
        "it is a replica, which takes no writes (READONLY): unless a failover is under way, name its primary in the store's URL, or sentinels, \
         which know the primary",
    ),
    (
        "Authentication required",
        "it wants a password (NOAUTH): give it in the store's URL, redis://[user]:PASSWORD@host",
    ),
    ("WRONGPASS", WRONG_PASSWORD),
    ("AuthenticationFailed", WRONG_PASSWORD),
    ("refused to switch database", "it has no database of the number at the end of the store's URL: every Redis has 0"),
    (
        "by Sentinel instances",
        "it is a sentinel: begin the store's URL with redis+sentinel://, and end it with the name of what the sentinels watch",
    ),
    (TOO_MANY_CLIENTS, "it has as many clients as it takes: raise its `maxclients`, or end some of them"),
];
const WRONG_PASSWORD: &str = "it does not take the user and the password of the store's URL (sentinels have their own, \
    `?sentinel-user=…&sentinel-password=…`): put them right";
const NO_REDIS: &str = "what answers there does not speak as a Redis does: look at host and port in the store's URL";

/// How a server says that it takes no further client.
pub(in crate::redis) const TOO_MANY_CLIENTS: &str = "max number of clients";

/// The error for people, if it is one of those that an operator meets; else as the library words it.
pub(in crate::redis) fn in_words(error: RedisError) -> anyhow::Error {
    if let Some(named) = wrong_type::named(&error) {
        return named;
    }
    let said = error.to_string();
    if UNKNOWN_COMMAND.iter().any(|part| said.contains(part)) {
        return once(&error).context(COMMANDS);
    }
    let meaning = match error.kind() {
        ErrorKind::Parse => Some(NO_REDIS),
        _ => MEANINGS.iter().find(|(part, _)| said.contains(part)).map(|(_, meaning)| *meaning),
    };
    meaning.map_or_else(|| once(&error), anyhow::Error::msg)
}

/// Without its cause, whose text the library repeats in its own.
fn once(error: &RedisError) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}

/// How servers refuse a command that they do not have, by itself and within a script.
const UNKNOWN_COMMAND: [&str; 2] = ["unknown command", "Unknown Redis command"];
const COMMANDS: &str = "it lacks a command: use a Redis 6.2 or later, or a Valkey, whose configuration renames no command that \
    docs/guides/operating.md lists";

/// What keeps a connection from being made until an operator changes it. The calls that wait for the connection go on waiting.
pub(in crate::redis) fn misconfigured(problem: String) -> RedisError {
    (ErrorKind::InvalidClientConfig, "the connection is not set up right", problem).into()
}

/// What [`misconfigured`] says, if the error is one.
pub(in crate::redis) fn remedy(error: &RedisError) -> Option<anyhow::Error> {
    let problem = error.detail().filter(|_| error.kind() == ErrorKind::InvalidClientConfig)?;
    Some(anyhow::anyhow!("{problem}"))
}

/// What an operator can do about a server without memory.
const FULL: &str = "its memory is full (`maxmemory`): it takes jobs again when there is room";

/// What an operator can do about a Redis user who may not do this. The server's error names the command, or says that it is about a key
/// or a channel.
const RIGHTS: &str = "give the Redis user all commands that docs/guides/operating.md lists for it, the keys `~gm:*` and the channels `&gm:*` \
    (with your `prefix` in place of `gm`)";

fn lacks_rights(error: &RedisError) -> bool {
    from_server(error).is_some_and(|error| {
        let is_refusal = |text: &str| WITHOUT_CODE.iter().any(|refusal| text.contains(refusal));
        error.kind() == Some(ServerErrorKind::NoPerm) || error.details().is_some_and(is_refusal)
    })
}

/// How servers refuse a command within a script, and the end of a transaction: without the code.
const WITHOUT_CODE: [&str; 3] =
    ["The user executing the script can't", "ACL failure in script", "Transaction discarded because of: NOPERM"];

/// Before version 7, the code comes as text, as in [`is_of_the_server`].
fn is_full(error: &RedisError) -> bool {
    from_server(error).is_some_and(|error| {
        error.code() == "OOM"
            || error.details().is_some_and(|text| text.contains("running script") && text.contains("OOM"))
    })
}

pub(in crate::redis) fn is_unavailable(error: &RedisError) -> bool {
    if matches!(error.kind(), ErrorKind::Io | ErrorKind::AuthenticationFailed) || lacks_rights(error) {
        return true;
    }
    from_server(error).is_some_and(|error| match error.kind() {
        Some(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::NoScript
            | ServerErrorKind::ReadOnly,
        ) => true,
        Some(ServerErrorKind::ResponseError) => error.details().is_some_and(is_of_the_server),
        Some(_) => false,
        None => OF_THE_SERVER.contains(&error.code()),
    })
}

/// What the server answered; of a pipeline, the first of its errors, which alone has the code.
fn from_server(error: &RedisError) -> Option<ServerError> {
    error.clone().into_server_errors()?.first().map(|(_, error)| error.clone())
}

/// Whether the text of an error without a code means the server as a whole. Before version 7, errors inside a script come as text
/// behind `ERR Error running script`.
fn is_of_the_server(text: &str) -> bool {
    text.contains(TOO_MANY_CLIENTS)
        || (text.contains("running script")
            && ["READONLY", "MISCONF", "NOREPLICAS", "NOPERM"].iter().any(|code| text.contains(code)))
}

/// Whether the connection must be replaced. A timeout is one of the reasons: a half-open connection answers nothing
/// for minutes, and no other check would notice. So is a server that became a replica: the name in the address leads to
/// the new primary by now, or soon.
pub(in crate::redis) fn is_broken(error: &RedisError) -> bool {
    let moved_on = matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown));
    error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error() || moved_on
}

/// The server answered something that the script cannot have returned.
pub(in crate::redis) fn unexpected(what: &'static str) -> RedisError {
    (ErrorKind::UnexpectedReturnType, what).into()
}

/// A timeout of ours.
pub(in crate::redis) fn timed_out(what: &'static str) -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, what).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_server(line: &str) -> RedisError {
        let mut parser = redis::Parser::new();
        let value = parser.parse_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn what_may_pass_is_away() {
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "CLUSTERDOWN The cluster is down",
            "MASTERDOWN Link with MASTER is down",
            "BUSY Redis is busy running a script.",
            "NOSCRIPT No matching script. Please use EVAL.",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist to disk.",
            "NOREPLICAS Not enough good replicas to write.",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "ERR The user executing the script can't run this command or subcommand script: c420, on @user_script:33.",
            "ERR ACL failure in script: User gm has no permissions to run the 'lpush' command script: c420, on @user_script:33.",
            "ERR max number of clients reached",
            "ERR Error running script (call to f_0): @user_script:1: -MISCONF Redis is configured to save RDB snapshots",
            "ERR Error running script (call to f_0): @user_script:1: -READONLY You can't write against a read only replica.",
        ] {
            assert!(store_error("here", "push jobs", from_server(line)).is_unavailable(), "{line}");
        }
        assert!(store_error("here", "push jobs", timed_out("no reply")).is_unavailable());
        assert!(
            store_error("here", "push jobs", io::Error::from(io::ErrorKind::ConnectionRefused).into()).is_unavailable()
        );
    }

    #[test]
    fn what_an_operator_can_change_is_said_in_words() {
        let pipeline =
            redis::Parser::new().parse_value(&b"*1\r\n-READONLY You can't write against a read only replica.\r\n"[..]);
        let pipeline = pipeline.unwrap().extract_error().unwrap_err();
        let http = redis::Parser::new().parse_value(&b"HTTP/1.1 400 Bad Request\r\n"[..]).unwrap_err();
        let login = (ErrorKind::AuthenticationFailed, "Password authentication failed").into();
        for (error, begin) in [
            (
                from_server("READONLY You can't write against a read only replica. script: f601, on @user_script:1."),
                "it is a replica",
            ),
            (pipeline, "it is a replica"),
            (from_server("NOAUTH Authentication required."), "it wants a password"),
            (from_server("WRONGPASS invalid username-password pair or user is disabled."), "it does not take the user"),
            (login, "it does not take the user"),
            (from_server("ERR max number of clients reached"), "it has as many clients"),
            (from_server("ERR Only HELLO messages are accepted by Sentinel instances."), "it is a sentinel"),
            (http, "what answers there does not speak as a Redis does"),
        ] {
            let said = in_words(error).to_string();
            assert!(said.starts_with(begin), "{said}");
        }
        assert_eq!(format!("{:#}", in_words(timed_out("no reply"))), "no reply", "each cause once");
    }

    #[test]
    fn a_server_without_a_command_is_named_with_the_version_that_it_needs() {
        for line in [
            "ERR unknown command 'EVALSHA', with args beginning with: '61c1' ",
            "ERR Unknown Redis command called from script script: 61c1, on @user_script:12.",
            "ERR Error running script (call to f_61c1): @user_script: 12: Unknown Redis command called from Lua script",
        ] {
            let error = store_error("here", "push jobs", from_server(line));
            assert!(
                format!("{:#}", anyhow::Error::from(error)).contains("a command: use a Redis 6.2 or later"),
                "{line}"
            );
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        for error in [
            io::Error::from(io::ErrorKind::ConnectionRefused).into(),
            from_server("WRONGTYPE Operation against a key"),
            from_server("NOPERM this user has no permissions"),
            from_server("OOM command not allowed"),
        ] {
            let (cause, said) = (error.to_string(), anyhow::Error::from(store_error("here", "push jobs", error)));
            assert_eq!(format!("{said:#}").matches(&cause).count(), 1, "{said:#}");
        }
    }

    #[test]
    fn a_connection_to_a_former_primary_is_given_up() {
        assert!(is_broken(&from_server("READONLY You can't write against a read only replica.")));
        assert!(is_broken(&timed_out("no reply")));
        assert!(!is_broken(&from_server("OOM command not allowed when used memory > 'maxmemory'.")));
    }

    #[test]
    fn a_server_without_memory_is_full_and_not_unavailable() {
        for line in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "ERR Error running script (call to f_0): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'.",
        ] {
            let error = store_error("here", "push jobs", from_server(line));
            assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        }
    }

    #[test]
    fn what_will_not_pass_is_refused() {
        for line in ["WRONGTYPE Operation against a key holding the wrong kind of value", "ERR unknown command"] {
            let error = store_error("here", "push jobs", from_server(line));
            assert!(matches!(error, StoreError::Refused { .. }), "{line}");
        }
        assert!(!store_error("here", "claim jobs", unexpected("no number")).is_unavailable());
    }
}
