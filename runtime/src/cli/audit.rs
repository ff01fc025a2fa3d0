//! The lines of the audit log about commands that change a store without a server, which writes down what goes through it.

use std::collections::BTreeMap;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::exit::Exit;
use super::global::Global;
use super::{screen, store};
use gristmill_core::job::WorkerId;
use gristmill_server::{AuditLine, AuditLog};

/// Characters of a user's name that are noted.
const USER_CHARS: usize = 64;

/// Commands that change what is in a store, or who may use it. Pushing is what producers do, and is not written down.
const CHANGES: [&str; 22] = [
    "job cancel",
    "job change",
    "job seal",
    "dead respawn",
    "dead delete",
    "bulk start",
    "erase",
    "pause",
    "resume",
    "topics purge",
    "schedule set",
    "schedule pause",
    "schedule resume",
    "schedule run",
    "schedule remove",
    "state delete",
    "unique free",
    "store move",
    "tenant move",
    "token create",
    "token revoke",
    "token disable",
];

/// Arguments that are written down: what a command is about, and no text of a token and no address with a password.
const ABOUT: [&str; 25] = [
    "topic",
    "tenant",
    "id",
    "ids",
    "name",
    "key",
    "value",
    "idempotency_key",
    "all",
    "action",
    "query",
    "unknown",
    "yes",
    "tree",
    "kill",
    "now",
    "delay",
    "at",
    "priority",
    "version",
    "scope",
    "all_tenants",
    "description",
    "dry_run",
    "leave_behind",
];

/// A command as it was written: what it is called, and what it is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    pub(super) command: String,
    pub(super) about: BTreeMap<String, String>,
}

impl Words {
    pub(super) fn of(line: &ArgMatches) -> Self {
        let (mut command, mut matches) = (Vec::new(), line);
        while let Some((name, inner)) = matches.subcommand() {
            command.push(name);
            matches = inner;
        }
        let is_written = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let names = matches.ids().map(clap::Id::as_str).filter(|name| ABOUT.contains(name) && is_written(name));
        let value = |name: &str| {
            let raw = matches.get_raw(name).into_iter().flatten().map(|value| value.to_string_lossy().into_owned());
            raw.collect::<Vec<_>>().join(",")
        };
        let about = names.map(|name| (name.to_owned(), value(name))).collect();
        Self { command: command.join(" "), about }
    }

    pub(super) fn changes(&self) -> bool {
        CHANGES.contains(&self.command.as_str())
    }
}

/// Who runs the command, as the stores note it of what it pauses.
pub(super) fn person() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    let user = named.unwrap_or_else(|| format!("user {}", rustix::process::geteuid().as_raw()));
    let user: String = user.chars().filter(|char| !char.is_control()).take(USER_CHARS).collect();
    format!("command line ({user})")
}

/// Writes down what a command has done, if it has opened a store itself and the manifest has an audit log.
pub(super) async fn record(global: &Global, Words { command, about }: Words, is_done: bool) {
    let manifest = global.manifest_without_secrets().ok().filter(|_| store::has_opened());
    let Some(settings) = manifest.and_then(|manifest| manifest.audit) else { return };
    let worker = WorkerId::new(&format!("command-{}", std::process::id()));
    match AuditLog::open(&settings, &worker) {
        Ok(log) => {
            let line = AuditLine::of_command(worker, person(), command, about, is_done);
            log.append(std::iter::once(line));
            log.close().await;
        }
        Err(error) => {
            let error = anyhow::Error::from(error);
            screen::note(&format!("warning: the audit log has no line of this command: {error:#}"));
        }
    }
}

/// The same for a command that has ended.
pub(super) async fn record_end(global: &Global, words: Words, end: &anyhow::Result<Exit>) {
    if words.changes() {
        record(global, words, matches!(end, Ok(Exit::Done))).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory};

    use super::CHANGES;
    use crate::cli::command::Cli;

    /// Commands that change nothing in a store, push, or have a server do it.
    const OTHERS: &str = "run, push, new, update, build, dev, check, topics, topics why, stats, workers, top, \
        job list, job show, job why, job graph, jobs, attempts, dead list, dead groups, dead show, \
        bulk list, bulk show, bulk abort, deploy, rollback, promote, schedule list, schedule show, bill, \
        state show, unique show, fsck, tenant list, token list, invoke, replay, health, verify, version, \
        completions, complete, man";

    fn names(command: &Command, before: &str, all: &mut BTreeSet<String>) {
        for command in command.get_subcommands() {
            let name = format!("{before}{}", command.get_name());
            names(command, &format!("{name} "), all);
            if !command.is_subcommand_required_set() {
                all.insert(name);
            }
        }
    }

    #[test]
    fn each_command_either_leaves_a_line_or_is_known_to_leave_none() {
        let mut found = BTreeSet::new();
        names(&Cli::command(), "", &mut found);
        let known = CHANGES.into_iter().chain(OTHERS.split(", "));
        let known: BTreeSet<String> =
            known.filter(|name| cfg!(feature = "top") || *name != "top").map(str::to_owned).collect();
        assert_eq!(found, known);
    }
}
