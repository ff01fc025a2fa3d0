//! The threads that guests run on, one single-threaded runtime each.
//!
//! A guest runs inside `poll`, so a busy one holds its thread until it yields (every some 100,000 units of fuel). On
//! threads of their own they cannot hold up the store's loops; pinned to a thread, an instance meets warm memory slots.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::execute::{ExecutorContext, Work, execute};
use super::run_queue::RunQueue;

/// Jobs that a thread takes at once: few, so that what comes into line meanwhile is not behind them all.
const SHARE: usize = 8;

/// Hands work to the guest threads. Dropping it ends them once they have nothing left.
#[derive(Debug)]
pub(super) struct Guests(Arc<Shared>);

/// One line of work for all threads, so that nothing waits behind a busy guest while another thread is free.
#[derive(Debug)]
struct Shared {
    queue: Mutex<RunQueue<Work>>,
    ended: AtomicBool,
    threads: Vec<Thread>,
    /// Which thread is asked first.
    turn: AtomicUsize,
}

#[derive(Debug, Default)]
struct Thread {
    /// There is work in line.
    called: Notify,
    /// It sleeps: none of its guests has anything to compute.
    parked: AtomicBool,
}

impl Guests {
    /// Starts `count` threads; the handles end when the [`Guests`] is dropped and the last attempt has ended.
    pub(super) fn start(count: usize, context: &Arc<ExecutorContext>) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let count = count.max(1);
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            ended: AtomicBool::new(false),
            threads: (0..count).map(|_| Thread::default()).collect(),
            turn: AtomicUsize::new(0),
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

    /// A share of what is in line, and no more than the thread's part of it.
    fn take(&self) -> Vec<Work> {
        let mut queue = self.queue.lock();
        let share = queue.len().div_ceil(self.threads.len()).min(SHARE);
        (0..share).map_while(|_| queue.next()).collect()
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
        .on_thread_park(parked(&shared, true))
        .on_thread_unpark(parked(&shared, false))
        .build()?;
    let thread = std::thread::Builder::new().name(format!("guest-{number}"));
    let serve = move || async move {
        if let Some(thread) = shared.threads.get(number) {
            serve(&shared, thread, context).await;
        }
    };
    thread.spawn(move || runtime.block_on(tokio::task::LocalSet::new().run_until(serve())))
}

async fn serve(shared: &Shared, thread: &Thread, context: Arc<ExecutorContext>) {
    let attempts = TaskTracker::new();
    loop {
        let work = shared.take();
        if !work.is_empty() {
            for work in work {
                // In a box of its own: what is large is moved once, not from hand to hand.
                attempts.spawn_local(give_way(Box::pin(execute(work, Arc::clone(&context)))));
            }
            // These run first; then, if the other threads have left any, there is more.
            tokio::task::yield_now().await;
        } else if shared.ended.load(Ordering::Acquire) {
            break;
        } else {
            thread.called.notified().await;
        }
    }
    attempts.close();
    attempts.wait().await;
}

/// Offers the processor to other threads whenever the guest yields: with fewer processors than busy threads, a store's
/// answer would wait behind a guest that computes until the kernel ends its slice, some milliseconds. Costs a guest that
/// computes less than a hundredth, and others nothing.
async fn give_way(mut attempt: Pin<Box<impl Future<Output = ()>>>) {
    poll_fn(|context| {
        let poll = attempt.as_mut().poll(context);
        if poll.is_pending() {
            std::thread::yield_now();
        }
        poll
    })
    .await;
}
