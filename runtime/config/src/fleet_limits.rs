//! `rate`, `burst`, `max-running` and `per-key` of a topic: what all runners may do together.

use std::time::Duration;

use super::ranges;
use super::read::Section;
use gristmill_core::topic::{FleetLimits, KeyLimits, OnDead, Rate};
use gristmill_core::units::COUNT;

const MUST: &str = "a number of jobs in a unit of time such as \"100/s\"";
const UNITS: &str = "units: s, m, h, d";

pub(super) fn fleet_limits(section: &mut Section<'_>) -> FleetLimits {
    let max_running = section.limit(&ranges::MAX_RUNNING);
    let rate = rate_with_burst(section);
    FleetLimits { max_running, rate, per_key: per_key(section), ..FleetLimits::NONE }
}

fn rate_with_burst(section: &mut Section<'_>) -> Option<Rate> {
    let written = section.has("rate");
    let mut rate = rate(section);
    let place = section.value(ranges::BURST.key);
    let burst: Option<u32> = section.limit(&ranges::BURST);
    match (&mut rate, place) {
        (Some(rate), _) => rate.burst = burst.unwrap_or(rate.burst),
        (None, Some(place)) if !written => {
            let title = format!("`burst` in {} needs a `rate`", section.title());
            let help = "it says how many jobs of the rate may start at once: add rate = \"100/s\", or remove it";
            section.problems().report(place.span(), title, help);
        }
        (None, _) => {}
    }
    rate
}

fn per_key(section: &mut Section<'_>) -> KeyLimits {
    let mut limits = KeyLimits::DEFAULT;
    if let Some(mut section) = section.section("per-key") {
        section.quantity(&ranges::RUNNING_PER_KEY, &mut limits.max_running);
        section.choice("on-dead", &[("continue", OnDead::Continue), ("halt", OnDead::Halt)], &mut limits.on_dead);
        limits.rate = rate_with_burst(&mut section);
        section.finish();
    }
    limits
}

fn rate(section: &mut Section<'_>) -> Option<Rate> {
    let value = section.value("rate")?;
    let text = section.string("rate", value, MUST)?;
    match parse(text) {
        Ok(rate) => Some(rate),
        Err(problem) => {
            let title = format!("`rate` in {} is not {MUST}", section.title());
            let problem = section.problems().at(value.span(), title).label(problem);
            let help = format!("write {MUST}, from 1 to {} ({UNITS})", COUNT.show(Rate::MAX.into()));
            section.problems().add(problem.help(help));
            None
        }
    }
}

fn parse(text: &str) -> Result<Rate, String> {
    let (jobs, unit) = text.split_once('/').ok_or("it has no `/`")?;
    let per = Rate::UNITS.iter().find(|(name, _)| *name == unit.trim());
    let (_, per) = per.ok_or_else(|| format!("`{}` is no unit", unit.trim()))?;
    if let Some(same) = in_whole_jobs(jobs.trim(), *per) {
        return Err(format!("it is no whole number of jobs: write `{same}`"));
    }
    match COUNT.parse(jobs.trim()).map_err(|bad| bad.problem)?.try_into() {
        Ok(0) => Err("at a rate of zero no job would ever start: pause the topic instead".into()),
        Ok(jobs @ 1..=Rate::MAX) => Ok(Rate::new(jobs, *per)),
        _ => Err("it is too large".into()),
    }
}

/// The same rate in a longer unit of time, if it is a part of a job in this one: `30/m` for `0.5/s`.
fn in_whole_jobs(jobs: &str, per: Duration) -> Option<String> {
    let jobs = jobs.parse::<f64>().ok().filter(|jobs| jobs.is_finite() && jobs.fract() != 0.0)?;
    let longer = Rate::UNITS.iter().filter(|(_, longer)| *longer > per);
    longer.map(|(unit, longer)| (unit, jobs * longer.div_duration_f64(per))).find_map(|(unit, jobs)| {
        let is_whole = jobs >= 1.0 && (jobs - jobs.round()).abs() < 1e-6;
        is_whole.then(|| format!("{}/{unit}", jobs.round()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, problems};
    use super::*;

    fn limits(text: &str) -> FleetLimits {
        let manifest = parse(&format!("[topics.a]\n{text}"));
        manifest.topics.values().next().map(|topic| topic.fleet).unwrap_or_default()
    }

    #[test]
    fn a_rate_below_one_is_written_in_a_longer_unit() {
        for (rate, written) in [("0.5/s", "30/m"), ("1.5 / m", "90/h"), ("0.01/s", "36/h")] {
            let problem = problems(&format!("[topics.a]\nrate = \"{rate}\""));
            assert!(problem.contains(&format!("write `{written}`")), "{problem}");
        }
        assert!(problems("[topics.a]\nrate = \"0.1/h\"").contains("is not a number of jobs"));
    }

    #[test]
    fn a_topic_has_the_limits_that_it_names() {
        assert_eq!(limits(""), FleetLimits::NONE);
        assert_eq!(limits("max-running = 7"), FleetLimits { max_running: Some(7), ..FleetLimits::NONE });
        let rate = |jobs, per_s, burst| Some(Rate { jobs, per: Duration::from_secs(per_s), burst });
        assert_eq!(limits("rate = \"100/s\"").rate, rate(100, 1, 10));
        assert_eq!(limits("rate = \"5k/h\"").rate, rate(5000, 3600, 1));
        assert_eq!(limits("burst = 50\nrate = \"2 / m\"").rate, rate(2, 60, 50));
        assert_eq!(limits("rate = \"1M/d\"").rate, rate(1_000_000, 86_400, 1));
        assert_eq!(limits("[topics.a.per-key]").per_key, KeyLimits::DEFAULT);
        let per_key = KeyLimits { max_running: 3, on_dead: OnDead::Halt, rate: None };
        assert_eq!(limits("per-key = { max-running = 3, on-dead = \"halt\" }").per_key, per_key);
        assert_eq!(limits("per-key = { rate = \"5/s\" }").per_key.rate, rate(5, 1, 1));
        let both = limits("rate = \"100/s\"\nper-key = { rate = \"2/m\", burst = 50 }");
        assert_eq!((both.rate, both.per_key.rate), (rate(100, 1, 10), rate(2, 60, 50)));
    }
}
