//! The last minutes of tenants and topics: what the store has counted, read once a minute.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::wire::history::Minute;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store::{Store, TopicCounts};

/// Minutes that are kept.
const MINUTES: usize = 120;
/// Topics that have minutes of their own.
const TOPICS: usize = 1000;
/// Tenants that have.
const TENANTS: usize = 1000;
const MINUTE_MS: u64 = 60_000;
/// A pace over less would be noise.
const LEAST: Duration = Duration::from_secs(1);

/// The last 120 minutes of at most 1000 tenants, and of at most 1000 topics. Of a tenant's other topics only the sum is kept.
#[derive(Debug, Default)]
pub(crate) struct Minutes(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    tenants: HashMap<Name, Tenant>,
    /// How many topics have minutes of their own.
    topics: usize,
    /// There were as many as there may be before the last count.
    is_crowded: bool,
    /// When all tenants were counted last, if the last count was of all: a tenant that comes now is new since then.
    all_at: Option<Timestamp>,
}

/// A tenant's minutes, and those of its topics.
#[derive(Debug)]
struct Tenant {
    sum: Timeline,
    topics: HashMap<TopicId, Series>,
    /// Of the topics without minutes of their own.
    others: Totals,
    has_others: bool,
}

/// A topic's minutes.
#[derive(Debug)]
struct Series {
    timeline: Timeline,
    totals: Totals,
}

#[derive(Debug)]
struct Timeline {
    /// When the first minute begins.
    since: Timestamp,
    minutes: VecDeque<Minute>,
}

/// What the store has counted since it began.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    enqueued: u64,
    done: u64,
    failed: u64,
    dead: u64,
}

impl Minutes {
    /// Counts at once, and then at the end of every minute, until stopped.
    pub(crate) async fn run(&self, store: &dyn Store, stop: CancellationToken) {
        loop {
            let now = Timestamp::now();
            tokio::select! {
                () = self.count(store, now) => {}
                () = stop.cancelled() => return,
            }
            let rest = MINUTE_MS - Timestamp::now().as_millis() % MINUTE_MS;
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(rest)) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Ends a minute now. Tenants that the store does not answer for have a longer one, which ends with the next count.
    async fn count(&self, store: &dyn Store, now: Timestamp) {
        let tenants = match store.tenants().await {
            Ok(tenants) => tenants,
            Err(error) => {
                tracing::debug!("no minute of history: {:#}", anyhow::Error::from(error));
                self.0.lock().all_at = None;
                return;
            }
        };
        let mut are_all = tenants.len() <= TENANTS;
        self.0.lock().retain(&tenants);
        for tenant in tenants {
            if !self.0.lock().has_room_for(&tenant) {
                continue;
            }
            match store.counts(&tenant).await {
                Ok(counts) => self.0.lock().note(now, tenant, &counts),
                Err(error) => {
                    tracing::debug!(%tenant, "no minute of history: {:#}", anyhow::Error::from(error));
                    are_all = false;
                }
            }
        }
        self.0.lock().all_at = are_all.then_some(now);
    }

    /// How many of a topic's jobs have ended in a second, done or failed, since the last minute that is kept began. `counts`: the topic's now. `None` if
    /// that is less than a second ago, or nothing is kept of the topic.
    pub(crate) fn pace(&self, counts: &TopicCounts, now: Timestamp) -> Option<f64> {
        let kept = self.0.lock();
        let (since, before) = match kept.tenants.get(&counts.topic.tenant) {
            Some(tenant) => match tenant.topics.get(&counts.topic) {
                Some(Series { timeline, totals }) => timeline.last_minute(*totals),
                // It is new since the last count.
                None if !tenant.has_others => (tenant.sum.end(), Totals::default()),
                None => return None,
            },
            None => (kept.all_at?, Totals::default()),
        };
        let ended = Totals::of(counts).since(before);
        let over = now.since(since);
        (over >= LEAST).then(|| (ended.done + ended.failed) as f64 / over.as_secs_f64())
    }

    /// A tenant's minutes, and since when; `None`: nothing is kept for it.
    pub(crate) fn of_tenant(&self, tenant: &Name) -> (Option<Timestamp>, Vec<Minute>) {
        Timeline::shown(self.0.lock().tenants.get(tenant).map(|tenant| &tenant.sum))
    }

    /// The same of a topic.
    pub(crate) fn of_topic(&self, topic: &TopicId) -> (Option<Timestamp>, Vec<Minute>) {
        let kept = self.0.lock();
        let series = kept.tenants.get(&topic.tenant).and_then(|tenant| tenant.topics.get(topic));
        Timeline::shown(series.map(|series| &series.timeline))
    }
}

impl Memory {
    /// Forgets the tenants that the store no longer has and, if there are many topics, those in which nothing has happened: others may need
    /// the place.
    fn retain(&mut self, tenants: &[Name]) {
        let tenants: HashSet<&Name> = tenants.iter().collect();
        self.tenants.retain(|name, _| tenants.contains(name));
        self.is_crowded = self.topics >= TOPICS;
        if self.is_crowded {
            self.tenants.values_mut().for_each(Tenant::drop_quiet);
        }
        self.topics = self.tenants.values().map(|tenant| tenant.topics.len()).sum();
    }

    fn has_room_for(&self, tenant: &Name) -> bool {
        self.tenants.len() < TENANTS || self.tenants.contains_key(tenant)
    }

    fn note(&mut self, now: Timestamp, name: Name, counts: &[TopicCounts]) {
        let is_new = !self.tenants.contains_key(&name);
        // What a tenant has that is new since the last count has happened since then.
        let begin = self.all_at.unwrap_or(now);
        let tenant = self.tenants.entry(name).or_insert_with(|| Tenant::new(begin));
        let had_others = tenant.has_others || (is_new && begin == now);
        let before = tenant.sum.end();
        let mut sum = Minute { at_ms: now, ..Minute::default() };
        let (mut others, mut has_others, mut departed) = (Totals::default(), false, Totals::default());
        self.topics -= tenant.topics.len();
        let named: HashSet<&TopicId> = counts.iter().map(|counts| &counts.topic).collect();
        tenant.topics.retain(|topic, _| named.contains(topic));
        self.topics += tenant.topics.len();
        for counts in counts {
            let totals = Totals::of(counts);
            sum.add(Totals::default(), counts);
            let is_known = tenant.topics.contains_key(&counts.topic);
            let may_begin = !self.is_crowded || counts.ready > 0 || counts.running > 0;
            if !is_known && (self.topics >= TOPICS || !may_begin) {
                others.add(totals);
                has_others = true;
                continue;
            }
            self.topics += usize::from(!is_known);
            // A topic that was among the others, or that was there before the first count, begins now.
            let series = tenant.topics.entry(counts.topic.clone()).or_insert_with(|| match had_others {
                true => {
                    departed.add(totals);
                    Series { timeline: Timeline::new(now), totals }
                }
                false => Series { timeline: Timeline::new(before), totals: Totals::default() },
            });
            let grown = totals.since(series.totals);
            series.totals = totals;
            let mut minute = Minute { at_ms: now, ..Minute::default() };
            minute.add(grown, counts);
            series.timeline.push(minute);
            sum.grow(grown);
        }
        if tenant.has_others {
            // Topics that departed from them in this minute have grown with them.
            departed.add(others);
            sum.grow(departed.more_than(tenant.others));
        }
        (tenant.others, tenant.has_others) = (others, has_others);
        tenant.sum.push(sum);
    }
}

impl Tenant {
    fn new(since: Timestamp) -> Self {
        Self { sum: Timeline::new(since), topics: HashMap::new(), others: Totals::default(), has_others: false }
    }

    /// Counts the topics in which nothing has happened among the others.
    fn drop_quiet(&mut self) {
        let Self { topics, others, has_others, .. } = self;
        topics.retain(|_, series| {
            let stays = series.timeline.minutes.iter().any(Minute::is_busy);
            if !stays {
                others.add(series.totals);
                *has_others = true;
            }
            stays
        });
    }
}

impl Timeline {
    const fn new(since: Timestamp) -> Self {
        Self { since, minutes: VecDeque::new() }
    }

    /// When the last minute ended.
    fn end(&self) -> Timestamp {
        self.minutes.back().map_or(self.since, |last| last.at_ms)
    }

    /// When the last minute began, and what was counted until then; `end`: until its end.
    fn last_minute(&self, end: Totals) -> (Timestamp, Totals) {
        let Some(last) = self.minutes.back() else { return (self.since, end) };
        let before = self.minutes.len().checked_sub(2).and_then(|place| self.minutes.get(place));
        let grown = Totals { enqueued: last.enqueued, done: last.done, failed: last.failed, dead: last.dead };
        (before.map_or(self.since, |before| before.at_ms), end.more_than(grown))
    }

    /// Adds a minute. One that ends where it begins is none. If the clock was set back, the timeline begins anew.
    fn push(&mut self, minute: Minute) {
        if minute.at_ms < self.end() {
            *self = Self::new(minute.at_ms);
        }
        if minute.at_ms == self.end() {
            return;
        }
        if self.minutes.len() >= MINUTES
            && let Some(first) = self.minutes.pop_front()
        {
            self.since = first.at_ms;
        }
        self.minutes.push_back(minute);
    }

    fn shown(timeline: Option<&Self>) -> (Option<Timestamp>, Vec<Minute>) {
        timeline
            .map_or((None, Vec::new()), |timeline| (Some(timeline.since), timeline.minutes.iter().copied().collect()))
    }
}

impl Minute {
    fn add(&mut self, grown: Totals, counts: &TopicCounts) {
        self.grow(grown);
        self.ready += counts.ready;
        self.running += counts.running;
    }

    fn grow(&mut self, grown: Totals) {
        self.enqueued += grown.enqueued;
        self.done += grown.done;
        self.failed += grown.failed;
        self.dead += grown.dead;
    }
}

impl Totals {
    fn of(counts: &TopicCounts) -> Self {
        let mut totals = Self::default();
        for (name, n) in &counts.totals {
            match name.as_str() {
                "pushed" | "adopted" => totals.enqueued += n,
                "acked" => totals.done += n,
                "retried" => totals.failed += n,
                name if name.starts_with("dead-") => {
                    totals.failed += n;
                    totals.dead += n;
                }
                _ => {}
            }
        }
        totals
    }

    fn add(&mut self, more: Self) {
        self.enqueued += more.enqueued;
        self.done += more.done;
        self.failed += more.failed;
        self.dead += more.dead;
    }

    /// What a topic has counted since then. The totals of one that was forgotten begin anew.
    fn since(self, before: Self) -> Self {
        if self.enqueued < before.enqueued { self } else { self.more_than(before) }
    }

    /// By how much each is more. A sum is less if a topic is missing in it.
    const fn more_than(self, before: Self) -> Self {
        Self {
            enqueued: self.enqueued.saturating_sub(before.enqueued),
            done: self.done.saturating_sub(before.done),
            failed: self.failed.saturating_sub(before.failed),
            dead: self.dead.saturating_sub(before.dead),
        }
    }
}
