//! `gristmill-bench components`: what components cost by themselves.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{print, progress};
use crate::{self as bench, ComponentFigure, ComponentRun};
use gristmill_config::{Manifest, units};
use gristmill_core::job::{Payload, TopicId};
use gristmill_core::topic::Topic;
use gristmill_sandbox::SandboxSettings;

/// Measure components by themselves: compiling, starting, calling, fuel and memory
///
/// Each is compiled anew, and started again and again; every instance does the same job eleven times. FIRST CALL is what
/// a job costs in a fresh instance, on top of START; KEPT CALL is what it costs in one that is kept (`reuse` of a topic).
/// Limits and grants are those of the topic with the file's name, or of --topic.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill-bench components handlers/*.wasm --data hello
  gristmill-bench components mine.wasm --topic signup --file signup.json --json")]
pub(super) struct Args {
    /// The components' files
    #[arg(required = true, value_name = "FILE")]
    components: Vec<PathBuf>,
    /// The job's body
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    data: Option<String>,
    /// A file with the job's body
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// The manifest with the topics [default: ./gristmill.toml, if there is one]
    #[arg(long, short, value_name = "PATH")]
    manifest: Option<PathBuf>,
    /// The topic whose limits and grants hold [default: the file's name]
    #[arg(long)]
    topic: Option<TopicId>,
    /// Instances of each component [default: two seconds' worth, at least 11]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
}

impl Args {
    fn body(&self) -> anyhow::Result<Payload> {
        let data = match (&self.data, &self.file) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(path)) => std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?,
            (None, None) => Vec::new(),
        };
        Ok(Payload { data, content_type: None })
    }

    fn manifest(&self) -> anyhow::Result<Manifest> {
        let usual = Path::new("gristmill.toml");
        let path = self.manifest.as_deref().or_else(|| usual.exists().then_some(usual));
        Ok(path.map_or_else(|| Ok(Manifest::default_at(Path::new(""))), Manifest::load)?)
    }

    fn topic(&self, manifest: &Manifest, component: &Path) -> anyhow::Result<Topic> {
        let stem = component.file_stem().unwrap_or_default().to_string_lossy();
        let id = match &self.topic {
            Some(id) => id.clone(),
            None => stem.parse().with_context(|| format!("{stem} names no topic; name one with --topic"))?,
        };
        Ok(manifest
            .topics
            .get(&id)
            .cloned()
            .unwrap_or_else(|| Topic { id: id.clone(), ..manifest.auto_topic(&id.topic) }))
    }
}

pub(super) async fn run(args: Args, sandbox: &SandboxSettings, json: bool) -> anyhow::Result<()> {
    let (manifest, body, progress) = (args.manifest()?, args.body()?, progress(json));
    let mut figures = Vec::with_capacity(args.components.len());
    let mut measured = Ok(());
    for component in &args.components {
        let topic = args.topic(&manifest, component)?;
        let rounds = args.rounds.map(|rounds| rounds as usize);
        let (component, body) = (component.clone(), body.clone());
        let run = ComponentRun { component, topic, body, rounds, progress: progress.clone() };
        match bench::component(&run, sandbox).await {
            Ok(figure) if json => print::document(&figure)?,
            Ok(figure) => figures.push(figure),
            Err(error) => {
                measured = Err(error).with_context(|| format!("failed to measure {}", run.component.display()));
                break;
            }
        }
    }
    progress.clear();
    // What was measured before is shown all the same.
    if !figures.is_empty() {
        let rows: Vec<_> =
            figures.iter().map(|figure| COLUMNS.iter().map(|(_, show)| show(figure)).collect()).collect();
        print::table(&COLUMNS.map(|(title, _)| title), &rows)?;
    }
    measured
}

type Column = (&'static str, fn(&ComponentFigure) -> String);

const COLUMNS: [Column; 14] = [
    ("FILE", |figure| figure.component.display().to_string()),
    ("LANGUAGE", |figure| figure.language.clone().unwrap_or_else(|| "-".into())),
    (">SIZE", |figure| units::SIZE.about(figure.bytes)),
    (">COMPILE", |figure| time(figure.compile_ms * 1000.0)),
    (">ARTIFACT", |figure| units::SIZE.about(figure.artifact_bytes)),
    (">LOAD", |figure| time(figure.load_ms * 1000.0)),
    (">START", |figure| time(figure.start_us)),
    (">FIRST CALL", |figure| time(figure.first_call_us)),
    (">KEPT CALL", |figure| time(figure.kept_call_us)),
    (">START FUEL", |figure| units::COUNT.about(figure.start_fuel)),
    (">JOB FUEL", |figure| units::COUNT.about(figure.job_fuel)),
    (">MEMORY", |figure| units::SIZE.about(figure.start_memory_bytes)),
    (">AFTER JOBS", |figure| units::SIZE.about(figure.memory_bytes)),
    ("OUTCOME", |figure| figure.outcome.to_owned()),
];

/// Three digits or so.
fn time(micros: f64) -> String {
    match micros {
        us if us < 1_000.0 => format!("{us:.1} µs"),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1_000.0),
        us => format!("{:.1} s", us / 1_000_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!([8.44, 12_345.0, 13_260_000.0].map(time), ["8.4 µs", "12.3 ms", "13.3 s"]);
    }
}
