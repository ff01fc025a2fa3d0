//! `gristmill state`: what the jobs of a key leave for each other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use serde_json::json;

use super::exit::Exit;
use super::global::{Global, TopicArg};
use super::screen;
use gristmill_store::StateDeleted;

/// Show or delete the state of a key, which its jobs leave for each other
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill state show cart customer-7
  gristmill state delete acme/cart customer-7
  gristmill state delete cart customer-7 --version 1795651200123")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the state of a key to standard output, as it is, and its version to standard error
    Show(Which),
    /// Delete the state of a key; a job of the key that is running may set it again
    Delete {
        #[command(flatten)]
        which: Which,
        /// Only if the state still has this version, as `show` says it
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
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
    let (Command::Show(which) | Command::Delete { which, .. }) = &args.command;
    let Which { topic, key } = which;
    let topic = &topic.id()?;
    let (tenant, name) = (topic.tenant.as_str(), topic.topic.as_str());
    let none = format!("there is no state of the key `{}` in `{topic}`", screen::clean(key));
    if let Command::Delete { version, .. } = args.command {
        let done = store.delete_state(topic, key, version).await?;
        let deleted = done == StateDeleted::Deleted;
        let of_key = format!("the state of the key `{}` in `{topic}`", screen::clean(key));
        let is_other = done == StateDeleted::OtherVersion;
        let document =
            json!({ "tenant": tenant, "topic": name, "key": key, "deleted": deleted, "other_version": is_other });
        let words = match done {
            StateDeleted::Deleted => format!("deleted {of_key}"),
            StateDeleted::Missing => none,
            StateDeleted::OtherVersion => format!(
                "{of_key} has another version than {}, so it was not deleted: `gristmill state show` says which",
                version.unwrap_or_default()
            ),
        };
        global.say(&document, deleted, &words)?;
        return Ok(if deleted { Exit::Done } else { Exit::Failed });
    }
    let state = store.state(topic, key).await?;
    if global.json {
        let encoded = state.as_ref().map(|state| STANDARD.encode(&state.value));
        let version = state.as_ref().map(|state| state.version);
        screen::document(
            &json!({ "tenant": tenant, "topic": name, "key": key, "state": encoded, "version": version }),
        )?;
    } else if let Some(state) = &state {
        screen::result(&state.value)?;
        if !global.quiet {
            screen::note(&format!("version {}", state.version));
        }
    } else {
        screen::note(&none);
    }
    Ok(if state.is_some() { Exit::Done } else { Exit::Failed })
}
