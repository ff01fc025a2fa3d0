//! `gristmill pause` and `gristmill resume`: whether a topic's jobs are handed out.

use serde_json::json;

use super::exit::Exit;
use super::global::{Global, TopicArg};
use super::known;
use gristmill_core::job::TopicId;

/// Stop handing out a topic's jobs, in every runner
///
/// Pushes are still taken, due jobs become ready, and running jobs go on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  gristmill pause resize-image")]
pub(super) struct PauseArgs {
    #[command(flatten)]
    topic: TopicArg,
}

/// Hand out a paused topic's jobs again
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  gristmill resume resize-image")]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    topic: TopicArg,
}

pub(super) async fn pause(global: &Global, args: PauseArgs) -> anyhow::Result<Exit> {
    set(global, &args.topic.id()?, true).await
}

pub(super) async fn resume(global: &Global, args: ResumeArgs) -> anyhow::Result<Exit> {
    set(global, &args.topic.id()?, false).await
}

async fn set(global: &Global, topic: &TopicId, paused: bool) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    // Before it is paused: the store knows it from then on.
    known::note_unknown(global, topic).await?;
    let changed = global.store(&manifest).await?.set_paused(topic, paused).await?;
    let document = json!({ "tenant": topic.tenant, "topic": topic.topic, "paused": paused, "changed": changed });
    let (already, now) = (if changed { "" } else { " already" }, if paused { "paused" } else { "running" });
    global.say(&document, true, &format!("`{topic}` is{already} {now}"))?;
    Ok(Exit::Done)
}
