//! `gristmill state`: what the jobs of a key leave for each other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use serde_json::json;

use super::exit::Exit;
use super::global::{Global, TopicArg};
use super::screen;

/// Show or delete the state of a key, which its jobs leave for each other
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill state show cart customer-7
  gristmill state delete acme/cart customer-7")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the state of a key to standard output, as it is
    Show(Which),
    /// Delete the state of a key; a job of the key that is running may set it again
    Delete(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    #[command(flatten)]
    topic: TopicArg,
    /// The key of the jobs
    key: String,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let store = global.store_alone().await?;
    let (Command::Show(Which { topic, key }) | Command::Delete(Which { topic, key })) = &args.command;
    let topic = &topic.id()?;
    let (tenant, name) = (topic.tenant.as_str(), topic.topic.as_str());
    let none = || screen::note(&format!("there is no state of the key `{}` in `{topic}`", screen::clean(key)));
    if let Command::Delete(_) = args.command {
        let deleted = store.delete_state(topic, key).await?;
        if global.json {
            screen::document(&json!({ "tenant": tenant, "topic": name, "key": key, "deleted": deleted }))?;
        } else if deleted {
            screen::line(&format!("deleted the state of the key `{}` in `{topic}`", screen::clean(key)))?;
        } else {
            none();
        }
        return Ok(if deleted { Exit::Done } else { Exit::Failed });
    }
    let state = store.state(topic, key).await?;
    if global.json {
        let encoded = state.as_ref().map(|state| STANDARD.encode(state));
        screen::document(&json!({ "tenant": tenant, "topic": name, "key": key, "state": encoded }))?;
    } else if let Some(state) = &state {
        screen::result(state)?;
    } else {
        none();
    }
    Ok(if state.is_some() { Exit::Done } else { Exit::Failed })
}
