//! Figures on the screen: a line of JSON each as they come, or a table at the end; and charts in a file.

use std::path::Path;

use super::print;
use super::svg::SvgFile;
use crate::{Figure, Spread};

/// What was measured so far.
#[derive(Debug)]
pub(super) struct Figures {
    json: bool,
    svg: Option<SvgFile>,
    all: Vec<Figure>,
}

impl Figures {
    /// # Errors
    /// The file for the charts cannot be written.
    pub(super) fn new(json: bool, svg: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self { json, svg: svg.map(SvgFile::open).transpose()?, all: Vec::new() })
    }

    /// Takes a figure in, and hands it back to be compared with.
    pub(super) fn add(&mut self, figure: Figure) -> anyhow::Result<Figure> {
        if self.json {
            print::document(&figure)?;
        }
        self.all.push(figure.clone());
        Ok(figure)
    }

    pub(super) fn print(&self) -> anyhow::Result<()> {
        if !self.json {
            print_table(&self.all)?;
        }
        self.svg.as_ref().map_or(Ok(()), |svg| svg.write(&self.all))
    }
}

/// Columns that no figure has anything for are left out.
fn print_table(figures: &[Figure]) -> anyhow::Result<()> {
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|(title, show)| *title == "SCENARIO" || figures.iter().any(|figure| !show(figure).is_empty()))
        .collect();
    let titles: Vec<_> = columns.iter().map(|(title, _)| *title).collect();
    let rows: Vec<_> = figures.iter().map(|figure| columns.iter().map(|(_, show)| show(figure)).collect()).collect();
    print::table(&titles, &rows)
}

type Column = (&'static str, fn(&Figure) -> String);

const COLUMNS: [Column; 16] = [
    ("SCENARIO", |figure| figure.scenario.to_owned()),
    ("CASE", |figure| figure.case.clone()),
    ("STORE", |figure| figure.store.clone()),
    (">N", |figure| figure.jobs.to_string()),
    (">JOBS/S", |figure| figure.jobs_per_second.map(|rate| format!("{rate:.0}")).unwrap_or_default()),
    (">RUNNER CPU/JOB", |figure| micros(figure.runner_cpu_us_per_job)),
    (">STORE CPU/JOB", |figure| micros(figure.store_cpu_us_per_job)),
    (">COMMANDS/JOB", |figure| one_decimal(figure.store_commands_per_job)),
    (">COMMANDS/S", |figure| one_decimal(figure.store_commands_per_second)),
    (">P50", |figure| millis(figure, |delay| delay.p50_us)),
    (">P99", |figure| millis(figure, |delay| delay.p99_us)),
    (">MAX", |figure| millis(figure, |delay| delay.max_us)),
    (">BYTES", |figure| figure.memory_bytes.map(|bytes| bytes.to_string()).unwrap_or_default()),
    (">FILES", |figure| figure.open_files.map(|files| files.to_string()).unwrap_or_default()),
    (">MAPPINGS", |figure| figure.mappings.map(|mappings| mappings.to_string()).unwrap_or_default()),
    ("RATIO", |figure| {
        figure.ratio.as_ref().map(|ratio| format!("{:.2} of {}", ratio.value, ratio.of)).unwrap_or_default()
    }),
];

fn one_decimal(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.1}")).unwrap_or_default()
}

fn micros(value: Option<f64>) -> String {
    value.map(|us| format!("{us:.1} µs")).unwrap_or_default()
}

fn millis(figure: &Figure, of: fn(&Spread) -> u64) -> String {
    figure.delay.as_ref().map(|delay| format!("{:.2} ms", of(delay) as f64 / 1000.0)).unwrap_or_default()
}
