//! The waiting line: claims that found no job wait here, and are woken in the order in which they came.
//!
//! A signal wakes one waiter, not a thousand for one job. A woken waiter looks at its topics and then wakes the next one,
//! unless it found them empty. A thousand waiters cost the store no more than one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::stream::signal_hub::{Listener, SignalHub};
use gristmill_core::job::{Name, TopicId};
use gristmill_runner::handlers::HandlerRegistry;
use gristmill_store::{Signal, StoreError};

/// How often the first waiters look without a signal: signals are best effort.
const LOOK: Duration = Duration::from_secs(5);

/// One line for each tenant for which claims wait.
#[derive(Debug, Default)]
pub(super) struct WaitingLine(Mutex<HashMap<Name, Weak<TenantLine>>>);

#[derive(Debug)]
struct TenantLine {
    waiters: Arc<Mutex<Waiters>>,
    /// Wakes waiters for as long as the line has any.
    waking: JoinHandle<()>,
}

/// The waiting claims of a tenant, by number in the order in which they came.
#[derive(Debug, Default)]
struct Waiters {
    last: u64,
    calls: HashMap<u64, (Arc<[TopicId]>, Arc<Notify>)>,
    /// By topic, the waiters that were not woken since they last began to look.
    asleep: HashMap<TopicId, BTreeSet<u64>>,
}

/// A waiting claim. Dropped, it leaves the line, and wakes the next one if there may be more jobs.
#[derive(Debug)]
pub(super) struct Waiter {
    line: Arc<TenantLine>,
    number: u64,
    call: Arc<Notify>,
    /// It looks at its topics, or has found jobs: there may be more, or some that go back.
    may_be_more: bool,
}

impl WaitingLine {
    /// Joins the line of a tenant. A job that becomes ready after this has returned wakes a waiter, so look again then. So do `changes` of topics, whose
    /// limits may allow more.
    ///
    /// # Errors
    /// The store takes no subscription.
    pub(super) async fn join(
        &self,
        hub: &SignalHub,
        changes: Option<watch::Receiver<Arc<HandlerRegistry>>>,
        tenant: &Name,
        topics: &[TopicId],
    ) -> Result<Waiter, StoreError> {
        let signals = hub.listen(tenant).await?;
        let mut lines = self.0.lock();
        let line = lines.get(tenant).and_then(Weak::upgrade).unwrap_or_else(|| {
            let line = Arc::new(TenantLine::new(signals, changes));
            lines.retain(|_, line| line.strong_count() > 0);
            lines.insert(tenant.clone(), Arc::downgrade(&line));
            line
        });
        let (number, call) = line.waiters.lock().join(topics.into());
        Ok(Waiter { line, number, call, may_be_more: false })
    }
}

impl TenantLine {
    fn new(signals: Listener, changes: Option<watch::Receiver<Arc<HandlerRegistry>>>) -> Self {
        let waiters = Arc::<Mutex<Waiters>>::default();
        let changes = changes.unwrap_or_else(|| watch::Sender::default().subscribe());
        let waking = tokio::spawn(wake(signals, changes, Arc::clone(&waiters)));
        Self { waiters, waking }
    }
}

impl Drop for TenantLine {
    fn drop(&mut self) {
        self.waking.abort();
    }
}

async fn wake(mut signals: Listener, mut changes: watch::Receiver<Arc<HandlerRegistry>>, waiters: Arc<Mutex<Waiters>>) {
    // Not in step with other servers.
    let mut looks = tokio::time::interval_at(Instant::now() + LOOK.mul_f64(0.5 + fastrand::f64() / 2.0), LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Signal::Ready(topic) => waiters.lock().wake_for([topic]),
                Signal::Lost => waiters.lock().wake_all(),
                Signal::Due { .. }
                | Signal::Finished { .. }
                | Signal::Cancelled { .. }
                | Signal::Killed { .. }
                | Signal::Deployed(_) => {}
            },
            Ok(()) = changes.changed() => waiters.lock().wake_all(),
            _ = looks.tick() => waiters.lock().wake_all(),
        }
    }
}

impl Waiters {
    fn join(&mut self, topics: Arc<[TopicId]>) -> (u64, Arc<Notify>) {
        let call = Arc::<Notify>::default();
        self.last += 1;
        self.calls.insert(self.last, (topics, Arc::clone(&call)));
        (self.last, call)
    }

    fn fall_asleep(&mut self, number: u64) {
        let topics = self.calls.get(&number).into_iter().flat_map(|(topics, _)| topics.iter());
        for topic in topics {
            self.asleep.entry(topic.clone()).or_default().insert(number);
        }
    }

    /// Takes a waiter out of those that sleep. Returns whether it did.
    fn rouse(&mut self, number: u64) -> bool {
        let mut slept = false;
        let topics = self.calls.get(&number).into_iter().flat_map(|(topics, _)| topics.iter());
        for topic in topics {
            if let Some(asleep) = self.asleep.get_mut(topic) {
                slept |= asleep.remove(&number);
                if asleep.is_empty() {
                    self.asleep.remove(topic);
                }
            }
        }
        slept
    }

    /// Wakes sleepers, the first ones first, until each topic that has any has one that will look at it.
    fn wake_for(&mut self, topics: impl IntoIterator<Item = TopicId>) {
        let mut topics: BTreeSet<TopicId> = topics.into_iter().collect();
        while let Some(topic) = topics.pop_first() {
            let Some(first) = self.asleep.get(&topic).and_then(BTreeSet::first).copied() else { continue };
            self.rouse(first);
            if let Some((looks_at, call)) = self.calls.get(&first) {
                call.notify_one();
                topics.retain(|topic| !looks_at.contains(topic));
            }
        }
    }

    fn wake_all(&mut self) {
        let topics: Vec<TopicId> = self.asleep.keys().cloned().collect();
        self.wake_for(topics);
    }

    fn leave(&mut self, number: u64, may_be_more: bool) {
        let slept = self.rouse(number);
        let Some((topics, _)) = self.calls.remove(&number) else { return };
        // It was woken and did not look to the end, or it found more than it could take.
        if may_be_more || !slept {
            self.wake_for(topics.iter().cloned());
        }
    }
}

impl Waiter {
    /// Must be called before each look: a signal from now on wakes it again.
    pub(super) fn begin_look(&mut self) {
        self.may_be_more = true;
        self.line.waiters.lock().fall_asleep(self.number);
    }

    /// Must be called after each look. One whose client has gone away before that may have taken jobs. They are given back without a signal if
    /// they were the last in line, because no claim has found the line empty.
    pub(super) fn end_look(&mut self, has_found_some: bool) {
        self.may_be_more = has_found_some;
    }

    /// Waits to be woken. Cancel-safe.
    pub(super) async fn woken(&self) {
        self.call.notified().await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.line.waiters.lock().leave(self.number, self.may_be_more);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use gristmill_store::embedded::EmbeddedStore;

    fn topics(names: &str) -> Vec<TopicId> {
        names.split(' ').map(|name| name.parse().unwrap()).collect()
    }

    /// Waiters for these topics, asleep.
    fn asleep(of: &[&str]) -> Waiters {
        let mut waiters = Waiters::default();
        for names in of {
            let (number, _) = waiters.join(topics(names).into());
            waiters.fall_asleep(number);
        }
        waiters
    }

    fn awake(waiters: &Waiters) -> Vec<u64> {
        let asleep: BTreeSet<u64> = waiters.asleep.values().flatten().copied().collect();
        (1..=waiters.last).filter(|number| waiters.calls.contains_key(number) && !asleep.contains(number)).collect()
    }

    #[test]
    fn a_signal_wakes_the_first_sleeper_of_its_topic_only() {
        let mut waiters = asleep(&["a", "b", "a b", "b"]);
        waiters.wake_for(topics("b"));
        assert_eq!(awake(&waiters), [2]);
        waiters.wake_for(topics("b"));
        assert_eq!(awake(&waiters), [2, 3]);
        waiters.wake_for(topics("c"));
        assert_eq!(awake(&waiters), [2, 3]);
        waiters.fall_asleep(2);
        waiters.wake_for(topics("b"));
        assert_eq!(awake(&waiters), [2, 3]);
    }

    #[test]
    fn a_lost_signal_wakes_one_sleeper_for_each_topic() {
        let mut waiters = asleep(&["a b c", "a b c", "c d", "d"]);
        waiters.wake_all();
        assert_eq!(awake(&waiters), [1, 3]);
    }

    #[test]
    fn a_waiter_that_leaves_wakes_the_next_one_if_there_may_be_jobs() {
        let mut waiters = asleep(&["a", "a", "a", "a"]);
        waiters.leave(1, false);
        assert!(awake(&waiters).is_empty(), "it slept: there was nothing");
        waiters.wake_for(topics("a"));
        waiters.leave(2, false);
        assert_eq!(awake(&waiters), [3], "it was woken and did not look");
        waiters.fall_asleep(3);
        waiters.leave(3, true);
        assert_eq!(awake(&waiters), [4], "it departed with a job");
        waiters.leave(4, true);
        assert!(waiters.asleep.is_empty() && waiters.calls.is_empty());
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_in_the_midst_of_its_look_wakes_the_next_one() {
        let (hub, line) = (SignalHub::new(Arc::new(EmbeddedStore::in_memory().await.unwrap())), WaitingLine::default());
        let topics = topics("a");
        let join = async || line.join(&hub, None, &topics[0].tenant, &topics).await.unwrap();
        let (mut first, mut second) = (join().await, join().await);
        second.begin_look();
        second.end_look(false);
        first.begin_look();
        drop(first);
        assert!(second.woken().now_or_never().is_some(), "the signal that woke the first one may be its own");
        second.begin_look();
        second.end_look(false);
        let mut third = join().await;
        third.begin_look();
        third.end_look(false);
        drop(third);
        assert!(second.woken().now_or_never().is_none(), "it found nothing");
    }

    #[tokio::test]
    async fn topics_that_change_wake_a_waiter_at_once() {
        let (hub, line) = (SignalHub::new(Arc::new(EmbeddedStore::in_memory().await.unwrap())), WaitingLine::default());
        let (topics, changes) = (topics("a"), watch::Sender::<Arc<HandlerRegistry>>::default());
        let mut waiter = line.join(&hub, Some(changes.subscribe()), &topics[0].tenant, &topics).await.unwrap();
        waiter.begin_look();
        waiter.end_look(false);
        changes.send_replace(Arc::default());
        // The task that wakes waiters has its turn.
        tokio::task::yield_now().await;
        assert!(waiter.woken().now_or_never().is_some(), "a limit may have been raised");
    }
}
