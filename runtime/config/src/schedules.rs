//! `[topics.NAME.schedule.NAME]`: when a topic gets jobs without a producer.

use std::collections::BTreeMap;
use std::time::Duration;

use super::diagnostic::Span;
use super::ranges;
use super::read::{Section, name};
use gristmill_core::job::{Name, Payload};
use gristmill_core::schedule::{BadSchedule, Missed, Overlap, SCHEDULES_PER_TENANT, Schedule};

/// The schedules of a topic, by name. `ttl`: the topic's.
pub(super) fn schedules(topic: &mut Section<'_>, ttl: Option<Duration>) -> BTreeMap<Name, Schedule> {
    let mut schedules = BTreeMap::new();
    for (written, span, section) in topic.sections("schedule") {
        let problems = section.problems();
        let Some(name) = name(written, span.clone(), problems) else { continue };
        if schedules.len() == SCHEDULES_PER_TENANT {
            let title = format!("a tenant has at most {SCHEDULES_PER_TENANT} schedules");
            problems.report(span, title, "let one schedule enqueue several jobs");
            break;
        }
        schedules.extend(schedule(section, span).map(|schedule| (name, Schedule { ttl, ..schedule })));
    }
    schedules
}

/// `None` if something in it is refused.
fn schedule(mut section: Section<'_>, place: Span) -> Option<Schedule> {
    let problems = section.problems();
    let before = problems.count();
    let (cron, cron_at) = text(&mut section, "cron", "a cron expression such as \"0 3 * * *\"");
    let (timezone, timezone_at) = text(&mut section, "timezone", "a time zone such as \"Europe/Berlin\"");
    let every_at = section.value("every").map(|value| value.span());
    let every = section.limit(&ranges::EVERY);
    let (body, body_at) = text(&mut section, "body", "a string: what handlers get as bytes");
    let (content_type, _) = text(&mut section, "content-type", "a media type such as \"application/json\"");
    let mut schedule = Schedule {
        cron,
        timezone,
        every,
        body: Payload { data: body.unwrap_or_default().into_bytes(), content_type },
        metadata: metadata(&mut section),
        ..Schedule::default()
    };
    section.quantity(&ranges::TICK_JITTER, &mut schedule.jitter);
    let missed = [("skip", Missed::Skip), ("one", Missed::One), ("all", Missed::All)];
    section.choice("missed", &missed, &mut schedule.missed);
    section.choice("overlap", &[("skip", Overlap::Skip), ("queue", Overlap::Queue)], &mut schedule.overlap);
    section.finish();
    if problems.count() > before {
        return None;
    }
    let Err(bad) = schedule.ticks() else { return Some(schedule) };
    let at = match &bad {
        BadSchedule::Cron { .. } | BadSchedule::Never { .. } => cron_at,
        BadSchedule::Timezone { .. } | BadSchedule::TimezoneOfInterval => timezone_at,
        BadSchedule::Both => every_at,
        BadSchedule::Body { .. } => body_at,
        _ => None,
    };
    problems.add(problems.at(at.unwrap_or(place), bad.to_string()));
    None
}

/// A string, and its place.
fn text(section: &mut Section<'_>, key: &'static str, must: &str) -> (Option<String>, Option<Span>) {
    let Some(value) = section.value(key) else { return (None, None) };
    (section.string(key, value, must).map(str::to_owned), Some(value.span()))
}

fn metadata(section: &mut Section<'_>) -> Vec<(String, String)> {
    let Some(metadata) = section.section("metadata") else { return Vec::new() };
    let problems = metadata.problems();
    let mut pairs = Vec::new();
    for (key, _, value) in metadata.entries() {
        match value.get_ref().as_str() {
            Some(text) => pairs.push((key.to_owned(), text.to_owned())),
            None => problems.add(problems.at(value.span(), format!("the metadata `{key}` must be a string"))),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{parse, problems};
    use gristmill_core::job::TopicId;

    fn id(text: &str) -> TopicId {
        text.parse().unwrap()
    }

    #[test]
    fn schedules_of_a_topic_are_read() {
        let text = r#"
            [topics.a.schedule.nightly]
            cron = "0 3 * * *"
            timezone = "Europe/Berlin"
            jitter = "5m"
            missed = "all"
            overlap = "skip"
            body = '{"kind":"full"}'
            content-type = "application/json"
            metadata = { by = "schedule" }

            [topics.a.schedule.often]
            every = "15m"
        "#;
        let schedules = parse(text).topics[&id("a")].schedules.clone();
        let nightly = &schedules[&"nightly".parse::<Name>().unwrap()];
        assert_eq!((nightly.cron.as_deref(), nightly.timezone.as_deref()), (Some("0 3 * * *"), Some("Europe/Berlin")));
        assert_eq!((nightly.missed, nightly.overlap, nightly.jitter.as_secs()), (Missed::All, Overlap::Skip, 300));
        assert_eq!((&nightly.body.data[..], nightly.metadata.len()), (&br#"{"kind":"full"}"#[..], 1));
        let often = &schedules[&"often".parse::<Name>().unwrap()];
        assert_eq!(
            (often.every, often.missed, often.overlap),
            (Some(Duration::from_secs(900)), Missed::One, Overlap::Queue)
        );
        let of_tenant = parse("[tenants.acme.topics.a.schedule.s]\ncron = \"@hourly\"");
        assert_eq!(of_tenant.topics[&id("acme/a")].schedules.len(), 1);
        assert!(problems("[defaults.schedule.s]\nevery = \"1m\"").contains("`schedule` has no place in [defaults]"));
    }
}
