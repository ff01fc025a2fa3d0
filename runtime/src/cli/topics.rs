//! `gristmill topics`: every topic of the manifest, the handlers folder and the store.

use std::collections::{BTreeMap, BTreeSet};

use clap::Subcommand;
use serde_json::{Value, json};

use super::exit::Exit;
use super::global::Global;
use super::table::Table;
use super::{folder, purge, screen, stats, why};
use gristmill_config::{Manifest, units};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::millis;
use gristmill_core::topic::{Capability, Demands, Topic};
use gristmill_sandbox::Version;
use gristmill_store::TopicCounts;

/// Show every topic with its handler, limits and jobs, or purge one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A topic is here because the manifest has it, a component makes it, or the
store has held jobs of it; an unknown topic is only in the store. Without a
handler, its jobs wait. VERSION is that of the file in the handlers folder;
the runner's log says which one it uses.

Examples:
  gristmill topics
  gristmill topics why resize-image
  gristmill topics purge resize-image --yes")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Purge(purge::Args),
    /// Say why a topic begins no job
    Why {
        /// The topic, or tenant/topic
        topic: TopicId,
    },
}

impl Args {
    /// Whether it shows what is in the manifest and the handlers folder.
    pub(super) const fn is_of_this_machine(&self) -> bool {
        self.command.is_none()
    }
}

/// One topic, as the manifest, the folder and the store know it.
#[derive(Debug)]
struct Line {
    topic: Topic,
    /// `manifest`, `folder` or `store`.
    origin: &'static str,
    version: Option<Version>,
    /// What the component imports and the topic does not grant.
    lacking: Vec<Capability>,
    counts: Option<TopicCounts>,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Some(Command::Purge(args)) => purge::run(global, args).await,
        Some(Command::Why { topic }) => why::topic(global, topic).await,
        None => list(global).await,
    }
}

async fn list(global: &Global) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let versions = versions(&manifest)?;
    let counts = match global.store_if_any(&manifest).await? {
        Some(store) => stats::counts(&*store, &stats::tenants(&manifest)).await?,
        None => Vec::new(),
    };
    let lines = join(&manifest, &versions, counts);
    if global.json {
        lines.iter().try_for_each(|line| screen::document(&line.document()))?;
    } else if lines.is_empty() {
        screen::note(&format!(
            "there are no topics: put a component into {} or a section [topics.NAME] into {}",
            manifest.handlers.folder.display(),
            manifest.path.display()
        ));
    } else {
        table(&lines).print()?;
    }
    Ok(Exit::Done)
}

/// Of each component in the folder, its version and what it needs.
fn versions(manifest: &Manifest) -> anyhow::Result<BTreeMap<Name, (Version, Demands)>> {
    let mut versions = BTreeMap::new();
    for found in folder::scan(&manifest.handlers)? {
        match (&found.name, found.version(manifest.handlers.component_bytes)) {
            (Ok(name), Ok(version)) => _ = versions.insert(name.clone(), version),
            // `check` says more.
            (Err(problem), _) => screen::note(&format!("note: {}: {problem}", found.path.display())),
            (_, Err(problem)) => screen::note(&format!("note: {}: {problem:#}", found.path.display())),
        }
    }
    Ok(versions)
}

fn join(manifest: &Manifest, versions: &BTreeMap<Name, (Version, Demands)>, counts: Vec<TopicCounts>) -> Vec<Line> {
    let mut counts: BTreeMap<TopicId, TopicCounts> =
        counts.into_iter().map(|line| (line.topic.clone(), line)).collect();
    let auto = versions.keys().filter(|name| manifest.makes_topic(name)).map(|name| manifest.auto_topic(name).id);
    let auto: BTreeSet<TopicId> = auto.collect();
    let ids: BTreeSet<TopicId> = manifest.topics.keys().chain(&auto).chain(counts.keys()).cloned().collect();
    let line = |id: TopicId| {
        let (topic, origin) = match manifest.topics.get(&id) {
            Some(topic) => (topic.clone(), "manifest"),
            None if auto.contains(&id) => (manifest.auto_topic(&id.topic), "folder"),
            None => (Topic { id: id.clone(), ..manifest.auto_topic(&id.topic) }, "store"),
        };
        let found = versions.get(&topic.handler).filter(|_| origin != "store" && !topic.external);
        let lacking = found.map(|(_, demands)| topic.lacks(demands)).unwrap_or_default();
        Line { topic, origin, version: found.map(|(version, _)| *version), lacking, counts: counts.remove(&id) }
    };
    ids.into_iter().map(line).collect()
}

fn table(lines: &[Line]) -> Table {
    // As much as fits a terminal of 100 columns; `--json` has the rest.
    let titles =
        ["TOPIC", "HANDLER", "VERSION", ">READY", ">DELAYED", ">RUNNING", ">DEAD", ">TIMEOUT", ">FUEL", ">MEMORY"];
    let mut table = Table::new(&titles);
    for Line { topic, origin, version, lacking, counts } in lines {
        let count = |of: fn(&TopicCounts) -> u64| counts.as_ref().map_or(0, of).to_string();
        let known = *origin != "store";
        let setting = |text: String| if known { text } else { "-".into() };
        table.row([
            stats::name(&topic.id, counts.as_ref()) + if known { "" } else { " (unknown)" },
            setting(topic.handler.to_string()),
            match version {
                Some(version) => format!("{version}{}", lacks(lacking)),
                None if known && topic.external => "-".into(),
                None => "missing".into(),
            },
            count(|counts| counts.ready),
            count(|counts| counts.delayed),
            count(|counts| counts.running),
            count(|counts| counts.dead),
            setting(units::about_duration(topic.limits.timeout)),
            setting(units::COUNT.about(topic.limits.fuel)),
            setting(units::SIZE.about(topic.limits.memory_bytes)),
        ]);
    }
    table
}

/// Such as ` (lacks clock)`: the component does not run in the topic.
fn lacks(lacking: &[Capability]) -> String {
    let names: Vec<_> = lacking.iter().map(|lacking| lacking.name()).collect();
    if names.is_empty() { String::new() } else { format!(" (lacks {})", names.join(", ")) }
}

impl Line {
    fn document(&self) -> Value {
        let Self { topic, origin, version, lacking, counts } = self;
        let count = |of: fn(&TopicCounts) -> u64| counts.as_ref().map_or(0, of);
        let known = *origin != "store";
        json!({
            "tenant": topic.id.tenant.as_str(),
            "topic": topic.id.topic.as_str(),
            "origin": origin,
            "unknown": !known,
            "handler": known.then(|| topic.handler.as_str()),
            "external": known.then_some(topic.external),
            "version": version.map(|version| version.to_string()),
            "lacking": lacking.iter().map(|lacking| lacking.name()).collect::<Vec<_>>(),
            "ready": count(|counts| counts.ready),
            "delayed": count(|counts| counts.delayed),
            "running": count(|counts| counts.running),
            "dead": count(|counts| counts.dead),
            "paused": counts.as_ref().is_some_and(|counts| counts.paused),
            "limited": counts.as_ref().and_then(|counts| counts.limited),
            "concurrency": known.then_some(topic.concurrency),
            "timeout_ms": known.then(|| millis(topic.limits.timeout)),
            "fuel": known.then_some(topic.limits.fuel),
            "memory_bytes": known.then_some(topic.limits.memory_bytes),
            "attempts_max": known.then_some(topic.retry.attempts),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_topic_is_listed_once_whichever_sides_know_it() {
        let manifest = Manifest::parse("[topics.a]\nhandler = \"echo\"", Path::new("gristmill.toml")).unwrap();
        let versions = BTreeMap::from([("echo".parse().unwrap(), (Version([7; 32]), Demands::default()))]);
        let counts = |topic: &str| TopicCounts {
            topic: topic.parse().unwrap(),
            ready: 1,
            waiting_for_key: 0,
            delayed: 0,
            waiting: 0,
            running: 0,
            dead: 0,
            oldest_ready: None,
            paused: false,
            limited: None,
            totals: BTreeMap::new(),
        };
        let lines = join(&manifest, &versions, vec![counts("a"), counts("stray")]);
        let seen: Vec<_> =
            lines.iter().map(|line| (line.topic.id.to_string(), line.origin, line.version.is_some())).collect();
        let expected = [("a", "manifest", true), ("echo", "folder", true), ("stray", "store", false)];
        assert_eq!(seen, expected.map(|(id, origin, version)| (id.to_owned(), origin, version)));
    }
}
