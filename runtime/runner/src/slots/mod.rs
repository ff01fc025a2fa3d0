//! How many attempts are in flight, and waking the claimer when it is worth claiming again.

mod begun;
pub(crate) mod fleet_use;
pub(crate) mod shares;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use self::begun::Begun;
use self::shares::{Free, TenantUse};
use gristmill_metrics::TopicMeter;

/// A tenant among several that holds many slots leaves one in this many free.
const KEPT_OF: usize = 16;
/// What is to be settled may be this many times the slots, attempts included. An attempt that has ended makes room for another at once; only a store that does not
/// settle holds up what comes.
const UNSETTLED_MAX: usize = 2;
/// At most this many guests of a topic, for each thread, compute for long at once: with two, a topic goes on while as many of its guests as
/// there are threads never end.
const COMPUTING_PER_THREAD: usize = 2;
/// Jobs that end fast are claimed before there is room for them to begin: as many as the threads do in this time, by the mean of those before. So
/// many share the round trips of a claim and of a settlement, and none waits here much longer while another runner might begin it.
const AHEAD: Duration = Duration::from_millis(2);
/// At most this many of a topic in line beyond its concurrency, and half of the runner's slots: more in a claim saves nothing.
const AHEAD_MAX: usize = 256;
/// Attempts that take at most this long are brief: see [`TopicSlots::is_brief`]. A thread is woken within 20 to 65 µs on a virtual machine.
const BRIEF: Duration = Duration::from_micros(50);
/// How much a new duration counts in the mean: one part in this many.
const MEMORY: u64 = 16;
/// No claimer waits.
const NEVER: u64 = u64::MAX;

/// Counts attempts against the runner's limit.
#[derive(Debug)]
pub(super) struct Slots {
    limit: usize,
    pub(super) threads: usize,
    /// What a slot is worth of a guest thread.
    thread_per_slot: f64,
    /// Those that have a slot: they wait for a thread, or run.
    pub(super) attempts: UnderWay,
    /// Those, and what has ended and is still to be settled.
    pub(super) unsettled: UnderWay,
}

/// How many are under way and how many have ended.
///
/// One waits for a *number* of ends, not for each: at tens of thousands of jobs a second, a wake-up per job would cost more than the job.
#[derive(Debug)]
pub(super) struct UnderWay {
    count: AtomicUsize,
    ended: AtomicU64,
    /// Wake when `ended` reaches this.
    target: AtomicU64,
    reached: Notify,
}

/// A topic in this runner: found once, then handed on with every job.
#[derive(Debug)]
pub(super) struct TopicSlots {
    slots: Arc<Slots>,
    /// What is not settled, and of these, those that have a slot.
    unsettled: AtomicUsize,
    running: AtomicUsize,
    /// Of these, those that have begun, and of these, how many compute for long.
    begun: Begun,
    computing: AtomicUsize,
    /// How long an attempt takes, about. 0: none has ended yet.
    mean_ns: AtomicU64,
    meter: Arc<TopicMeter>,
    usage: Arc<TenantUse>,
}

impl TopicSlots {
    pub(super) fn new(slots: &Arc<Slots>, meter: Arc<TopicMeter>, usage: Arc<TenantUse>) -> Arc<Self> {
        let (slots, none) = (Arc::clone(slots), || AtomicUsize::new(0));
        let (begun, mean_ns) = (Begun::default(), AtomicU64::new(0));
        Arc::new(Self { slots, unsettled: none(), running: none(), begun, computing: none(), mean_ns, meter, usage })
    }

    /// Takes a slot, until the attempt [has ended](Slot::charge) or the slot is dropped. The claimer alone enters, after asking [`Slots::free`].
    pub(super) fn enter(self: &Arc<Self>) -> Slot {
        self.slots.attempts.begin();
        self.slots.unsettled.begin();
        self.unsettled.fetch_add(1, Ordering::AcqRel);
        self.running.fetch_add(1, Ordering::AcqRel);
        self.usage.begin();
        Slot { topic: Arc::clone(self), started: None, has_ended: false }
    }

    /// Its attempts that are not settled.
    pub(super) fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Acquire)
    }

    /// Whether another guest may begin. If not, it is held back until [`Self::end`] or [`Self::end_computing`]. For one caller at a time.
    pub(super) fn may_begin(&self, concurrency: usize) -> bool {
        !self.is_computing() && self.begun.has_room(concurrency)
    }

    /// A guest begins, unless as many have begun as may.
    pub(super) fn begin(&self, concurrency: usize) -> bool {
        self.begun.begin(concurrency)
    }

    /// A guest that began has ended. Returns whether others were held back because of it.
    pub(super) fn end(&self) -> bool {
        self.begun.end()
    }

    /// How many guests of it may begin.
    pub(super) fn may_still_begin(&self, concurrency: usize) -> usize {
        concurrency.saturating_sub(self.begun.count())
    }

    /// If enough guests compute for long already, another would only wait for them, with memory of its own.
    fn is_computing(&self) -> bool {
        self.computing.load(Ordering::Acquire) >= COMPUTING_PER_THREAD * self.slots.threads
    }

    /// How many more attempts are worth claiming. While no more may begin, few: other runners may have a thread for them.
    /// `in_line`: jobs may wait here until others have ended. If not, the next may begin when one is settled.
    pub(super) fn room(&self, concurrency: usize, in_line: bool) -> usize {
        let most = if self.is_computing() {
            concurrency.min((COMPUTING_PER_THREAD + 1) * self.slots.threads)
        } else {
            concurrency + if in_line { self.ahead(concurrency) } else { 0 }
        };
        let room = most.saturating_sub(self.running.load(Ordering::Acquire));
        // A topic whose store does not settle leaves room for those of other stores.
        let most_unsettled = if in_line { most.saturating_mul(UNSETTLED_MAX) } else { most };
        room.min(most_unsettled.saturating_sub(self.unsettled()))
    }

    /// How many jobs are worth having in line beyond the topic's concurrency. None while half of those that may have begun: they do not end as
    /// fast as others did.
    pub(super) fn ahead(&self, concurrency: usize) -> usize {
        let threads = self.slots.threads;
        match self.mean_ns.load(Ordering::Relaxed) {
            0 => 0,
            _ if self.begun.count() > threads.max(concurrency / 2) => 0,
            mean => (AHEAD.as_nanos() as usize * threads / mean as usize).min(AHEAD_MAX).min(self.slots.limit / 2),
        }
    }

    /// Whether its attempts take no longer than it costs to hand one to another thread, by the mean of those before.
    pub(crate) fn is_brief(&self) -> bool {
        (1..=BRIEF.as_nanos() as u64).contains(&self.mean_ns.load(Ordering::Relaxed))
    }

    /// What was claimed ahead has waited for this long and could not begin. Nothing is claimed ahead until many attempts have ended faster.
    pub(super) fn note_wait(&self, waited: Duration) {
        self.mean_ns.store(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// An attempt took this long. Of two callers at once, one may be lost.
    pub(super) fn note_duration(&self, duration: Duration) {
        let (new, mean) = (duration.as_nanos() as u64, self.mean_ns.load(Ordering::Relaxed));
        let mean = if mean == 0 { new } else { mean - mean / MEMORY + new / MEMORY };
        self.mean_ns.store(mean.max(1), Ordering::Relaxed);
    }

    pub(super) fn begin_computing(&self) {
        self.computing.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn end_computing(&self) {
        self.computing.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Slots {
    /// `threads`: those that guests run on.
    pub(super) fn new(limit: usize, threads: usize) -> Arc<Self> {
        let thread_per_slot = threads as f64 / limit.max(1) as f64;
        Arc::new(Self {
            limit,
            threads,
            thread_per_slot,
            attempts: UnderWay::default(),
            unsettled: UnderWay::default(),
        })
    }

    /// How many more attempts may start.
    pub(super) fn free(&self) -> Free {
        let free = self.limit.saturating_sub(self.attempts.count());
        Free { all: free.min(self.room_to_settle()), kept: self.limit / KEPT_OF }
    }

    fn room_to_settle(&self) -> usize {
        self.limit.saturating_mul(UNSETTLED_MAX).saturating_sub(self.unsettled.count())
    }

    /// How many attempts have ended, and how many are settled, since the runner began.
    pub(super) fn ended(&self) -> (u64, u64) {
        (self.attempts.ended(), self.unsettled.ended())
    }

    /// Waits until there may be more room than there was when so many [had ended](Self::ended). Returns whether attempts have ended, and not only been settled: then
    /// others will soon. One waiter at a time. Cancel-safe.
    pub(super) async fn wait_for_room(&self, (ended, settled): (u64, u64)) -> bool {
        tokio::select! {
            biased;
            () = self.attempts.wait_for(ended + 1) => true,
            () = self.unsettled.wait_for(settled + 1) => false,
        }
    }
}

impl UnderWay {
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Waits until `target` have ended in all. One waiter at a time. Cancel-safe.
    pub(super) async fn wait_for(&self, target: u64) {
        loop {
            let reached = self.reached.notified();
            self.target.store(target, Ordering::SeqCst);
            if self.ended.load(Ordering::SeqCst) >= target {
                self.target.store(NEVER, Ordering::SeqCst);
                return;
            }
            reached.await;
        }
    }

    fn begin(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    fn end(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        let ended = self.ended.fetch_add(1, Ordering::SeqCst) + 1;
        if ended >= self.target.load(Ordering::SeqCst) && self.target.swap(NEVER, Ordering::SeqCst) != NEVER {
            self.reached.notify_one();
        }
    }
}

impl Default for UnderWay {
    fn default() -> Self {
        let (ended, target) = (AtomicU64::new(0), AtomicU64::new(NEVER));
        Self { count: AtomicUsize::new(0), ended, target, reached: Notify::new() }
    }
}

/// One attempt's slot, in the runner and in its topic.
#[derive(Debug)]
pub(super) struct Slot {
    topic: Arc<TopicSlots>,
    started: Option<Instant>,
    has_ended: bool,
}

impl Slot {
    pub(super) fn topic(&self) -> &Arc<TopicSlots> {
        &self.topic
    }

    /// Where the attempt is counted.
    pub(super) fn meter(&self) -> &TopicMeter {
        &self.topic.meter
    }

    /// The attempt starts. From now on its slot counts against its tenant's share.
    pub(super) fn start(&mut self, at: Instant) {
        self.topic.usage.start(at, self.topic.slots.thread_per_slot);
        self.started = Some(at);
    }

    /// The attempt has ended, though it is still to be settled: others may have its slot. Counts what it used against its tenant's share.
    pub(super) fn charge(&mut self, fuel: u64, duration: Duration) {
        // First: the claimer that the free slot wakes decides by what tenants have used.
        self.topic.usage.charge(fuel, duration, self.topic.slots.thread_per_slot);
        self.end();
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.topic.usage.end(self.started);
            self.topic.running.fetch_sub(1, Ordering::AcqRel);
            self.topic.slots.attempts.end();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.end();
        self.topic.unsettled.fetch_sub(1, Ordering::AcqRel);
        self.topic.slots.unsettled.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_metrics::Metrics;

    #[test]
    fn a_topic_whose_guests_compute_begins_no_more_and_claims_few() {
        let topic =
            TopicSlots::new(&Slots::new(32, 2), Metrics::default().topic(&"t".parse().unwrap()), Arc::default());
        (0..3).for_each(|_| topic.begin_computing());
        assert_eq!((topic.may_begin(32), topic.room(32, true)), (true, 32));
        topic.begin_computing();
        assert_eq!((topic.may_begin(32), topic.room(32, true), topic.room(5, true)), (false, 6, 5));
        topic.end_computing();
        assert!(topic.may_begin(32));
    }

    #[test]
    fn jobs_that_end_fast_are_claimed_ahead_and_begin_no_more_at_once() {
        let topic =
            TopicSlots::new(&Slots::new(1000, 2), Metrics::default().topic(&"t".parse().unwrap()), Arc::default());
        assert_eq!(topic.room(4, true), 4, "how fast they end is not known");
        topic.note_duration(AHEAD);
        assert_eq!((topic.room(4, true), topic.room(4, false)), (4 + 2, 4));
        (0..200).for_each(|_| topic.note_duration(Duration::from_micros(1)));
        assert_eq!(topic.room(4, true), 4 + AHEAD_MAX);
        let _taken: Vec<Slot> = (0..20).map(|_| topic.enter()).collect();
        assert_eq!(topic.room(4, true), 4 + AHEAD_MAX - 20);

        assert!(topic.begin(4) && topic.begin(4));
        assert_eq!(topic.room(4, true), 4 + AHEAD_MAX - 20);
        assert!(topic.begin(4));
        assert_eq!(topic.room(4, true), 0, "most of those that may have begun and do not end");
        assert!(topic.begin(4) && !topic.begin(4) && !topic.may_begin(4));
        assert_eq!(topic.may_still_begin(4), 0);
        assert!(topic.begin(5), "its limit may change");
        assert_eq!([topic.end(), topic.end()], [true, false]);

        (0..3).for_each(|_| _ = topic.end());
        topic.note_wait(Duration::from_secs(1));
        (0..50).for_each(|_| topic.note_duration(Duration::from_micros(1)));
        assert_eq!(topic.room(24, true), 4, "of what waited too long nothing is claimed ahead for a while");
    }

    #[tokio::test]
    async fn an_attempt_that_ended_makes_room_unless_too_many_are_to_be_settled() {
        let slots = Slots::new(3, 1);
        let topic = TopicSlots::new(&slots, Metrics::default().topic(&"t".parse().unwrap()), Arc::default());
        let enter_and_end = || {
            let mut slot = topic.enter();
            slot.charge(0, Duration::ZERO);
            slot
        };
        let mut ended: Vec<Slot> = (0..5).map(|_| enter_and_end()).collect();
        assert_eq!((slots.free().all, topic.unsettled(), slots.ended()), (1, 5, (5, 0)));
        assert_eq!(
            (topic.room(7, true), topic.room(7, false)),
            (7, 2),
            "jobs in order wait until the one before is settled"
        );
        assert_eq!(topic.room(3, true), 1, "what its own store does not settle is bounded, too");
        ended.push(enter_and_end());
        assert_eq!((slots.free().all, slots.attempts.count(), slots.unsettled.count()), (0, 0, 6));

        let before = slots.ended();
        let waiter = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.wait_for_room(before).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        ended.pop();
        assert!(!waiter.await.unwrap(), "it was settled");
        assert_eq!(slots.free().all, 1);
        let before = slots.ended();
        let _ended = enter_and_end();
        assert!(slots.wait_for_room(before).await, "it ended");
    }

    #[tokio::test]
    async fn wakes_when_as_many_have_ended_as_were_waited_for() {
        let slots = Slots::new(3, 1);
        let topic = TopicSlots::new(&slots, Metrics::default().topic(&"t".parse().unwrap()), Arc::default());
        let taken = [topic.enter(), topic.enter(), topic.enter()];
        assert_eq!((slots.free().all, topic.unsettled()), (0, 3));

        let waiter = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.attempts.wait_for(2).await }
        });
        let [first, second, third] = taken;
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(second);
        waiter.await.unwrap();
        drop(third);
        assert_eq!((slots.free().all, slots.ended(), topic.unsettled()), (3, (3, 3), 0));
        slots.attempts.wait_for(3).await;
    }
}
