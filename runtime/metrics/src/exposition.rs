//! Writes numbers down as Prometheus reads them: its text format 0.0.4, or OpenMetrics 1.0.

use std::fmt::Write;

use super::histogram::Histogram;

/// In which words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    OpenMetrics,
}

impl Format {
    /// What a request that accepts this gets: OpenMetrics only if it asks for it by name.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }

    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What sort of numbers a family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows, until the process ends. Its name ends in `_total`.
    Counter,
    Gauge,
    Histogram,
    /// Always 1: its labels are what it says. Its name ends in `_info`.
    Info,
}

/// A page that is being written.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    text: String,
}

/// One family of series. A family without a sample leaves no trace.
#[derive(Debug)]
pub struct Family<'a> {
    exposition: &'a mut Exposition,
    name: &'static str,
    metric_type: MetricType,
    help: &'static str,
    begun: bool,
}

/// The labels of a sample. Values may hold anything.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    pub fn new(format: Format) -> Self {
        Self { format, text: String::new() }
    }

    /// All samples of a family stand together, so each is begun once. `help`: one line.
    pub fn family(&mut self, name: &'static str, metric_type: MetricType, help: &'static str) -> Family<'_> {
        Family { exposition: self, name, metric_type, help, begun: false }
    }

    /// The whole page.
    pub fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Family<'_> {
    pub fn sample(&mut self, labels: Labels<'_>, value: u64) {
        self.float(labels, value as f64);
    }

    /// As [`Self::sample`], and nothing if there is nothing: a series that never was need not be stored.
    pub fn sample_if_any(&mut self, labels: Labels<'_>, value: u64) {
        if value > 0 {
            self.sample(labels, value);
        }
    }

    pub fn float(&mut self, labels: Labels<'_>, value: f64) {
        self.begin();
        self.line("", labels, None, value);
    }

    /// Nothing of a histogram that has seen nothing.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        // The sum first: with observations under way the page may be a little behind in it, never ahead.
        let (sum, buckets) = (histogram.total(), histogram.buckets().collect::<Vec<_>>());
        // So that the parts fit together, whatever happens meanwhile, the count is the last bucket's.
        let count = buckets.last().map_or(0, |(_, count)| *count);
        if count == 0 {
            return;
        }
        self.begin();
        for (bound, below) in buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), in_full);
            self.line("_bucket", labels, Some(&bound), below as f64);
        }
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count as f64);
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        // OpenMetrics names the family without what its sort appends.
        let (name, metric_type) = match (self.exposition.format, self.metric_type) {
            (Format::OpenMetrics, MetricType::Counter) => (self.name.trim_end_matches("_total"), "counter"),
            (Format::OpenMetrics, MetricType::Info) => (self.name.trim_end_matches("_info"), "info"),
            (_, MetricType::Counter) => (self.name, "counter"),
            (_, MetricType::Gauge | MetricType::Info) => (self.name, "gauge"),
            (_, MetricType::Histogram) => (self.name, "histogram"),
        };
        let text = &mut self.exposition.text;
        text.push_str("# HELP ");
        text.push_str(name);
        text.push(' ');
        escape(text, self.help);
        text.push_str("\n# TYPE ");
        text.push_str(name);
        text.push(' ');
        text.push_str(metric_type);
        text.push('\n');
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: f64) {
        let text = &mut self.exposition.text;
        text.push_str(self.name);
        text.push_str(suffix);
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut before = '{';
        for (label, value) in labels {
            text.push(before);
            text.push_str(label);
            text.push_str("=\"");
            escape(text, value);
            text.push('"');
            before = ',';
        }
        if before == ',' {
            text.push('}');
        }
        // A `String` takes everything.
        writeln!(text, " {value}").ok();
    }
}

/// OpenMetrics wants bounds as floats, `1.0`; Prometheus reads both.
fn in_full(bound: f64) -> String {
    let text = bound.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// Quotes need it in label values only, and may have it in help.
fn escape(into: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' => into.push_str(r"\\"),
            '"' => into.push_str(r#"\""#),
            '\n' => into.push_str(r"\n"),
            other => into.push(other),
        }
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
