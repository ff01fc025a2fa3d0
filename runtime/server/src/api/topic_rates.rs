//! How fast jobs come and go: the totals now against those of an earlier request, about a minute ago.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::wire::topic::TopicRates;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::whole_millis;
use gristmill_store::TopicCounts;

/// What rates are about.
const MINUTE: Duration = Duration::from_secs(60);
/// Samples are this far apart, so that a tenant has few of them.
const APART: Duration = Duration::from_secs(10);
/// A rate over less would be noise.
const LEAST: Duration = Duration::from_secs(1);
/// Tenants that are remembered at once; then all are forgotten.
const TENANTS: usize = 1000;

/// Totals as they were within the last minute. A server counts when a client asks it, and does not ask the store in between.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: Mutex<HashMap<Name, VecDeque<Sample>>>,
}

type Totals = BTreeMap<String, u64>;

#[derive(Debug)]
struct Sample {
    at: Instant,
    totals: HashMap<TopicId, Totals>,
}

impl Rates {
    /// What became of these totals since the earliest sample of the last minute; empty if there is none.
    pub(crate) fn of(&self, tenant: &Name, counts: &[TopicCounts]) -> HashMap<TopicId, TopicRates> {
        self.at(Instant::now(), tenant, counts)
    }

    fn at(&self, now: Instant, tenant: &Name, counts: &[TopicCounts]) -> HashMap<TopicId, TopicRates> {
        let mut samples = self.samples.lock();
        if !samples.contains_key(tenant) {
            samples.retain(|_, samples| samples.back().is_some_and(|last| now.duration_since(last.at) <= MINUTE));
            if samples.len() >= TENANTS {
                samples.clear();
            }
        }
        let samples = samples.entry(tenant.clone()).or_default();
        while samples.front().is_some_and(|sample| now.duration_since(sample.at) > MINUTE) {
            samples.pop_front();
        }
        let before = samples.front().filter(|sample| now.duration_since(sample.at) >= LEAST);
        let rates = before.map(|before| {
            let over = now.duration_since(before.at);
            counts.iter().map(|counts| (counts.topic.clone(), rate(before, counts, over))).collect()
        });
        if samples.back().is_none_or(|last| now.duration_since(last.at) >= APART) {
            let totals = counts.iter().map(|counts| (counts.topic.clone(), counts.totals.clone())).collect();
            samples.push_back(Sample { at: now, totals });
        }
        rates.unwrap_or_default()
    }
}

fn rate(before: &Sample, counts: &TopicCounts, over: Duration) -> TopicRates {
    let earlier =
        |name: &str| before.totals.get(&counts.topic).and_then(|totals| totals.get(name)).copied().unwrap_or(0);
    // To the thousandth: more would only look exact.
    let per_second = |count: u64| (count as f64 / over.as_secs_f64() * 1000.0).round() / 1000.0;
    let grown =
        counts.totals.iter().map(|(name, total)| (name.clone(), per_second(total.saturating_sub(earlier(name)))));
    TopicRates { over_ms: whole_millis(over), per_second: grown.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pushed: u64) -> [TopicCounts; 1] {
        let totals = [("pushed".to_owned(), pushed)].into();
        let topic = "acme/a".parse().unwrap();
        [TopicCounts {
            topic,
            ready: 0,
            waiting_for_key: 0,
            delayed: 0,
            waiting: 0,
            running: 0,
            dead: 0,
            paused: false,
            pause: None,
            limited: None,
            oldest_ready: None,
            totals,
        }]
    }

    #[test]
    fn rates_are_of_the_last_minute_and_need_two_questions() {
        let (rates, tenant, begin) = (Rates::default(), "acme".parse().unwrap(), Instant::now());
        let ask = |after_s, pushed| {
            let rates = rates.at(begin + Duration::from_secs(after_s), &tenant, &counts(pushed));
            rates.into_values().next().map(|rate| (rate.over_ms / 1000, rate.per_second["pushed"]))
        };
        assert_eq!(ask(0, 100), None);
        assert_eq!(ask(0, 100), None, "no time has passed");
        assert_eq!(ask(4, 102), Some((4, 0.5)));
        assert_eq!(ask(30, 400), Some((30, 10.0)));
        assert_eq!(ask(60, 700), Some((60, 10.0)));
        assert_eq!(ask(70, 700), Some((40, 7.5)), "the first sample is more than a minute old");
        assert_eq!(ask(1000, 1), None, "all are");
    }

    #[test]
    fn tenants_that_are_not_asked_for_any_more_are_forgotten() {
        let (rates, begin) = (Rates::default(), Instant::now());
        for n in 0..500 {
            rates.at(begin, &format!("t{n}").parse().unwrap(), &counts(1));
        }
        rates.at(begin + MINUTE + LEAST, &"acme".parse().unwrap(), &counts(1));
        assert_eq!(rates.samples.lock().len(), 1);
    }
}
