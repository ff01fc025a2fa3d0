//! What the grammar of commands refuses, and the messages about that.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error, Parser, ValueEnum};
use serde_json::json;

use super::audit::Words;
use super::exit::Exit;
use super::project::Language;
use super::screen;
use gristmill_core::job::TopicId;

/// What people write who know another program, or HTTP, and what it is called here.
const ELSEWHERE: [(&str, &str); 16] = [
    ("status", "`gristmill topics` and `gristmill stats` say how it goes, `gristmill top` shows it"),
    (
        "logs",
        "`gristmill attempts` shows what was done last, with the log lines of handlers; a runner's own log is its standard error",
    ),
    ("log", "`gristmill attempts` shows what was done last, with the log lines of handlers"),
    ("ps", "`gristmill jobs state:running` lists what runs, `gristmill workers` who runs it"),
    ("list", "`gristmill topics` lists topics, `gristmill jobs` jobs"),
    ("ls", "`gristmill topics` lists topics, `gristmill jobs` jobs"),
    ("start", "`gristmill run` is the server that runs jobs"),
    ("serve", "`gristmill run` is the server that runs jobs"),
    ("worker", "`gristmill run` runs jobs; `gristmill workers` lists who does"),
    ("cancel", "`gristmill job cancel ID` cancels a job, `gristmill bulk start cancel QUERY` many"),
    (
        "why",
        "`gristmill job why ID` says why a job is not running, `gristmill topics why TOPIC` why a topic begins none",
    ),
    ("show", "`gristmill job show ID` shows a job, `gristmill topics` the topics"),
    ("init", "`gristmill new NAME --lang LANGUAGE` begins a project with a handler"),
    ("retry", "`gristmill dead respawn TOPIC ID` makes a dead job ready again"),
    ("--body", "a job's body is `--data TEXT` or `--file PATH`"),
    ("--port", "a server listens where the manifest says: `listen = \"127.0.0.1:80\"` in [http]"),
];

/// The command line and the variables, read, and the command as it was written.
///
/// # Errors
/// They make no sense, or ask for help: the message has been printed.
pub(super) fn parse<C: Parser>() -> Result<(C, Words), ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let grammar = without_empty_variables(C::command());
    let says_json = arguments.iter().any(|argument| argument == "--json");
    if let Some(problem) = quoted_variable(&grammar) {
        return Err(refuse(says_json, |_| format!("error: {problem}")));
    }
    let variables = variables_of(&grammar, &arguments);
    let is_tame = arguments
        .iter()
        .cloned()
        .chain(values(&grammar))
        .all(|text| !text.to_string_lossy().chars().any(screen::is_harmful));
    let read = grammar.try_get_matches_from(&arguments).and_then(|mut found| {
        let words = Words::of(&found);
        Ok((C::from_arg_matches_mut(&mut found)?, words))
    });
    read.map_err(|mut error| {
        if !error.use_stderr() {
            error.exit();
        }
        add_tips(&mut error);
        refuse(says_json, |colour| {
            let styled = error.render();
            // The plain text is the other one without escapes, a stranger's among them.
            let text = if colour && is_tame { styled.ansi().to_string() } else { styled.to_string() };
            let text = text.trim_end();
            let named = variables.iter().filter(|(option, _)| text.contains(option.as_str()));
            named.fold(text.to_owned(), |text, (option, name)| {
                format!("{text}\nnote: {} is not in the command: the variable {name} sets it", option.trim_end())
            })
        })
    })
}

fn refuse(says_json: bool, render: impl Fn(bool) -> String) -> ExitCode {
    if says_json {
        let plain = render(false);
        let message = plain.strip_prefix("error: ").unwrap_or(&plain);
        screen::note_document(&json!({ "error": { "code": Exit::Usage.name(), "message": message } }));
    } else {
        screen::note_rendered(render);
    }
    Exit::Usage.into()
}

/// A variable that is empty says nothing: compose files and units leave them so.
fn without_empty_variables(grammar: Command) -> Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.to_string_lossy().trim().is_empty());
    grammar.mut_args(|arg| match arg.get_env() {
        Some(name) if is_empty(name) => arg.env(None::<&'static str>),
        _ => arg,
    })
}

/// Shells take quotes away, and env files of containers and of systemd's older versions do not.
fn quoted_variable(grammar: &Command) -> Option<String> {
    let names = grammar.get_arguments().filter_map(Arg::get_env);
    names.filter_map(|name| Some((name, std::env::var_os(name)?))).find_map(|(name, value)| {
        let value = value.to_string_lossy();
        let is_quoted =
            ['"', '\''].iter().any(|quote| value.len() > 1 && value.starts_with(*quote) && value.ends_with(*quote));
        let name = name.to_string_lossy();
        is_quoted.then(|| {
            format!(
                "the value of {name} begins and ends with a quotation mark: leave both out where the variable is set"
            )
        })
    })
}

/// The values of variables that options are read from.
fn values(grammar: &Command) -> impl Iterator<Item = OsString> {
    grammar.get_arguments().filter_map(|arg| std::env::var_os(arg.get_env()?))
}

/// Options that a variable sets and the command line does not, as messages write them, with the variable.
fn variables_of(grammar: &Command, arguments: &[OsString]) -> Vec<(String, String)> {
    let set = grammar.get_arguments().filter_map(|arg| {
        let name = arg.get_env().filter(|name| std::env::var_os(name).is_some())?;
        Some((format!("--{}", arg.get_long()?), name.to_string_lossy().into_owned()))
    });
    let is_written = |option: &str| arguments.iter().any(|argument| argument.to_string_lossy().starts_with(option));
    set.filter(|(option, _)| !is_written(option)).map(|(option, name)| (format!("{option} "), name)).collect()
}

fn add_tips(error: &mut Error) {
    let tips = tips_about(error);
    if tips.is_empty() {
        return;
    }
    for guess in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::Suggested] {
        error.remove(guess);
    }
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips.into_iter().map(Into::into).collect()));
}

fn tips_about(error: &Error) -> Vec<String> {
    let written = match (error.kind(), error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name)), _) => {
            return about_command(error, name);
        }
        (ErrorKind::UnknownArgument, _, Some(ContextValue::String(name))) => name,
        (ErrorKind::MissingRequiredArgument, _, Some(ContextValue::Strings(missing))) => {
            let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
            if let [missing] = missing.as_slice()
                && missing.starts_with("<ID")
                && let Some((command, _)) = usage.split_once(" <TOPIC>")
            {
                let command = command.trim_start_matches("Usage: ");
                return vec![format!("what is given is the topic, and the id comes after it: `{command} TOPIC ID`")];
            }
            return missing.iter().filter_map(|missing| about_missing(missing)).collect();
        }
        _ => return Vec::new(),
    };
    about_elsewhere(written)
}

fn about_elsewhere(written: &str) -> Vec<String> {
    ELSEWHERE.iter().filter(|(name, _)| *name == written).map(|(_, tip)| (*tip).to_owned()).collect()
}

/// What stands behind `topics` is perhaps the topic that is asked about.
fn about_command(error: &Error, written: &str) -> Vec<String> {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_similar = error.get(ContextKind::SuggestedSubcommand).is_some();
    if !usage.contains(" topics ") || is_similar || written.parse::<TopicId>().is_err() {
        return about_elsewhere(written);
    }
    vec![format!("`gristmill topics` shows all topics, `gristmill topics why {written}` says why one begins no job")]
}

fn about_missing(missing: &str) -> Option<String> {
    if missing.starts_with("--lang ") {
        let values = Language::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
        return Some(format!("languages: {}", names.join(", ")));
    }
    missing.starts_with("--tenant ").then(|| "a token for every tenant is made with --all-tenants".into())
}
