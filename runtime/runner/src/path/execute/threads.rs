//! What the threads of guests share: the guests whose turn is to come, and what is known of each thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use super::give_back;
use super::guest::Guest;
use super::turns::{RunOrder, Turn};
use crate::handlers::TopicHandler;
use crate::path::work::{Finished, Work};
use crate::slots::Slots;

/// A guest that keeps its thread for this long is named in the log. Guests yield after milliseconds.
const STANDS_STILL: Duration = Duration::from_secs(1);

/// What a topic has in line beyond its concurrency goes back to the store once the oldest of it has waited for this long.
pub(super) const IN_LINE_MAX: Duration = Duration::from_secs(1);

/// One line for all threads, so that nothing waits behind a busy guest while another thread is free.
#[derive(Debug)]
pub(super) struct Shared {
    turns: Mutex<RunOrder<Work, Arc<Guest>>>,
    /// What was handed over and has not ended. A thread goes on until there is none, since a guest may have its timers there.
    unfinished: AtomicUsize,
    /// A guest that computes for long should leave its thread.
    pub(super) is_urgent: AtomicBool,
    /// Some that compute for long are in line: their time may run out meanwhile.
    has_long: AtomicBool,
    /// How many wait for something. Below zero while one is woken that has just begun to wait.
    pub(super) waiting: AtomicIsize,
    ended: AtomicBool,
    pub(super) threads: Vec<Arc<Thread>>,
    /// Which thread is asked first.
    turn: AtomicUsize,
    /// There is work for the watchdog to sample.
    watch: Notify,
}

/// A thread of guests, as the others and the watchdog see it.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// There is work in line.
    pub(super) called: Notify,
    /// It sleeps: none of its guests has anything to compute.
    parked: AtomicBool,
    /// Counts when an attempt gets the thread, and when it gives it back: odd in between.
    turns: AtomicU64,
    /// Whose turn it is, or was last.
    topic: Mutex<Option<Arc<TopicHandler>>>,
}

impl Shared {
    /// For this many threads, at least one.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            turns: Mutex::default(),
            unfinished: AtomicUsize::new(0),
            is_urgent: AtomicBool::new(false),
            has_long: AtomicBool::new(false),
            waiting: AtomicIsize::new(0),
            ended: AtomicBool::new(false),
            threads: (0..threads).map(|_| Arc::default()).collect(),
            turn: AtomicUsize::new(0),
            watch: Notify::new(),
        }
    }

    /// Puts a batch in line, and wakes as many threads as it takes.
    pub(super) fn join(&self, work: Vec<Work>) {
        let jobs = work.len();
        self.unfinished.fetch_add(jobs, Ordering::AcqRel);
        self.change(jobs, |turns| {
            for work in work {
                let claim = Arc::clone(&work.claim);
                turns.join(&claim.lease.topic, work);
            }
        });
        self.watch.notify_one();
    }

    /// No more comes: the threads end once their queues are empty.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.called.notify_one());
    }

    /// One job wakes one thread that sleeps. With several jobs, or no thread asleep, all threads are called: the first one takes the job.
    fn call(&self, jobs: usize) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        let (before, behind) = self.threads.split_at(turn);
        let asleep = || behind.iter().chain(before).find(|thread| thread.parked.load(Ordering::Acquire));
        match if jobs == 1 { asleep() } else { None } {
            Some(thread) => thread.called.notify_one(),
            None => self.threads.iter().for_each(|thread| thread.called.notify_one()),
        }
    }

    /// Names in the log each guest that keeps its thread for longer than [`STANDS_STILL`], and gives back what has waited in line for
    /// [`IN_LINE_MAX`]. Sleeps while no attempt is in flight.
    pub(super) async fn watch(&self, slots: &Slots, finished: &mpsc::WeakUnboundedSender<Finished>) {
        let mut samples: Vec<WatchdogSample> = self.threads.iter().map(|_| WatchdogSample::default()).collect();
        loop {
            self.watch.notified().await;
            while slots.attempts.count() > 0 {
                tokio::time::sleep(STANDS_STILL).await;
                self.give_back(finished);
                for (number, (thread, sample)) in self.threads.iter().zip(&mut samples).enumerate() {
                    if let Some(entry) = thread.stands_still(sample) {
                        warn(number, &entry, sample.same);
                    }
                }
            }
        }
    }

    /// Other runners may do now what is in line here beyond what its topic may begin: those that have begun take longer than those before.
    pub(super) fn give_back(&self, finished: &mpsc::WeakUnboundedSender<Finished>) {
        let Some(finished) = finished.upgrade() else { return };
        let keeps = |work: &Work| match work.arrived.elapsed() {
            waited if waited >= IN_LINE_MAX => work.slot.topic().may_still_begin(work.concurrency()),
            _ => usize::MAX,
        };
        let surplus = self.change(0, |turns| turns.shorten(keeps));
        self.finish(surplus.len());
        for work in surplus {
            work.slot.topic().note_wait(work.arrived.elapsed());
            finished.send(give_back(work)).ok();
        }
    }

    /// Work that was to begin may not, and is the next of its topic.
    pub(super) fn put_first(&self, work: Vec<Work>) {
        self.change(work.len(), |turns| {
            for work in work.into_iter().rev() {
                let claim = Arc::clone(&work.claim);
                turns.put_first(&claim.lease.topic, work);
            }
        });
    }

    /// A guest has ended. What was held back because of it may begin.
    pub(super) fn note_end(&self, guest: &Guest) {
        if guest.slots.end() {
            self.change(1, |turns| turns.reopen(guest.topic()));
        }
    }

    /// Changes the line, and wakes as many threads as there are guests more in it.
    fn change<T>(&self, more: usize, change: impl FnOnce(&mut RunOrder<Work, Arc<Guest>>) -> T) -> T {
        let mut turns = self.turns.lock();
        let answer = change(&mut turns);
        self.is_urgent.store(turns.is_urgent(), Ordering::Relaxed);
        self.has_long.store(turns.has_long(), Ordering::Relaxed);
        drop(turns);
        if more > 0 {
            self.call(more);
        }
        answer
    }

    /// A guest waits no longer.
    pub(super) fn wake(&self, guest: Arc<Guest>) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.change(1, |turns| turns.wake(guest));
    }

    /// A guest that computes for long and is in line was woken: it may have to end.
    pub(super) fn hurry(&self, guest: &Arc<Guest>) {
        self.change(1, |turns| turns.hurry(guest.topic(), |other| Arc::ptr_eq(other, guest)));
    }

    /// A guest that computes for long, and has computed for this long since the last call, leaves its thread if another waits for it. It
    /// gets in line behind this many others of its topic at most.
    pub(super) fn put_back(&self, guest: &Arc<Guest>, used: Duration, others: usize) -> bool {
        let is_awaited = self.change(0, |turns| {
            turns.note_long(used);
            let is_awaited = turns.is_awaited();
            if is_awaited {
                guest.get_in_line();
                turns.put_back(guest.topic(), Arc::clone(guest), others);
            }
            is_awaited
        });
        if is_awaited {
            self.call(1);
        }
        is_awaited
    }

    /// A guest that computed for long does so no longer: another of its topic may begin.
    pub(super) fn make_room(&self, guest: &Guest, used: Duration) {
        self.change(1, |turns| {
            turns.note_long(used);
            turns.reopen(guest.topic());
        });
    }

    /// Whose turn it is: at most `share` guests. Those that had the thread before and did not compute for long used it for this long.
    pub(super) fn next(&self, share: usize, used: Duration) -> Vec<Turn<Work, Arc<Guest>>> {
        self.change(0, |turns| {
            turns.note_others(used);
            turns.next(share, self.threads.len(), |work| work.slot.topic().may_begin(work.concurrency()))
        })
    }

    /// Whether a guest may wait for a timer or a socket.
    pub(super) fn awaits_news(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0 || self.has_long.load(Ordering::Relaxed)
    }

    /// This many have ended.
    pub(super) fn finish(&self, ended: usize) {
        let is_last = self.unfinished.fetch_sub(ended, Ordering::AcqRel) == ended;
        if is_last && self.ended.load(Ordering::Acquire) {
            self.threads.iter().for_each(|thread| thread.called.notify_one());
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) && self.unfinished.load(Ordering::Acquire) == 0
    }
}

fn warn(thread: usize, entry: &TopicHandler, seconds: u32) {
    let topic = &entry.topic.id;
    let handler = entry.handler.as_ref().map(|handler| handler.name.as_str());
    let version = entry.handler.as_ref().map(|handler| tracing::field::display(&handler.code));
    tracing::warn!(
        target: "gristmill::runner", thread, %topic, handler, version,
        "a guest thread stands still: its guest has not yielded for {seconds} s",
    );
}

impl Thread {
    pub(super) fn set_parked(&self, parked: bool) {
        self.parked.store(parked, Ordering::Release);
    }

    /// An attempt of this topic has the thread, until the answer is dropped.
    pub(super) fn begin_turn(&self, topic: &Option<Arc<TopicHandler>>) -> HeldThread<'_> {
        let mut current = self.topic.lock();
        // Mostly it is the one that had it before: threads that count its references take turns for its memory.
        if current.as_ref().map(Arc::as_ptr) != topic.as_ref().map(Arc::as_ptr) {
            current.clone_from(topic);
        }
        drop(current);
        self.turns.fetch_add(1, Ordering::Release);
        HeldThread(self)
    }

    /// Whose turn it is, if it has been the same turn for 1, 2, 4, ... samples.
    fn stands_still(&self, last: &mut WatchdogSample) -> Option<Arc<TopicHandler>> {
        let turns = self.turns.load(Ordering::Acquire);
        let is_same = turns == last.turns && turns % 2 == 1;
        *last = WatchdogSample { turns, same: if is_same { last.same.saturating_add(1) } else { 0 } };
        if last.same.is_power_of_two() { self.topic.lock().clone() } else { None }
    }
}

/// What the watchdog saw of a thread.
#[derive(Debug, Default)]
struct WatchdogSample {
    turns: u64,
    /// Earlier samples of the same turn.
    same: u32,
}

/// An attempt has the thread while this lives.
pub(super) struct HeldThread<'a>(&'a Thread);

impl Drop for HeldThread<'_> {
    fn drop(&mut self) {
        self.0.turns.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::context::Context;
    use crate::handlers::HandlerRegistry;
    use crate::slots::TopicSlots;
    use gristmill_config::Manifest;
    use gristmill_core::job::{Due, JobSpec, NewJob, Payload, TopicId};
    use gristmill_metrics::Metrics;
    use gristmill_store::ClaimFrom;
    use gristmill_store::embedded::EmbeddedStore;

    #[tokio::test]
    async fn a_guest_whose_topic_was_gone_lets_what_is_held_back_begin_when_it_ends() {
        let context = Context::of(Arc::new(EmbeddedStore::in_memory().await.unwrap()));
        let topic: TopicId = "slow".parse().unwrap();
        let job = NewJob { spec: JobSpec::new(topic.clone(), Payload::default()), due: Due::Now };
        context.store.push(&[job]).await.unwrap();
        let from = [ClaimFrom::new(topic.clone(), 1, Duration::from_secs(60))];
        let claimed = context.store.claim(&context.worker, &from).await.unwrap();
        let (claim, control) = context.in_flight.take(claimed.claims).pop().unwrap();
        let manifest = Manifest::parse("[topics.slow]\nconcurrency = 1\n", "gristmill.toml".as_ref()).unwrap();
        let entry = HandlerRegistry::planned(&manifest).get(&topic).cloned();
        let (shared, slots) = (Arc::new(Shared::new(1)), Slots::new(8, 1));
        let of_topic = TopicSlots::new(&slots, Metrics::default().topic(&topic), Arc::default());
        let (of_guest, its_control) = (Arc::clone(&of_topic), Arc::clone(&control));
        let attempt = Box::pin(std::future::pending::<Finished>());
        let guest = Guest::new(&shared, Arc::clone(&claim), None, of_guest, its_control, attempt);
        assert!(of_topic.begin(usize::MAX));
        let (slot, arrived) = (of_topic.enter(), Instant::now());
        shared.join(vec![Work { claim, entry, slot, arrived, clock_offset_ms: 0, control }]);
        assert!(shared.next(1, Duration::ZERO).is_empty(), "it is held back");
        shared.note_end(&guest);
        assert_eq!(shared.next(1, Duration::ZERO).len(), 1);
    }

    #[test]
    fn a_guest_that_keeps_its_thread_is_named_ever_more_rarely() {
        let manifest = Manifest::parse("[topics.slow]\n", "gristmill.toml".as_ref()).unwrap();
        let registry = HandlerRegistry::planned(&manifest);
        let slow = registry.get(&"slow".parse().unwrap()).cloned();
        let (thread, mut sample) = (Thread::default(), WatchdogSample::default());
        let mut names = |thread: &Thread| thread.stands_still(&mut sample).map(|entry| entry.topic.id.to_string());
        assert_eq!(names(&thread), None, "it is idle");
        for _ in 0..2 {
            let turn = thread.begin_turn(&slow);
            let named: Vec<bool> = (0..9).map(|_| names(&thread).is_some()).collect();
            assert_eq!(named, [false, true, true, false, true, false, false, false, true]);
            assert_eq!((names(&thread), names(&thread)), (None, None));
            drop(turn);
            assert_eq!(names(&thread), None);
        }
        drop(thread.begin_turn(&slow));
        let _another = thread.begin_turn(&slow);
        assert_eq!(names(&thread), None, "it gave the thread back in between");
    }
}
