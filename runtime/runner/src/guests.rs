//! The threads that guests run on, one single-threaded runtime each.
//!
//! A guest runs inside `poll`, so a busy one holds its thread until it yields (every some 100,000 units of fuel). On
//! threads of their own they cannot hold up the store's loops; pinned to a thread, an instance meets warm memory slots.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::execute::{ExecutorContext, Work, execute};
use super::run_queue::RunQueue;
use super::slots::Slots;
use super::turns::run_in_turn;
use crate::handlers::TopicHandler;

/// Turns of guests, some 0.05 ms each if they compute, after which a thread sees which guests wait no longer, and what is new in line.
const TURNS_BEFORE_NEWS: u32 = 4;

/// A guest that keeps its thread for so long is named in the log. Guests yield after milliseconds.
const STANDS_STILL: Duration = Duration::from_secs(1);

/// Hands work to the guest threads. Dropping it ends them once they have nothing left.
#[derive(Debug)]
pub(super) struct Guests(Arc<Shared>);

/// One line of work for all threads, so that nothing waits behind a busy guest while another thread is free.
#[derive(Debug)]
struct Shared {
    queue: Mutex<RunQueue<Work>>,
    ended: AtomicBool,
    threads: Vec<Arc<Thread>>,
    /// Which thread is asked first.
    turn: AtomicUsize,
    /// There is work for the watchdog to look at.
    watch: Notify,
}

#[derive(Debug, Default)]
struct Thread {
    /// There is work in line.
    called: Notify,
    /// It sleeps: none of its guests has anything to compute.
    parked: AtomicBool,
    /// Counts when an attempt gets the thread, and when it gives it back: odd in between.
    turns: AtomicU64,
    /// Whose turn it is, or was last.
    topic: Mutex<Option<Arc<TopicHandler>>>,
}

impl Guests {
    /// Starts `count` threads; the handles end when the [`Guests`] is dropped and the last attempt has ended.
    pub(super) fn start(count: usize, context: &Arc<ExecutorContext>) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let count = count.max(1);
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            ended: AtomicBool::new(false),
            threads: (0..count).map(|_| Arc::default()).collect(),
            turn: AtomicUsize::new(0),
            watch: Notify::new(),
        });
        let guests = Self(Arc::clone(&shared));
        let handles = (0..count).map(|number| start(number, Arc::clone(&shared), Arc::clone(context)));
        let handles = handles.collect::<io::Result<_>>()?;
        Ok((guests, handles))
    }

    /// Puts a batch in line, and wakes as many threads as it takes. The line is as long as the runner's slots let it be.
    pub(super) fn hand_over(&self, work: Vec<Work>) {
        let jobs = work.len();
        let mut queue = self.0.queue.lock();
        for work in work {
            let topic = work.claim.lease.topic.clone();
            queue.join(&topic, work);
        }
        drop(queue);
        self.0.call(jobs);
        self.0.watch.notify_one();
    }

    /// Names in the log each guest that keeps its thread for longer than [`STANDS_STILL`], until `stop`. Sleeps while no
    /// attempt is in flight.
    pub(super) fn watchdog(&self, slots: Arc<Slots>, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.0);
        async move { stop.run_until_cancelled(shared.watch(&slots)).await.unwrap_or_default() }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.threads.iter().for_each(|thread| thread.called.notify_one());
    }
}

impl Shared {
    /// One job wakes one thread that sleeps; more of them, or none asleep, and all are called: whoever comes first takes.
    fn call(&self, jobs: usize) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        let (before, behind) = self.threads.split_at(turn);
        let asleep = || behind.iter().chain(before).find(|thread| thread.parked.load(Ordering::Acquire));
        match if jobs == 1 { asleep() } else { None } {
            Some(thread) => thread.called.notify_one(),
            None => self.threads.iter().for_each(|thread| thread.called.notify_one()),
        }
    }

    async fn watch(&self, slots: &Slots) {
        let mut looks: Vec<Look> = self.threads.iter().map(|_| Look::default()).collect();
        loop {
            self.watch.notified().await;
            while slots.running() > 0 {
                tokio::time::sleep(STANDS_STILL).await;
                for (number, (thread, look)) in self.threads.iter().zip(&mut looks).enumerate() {
                    if let Some(entry) = thread.stands_still(look) {
                        warn(number, &entry, look.same);
                    }
                }
            }
        }
    }

    /// At most `share` of what is in line, and no more than the thread's part of it.
    fn take(&self, share: usize) -> Vec<Work> {
        let mut queue = self.queue.lock();
        let share = queue.len().div_ceil(self.threads.len()).min(share);
        (0..share).map_while(|_| queue.next()).collect()
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
    /// An attempt of this topic has the thread, until the answer is dropped.
    fn begin_turn(&self, topic: &Option<Arc<TopicHandler>>) -> Turn<'_> {
        self.topic.lock().clone_from(topic);
        self.turns.fetch_add(1, Ordering::Release);
        Turn(self)
    }

    /// Whose turn it is, if it has been the same turn for 1, 2, 4, ... looks.
    fn stands_still(&self, last: &mut Look) -> Option<Arc<TopicHandler>> {
        let turns = self.turns.load(Ordering::Acquire);
        let is_same = turns == last.turns && turns % 2 == 1;
        *last = Look { turns, same: if is_same { last.same.saturating_add(1) } else { 0 } };
        if last.same.is_power_of_two() { self.topic.lock().clone() } else { None }
    }
}

/// What the watchdog saw of a thread.
#[derive(Debug, Default)]
struct Look {
    turns: u64,
    /// Looks at the same turn before.
    same: u32,
}

struct Turn<'a>(&'a Thread);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turns.fetch_add(1, Ordering::Release);
    }
}

fn start(number: usize, shared: Arc<Shared>, context: Arc<ExecutorContext>) -> io::Result<JoinHandle<()>> {
    let parked = |shared: &Arc<Shared>, parked| {
        let shared = Arc::clone(shared);
        move || {
            if let Some(thread) = shared.threads.get(number) {
                thread.parked.store(parked, Ordering::Release);
            }
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(TURNS_BEFORE_NEWS)
        .global_queue_interval(TURNS_BEFORE_NEWS)
        .on_thread_park(parked(&shared, true))
        .on_thread_unpark(parked(&shared, false))
        .build()?;
    let thread = std::thread::Builder::new().name(format!("guest-{number}"));
    let serve = move || async move {
        if let Some(thread) = shared.threads.get(number) {
            serve(&shared, thread, context).await;
        }
    };
    thread.spawn(move || runtime.block_on(serve()))
}

async fn serve(shared: &Shared, thread: &Arc<Thread>, context: Arc<ExecutorContext>) {
    let next = async |share| {
        loop {
            let work = shared.take(share);
            if !work.is_empty() {
                return Some(work);
            }
            if shared.ended.load(Ordering::Acquire) {
                return None;
            }
            thread.called.notified().await;
        }
    };
    run_in_turn(next, |work: Work| {
        let topic = work.entry.clone();
        // In a box of its own: what is large is moved once, not from hand to hand.
        give_way(Arc::clone(thread), topic, Box::pin(execute(work, Arc::clone(&context))))
    })
    .await;
}

/// Offers the processor to other threads whenever the guest yields: with fewer processors than busy threads, a store's
/// answer would wait behind a guest that computes until the kernel ends its slice, some milliseconds. Costs a guest that
/// computes less than a hundredth, and others nothing.
async fn give_way(
    thread: Arc<Thread>,
    topic: Option<Arc<TopicHandler>>,
    mut attempt: Pin<Box<impl Future<Output = ()> + Send>>,
) {
    poll_fn(|context| {
        let turn = thread.begin_turn(&topic);
        let poll = attempt.as_mut().poll(context);
        drop(turn);
        if poll.is_pending() {
            std::thread::yield_now();
        }
        poll
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_config::Manifest;

    #[test]
    fn a_guest_that_keeps_its_thread_is_named_ever_more_rarely() {
        let manifest = Manifest::parse("[topics.slow]\n", "gristmill.toml".as_ref()).unwrap();
        let registry = crate::handlers::HandlerRegistry::planned(&manifest);
        let slow = registry.get(&"slow".parse().unwrap()).cloned();
        let (thread, mut look) = (Thread::default(), Look::default());
        let mut names = |thread: &Thread| thread.stands_still(&mut look).map(|entry| entry.topic.id.to_string());
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
