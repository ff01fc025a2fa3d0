//! The tree of commands, and the way from `main` into one of them.

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use serde_json::json;

use super::audit::{self, Words};
use super::exit::{self, Exit, Usage};
use super::global::{Global, LogFormat};
#[cfg(feature = "top")]
use super::top;
use super::{
    attempts, bill, bulk, check, complete, copy, dead, deploy, dev, find, fsck, health, invoke, job, logging, manual,
    pause, project, push, replay, run, schedule, screen, state, stats, tenant, token, topics, unique, usage, verify,
    version, workers,
};
use gristmill_config::ManifestError;
use gristmill_metrics::as_actor;
use gristmill_sandbox::{ChildLimits, compile_child};
use gristmill_store::{StoreError, store_in_words};

/// A job runner whose handlers are WebAssembly components.
///
/// Drop `thumbnail.wasm` into the handlers folder, and jobs of the topic `thumbnail` are done by it.
#[derive(Debug, Parser)]
#[command(name = "gristmill", version, after_help = exit::HELP, arg_required_else_help = true)]
pub(super) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Push(push::Args),
    New(project::new::Args),
    Update(project::update::Args),
    Build(project::build::Args),
    Dev(dev::Args),
    Check(check::Args),
    #[command(visible_alias = "topic")]
    Topics(topics::Args),
    Stats(stats::Args),
    Workers(workers::Args),
    #[cfg(feature = "top")]
    Top(top::Args),
    Job(job::Args),
    /// List the jobs that fit a query: `job list` by a shorter name
    Jobs(find::AliasArgs),
    Attempts(attempts::Args),
    Dead(dead::Args),
    Bulk(bulk::Args),
    Erase(bulk::EraseArgs),
    Deploy(deploy::DeployArgs),
    Rollback(deploy::RollbackArgs),
    Promote(deploy::PromoteArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    Schedule(schedule::Args),
    Bill(bill::Args),
    State(state::Args),
    Unique(unique::Args),
    Fsck(fsck::Args),
    Store(copy::Args),
    Tenant(tenant::Args),
    Token(token::Args),
    Invoke(invoke::Args),
    Replay(replay::Args),
    Health(health::Args),
    Verify(verify::Args),
    Version(version::Args),
    Completions(manual::CompletionsArgs),
    #[command(hide = true)]
    Complete(complete::Args),
    #[command(hide = true)]
    Man(manual::ManArgs),
}

/// The whole of the program.
pub fn main() -> ExitCode {
    if let Some(limits) = ChildLimits::of_arguments() {
        // Before anything else is set up: it limits its own memory and must do so early.
        return compile_child(limits);
    }
    let (Cli { global, command }, words) = match usage::parse() {
        Ok(line) => line,
        Err(exit) => return exit,
    };
    let Some(command) = command else { return help(global.json) };
    let is_server = command.is_server();
    match start(&global, command, words) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = Exit::of(&error);
            let complain = move || complain(&global, &error);
            if is_server {
                logging::in_time(complain)
            } else {
                complain()
            }
            exit.into()
        }
    }
}

/// The help of a call without a command. Clap would also print it, but not where the environment sets an option.
fn help(json: bool) -> ExitCode {
    if json {
        let message = "no command is named: `gristmill --help` lists them";
        screen::note_document(&json!({ "error": { "code": Exit::Usage.name(), "message": message } }));
        return Exit::Usage.into();
    }
    screen::note(&Cli::command().render_help().to_string());
    Exit::Usage.into()
}

fn start(global: &Global, command: Command, words: Words) -> anyhow::Result<Exit> {
    let _written_to_the_end = logging::begin(global, command.usual_log())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("failed to start the asynchronous runtime")?;
    let is_server = command.is_server();
    // In a box: it is large, and each way to run it would have a copy of it in the program.
    let work: Pin<Box<dyn Future<Output = _>>> = Box::pin(dispatch(global, command));
    let exit = if is_server { runtime.block_on(work) } else { runtime.block_on(as_actor(audit::person(), work)) };
    runtime.block_on(audit::record_end(global, words, &exit));
    // What still runs here is a guest or a read whose result is not used.
    runtime.shutdown_timeout(Duration::from_millis(100));
    exit
}

async fn dispatch(global: &Global, command: Command) -> anyhow::Result<Exit> {
    if global.names_server() && command.is_of_this_machine() {
        let problem = "this command works with the files of this machine: leave out --server and GRISTMILL_SERVER";
        return Err(Usage(problem.into()).into());
    }
    match command {
        Command::Run(args) => run::run(global, args).await,
        Command::Push(args) => push::run(global, args).await,
        Command::New(args) => project::new::run(global, args),
        Command::Update(args) => project::update::run(global, args),
        Command::Build(args) => project::build::run(global, args).await,
        Command::Dev(args) => dev::run(global, args).await,
        Command::Check(args) => check::run(global, args).await,
        Command::Topics(args) => topics::run(global, args).await,
        Command::Stats(args) => stats::run(global, args).await,
        Command::Workers(args) => workers::run(global, args).await,
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(global, args).await,
        Command::Job(args) => job::run(global, args).await,
        Command::Jobs(args) => find::jobs(global, args).await,
        Command::Attempts(args) => attempts::run(global, args).await,
        Command::Dead(args) => dead::run(global, args).await,
        Command::Bulk(args) => bulk::run(global, args).await,
        Command::Erase(args) => bulk::erase(global, args).await,
        Command::Deploy(args) => deploy::deploy(global, args).await,
        Command::Rollback(args) => deploy::rollback(global, args).await,
        Command::Promote(args) => deploy::promote(global, args).await,
        Command::Pause(args) => pause::pause(global, args).await,
        Command::Resume(args) => pause::resume(global, args).await,
        Command::Schedule(args) => schedule::run(global, args).await,
        Command::Bill(args) => bill::run(global, args).await,
        Command::State(args) => state::run(global, args).await,
        Command::Unique(args) => unique::run(global, args).await,
        Command::Fsck(args) => fsck::run(global, args).await,
        Command::Store(args) => copy::run(global, args).await,
        Command::Tenant(args) => tenant::run(global, args).await,
        Command::Token(args) => token::run(global, args).await,
        Command::Invoke(args) => invoke::run(global, args).await,
        Command::Replay(args) => replay::run(global, args).await,
        Command::Health(args) => health::run(global, args).await,
        Command::Verify(args) => verify::run(global, args),
        Command::Version(args) => version::run(global, args),
        Command::Completions(args) => manual::completions(&args),
        Command::Complete(args) => complete::run(args).await,
        Command::Man(args) => manual::man(&args),
    }
}

impl Command {
    /// Whether it reads the manifest and the handlers folder, or opens stores itself, so that no server can answer it.
    fn is_of_this_machine(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::New(_)
                | Self::Update(_)
                | Self::Build(_)
                | Self::Dev(_)
                | Self::Check(_)
                | Self::Fsck(_)
                | Self::Store(_)
                | Self::Invoke(_)
        )
    }

    /// What is logged unless the options say otherwise: a command that ends on its own has its output to speak for it.
    fn usual_log(&self) -> &'static str {
        if self.is_server() { "info" } else { "warn" }
    }

    /// Whether it is a server, for whose clients the actors are known.
    fn is_server(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Dev(_))
    }
}

/// Prints why the command failed, once, on standard error.
fn complain(global: &Global, error: &anyhow::Error) {
    let exit = Exit::of(error);
    if exit == Exit::Done {
        return;
    }
    if global.json {
        screen::note_document(&json!({ "error": { "code": exit.name(), "message": in_words(error) } }));
        return;
    }
    if global.log_format == LogFormat::Json {
        screen::note_document(&logging::error_line(&in_words(error)));
        return;
    }
    match error.downcast_ref::<ManifestError>() {
        Some(invalid @ ManifestError::Invalid { .. }) => screen::note_rendered(|colour| invalid.render(colour)),
        _ => screen::note(&format!("error: {}", in_words(error))),
    }
}

/// The chain of causes, without those that only repeat what stands above them.
fn in_words(error: &anyhow::Error) -> String {
    let (mut words, mut by) = (String::new(), String::new());
    for cause in error.chain() {
        let cause = match cause.downcast_ref() {
            // Where it is says less than why, and may be long.
            Some(StoreError::Refused { store, doing, .. }) => {
                by = format!("; refused by {}", store_in_words(store));
                format!("failed to {doing}")
            }
            _ => cause.to_string(),
        };
        if words.ends_with(&cause) {
            continue;
        }
        if !words.is_empty() {
            words.push_str(": ");
        }
        words.push_str(&cause);
    }
    words + &by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_of_commands_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_cause_that_repeats_what_stands_above_it_is_left_out() {
        let error = anyhow::anyhow!("refused").context("unavailable: refused").context("failed to push");
        assert_eq!(in_words(&error), "failed to push: unavailable: refused");
    }

    #[test]
    fn a_server_is_not_called_a_store() {
        for (at, what) in [("https://here:443", "server"), ("redis://here", "store")] {
            let (store, source) = (at.to_owned(), || anyhow::anyhow!("no"));
            let away = StoreError::Unavailable { store: store.clone(), source: source() };
            assert_eq!(in_words(&away.into()), format!("the {what} at {at} is unavailable: no"));
            let refused = StoreError::Refused { store, doing: "list topics", source: source() };
            assert_eq!(in_words(&refused.into()), format!("failed to list topics: no; refused by the {what} at {at}"));
        }
    }

    #[test]
    fn one_topic_is_asked_for_in_the_singular_too() {
        for words in [["topic", "why", "mail"], ["topic", "purge", "mail"]] {
            assert!(Cli::try_parse_from(["gristmill"].into_iter().chain(words)).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has none", command.get_name());
        }
    }
}
