//! `gristmill topics purge`: removes the jobs of a topic, and the topic with them.

use serde_json::json;

use super::exit::{Exit, Usage};
use super::global::{Global, TopicName};
use super::{folder, screen, stats};
use gristmill_config::units::counted;
use gristmill_core::job::Name;
use gristmill_store::{Produce, StoreError, TopicCounts, purge};

/// Jobs that one step of a purge removes.
const STEP: usize = 10_000;

/// What a purge leaves.
const STAYS: &str = "its totals and its pause are forgotten, and it is listed again with its next job; what stays until its time is over: results that are \
    kept, states of keys (`gristmill state`)";

/// Remove the waiting and dead jobs of a topic, and forget the topic
///
/// Without --yes it only says what would go, and ends with exit code 1. Waiting jobs are cancelled, and unique values that are held for a time are free again. A topic with running jobs is refused. A topic of
/// the manifest or of the handlers folder stays a topic: its totals begin anew, and it is no longer paused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill topics purge resize-imgae
  gristmill topics purge --unknown --yes")]
pub(super) struct Args {
    /// The topic, or tenant/topic
    #[arg(required_unless_present = "unknown", conflicts_with = "unknown")]
    topic: Option<TopicName>,
    /// The topic's tenant, unless it is written before the topic [default: default]
    #[arg(long, value_name = "NAME", conflicts_with = "unknown")]
    tenant: Option<Name>,
    /// Every topic that has no section in the manifest, no handler and no pull worker, in the tenants of the manifest
    #[arg(long)]
    unknown: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    if args.unknown && !global.has_manifest() {
        return Err(Usage("--unknown needs a manifest, which says which topics are known".into()).into());
    }
    let reached = global.reach(&manifest).await?;
    let store = &reached.store;
    let (topics, others) = match &args.topic {
        Some(topic) => {
            let topic = &topic.of(args.tenant.as_ref())?;
            let counts = store.counts(&topic.tenant).await?.into_iter().filter(|counts| counts.topic == *topic);
            let counts: Vec<_> = counts.collect();
            anyhow::ensure!(!counts.is_empty(), "the store holds nothing of a topic `{topic}`");
            (counts, Vec::new())
        }
        None => {
            let known_topics = folder::known_topics(&manifest);
            let tenants = stats::tenants_of(global, &manifest, &reached).await?;
            let counts = stats::counts(&**store, &tenants).await?;
            let is_unknown = |counts: &TopicCounts| known_topics.unknown(&counts.topic).is_some();
            let is_ours = |counts: &TopicCounts| known_topics.is_known_tenant(&counts.topic.tenant);
            counts.into_iter().filter(is_unknown).partition(is_ours)
        }
    };
    let mut exit = Exit::Done;
    for counts in &topics {
        let outcome = Outcome::of(&**store, counts, args.yes).await?;
        outcome.show(global, counts)?;
        if !matches!(outcome, Outcome::Purged { .. }) {
            exit = Exit::Failed;
        }
    }
    if !global.json {
        note_others(&others);
    }
    if !global.json && topics.is_empty() {
        screen::note("there are no unknown topics of tenants that the manifest names");
    } else if !global.json && !args.yes {
        screen::note("nothing was removed: add --yes to do it");
    }
    Ok(exit)
}

/// Names the topics of tenants that the manifest does not name. A server with another manifest may have them.
fn note_others(others: &[TopicCounts]) {
    if let [first, ..] = others {
        let names: Vec<_> = others.iter().map(|counts| counts.topic.to_string()).collect();
        screen::note(&format!(
            "the manifest does not name the tenants of {}: these topics are left alone; `gristmill topics purge {}` removes one",
            names.join(", "),
            first.topic
        ));
    }
}

/// What became of one topic.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// The topic would be purged.
    DryRun,
    /// The topic has running jobs, and nothing was removed.
    Running,
    Purged {
        removed: u64,
    },
    /// This many jobs were removed, and others came meanwhile.
    HasJobs {
        removed: u64,
    },
}

impl Outcome {
    async fn of(store: &dyn Produce, counts: &TopicCounts, yes: bool) -> Result<Self, StoreError> {
        if counts.running > 0 {
            return Ok(Self::Running);
        }
        if !yes {
            return Ok(Self::DryRun);
        }
        let mut removed = 0;
        loop {
            let step = purge(store, &counts.topic, STEP).await?;
            removed += step.waiting + step.dead;
            if step.forgotten {
                return Ok(Self::Purged { removed });
            }
            if step.waiting + step.dead == 0 {
                return Ok(Self::HasJobs { removed });
            }
        }
    }

    fn show(self, global: &Global, counts: &TopicCounts) -> anyhow::Result<()> {
        let TopicCounts { topic, ready, delayed, running, dead, .. } = counts;
        let (status, removed) = match self {
            Self::DryRun => ("dry-run", 0),
            Self::Running => ("running", 0),
            Self::Purged { removed } => ("purged", removed),
            Self::HasJobs { removed } => ("has-jobs", removed),
        };
        if global.json {
            return screen::document(&json!({
                "tenant": topic.tenant.as_str(), "topic": topic.topic.as_str(), "status": status,
                "ready": ready, "delayed": delayed, "running": running, "dead": dead, "removed": removed,
            }));
        }
        match self {
            Self::DryRun => {
                let word = if (*ready, *delayed, *dead) == (0, 0, 1) { "job" } else { "jobs" };
                let jobs = format!("{ready} ready, {delayed} delayed and {dead} dead {word}");
                screen::line(&format!("would remove {jobs} of `{topic}`, and the topic"))
            }
            Self::Running => {
                let jobs = counted(*running, "running job", "running jobs");
                screen::note(&format!(
                    "`{topic}` has {jobs}: pause the topic and wait for the end, or cancel what runs"
                ));
                Ok(())
            }
            Self::Purged { .. } => {
                let jobs = counted(removed, "job", "jobs");
                screen::line(&format!("removed {jobs} of `{topic}`, and the topic"))?;
                screen::note(STAYS);
                Ok(())
            }
            Self::HasJobs { .. } => {
                let jobs = counted(removed, "job", "jobs");
                screen::note(&format!(
                    "removed {jobs} of `{topic}`, but it has got or begun others: pause the topic and repeat"
                ));
                Ok(())
            }
        }
    }
}
