//! `gristmill complete`: the values that the scripts of `gristmill completions` ask for: topics, ids of jobs, and tenants.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::command::Cli;
use super::exit::Exit;
use super::find::Finder;
use super::global::{Global, TopicName, whose};
use super::store::Reached;
use super::topic_line::Topics;
use super::{screen, stats};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_store::{JobView, StoreError};

/// How long the operator, who has pressed the tab key, waits for a server.
const PATIENCE: Duration = Duration::from_secs(2);
/// Ids that are shown.
const MOST_IDS: usize = 50;

/// Write what the last of these words of a command line could be
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(last = true)]
    words: Vec<String>,
}

/// What a word stands for that only a server can complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Topic,
    Job,
    Tenant,
}

impl Kind {
    fn of(arg: &Arg) -> Option<Self> {
        let has = arg.get_value_parser().type_id();
        if has == TypeId::of::<JobId>() {
            Some(Self::Job)
        } else if has == TypeId::of::<TopicName>() || has == TypeId::of::<TopicId>() {
            Some(Self::Topic)
        } else {
            (has == TypeId::of::<Name>() && arg.get_id() == "tenant").then_some(Self::Tenant)
        }
    }
}

/// The word that is being written, and the words before it that say what it may be.
#[derive(Debug, Default, PartialEq, Eq)]
struct Word {
    kind: Option<Kind>,
    /// What of the word is written, and what of that is no part of the value.
    written: String,
    option: String,
    tenant: Option<Name>,
    topic: Option<TopicName>,
    is_of_dead: bool,
}

impl Word {
    /// `grammar` is built, so that options of every command are in each.
    fn last_of(words: &[String], grammar: &Command) -> Self {
        let Some((last, before)) = words.split_last() else { return Self::default() };
        let (mut word, mut command) = (Self { written: last.clone(), ..Self::default() }, grammar);
        let (mut open, mut positionals) = (None, 0);
        // Bash makes three words of `--tenant=acme`.
        for text in before.iter().filter(|text| *text != "=") {
            if let Some(arg) = open.take() {
                word.note(arg, text);
            } else if text.starts_with('-') {
                let (name, value) = text.split_once('=').map_or((&**text, None), |(name, value)| (name, Some(value)));
                match (option(command, name), value) {
                    (Some(arg), Some(value)) => word.note(arg, value),
                    (arg, _) => open = arg,
                }
            } else if let Some(inner) = command.find_subcommand(text).filter(|_| positionals == 0) {
                word.is_of_dead |= inner.get_name() == "dead";
                command = inner;
            } else {
                positional(command, positionals).inspect(|arg| word.note(arg, text));
                positionals += 1;
            }
        }
        if let Some((name, value)) = last.split_once('=').filter(|_| last.starts_with("--")) {
            open = option(command, name);
            (word.option, word.written) = (format!("{name}="), value.to_owned());
        } else if open.is_none() && !last.starts_with('-') {
            open = positional(command, positionals);
        }
        word.kind = open.and_then(Kind::of);
        word
    }

    fn note(&mut self, arg: &Arg, value: &str) {
        match Kind::of(arg) {
            Some(Kind::Tenant) => self.tenant = value.parse().ok(),
            Some(Kind::Topic) => self.topic = value.parse().ok(),
            Some(Kind::Job) | None => {}
        }
    }
}

/// The option of that name, if it takes a value.
fn option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_named = |arg: &&Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| name.ends_with(short)),
    };
    command.get_arguments().find(is_named).filter(|arg| arg.get_action().takes_values())
}

/// What the command calls the positional after `before` others. The last one may be repeated.
fn positional(command: &Command, before: usize) -> Option<&Arg> {
    let is_repeated = |arg: &&Arg| arg.get_num_args().is_some_and(|number| number.max_values() > 1);
    let repeated = || command.get_positionals().last().filter(is_repeated);
    command.get_positionals().nth(before).or_else(repeated)
}

/// The long names of all options whose values are completed.
pub(super) fn options(command: &Command) -> BTreeSet<&str> {
    let own = command.get_arguments().filter(|arg| Kind::of(arg).is_some()).filter_map(Arg::get_long);
    own.chain(command.get_subcommands().flat_map(options)).collect()
}

pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let mut grammar = Cli::command();
    grammar.build();
    let word = Word::last_of(&args.words, &grammar);
    let Some(kind) = word.kind else { return Ok(Exit::Done) };
    // What is written so far is no whole command.
    let line = std::iter::once("gristmill".to_owned()).chain(args.words);
    let options = Cli::command().ignore_errors(true).try_get_matches_from(line);
    // There is no place for complaints.
    let Ok(global) = options.and_then(|options| Global::from_arg_matches(&options)) else { return Ok(Exit::Done) };
    if let Ok(Ok(values)) = tokio::time::timeout(PATIENCE, values(&global, kind, &word)).await {
        for value in values.iter().filter(|value| value.starts_with(&word.written)) {
            screen::line(&format!("{}{value}", word.option))?;
        }
    }
    Ok(Exit::Done)
}

/// Of a server that runs; without one, what the files say. No file of jobs is opened, which would keep others from it.
async fn values(global: &Global, kind: Kind, word: &Word) -> anyhow::Result<Vec<String>> {
    let manifest = global.manifest_without_secrets()?;
    let reached = if global.names_server() {
        Some(global.reach(&manifest).await?)
    } else {
        global.way(&manifest)?.find_server().await?.map(Reached::from)
    };
    // A server lists only tenants that have something in a store.
    let tenants = async || {
        let mut tenants = stats::tenants(&manifest);
        if let Some(server) = reached.as_ref().and_then(|reached| reached.server.as_ref()) {
            tenants.extend(server.visible_tenants().await?);
            tenants.sort();
            tenants.dedup();
        }
        Ok::<_, StoreError>(tenants)
    };
    match (kind, &reached) {
        (Kind::Tenant, _) => Ok(tenants().await?.iter().map(Name::to_string).collect()),
        (Kind::Topic, _) => {
            let topics = Topics::find(global, &manifest, reached.as_ref()).await?;
            let name = |topic: &TopicId| stats::name(topic, None);
            Ok(match &word.tenant {
                Some(tenant) => {
                    let lines = topics.of(std::slice::from_ref(tenant)).await?;
                    lines.read.iter().map(|line| line.seen.counts.topic.topic.to_string()).collect()
                }
                None => {
                    topics.of(&tenants().await?).await?.read.iter().map(|line| name(&line.seen.counts.topic)).collect()
                }
            })
        }
        (Kind::Job, Some(reached)) => {
            let (tenant, topic) = whose(word.topic.as_ref(), word.tenant.as_ref())?;
            let mut conditions = Vec::from_iter(topic.map(|topic| format!("topic:{topic}")));
            conditions.extend(word.is_of_dead.then(|| "state:dead".into()));
            conditions.extend((!word.written.is_empty()).then(|| format!("id:{}*", word.written)));
            let mut ids = Vec::new();
            let each = |view: JobView| {
                ids.push(view.id.to_string());
                Ok(())
            };
            Finder::of(reached, tenant, conditions.join(" "))?.jobs(MOST_IDS, each).await?;
            Ok(ids)
        }
        (Kind::Job, None) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(line: &str) -> Word {
        let mut grammar = Cli::command();
        grammar.build();
        Word::last_of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), &grammar)
    }

    #[test]
    fn topics_tenants_and_ids_are_completed_where_a_command_takes_them() {
        let kinds = [
            ("push ec", Some(Kind::Topic)),
            ("push --tenant acme ec", Some(Kind::Topic)),
            ("push --tenant ac", Some(Kind::Tenant)),
            ("push --tenant = ac", Some(Kind::Tenant)),
            ("push echo --tenant=ac", Some(Kind::Tenant)),
            ("--manifest gristmill.toml push ", Some(Kind::Topic)),
            ("job show ", Some(Kind::Job)),
            ("job cancel a ", Some(Kind::Job)),
            ("dead respawn acme/mail ", Some(Kind::Job)),
            ("attempts --job 0", Some(Kind::Job)),
            ("topics why ", Some(Kind::Topic)),
            ("push echo --data ", None),
            ("push --da", None),
            ("pu", None),
            ("", None),
        ];
        for (line, kind) in kinds {
            assert_eq!(last(line).kind, kind, "{line}");
        }
    }

    #[test]
    fn words_before_it_say_whose_values_are_meant() {
        let word = last("dead respawn acme/mail 01");
        assert_eq!((word.topic, word.is_of_dead, word.written.as_str()), ("acme/mail".parse().ok(), true, "01"));
        assert_eq!(last("job show --tenant acme ").tenant, "acme".parse().ok());
        assert_eq!(last("job show --tenant=acme ").tenant, "acme".parse().ok());
        assert_eq!(last("push --tenant=ac").option, "--tenant=");
    }
}
