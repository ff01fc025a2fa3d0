//! What a thread of guests does: it takes the guests whose turn it is, runs each guest until it waits or should leave, and passes on what has ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::execute;
use super::guest::{Guest, TurnEnd};
use super::processor_clock::ProcessorClock;
use super::threads::{Shared, Thread};
use super::turns::{SLICE, Turn};
use crate::context::ExecutorContext;
use crate::path::work::{Finished, Work};

/// Turns of guests, some 0.05 ms each if they compute, after which a thread sees which guests wait no longer.
const TURNS_BEFORE_NEWS: u32 = 4;

/// Guests that a thread takes at once, at most: few, so that what comes into line meanwhile is not behind them all.
const SHARE_MAX: usize = 8;

/// Guests that have a thread one after the other, at most, until its runtime looks at timers and sockets though no guest is known to wait for
/// them: to look takes a system call.
const GUESTS_BEFORE_NEWS: usize = 32;

/// Runs guests on this thread until there are none, and no more come.
pub(super) async fn serve(shared: &Arc<Shared>, thread: &Thread, context: Arc<ExecutorContext>) {
    let (clock, others_used, finished) = (ProcessorClock::start(), Duration::ZERO, Vec::with_capacity(2 * SHARE_MAX));
    let mut server = GuestServer { shared, thread, context: &context, clock, others_used, finished, ended: 0 };
    let (mut share, mut since_news) = (1, 0);
    loop {
        let turns = shared.next(share, std::mem::take(&mut server.others_used));
        if turns.is_empty() {
            server.pass_on();
            if shared.has_ended() {
                return;
            }
            thread.called.notified().await;
            server.clock = ProcessorClock::start();
            since_news = 0;
            continue;
        }
        since_news += turns.len();
        let (mut took_turns, mut refused) = (false, Vec::new());
        for turn in turns {
            took_turns |= match turn {
                Turn::Begin(work) if !work.slot.topic().begin(work.concurrency()) => {
                    refused.push(work);
                    false
                }
                Turn::Begin(work) => server.run(begin(shared, work, &context), false).await,
                Turn::GoOn(guest) => server.run(guest, false).await,
                Turn::Slice(guest) => server.run(guest, true).await,
            };
        }
        if !refused.is_empty() {
            shared.put_first(refused);
        }
        if server.finished.len() >= SHARE_MAX {
            server.pass_on();
        }
        if took_turns || since_news >= GUESTS_BEFORE_NEWS || shared.awaits_news() {
            tokio::task::yield_now().await;
            since_news = 0;
        }
        server.others_used += server.clock.lap().used;
        // More each time, as long as guests do not compute.
        share = if took_turns { 1 } else { (share * 2).min(SHARE_MAX) };
    }
}

fn begin(shared: &Arc<Shared>, work: Work, context: &Arc<ExecutorContext>) -> Arc<Guest> {
    let (claim, entry) = (Arc::clone(&work.claim), work.entry.clone());
    let (slots, control) = (Arc::clone(work.slot.topic()), Arc::clone(&work.control));
    // In a box of its own: what is large is moved once, not from hand to hand. How long it may compute is not tokio's to say.
    let attempt = Box::pin(tokio::task::unconstrained(execute(work, Arc::clone(context))));
    Guest::new(shared, claim, entry, slots, control, attempt)
}

/// One thread.
struct GuestServer<'a> {
    shared: &'a Shared,
    thread: &'a Thread,
    context: &'a ExecutorContext,
    clock: ProcessorClock,
    /// What guests have computed that do not compute for long.
    others_used: Duration,
    /// What is still to be passed on to be settled: together, because each call of the store and each thread that is woken costs more than a job.
    finished: Vec<Finished>,
    /// How many have ended since then, with or without something to settle.
    ended: usize,
}

impl GuestServer<'_> {
    /// Runs a guest until it ends, waits, or leaves the thread to others. Returns whether it took several turns.
    async fn run(&mut self, guest: Arc<Guest>, mut has_slice: bool) -> bool {
        let (mut turns, mut slice) = (0_u32, Duration::ZERO);
        loop {
            let end = self.turn(&guest);
            if end == TurnEnd::Computes {
                self.pass_on();
            }
            turns += u32::from(end == TurnEnd::Computes);
            let has_news = end == TurnEnd::Computes && (turns == 1 || turns.is_multiple_of(TURNS_BEFORE_NEWS));
            if has_news {
                tokio::task::yield_now().await;
            }
            if has_news || end != TurnEnd::Computes {
                slice += self.account(&guest, end);
            }
            if end != TurnEnd::Computes {
                self.leave(&guest, end, slice);
                return turns > 0;
            }
            if !guest.is_long() {
                continue;
            }
            let threads = self.shared.threads.len();
            let others = match (guest.start_computing(), slice >= SLICE) {
                (true, _) => usize::MAX,
                (false, false) if has_slice && !self.shared.is_urgent.load(Ordering::Relaxed) => continue,
                // It lets others pass, and then goes on.
                (false, false) if has_slice => 0,
                // As many guests of a topic take turns as there are threads, beside as many that have one.
                (false, _) => threads,
            };
            slice += self.account(&guest, end);
            if self.shared.put_back(&guest, std::mem::take(&mut slice), others) {
                return true;
            }
            has_slice = true;
        }
    }

    /// Offers the processor to other threads whenever the guest yields: with fewer processors than busy threads, a store's answer would
    /// wait behind a guest that computes until the kernel ends its slice, some milliseconds. Costs a guest that computes less than a
    /// hundredth, and others nothing.
    fn turn(&mut self, guest: &Arc<Guest>) -> TurnEnd {
        let turn = self.thread.begin_turn(&guest.entry);
        let end = guest.turn(&mut self.finished);
        drop(turn);
        if end == TurnEnd::Computes {
            std::thread::yield_now();
        }
        end
    }

    /// Has settled what has ended.
    fn pass_on(&mut self) {
        self.shared.finish(std::mem::take(&mut self.ended));
        for finished in self.finished.drain(..) {
            self.context.finished.send(finished).ok();
        }
    }

    /// Notes what a guest has computed since this was done last, and returns what of it counts as computing for long. A guest that ends in
    /// its first turn, as most do, is counted with others.
    fn account(&mut self, guest: &Guest, end: TurnEnd) -> Duration {
        if end == TurnEnd::Ended && !guest.is_computing() {
            return Duration::ZERO;
        }
        let lap = self.clock.lap();
        let was_long = guest.is_long();
        guest.note(lap.used, lap.stood_still);
        if was_long {
            return lap.used;
        }
        self.others_used += lap.used;
        Duration::ZERO
    }

    /// A guest does not compute any more.
    fn leave(&mut self, guest: &Guest, end: TurnEnd, slice: Duration) {
        if guest.stop_computing() {
            self.shared.make_room(guest, slice);
        }
        match end {
            TurnEnd::Ended => {
                self.shared.note_end(guest);
                self.ended += 1;
            }
            TurnEnd::Waits => _ = self.shared.waiting.fetch_add(1, Ordering::Relaxed),
            TurnEnd::Computes => {}
        }
    }
}
