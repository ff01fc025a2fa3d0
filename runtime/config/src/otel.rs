//! `[otel]`: traces, for an OpenTelemetry collector.

use std::time::Duration;

use toml::de::DeValue;
use url::Url;

use super::ranges;
use super::read::Section;

/// `[otel]`: where spans go, which of them, and how they stand to those of producers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtelSettings {
    /// The base address of the collector's OTLP over HTTP; spans go to `v1/traces` below it. `None`: as the environment says
    /// in `OTEL_EXPORTER_OTLP_ENDPOINT`, else port 4318 of this machine.
    pub endpoint: Option<Url>,
    /// How many are kept of a million attempts that no other reason keeps: 0 to 1,000,000.
    pub sample_per_million: u32,
    /// Attempts that took longer are kept.
    pub slower_than: Duration,
    /// How an attempt's span stands to the span in which its job was pushed.
    pub relation: Relation,
}

/// How an attempt's span stands to the span in which a producer pushed the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Relation {
    /// It begins a trace, with a link. A job that a handler enqueued goes on in the trace of its handler.
    #[default]
    Link,
    /// It is a child, in the trace of the producer.
    Child,
    /// Not at all: each job is a trace of its own.
    None,
}

impl Default for OtelSettings {
    fn default() -> Self {
        let slower_than = Duration::from_secs(1);
        Self { endpoint: None, sample_per_million: 10_000, slower_than, relation: Relation::default() }
    }
}

/// Returns `None` without such a section: then no attempt is traced.
pub(super) fn otel(root: &mut Section<'_>) -> Option<OtelSettings> {
    let mut section = root.section("otel")?;
    let mut otel = OtelSettings { endpoint: endpoint(&mut section), ..OtelSettings::default() };
    otel.sample_per_million = sample(&mut section).unwrap_or(otel.sample_per_million);
    section.quantity(&ranges::SLOWER_THAN, &mut otel.slower_than);
    let relations = [("link", Relation::Link), ("child", Relation::Child), ("none", Relation::None)];
    section.choice("relation", &relations, &mut otel.relation);
    section.finish();
    Some(otel)
}

fn endpoint(section: &mut Section<'_>) -> Option<Url> {
    let value = section.value("endpoint")?;
    let text = section.string("endpoint", value, "a URL, such as \"http://localhost:4318\"")?;
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) = url else {
        let help = "write the address of a collector's OTLP over HTTP, such as \"http://localhost:4318\"";
        section.problems().report(value.span(), format!("`endpoint` in {} is no http URL", section.title()), help);
        return None;
    };
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        let title = format!("`endpoint` in {} has a query, a fragment, a user or a password", section.title());
        let help = "tokens are headers: set them in OTEL_EXPORTER_OTLP_HEADERS";
        section.problems().report(value.span(), title, help);
    }
    Some(url)
}

fn sample(section: &mut Section<'_>) -> Option<u32> {
    let value = section.value("sample")?;
    let part: Option<f64> = match value.get_ref() {
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::Integer(number) => number.as_str().parse().ok(),
        _ => None,
    };
    let per_million = part.filter(|part| (0.0..=1.0).contains(part)).map(|part| (part * 1e6).round() as u32);
    if per_million.is_none() {
        let title = format!("`sample` in {} is no number from 0 to 1", section.title());
        section.problems().report(value.span(), title, "0.01 keeps one attempt of a hundred");
    }
    per_million
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, problems};
    use super::*;

    #[test]
    fn traces_are_off_by_default_and_have_defaults() {
        assert_eq!(parse("").otel, None);
        assert_eq!(parse("[otel]").otel, Some(OtelSettings::default()));
    }

    #[test]
    fn each_key_is_read() {
        let otel = parse(
            "[otel]\nendpoint = \"https://otel.example.org/tenant\"\nsample = 1\nslower-than = \"250ms\"\nrelation = \"child\"",
        );
        let endpoint = Url::parse("https://otel.example.org/tenant").ok();
        let slower_than = Duration::from_millis(250);
        assert_eq!(
            otel.otel,
            Some(OtelSettings { endpoint, sample_per_million: 1_000_000, slower_than, relation: Relation::Child })
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        for (written, says) in [
            ("endpoint = \"localhost:4318\"", "is no http URL"),
            ("endpoint = \"http://me:secret@localhost:4318\"", "OTEL_EXPORTER_OTLP_HEADERS"),
            ("sample = 1.5", "is no number from 0 to 1"),
            ("sample = \"1%\"", "is no number from 0 to 1"),
            ("relation = \"parent\"", "must be \"link\" or \"child\" or \"none\""),
        ] {
            let problems = problems(&format!("[otel]\n{written}"));
            assert!(problems.contains(says), "{problems}");
        }
    }
}
