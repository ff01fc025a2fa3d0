//! `gristmill unique`: who holds a unique value, and setting one free.

use clap::Subcommand;
use serde_json::json;

use super::exit::Exit;
use super::global::{Global, TopicArg};
use super::{describe, screen};
use gristmill_core::time::Timestamp;
use gristmill_server::idempotency_value;

/// Say which job holds a unique value, or free one that is held for a time
///
/// Also of a topic that was forgotten: one that nothing was heard of for long; a purge frees its values.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill unique show mail customer-7
  gristmill unique free acme/mail customer-7
  gristmill unique free mail --idempotency-key order-17")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which job holds a value, and until when
    Show(Which),
    /// Free a value whose time is not over, so that the next push of it is stored
    Free(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    #[command(flatten)]
    topic: TopicArg,
    /// The unique value
    #[arg(required_unless_present = "idempotency_key")]
    value: Option<String>,
    /// In place of a value: the `Idempotency-Key` of a request. It stands for the first job of that request
    #[arg(long, value_name = "KEY", conflicts_with = "value")]
    idempotency_key: Option<String>,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let store = global.store_alone().await?;
    let (Command::Show(which) | Command::Free(which)) = &args.command;
    let topic = &which.topic.id()?;
    let value = match (&which.value, &which.idempotency_key) {
        (Some(value), _) => value.clone(),
        (None, key) => idempotency_value(topic, key.as_deref().unwrap_or_default()),
    };
    let held = store.unique_hold(topic, &value).await?;
    let is_freed = match &args.command {
        Command::Free(_) => store.free_unique(topic, &value).await?,
        Command::Show(_) => false,
    };
    let what = format!("`{}` in `{topic}`", screen::clean(&value));
    if global.json {
        let (holder, until) =
            (held.as_ref().map(|held| held.holder.as_str()), held.as_ref().and_then(|held| held.until));
        screen::document(&json!({
            "tenant": topic.tenant.as_str(), "topic": topic.topic.as_str(), "value": value, "holder": holder,
            "until_ms": until.map(Timestamp::as_millis), "freed": is_freed,
        }))?;
    } else {
        match &held {
            None => screen::note(&format!("no job holds {what}")),
            Some(held) if is_freed => screen::line(&format!("freed {what}, which job {} held", held.holder))?,
            Some(held) => {
                let until = match held.until {
                    Some(until) => format!("it is free again {}", describe::distance(until, Timestamp::now())),
                    None => format!("it is free once the job is done: `gristmill job cancel {}`", held.holder),
                };
                let text = format!("job {} holds {what}; {until}", held.holder);
                match args.command {
                    Command::Show(_) => screen::line(&text)?,
                    Command::Free(_) => screen::note(&text),
                }
            }
        }
    }
    let is_done = match args.command {
        Command::Show(_) => held.is_some(),
        Command::Free(_) => is_freed,
    };
    Ok(if is_done { Exit::Done } else { Exit::Failed })
}
