//! `gristmill bench components`: what components cost by themselves.

use std::path::PathBuf;

use anyhow::Context;

use super::super::exit::Exit;
use super::super::global::Global;
use super::super::input::Body;
use super::super::table::Table;
use super::super::{folder, sandbox, screen};
use gristmill_bench::{self as bench, ComponentFigure, ComponentRun, Progress};
use gristmill_config::units;
use gristmill_core::job::TopicId;

/// Measure components by themselves: compiling, starting, calling, fuel and memory
///
/// Each is compiled anew, and started again and again; every instance does the same job eleven times. FIRST CALL is what
/// a job costs in a fresh instance, on top of START; KEPT CALL is what it costs in one that is kept (`reuse` of a topic).
/// Limits and grants are those of the topic with the file's name, or of --topic.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill bench components handlers/*.wasm --data hello
  gristmill bench components mine.wasm --topic signup --file signup.json --json")]
pub(super) struct Args {
    /// The components' files
    #[arg(required = true, value_name = "FILE")]
    components: Vec<PathBuf>,
    #[command(flatten)]
    body: Body,
    /// The topic whose limits and grants hold [default: the file's name]
    #[arg(long)]
    topic: Option<TopicId>,
    /// Instances of each component [default: two seconds' worth, at least 11]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest()?;
    let sandbox = sandbox::settings(&manifest, 1)?;
    let watched = !global.json && screen::is_watched();
    let progress = if watched { Progress::shown() } else { Progress::hidden() };
    let body = args.body.read()?;
    let mut figures = Vec::with_capacity(args.components.len());
    let mut measured = Ok(());
    for component in args.components {
        let topic = folder::topic_of(&manifest, args.topic.as_ref(), &component)?;
        let rounds = args.rounds.map(|rounds| rounds as usize);
        let run = ComponentRun { component, topic, body: body.clone(), rounds, progress: progress.clone() };
        match bench::component(&run, &sandbox).await {
            Ok(figure) if global.json => screen::document(&serde_json::to_value(&figure)?)?,
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
        table(&figures).print()?;
    }
    measured?;
    Ok(Exit::Done)
}

fn table(figures: &[ComponentFigure]) -> Table {
    let mut table = Table::new(&COLUMNS.map(|(title, _)| title));
    for figure in figures {
        table.row(COLUMNS.iter().map(|(_, show)| show(figure)));
    }
    table
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
