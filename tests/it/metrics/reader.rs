//! Reads Prometheus' text format 0.0.4 and OpenMetrics 1.0, and takes nothing that a strict reader would not.

use std::collections::{BTreeMap, HashSet};

/// A page: every sample by its whole name, labels sorted.
#[derive(Debug)]
pub(super) struct Samples(BTreeMap<String, f64>);

#[derive(Debug, Default)]
struct Family {
    name: String,
    sort: String,
}

impl Samples {
    /// Panics with the line that breaks a rule.
    pub(super) fn read(page: &str) -> Self {
        assert!(page.is_empty() || page.ends_with('\n'), "the last line has an end");
        let (open_metrics, lines) = match page.strip_suffix("# EOF\n") {
            Some(lines) => (true, lines),
            None => (false, page),
        };
        let (mut samples, mut family, mut met) = (BTreeMap::new(), Family::default(), HashSet::new());
        for line in lines.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, text) = help.split_once(' ').unwrap_or_else(|| panic!("no text: {line}"));
                assert!(met.insert(name.to_owned()), "a family in two places: {line}");
                assert!(!text.is_empty() && is_name(name), "{line}");
                family = Family { name: name.into(), sort: String::new() };
            } else if let Some(sort) = line.strip_prefix("# TYPE ") {
                let (name, sort) = sort.split_once(' ').unwrap();
                assert_eq!(name, family.name, "HELP and TYPE stand together: {line}");
                let sorts = ["counter", "gauge", "histogram"];
                assert!(sorts.contains(&sort) || (open_metrics && sort == "info"), "{line}");
                assert_eq!(!open_metrics && name.ends_with("_total"), !open_metrics && sort == "counter", "{line}");
                family.sort = sort.into();
            } else {
                let (name, labels, value) = sample(line);
                family.check(&name, &labels, value, open_metrics, line);
                assert!(samples.insert(whole(&name, labels), value).is_none(), "twice: {line}");
            }
        }
        let samples = Self(samples);
        samples.check_histograms();
        samples
    }

    /// A sample that must be there: labels in any order, `name{a="1"}`.
    pub(super) fn get(&self, wanted: &str) -> f64 {
        let family = wanted.split('{').next().unwrap();
        self.find(wanted).unwrap_or_else(|| panic!("no {wanted} among {:#?}", self.with(family)))
    }

    pub(super) fn find(&self, wanted: &str) -> Option<f64> {
        let (name, labels, _) = sample(&format!("{wanted} 0"));
        self.0.get(&whole(&name, labels)).copied()
    }

    /// All whose whole names have this in them.
    pub(super) fn with(&self, part: &str) -> Vec<(&str, f64)> {
        self.0.iter().filter(|(name, _)| name.contains(part)).map(|(name, value)| (&**name, *value)).collect()
    }

    /// Buckets only grow, and the last one is the count.
    fn check_histograms(&self) {
        let mut last: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (whole_name, value) in &self.0 {
            let (name, mut labels, _) = sample(&format!("{whole_name} 0"));
            if let (Some(name), Some(bound)) = (name.strip_suffix("_bucket"), labels.remove("le")) {
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                last.entry(whole(&format!("{name}_count"), labels)).or_default().push((bound, *value));
            }
        }
        for (count, mut buckets) in last {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{count}: {buckets:?}");
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, self.0[&count])), "{count}");
        }
    }
}

impl Family {
    fn check(&self, name: &str, labels: &BTreeMap<String, String>, value: f64, open_metrics: bool, line: &str) {
        let suffix = name.strip_prefix(&self.name).unwrap_or_else(|| panic!("not of `{}`: {line}", self.name));
        let fits = match (&*self.sort, open_metrics) {
            ("counter", true) => suffix == "_total",
            ("info", _) => suffix == "_info",
            ("histogram", _) => matches!(suffix, "_bucket" | "_sum" | "_count"),
            _ => suffix.is_empty(),
        };
        assert!(fits, "{line}");
        assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{line}");
        assert!(self.sort == "gauge" || value >= 0.0, "{line}");
    }
}

fn is_name(name: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(rest)
}

fn whole(name: &str, labels: BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.into_iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
}

/// Name, labels and value of a line.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let (name, mut rest) = head.split_once('{').unwrap_or((head, "}"));
    assert!(is_name(name), "no name: {line}");
    let mut labels = BTreeMap::new();
    while rest != "}" {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        assert!(is_name(label), "no label: {line}");
        let (value, after) = quoted(after, line);
        assert!(labels.insert(label.to_owned(), value).is_none(), "a label twice: {line}");
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (name.to_owned(), labels, value)
}

/// A label's value up to its closing quote, and what comes behind that.
fn quoted<'a>(text: &'a str, line: &str) -> (String, &'a str) {
    let (mut value, mut characters) = (String::new(), text.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match characters.next() {
                Some((_, 'n')) => '\n',
                Some((_, same @ ('\\' | '"'))) => same,
                other => panic!("no escape {other:?}: {line}"),
            }),
            other => value.push(other),
        }
    }
    panic!("no closing quote: {line}")
}

#[test]
fn metrics_parse_and_malformed_metrics_do_not() {
    let page = "# HELP a_total A.\n# TYPE a_total counter\na_total{y=\"1\",x=\"\\\"\\\\\\n\"} 2\n";
    assert_eq!(Samples::read(page).get("a_total{x=\"\\\"\\\\\\n\",y=\"1\"}"), 2.0);
    let broken = [
        "a 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# HELP a A.\n# TYPE a gauge\na{x=\"1} 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1\na 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 2\na_sum 1\na_count 1\n",
        "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n# EOF\n",
    ];
    for page in broken {
        assert!(std::panic::catch_unwind(|| Samples::read(page)).is_err(), "{page}");
    }
}
