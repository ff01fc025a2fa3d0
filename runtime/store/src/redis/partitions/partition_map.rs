//! Which partitions hold the jobs of a topic.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::composite::Scope;
use crate::redis::connection::slots::slot_of_key;
use gristmill_core::job::{JobSpec, Lease, Name, TopicId};
use gristmill_core::time::Timestamp;

/// How many partitions a tenant has at most. A claim's number has this many values for the partition that its jobs are in.
pub(in crate::redis) const PARTITIONS_MAX: u32 = 128;

/// The partitions of all topics that are not in the first one alone.
#[derive(Debug)]
pub(in crate::redis) struct PartitionMap {
    topics: HashMap<TopicId, Spread>,
    /// How many partitions such a topic's tenant has.
    tenants: HashMap<Name, u32>,
    /// The same for each topic that is not named.
    others: Option<Spread>,
    /// The server's time when the map was read.
    read_at: (Timestamp, Instant),
}

/// How old a process's map becomes while it uses the store.
const REREAD_AFTER: Duration = Duration::from_secs(3);

/// When this process last saw what the server's map is, and whether no topic was spread.
#[derive(Debug, Default)]
pub(in crate::redis) struct MapAge(Mutex<(Option<Instant>, bool)>);

impl MapAge {
    pub(in crate::redis) fn note(&self, asked_at: Instant, is_plain: bool) {
        *self.0.lock() = (Some(asked_at), is_plain);
    }

    pub(in crate::redis) fn is_new(&self) -> bool {
        self.0.lock().0.is_some_and(|asked_at| asked_at.elapsed() < REREAD_AFTER)
    }

    pub(in crate::redis) fn was_plain(&self) -> bool {
        self.0.lock().1
    }

    /// Has the next call read the map.
    #[cfg(test)]
    pub(in crate::redis) fn forget_time(&self) {
        self.0.lock().0 = None;
    }
}

/// The partitions of a topic. Each time that it was spread over more of them, these were new ones. The first stage is the first
/// partition alone.
#[derive(Debug)]
pub(in crate::redis) struct Spread(Vec<Stage>);

/// Partitions that a topic's new jobs go to, from some moment on until the next stage begins.
#[derive(Debug)]
struct Stage {
    numbers: Range<u32>,
    begins: Timestamp,
}

impl PartitionMap {
    /// `records`: of topics, the text that [`Spread::read`] reads.
    pub(in crate::redis) fn read(records: &BTreeMap<String, String>, now: Timestamp) -> Self {
        let mut map = Self { read_at: (now, Instant::now()), ..Self::default() };
        for (topic, record) in records {
            let Ok(topic) = topic.parse::<TopicId>() else { continue };
            let spread = Spread::read(record);
            let count = map.tenants.entry(topic.tenant.clone()).or_insert(1);
            *count = spread.end().max(*count);
            map.topics.insert(topic, spread);
        }
        map
    }

    /// Every topic of every tenant is spread over this many partitions, for longer than any process remembers.
    pub(in crate::redis) fn all_over(partitions: u32) -> Self {
        let read_at = (Timestamp::default().plus(Duration::from_secs(3600)), Instant::now());
        Self { others: Some(Spread::of([(partitions, Timestamp::default())])), read_at, ..Self::default() }
    }

    /// The server's time.
    pub(in crate::redis) fn now(&self) -> Timestamp {
        self.read_at.0.plus(self.read_at.1.elapsed())
    }

    /// Whether all jobs are in the first partition of their tenant.
    pub(in crate::redis) fn is_plain(&self) -> bool {
        self.topics.is_empty() && self.others.is_none()
    }

    /// How many partitions, from the first one on, may have something of a tenant or a topic.
    pub(in crate::redis) fn of(&self, scope: &impl Scope) -> u32 {
        scope.topic().map_or_else(|| self.of_tenant(scope.tenant()), |topic| self.of_topic(topic))
    }

    /// How many partitions the tenant has.
    pub(in crate::redis) fn of_tenant(&self, tenant: &Name) -> u32 {
        let others = self.others.as_ref().map_or(1, Spread::end);
        self.tenants.get(tenant).copied().unwrap_or(1).max(others)
    }

    /// The partitions from the first one on, in which the topic may have jobs.
    pub(in crate::redis) fn of_topic(&self, topic: &TopicId) -> u32 {
        self.spread(topic).map_or(1, Spread::end)
    }

    pub(in crate::redis) fn spread(&self, topic: &TopicId) -> Option<&Spread> {
        self.topics.get(topic).or(self.others.as_ref())
    }

    /// The partition that a new job goes to: by its key, or else its unique value, or else its id. So jobs of a key are in one partition,
    /// and a unique value that comes with a key holds among the jobs of that key.
    /// A call that asks more than once for a job asks for the same moment.
    pub(in crate::redis) fn of_job(&self, job: &JobSpec, now: Timestamp) -> u32 {
        self.spread(&job.topic).map_or(0, |spread| spread.current(now).choose(job))
    }

    /// The partitions in which the state of a key may be, the present one first.
    pub(in crate::redis) fn of_key(&self, topic: &TopicId, key: &str) -> Vec<u32> {
        let Some(spread) = self.spread(topic) else { return vec![0] };
        let now = self.now();
        let begun = spread.0.iter().rev().filter(|stage| stage.begins <= now);
        begun.map(|stage| stage.choose_by(key)).collect()
    }

    /// Whether jobs of the topic may be in partitions that it had before.
    pub(in crate::redis) fn has_earlier(&self, topic: &TopicId) -> bool {
        self.spread(topic).is_some_and(|spread| spread.has_earlier(self.now()))
    }

    /// The partition that a follow-up job of a job of partition `own` goes to. One that waits for others stays there, if it may.
    pub(in crate::redis) fn of_follow_up(&self, job: &JobSpec, own: u32, now: Timestamp) -> u32 {
        if job.options.is_linked() && self.may_hold(job, own, now) { own } else { self.of_job(job, now) }
    }

    /// Whether a new job may be in a partition. One that waits for others may be in any that its topic has, but for what its key and its
    /// unique value ask for.
    pub(in crate::redis) fn may_hold(&self, job: &JobSpec, number: u32, now: Timestamp) -> bool {
        let is_free = job.shared_key().is_none() && job.options.unique.is_none();
        number == self.of_job(job, now) || is_free && number < self.of_topic(&job.topic)
    }

    /// The partition of a running job.
    pub(in crate::redis) fn of_lease(&self, lease: &Lease) -> u32 {
        let count = u64::from(PARTITIONS_MAX);
        let number = lease.batch.and_then(|batch| u32::try_from(batch % count).ok()).unwrap_or_default();
        if self.of_tenant(&lease.topic.tenant) == 1 { 0 } else { number }
    }
}

impl Spread {
    /// Reads `partitions:begins-at-ms`, in the order in which the topic was spread further, with blanks between them.
    fn read(record: &str) -> Self {
        let stage = |stage: &str| {
            let (partitions, begins_at) = stage.split_once(':')?;
            Some((partitions.parse().ok()?, Timestamp::from_millis(begins_at.parse().ok()?)))
        };
        Self::of(record.split(' ').filter_map(stage))
    }

    fn of(later: impl IntoIterator<Item = (u32, Timestamp)>) -> Self {
        let mut stages = vec![Stage { numbers: 0..1, begins: Timestamp::default() }];
        let mut end: u32 = 1;
        for (partitions, begins) in later {
            let numbers = end..end.saturating_add(partitions).min(PARTITIONS_MAX);
            end = numbers.end;
            stages.extend((!numbers.is_empty()).then_some(Stage { numbers, begins }));
        }
        Self(stages)
    }

    fn end(&self) -> u32 {
        self.0.last().map_or(1, |stage| stage.numbers.end)
    }

    fn current(&self, now: Timestamp) -> &Stage {
        const FIRST: &Stage = &Stage { numbers: 0..1, begins: Timestamp::from_millis(0) };
        self.0.iter().rfind(|stage| stage.begins <= now).unwrap_or(FIRST)
    }

    /// How many partitions new jobs go to.
    pub(in crate::redis) fn width(&self, now: Timestamp) -> usize {
        self.current(now).numbers.len()
    }

    /// The partitions in which the job may be that was pushed before the current stage began.
    pub(in crate::redis) fn earlier_places(&self, job: &JobSpec, now: Timestamp) -> impl Iterator<Item = u32> {
        let current = self.current(now).numbers.start;
        self.0.iter().take_while(move |stage| stage.numbers.start < current).map(|stage| stage.choose(job))
    }

    /// Whether jobs may be in partitions that the topic had before.
    pub(in crate::redis) fn has_earlier(&self, now: Timestamp) -> bool {
        self.current(now).numbers.start > 0
    }

    /// Whether the current stage began at least `wait` ago.
    pub(in crate::redis) fn has_lasted(&self, wait: Duration, now: Timestamp) -> bool {
        now.since(self.current(now).begins) >= wait
    }

    /// How much longer the change to another stage lasts: from `margin` before until `margin` after it. By then it has come for all
    /// processes. `None` if there is no change at this moment.
    pub(in crate::redis) fn change_lasts(&self, margin: Duration, now: Timestamp) -> Option<Duration> {
        let later = self.0.iter().skip(1).map(|stage| stage.begins);
        let changing = later.filter(|begins| begins.since(now) < margin && now.since(*begins) < margin);
        changing.map(|begins| begins.plus(margin).since(now)).max()
    }
}

impl Stage {
    fn choose(&self, job: &JobSpec) -> u32 {
        let unique = job.options.unique.as_ref().map(|unique| unique.value.as_str());
        self.choose_by(job.shared_key().or(unique).unwrap_or(job.id.as_str()))
    }

    fn choose_by(&self, text: &str) -> u32 {
        let width = u32::try_from(self.numbers.len()).unwrap_or(1).max(1);
        self.numbers.start + u32::from(slot_of_key(text.as_bytes())) % width
    }
}

impl Default for PartitionMap {
    fn default() -> Self {
        Self {
            topics: HashMap::new(),
            tenants: HashMap::new(),
            others: None,
            read_at: (Timestamp::default(), Instant::now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::job::{JobOptions, Payload, Unique, WorkerId};

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn job() -> JobSpec {
        JobSpec::new("acme/mail".parse().unwrap(), Payload::default())
    }

    #[test]
    fn each_time_that_a_topic_is_spread_further_its_partitions_are_new_ones() {
        let spread = Spread::read("2:1000 4:2000");
        let numbers = |ms| spread.current(at(ms)).numbers.clone();
        assert_eq!([numbers(999), numbers(1000), numbers(1999), numbers(2000)], [0..1, 1..3, 1..3, 3..7]);
        assert_eq!(spread.end(), 7);
        let earlier = |ms| spread.earlier_places(&job(), at(ms)).count();
        assert_eq!([earlier(999), earlier(1000), earlier(2000)], [0, 1, 2]);
        assert_eq!(Spread::read("64:1 64:2 64:3").end(), PARTITIONS_MAX);
    }

    #[test]
    fn a_job_goes_by_its_key_or_else_its_unique_value_or_else_its_id() {
        let map = PartitionMap::all_over(64);
        let with = |unique: Option<&str>, key: Option<&str>| {
            let unique = unique.map(|value| Unique { value: value.into(), window: None });
            map.of_job(
                &JobSpec {
                    options: JobOptions { unique, key: key.map(str::to_owned), ..JobOptions::default() },
                    ..job()
                },
                at(1),
            )
        };
        assert_eq!(with(Some("u"), Some("k")), with(None, Some("k")));
        assert_eq!(with(Some("u"), None), with(Some("u"), Some("")));
        let ids: std::collections::BTreeSet<u32> = (0..2000).map(|_| with(None, None)).collect();
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), (1..65).collect::<Vec<_>>());
    }

    #[test]
    fn only_spread_topics_are_in_other_partitions() {
        let records = BTreeMap::from([("acme/mail".to_owned(), "3:0".to_owned())]);
        let map = PartitionMap::read(&records, at(1));
        let other = JobSpec { topic: "acme/other".parse().unwrap(), ..job() };
        assert_eq!((map.of_job(&other, at(1)), map.of_topic(&other.topic)), (0, 1));
        assert_eq!((map.of_topic(&job().topic), map.of_tenant(&job().topic.tenant)), (4, 4));
        assert_eq!(map.of_tenant(&"else".parse().unwrap()), 1);
        let lease = |topic: &str, batch| Lease {
            job: job().id,
            topic: topic.parse().unwrap(),
            worker: WorkerId::new("w"),
            delivery: 1,
            batch: Some(batch),
        };
        assert_eq!(map.of_lease(&lease("acme/mail", 128 * 7 + 3)), 3);
        assert_eq!(map.of_lease(&lease("else/mail", 128 * 7 + 3)), 0);
    }

    #[test]
    fn a_change_lasts_from_before_until_after_its_moment() {
        let spread = Spread::read("2:1000");
        let lasts = |ms| spread.change_lasts(Duration::from_millis(300), at(ms)).map(|wait| wait.as_millis());
        assert_eq!(
            [lasts(700), lasts(701), lasts(1000), lasts(1299), lasts(1300)],
            [None, Some(599), Some(300), Some(1), None]
        );
    }
}
