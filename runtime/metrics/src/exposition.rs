//! Tables of metrics, and their text for Prometheus: format 0.0.4, or OpenMetrics 1.0.
//!
//! A metric is one row of a table ([`Metric`]). A new number is a field that counts, and a row.

use std::borrow::Cow;
use std::fmt::Write;

use super::histogram::Histogram;

/// The text format of an exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format.
    Text,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// The format for a request with this header `Accept`: OpenMetrics only if the header names it.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }

    /// The media type of an answer in this format.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a metric, as Prometheus knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows, until the process ends. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by their size.
    Histogram,
    /// Always 1: its labels are the information. Its name ends in `_info`.
    Info,
}

/// A row of a table of metrics: what users see of it, and how its samples are read from a `T`.
#[derive(Debug)]
pub struct Metric<T> {
    name: &'static str,
    metric_type: MetricType,
    help: &'static str,
    samples: fn(&T, &mut Family<'_>),
}

/// A row of a table of metrics. `help`: one line.
pub const fn metric<T>(
    name: &'static str,
    metric_type: MetricType,
    help: &'static str,
    samples: fn(&T, &mut Family<'_>),
) -> Metric<T> {
    Metric { name, metric_type, help, samples }
}

/// Something that is measured.
pub trait Measured {
    /// The labels of each of its samples.
    fn labels(&self) -> Vec<(&'static str, &str)> {
        Vec::new()
    }
}

/// The text that the metrics endpoint returns.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    text: String,
}

/// The samples of one metric. A metric without a sample leaves no trace.
#[derive(Debug)]
pub struct Family<'a> {
    exposition: &'a mut Exposition,
    name: &'static str,
    metric_type: MetricType,
    help: &'static str,
    /// Those of the item whose samples are being written, as text.
    labels: String,
    has_head: bool,
}

/// Labels of one sample besides those of its item. Values may hold anything.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    /// An empty exposition.
    pub fn new(format: Format) -> Self {
        Self { format, text: String::new() }
    }

    /// Writes every metric of the table, each with the samples of all items.
    pub fn write<'a, T: Measured + 'a>(&mut self, table: &[Metric<T>], items: impl Iterator<Item = &'a T> + Clone) {
        for metric in table {
            let mut family = self.family(metric.name, metric.metric_type, metric.help);
            for item in items.clone() {
                family.labels.clear();
                append(&mut family.labels, &item.labels());
                (metric.samples)(item, &mut family);
            }
        }
    }

    /// Begins a metric. All its samples stand together, so each is begun once.
    pub(super) fn family(&mut self, name: &'static str, metric_type: MetricType, help: &'static str) -> Family<'_> {
        Family { exposition: self, name, metric_type, help, labels: String::new(), has_head: false }
    }

    /// The whole text.
    pub fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Family<'_> {
    /// Adds a line with a whole number.
    pub fn sample(&mut self, labels: Labels<'_>, value: u64) {
        self.float(labels, value as f64);
    }

    /// Writes a sample unless its value is 0: a series that was never raised is left out.
    pub fn sample_if_any(&mut self, labels: Labels<'_>, value: u64) {
        if value > 0 {
            self.sample(labels, value);
        }
    }

    /// Adds a line with a number.
    pub fn float(&mut self, labels: Labels<'_>, value: f64) {
        self.head();
        self.line("", labels, value);
    }

    /// Writes a histogram unless it is empty.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        // The sum first: with observations under way it may be a little behind the buckets, never ahead.
        let (sum, buckets) = (histogram.total(), histogram.buckets().collect::<Vec<_>>());
        // The count is the last bucket's, so that they agree whatever is observed meanwhile.
        let count = buckets.last().map_or(0, |(_, count)| *count);
        if count == 0 {
            return;
        }
        self.head();
        for (bound, below) in buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), in_full);
            self.line("_bucket", &[labels, &[("le", &bound)]].concat(), below as f64);
        }
        self.line("_sum", labels, sum);
        self.line("_count", labels, count as f64);
    }

    /// Writes `HELP` and `TYPE` before the first sample.
    fn head(&mut self) {
        if std::mem::replace(&mut self.has_head, true) {
            return;
        }
        let Exposition { format, text } = &mut *self.exposition;
        // OpenMetrics names the family without the suffix of its type.
        let (name, metric_type) = match (format, self.metric_type) {
            (Format::OpenMetrics, MetricType::Counter) => (self.name.trim_end_matches("_total"), "counter"),
            (Format::OpenMetrics, MetricType::Info) => (self.name.trim_end_matches("_info"), "info"),
            (_, MetricType::Counter) => (self.name, "counter"),
            (_, MetricType::Gauge | MetricType::Info) => (self.name, "gauge"),
            (_, MetricType::Histogram) => (self.name, "histogram"),
        };
        let help = escape(self.help);
        // A `String` takes everything.
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {metric_type}").ok();
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: f64) {
        let mut all = self.labels.clone();
        append(&mut all, labels);
        let (name, text) = (self.name, &mut self.exposition.text);
        let written = if all.is_empty() {
            writeln!(text, "{name}{suffix} {value}")
        } else {
            writeln!(text, "{name}{suffix}{{{all}}} {value}")
        };
        written.ok();
    }
}

/// OpenMetrics wants bounds as floats, `1.0`; Prometheus reads both.
fn in_full(bound: f64) -> String {
    let text = bound.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

fn append(into: &mut String, labels: Labels<'_>) {
    for (label, value) in labels {
        let comma = if into.is_empty() { "" } else { "," };
        write!(into, "{comma}{label}=\"{}\"", escape(value)).ok();
    }
}

/// Quotes need it in label values only, and may have it in help.
fn escape(text: &str) -> Cow<'_, str> {
    if text.contains(['\\', '"', '\n']) {
        text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n").into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::Scale;
    use super::*;

    fn exposition(format: Format) -> String {
        let mut exposition = Exposition::new(format);
        exposition.family("a_total", MetricType::Counter, "What\nis \\ counted.").sample(&[("x", "say \"no\"\\\n")], 7);
        exposition.family("b_info", MetricType::Info, "B.").sample(&[], 1);
        exposition.family("c", MetricType::Gauge, "C.").float(&[], 0.25);
        exposition.family("nothing", MetricType::Gauge, "Never seen.").sample_if_any(&[], 0);
        exposition.end()
    }

    #[test]
    fn text_is_as_prometheus_reads_it() {
        let written = "# HELP a_total What\\nis \\\\ counted.\n# TYPE a_total counter\n\
            a_total{x=\"say \\\"no\\\"\\\\\\n\"} 7\n\
            # HELP b_info B.\n# TYPE b_info gauge\nb_info 1\n# HELP c C.\n# TYPE c gauge\nc 0.25\n";
        assert_eq!(exposition(Format::Text), written);
    }

    #[test]
    fn open_metrics_names_families_without_suffix_and_has_an_end() {
        let written = exposition(Format::OpenMetrics);
        assert!(written.contains("# TYPE a counter\na_total{"), "{written}");
        assert!(written.contains("# TYPE b info\nb_info 1\n"), "{written}");
        assert!(written.ends_with("\n# EOF\n"), "{written}");
    }

    #[test]
    fn a_histogram_is_cumulative_and_its_count_is_its_last_bucket() {
        let histogram = Histogram::new(&Scale::FUEL);
        let mut exposition = Exposition::new(Format::Text);
        exposition.family("h", MetricType::Histogram, "H.").histogram(&[], &histogram);
        assert_eq!(exposition.text, "");
        [1, 20_000, u64::from(u32::MAX) * 100].into_iter().for_each(|fuel| histogram.observe(fuel));
        exposition.family("h", MetricType::Histogram, "H.").histogram(&[("t", "x")], &histogram);
        assert!(exposition.text.contains("h_bucket{t=\"x\",le=\"10000.0\"} 1\nh_bucket{t=\"x\",le=\"100000.0\"} 2\n"));
        assert!(
            exposition
                .text
                .contains("h_bucket{t=\"x\",le=\"+Inf\"} 3\nh_sum{t=\"x\"} 429496749501\nh_count{t=\"x\"} 3\n")
        );
    }

    #[test]
    fn open_metrics_has_to_be_asked_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Text);
        assert_eq!(Format::accepted(""), Format::Text);
    }
}
