//! Figures as bar charts in one SVG file, for light and dark pages.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::Figure;

/// A name with its unit, and what a figure has for it.
type Measure = (&'static str, fn(&Figure) -> Option<f64>);

const MEASURES: [Measure; 11] = [
    ("Jobs a second", |figure| figure.jobs_per_second),
    ("CPU of the runner a job, µs", |figure| figure.runner_cpu_us_per_job),
    ("CPU of the store a job, µs", |figure| figure.store_cpu_us_per_job),
    ("Commands to the store a job", |figure| figure.store_commands_per_job),
    ("Commands to the store a second", |figure| figure.store_commands_per_second),
    ("Delay, median, ms", |figure| figure.delay.map(|delay| delay.p50_us as f64 / 1e3)),
    ("Delay, 99th percentile, ms", |figure| figure.delay.map(|delay| delay.p99_us as f64 / 1e3)),
    ("Memory, bytes", |figure| figure.memory_bytes.map(|bytes| bytes as f64)),
    ("Open files", |figure| figure.open_files.map(|files| files as f64)),
    ("Mappings of memory", |figure| figure.mappings.map(|mappings| mappings as f64)),
    (RATIO, |figure| figure.ratio.as_ref().map(|ratio| ratio.value)),
];

/// The figure says of what.
const RATIO: &str = "Ratio";

const STYLE: &str = "
  svg { color-scheme: light dark; font: 13px system-ui, sans-serif; }
  .back { fill: #fcfcfa } text { fill: #1d2125 } .soft { fill: #596068 } .bar { fill: #0b57a4 } .axis { stroke: #deded8 }
  .title { font-weight: 600; font-size: 14px } .value { font-variant-numeric: tabular-nums }
  @media (prefers-color-scheme: dark) {
    .back { fill: #14171a } text { fill: #e6e9eb } .soft { fill: #9fa9b1 } .bar { fill: #5b9fea } .axis { stroke: #30363c }
  }
";

const MARGIN: f64 = 20.0;
const BARS: f64 = 320.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
/// Of a character, as far as that can be known.
const LETTER: f64 = 7.0;
const LETTERS_MAX: usize = 48;

/// Where the charts go. It keeps what is in it until they are drawn.
#[derive(Debug)]
pub(super) struct SvgFile {
    path: PathBuf,
    file: File,
}

impl SvgFile {
    /// # Errors
    /// It cannot be written to: better known before minutes of measuring.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("failed to write the charts to {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub(super) fn write(&self, figures: &[Figure]) -> anyhow::Result<()> {
        // What is no file, such as a pipe, has no length.
        let is_file = self.file.metadata().is_ok_and(|file| file.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| (&self.file).write_all(document(figures).as_bytes()));
        written.with_context(|| format!("failed to write the charts to {}", self.path.display()))
    }
}

/// A chart for each thing that was measured, one below the other. Bars of one chart begin at zero and share a scale.
fn document(figures: &[Figure]) -> String {
    let several = |of: fn(&Figure) -> &str| figures.iter().any(|figure| Some(of(figure)) != figures.first().map(of));
    let (scenarios, stores) = (several(|figure| figure.scenario), several(|figure| &figure.store));
    let label = |figure: &Figure| {
        let scenario = if scenarios || figure.case.is_empty() { figure.scenario } else { "" };
        let store = if stores { figure.store.as_str() } else { "" };
        let parts = [scenario, &figure.case, store].into_iter().filter(|part| !part.is_empty());
        cut(&parts.collect::<Vec<_>>().join(" · "))
    };
    let width = |text: &str| text.chars().count() as f64 * LETTER;
    let labels = MARGIN + 12.0 + figures.iter().map(|figure| width(&label(figure))).fold(0.0, f64::max);
    let of = |figure: &Figure| figure.ratio.as_ref().map_or(0.0, |ratio| width(&ratio.of));
    let values = 90.0 + figures.iter().map(of).fold(0.0, f64::max);
    let (mut body, mut y) = (String::new(), MARGIN);
    // What all bars have in common, so that a picture without its page says what it is of.
    let common = figures.first().map(|figure| {
        [(scenarios, figure.scenario), (stores, &figure.store)].map(|(several, name)| if several { "" } else { name })
    });
    let common = common.into_iter().flatten().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" · ");
    text(&mut body, [MARGIN, y + 10.0], "soft", "start", format!("gristmill-bench {common}").trim_end());
    y += ROW + 4.0;
    for (title, measure) in MEASURES {
        let rows: Vec<_> = figures.iter().filter_map(|figure| Some((figure, measure(figure)?))).collect();
        let most = rows.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
        if rows.is_empty() {
            continue;
        }
        text(&mut body, [MARGIN, y + 13.0], "title", "start", title);
        y += ROW + 4.0;
        let height = ROW * rows.len() as f64;
        _ = writeln!(body, r#"<path class="axis" d="M{labels:.1} {:.1}v{height:.1}"/>"#, y - 3.0);
        for (figure, value) in rows {
            let length = (BARS * value / most).max(1.0);
            _ = writeln!(body, r#"<path class="bar" d="{}"/>"#, bar(labels, y + 2.0, length));
            text(&mut body, [labels - 8.0, y + 13.0], "", "end", &label(figure));
            let of = figure.ratio.as_ref().filter(|_| title == RATIO).map(|ratio| format!("of {}", ratio.of));
            let of = of.map(|of| format!(r#"  <tspan class="soft">{}</tspan>"#, escaped(&of))).unwrap_or_default();
            let (x, y_text, value) = (labels + length + 8.0, y + 13.0, shown(value));
            _ = writeln!(body, r#"<text class="value" x="{x:.1}" y="{y_text:.1}">{value}{of}</text>"#);
            y += ROW;
        }
        y += MARGIN;
    }
    let width = labels + BARS + values + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {y:.0}\" width=\"{width:.0}\" height=\"{y:.0}\">\n\
         <title>Figures of gristmill-bench</title>\n<style>{STYLE}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n"
    )
}

/// Square where it begins, round where it ends.
fn bar(x: f64, y: f64, length: f64) -> String {
    let round = length.min(3.0);
    let (straight, side) = (length - round, BAR - 2.0 * round);
    format!(
        "M{x:.1} {y:.1}h{straight:.1}q{round:.1} 0 {round:.1} {round:.1}v{side:.1}q0 {round:.1} -{round:.1} {round:.1}h-{straight:.1}z"
    )
}

fn text(to: &mut String, [x, y]: [f64; 2], class: &str, anchor: &str, text: &str) {
    _ = writeln!(to, r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#, escaped(text));
}

/// Three digits at least, with a comma before every third of larger numbers.
fn shown(value: f64) -> String {
    match value {
        small if small < 10.0 => format!("{small:.2}"),
        some if some < 100.0 => format!("{some:.1}"),
        many => {
            let digits = format!("{many:.0}");
            let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
            groups.collect::<Vec<_>>().join(",")
        }
    }
}

fn cut(label: &str) -> String {
    let letters = label.chars().count();
    if letters <= LETTERS_MAX { label.to_owned() } else { label.chars().take(LETTERS_MAX - 1).chain(['…']).collect() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_text_is_text() {
        assert_eq!([0.344, 13.66, 94_600.4, 1_234_567.0].map(shown), ["0.34", "13.7", "94,600", "1,234,567"]);
        let (rate, case) = (Some(3.0), "a < b".to_owned());
        let figure = Figure { scenario: "traces", case, jobs_per_second: rate, ..Figure::default() };
        let svg = document(&[figure]);
        assert!(svg.contains("a &lt; b") && svg.contains("Jobs a second") && !svg.contains("Memory"), "{svg}");
    }
}
