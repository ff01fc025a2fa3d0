//! `gristmill deploy`, `rollback` and `promote`: which versions of its handler do a topic's jobs.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use serde_json::json;

use super::exit::{Exit, NoServer};
use super::global::{Global, TopicArg};
use super::table::facts;
use super::{replay, sandbox, screen};
use gristmill_config::Manifest;
use gristmill_core::deployment::{self, WHOLE};
use gristmill_core::job::TopicId;
use gristmill_sandbox::Component;
use gristmill_server::{HandlerSeen, RemoteStore};

/// Bring a new version of a topic's handler, with a look at what it changes
///
/// Shows which imports come and go, loads the component and runs its self-test here, and runs recorded jobs again with it. Once confirmed, the
/// server puts it into the handlers folder, and it does a share of the topic's jobs: the same jobs, and all of a key, on all runners. After a hundred attempts that are no
/// worse than those of the version before it does all of them; if it traps, fails, or costs more than before, it is rolled back by itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
`gristmill dev` and a plain copy into the handlers folder serve all jobs at once.

Examples:
  gristmill deploy resize-image build/resize-image.wasm
  gristmill deploy resize-image build/resize-image.wasm --share 20% --yes
  gristmill deploy resize-image build/resize-image.wasm --share 100%")]
pub(super) struct DeployArgs {
    #[command(flatten)]
    topic: TopicArg,
    /// The component
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The share of the jobs that it does at first; 100% for all of them at once
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    share: u16,
    /// Run at most this many of the topic's latest recorded jobs again, failed and completed ones
    #[arg(long, value_name = "N", default_value_t = 20)]
    replay: usize,
    /// Do it without being asked
    #[arg(long)]
    yes: bool,
}

fn share(text: &str) -> Result<u16, String> {
    deployment::share(text).map_err(|error| error.to_string())
}

/// Go back to an earlier version of a topic's handler, on all runners
///
/// The next job runs the version that served before; a running attempt ends on the version that it began with. The file in the handlers folder stays,
/// and does no job of this topic until another one takes its place. Jobs that the version parked run again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The last five versions that served are kept beside the cache of compiled
components, on each machine.

Examples:
  gristmill rollback resize-image
  gristmill rollback resize-image --to 3f9a01")]
pub(super) struct RollbackArgs {
    #[command(flatten)]
    topic: TopicArg,
    /// To this version: the first digits of its SHA-256, at least 4 [default: the one before]
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
}

/// Let the version of a topic's handler that is being tried on a share of its jobs do all of them
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  gristmill promote resize-image")]
pub(super) struct PromoteArgs {
    #[command(flatten)]
    topic: TopicArg,
}

pub(super) async fn rollback(global: &Global, args: RollbackArgs) -> anyhow::Result<Exit> {
    let topic = args.topic.id()?;
    let version = server(global).await?.roll_back(&topic, args.to.as_deref()).await?;
    say(global, &topic, &version)
}

pub(super) async fn promote(global: &Global, args: PromoteArgs) -> anyhow::Result<Exit> {
    let topic = args.topic.id()?;
    let version = server(global).await?.promote(&topic).await?;
    say(global, &topic, &version)
}

pub(super) async fn deploy(global: &Global, args: DeployArgs) -> anyhow::Result<Exit> {
    let DeployArgs { topic, file, share, replay, yes } = args;
    let (topic, manifest) = (topic.id()?, global.manifest_here()?);
    let component = replay::load(&sandbox::small(&manifest, sandbox::compiler(&manifest)?)?, &file).await?;
    component.try_out().await.map_err(|reason| anyhow!("{} fails its self-test: {reason}", file.display()))?;
    let server = server(global).await?;
    let seen = server.handler_versions(&topic).await?;
    if seen.is_none() {
        screen::note(&format!("note: the server knows no topic `{topic}` yet: this makes it"));
    }
    let now = Now::of(&component, seen.as_ref());
    let share = now.share_of(share);
    let mut about = changes(&topic, &component, &now, share);
    let others = sharing(global, &manifest, &topic);
    if !others.is_empty() {
        let each = "each topic is promoted or rolled back by itself";
        about.push(("also for", format!("{}: the handler is the same; {each}", others.join(", "))));
    }
    if replay > 0 {
        about.push(("replayed", replayed(global, &manifest, &topic, &component, replay).await?));
    }
    if !global.json {
        screen::note(&facts(&about));
    }
    if !(yes || screen::confirmed("y", "deploy it")?) {
        screen::note("nothing was changed: add --yes to do it without being asked");
        return Ok(Exit::Failed);
    }
    let wasm = std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
    let version = server.deploy(&topic, wasm, &deployment::show_share(share)).await?;
    if share == WHOLE || global.json {
        return say(global, &topic, &version);
    }
    let share = deployment::show_share(share);
    screen::line(&format!(
        "version {version} does {share} of `{topic}` until it has shown itself no worse, or is rolled back"
    ))?;
    Ok(Exit::Done)
}

/// What a new version finds.
#[derive(Debug)]
struct Now<'a> {
    /// The new version.
    version: String,
    /// The version that does the jobs, or all but a share of them.
    served: Option<&'a str>,
    /// The version that is being tried, and on which share.
    tried: Option<(String, u16)>,
    /// What the one that serves imports.
    imports: &'a [String],
}

impl<'a> Now<'a> {
    fn of(component: &Component, seen: Option<&'a HandlerSeen>) -> Self {
        let served = seen.and_then(|seen| seen.served.as_deref());
        let tried = seen.and_then(|seen| seen.deployment.as_ref()?.candidate());
        let before = seen.iter().flat_map(|seen| &seen.versions).find(|seen| Some(seen.version.as_str()) == served);
        Self {
            version: component.version().to_string(),
            served,
            tried: tried.map(|tried| (tried.version.to_string(), tried.share)),
            imports: before.map(|seen| seen.imports.as_slice()).unwrap_or_default(),
        }
    }

    fn serves(&self) -> bool {
        self.served == Some(self.version.as_str())
    }

    /// The share that the new version does if this is asked for: what serves already, and what there is nothing to compare with, does all jobs.
    fn share_of(&self, asked: u16) -> u16 {
        if self.serves() || self.served.is_none() { WHOLE } else { asked }
    }

    /// The new version, and what becomes of the others.
    fn about(&self) -> String {
        let Self { version, served, tried, .. } = self;
        let of_jobs = |share: u16| format!("{} of the jobs", deployment::show_share(share));
        match (served, tried) {
            (_, None) if self.serves() => format!("{version}, which serves already"),
            (_, Some((other, share))) if self.serves() => {
                format!("{version}, which serves already\nends the trial of {other} on {}", of_jobs(*share))
            }
            (Some(served), Some((tried, share))) if tried == version => {
                format!("{version}, which is tried on {} already, in place of {served}", of_jobs(*share))
            }
            (Some(served), Some((other, share))) => {
                format!("{version}, in place of {served}\nends the trial of {other} on {}", of_jobs(*share))
            }
            (served, _) => format!("{version}, in place of {}", served.unwrap_or("none")),
        }
    }
}

/// What differs from the version that serves.
fn changes(topic: &TopicId, component: &Component, now: &Now<'_>, share: u16) -> Vec<(&'static str, String)> {
    let imports = |of: &[String], without: &[String], sign: char| -> Vec<String> {
        of.iter().filter(|import| !without.contains(import)).map(|import| format!("{sign} {import}")).collect()
    };
    let differ =
        [imports(component.imports(), now.imports, '+'), imports(now.imports, component.imports(), '-')].concat();
    let needs: Vec<_> = component.demands().grants.iter().map(|needed| needed.name()).collect();
    vec![
        ("topic", topic.to_string()),
        ("version", now.about()),
        ("imports", if differ.is_empty() { "the same".into() } else { differ.join("\n") }),
        ("needs", if needs.is_empty() { "none".into() } else { needs.join(", ") }),
        ("share", deployment::show_share(share)),
    ]
}

/// The other topics that have the handler of this one, and so get the version, too; as far as the manifest of this machine says.
fn sharing(global: &Global, manifest: &Manifest, topic: &TopicId) -> Vec<String> {
    if global.names_server() {
        return Vec::new();
    }
    let handler = manifest.topics.get(topic).map_or(&topic.topic, |topic| &topic.handler);
    let served = manifest.topics_of(handler).into_iter().map(|served| served.id);
    served.filter(|served| served != topic).map(|served| format!("`{served}`")).collect()
}

async fn replayed(
    global: &Global,
    manifest: &Manifest,
    topic: &TopicId,
    component: &Component,
    most: usize,
) -> anyhow::Result<String> {
    let served = global.way(&global.manifest_without_secrets()?)?.served().await?;
    let judged = replay::judge_last(&served, component, manifest, topic, most).await;
    served.end().await;
    judged
}

async fn server(global: &Global) -> anyhow::Result<RemoteStore> {
    let problem = "a server knows the versions of handlers, and none is running here: name one with --server URL";
    global.way(&global.manifest_without_secrets()?)?.find_server().await?.ok_or_else(|| NoServer(problem).into())
}

fn say(global: &Global, topic: &TopicId, version: &str) -> anyhow::Result<Exit> {
    let document = json!({ "tenant": topic.tenant, "topic": topic.topic, "version": version });
    global.say(&document, true, &format!("`{topic}` is done by version {version}"))?;
    Ok(Exit::Done)
}
