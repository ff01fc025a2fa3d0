//! The order in which one thread runs its guests: those that have begun go on before others begin.
//!
//! A guest that computes yields often. If all jobs in line began at once and took turns, an interpreter would find at each turn that
//! the others have displaced its memory from the processor's caches, and the thread would hold the memory of all of them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio_util::task::TaskTracker;

/// A guest that computes keeps others from beginning on its thread for so many turns, some 3 ms. Most jobs are done by then, those of
/// interpreters too. After that it takes turns with what begins.
const FIRST_TURNS: u32 = 64;

/// Jobs that a thread takes at once, at most: few, so that what comes into line meanwhile is not behind them all.
const SHARE_MAX: usize = 8;

/// Runs what `next` hands out, each as a task of its own, until that is `None` and all tasks have ended. `next` is told how many are
/// wanted at most: one at first and after guests that took several turns, then twice as many each time. Must be called within a tokio
/// runtime of one thread.
pub(super) async fn run_in_turn<T, F>(next: impl AsyncFn(usize) -> Option<Vec<T>>, run: impl Fn(T) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (tasks, begun) = (TaskTracker::new(), Arc::<Begun>::default());
    let mut share = 1;
    loop {
        if !begun.go_on(tasks.len()) {
            let Some(work) = next(share).await else { break };
            begun.beginning.store(work.len(), Ordering::Relaxed);
            for work in work {
                tasks.spawn(Arc::clone(&begun).watch(run(work)));
            }
        }
        tokio::task::yield_now().await;
        share = if begun.took_turns() { 1 } else { (share * 2).min(SHARE_MAX) };
    }
    tasks.close();
    tasks.wait().await;
}

/// The guests of one thread that have begun. Only that thread uses it.
#[derive(Debug, Default)]
struct Begun {
    /// How many have not had a turn yet.
    beginning: AtomicUsize,
    /// One of them had a turn since the last look.
    had_turn: AtomicBool,
    /// A turn among its first [`FIRST_TURNS`] was not enough for one of them, since that was asked last.
    took_turns: AtomicBool,
    /// Turns since the last such turn.
    turns_since_first: AtomicUsize,
}

impl Begun {
    /// Whether one of `guests` computes that has not had its first turns. Guests that wait have no turns.
    fn go_on(&self, guests: usize) -> bool {
        let had_turn = self.had_turn.swap(false, Ordering::Relaxed);
        self.beginning.load(Ordering::Relaxed) > 0
            || had_turn && self.turns_since_first.load(Ordering::Relaxed) < guests
    }

    /// Whether a guest took more than one turn since this was asked last.
    fn took_turns(&self) -> bool {
        self.took_turns.swap(false, Ordering::Relaxed)
    }

    async fn watch(self: Arc<Self>, guest: impl Future<Output = ()>) {
        let mut guest = pin!(guest);
        let mut turns = 0_u32;
        std::future::poll_fn(|context| {
            let poll = guest.as_mut().poll(context);
            self.note_turn(turns, poll.is_pending());
            turns = turns.saturating_add(1);
            poll
        })
        .await;
    }

    /// Notes a turn of a guest that had `turns` before.
    fn note_turn(&self, turns: u32, is_pending: bool) {
        if turns == 0 {
            self.beginning.fetch_sub(1, Ordering::Relaxed);
        }
        self.had_turn.store(true, Ordering::Relaxed);
        let since = if turns >= FIRST_TURNS {
            self.turns_since_first.load(Ordering::Relaxed).saturating_add(1)
        } else if is_pending {
            self.took_turns.store(true, Ordering::Relaxed);
            0
        } else {
            usize::MAX
        };
        self.turns_since_first.store(since, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::task::Poll;

    use parking_lot::Mutex;
    use tokio::sync::Semaphore;

    use super::*;

    /// Hands out these numbers.
    fn numbers(count: usize) -> impl AsyncFn(usize) -> Option<Vec<usize>> {
        let line: RefCell<VecDeque<usize>> = RefCell::new((0..count).collect());
        async move |share| {
            let mut line = line.borrow_mut();
            let share = share.min(line.len());
            (share > 0).then(|| line.drain(..share).collect())
        }
    }

    /// Computes for one turn.
    async fn turn() {
        let mut is_over = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut is_over, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    #[tokio::test]
    async fn a_guest_that_has_begun_goes_on_before_another_begins() {
        let seen = Arc::<Mutex<Vec<usize>>>::default();
        let run = |number| {
            let seen = Arc::clone(&seen);
            async move {
                for _ in 0..20 {
                    seen.lock().push(number);
                    turn().await;
                }
            }
        };
        run_in_turn(numbers(30), run).await;
        let expected: Vec<usize> = (0..30).flat_map(|number| [number; 20]).collect();
        assert_eq!(*seen.lock(), expected);
    }

    #[tokio::test]
    async fn while_guests_wait_others_begin() {
        let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let run = |_| {
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            async move {
                turn().await;
                begun.add_permits(1);
                let _permit = go.acquire().await;
            }
        };
        let all_begin = async {
            let _all = begun.acquire_many(300).await.unwrap();
            go.close();
        };
        tokio::join!(run_in_turn(numbers(300), run), all_begin);
    }

    #[tokio::test]
    async fn a_guest_that_computes_for_long_takes_turns_with_the_next_one_by_one() {
        const LONG: usize = 3;
        let seen = Arc::<Mutex<Vec<usize>>>::default();
        let done = Arc::new(AtomicUsize::new(0));
        let run = |number| {
            let (seen, done) = (Arc::clone(&seen), Arc::clone(&done));
            async move {
                if number < LONG {
                    while done.load(Ordering::Relaxed) < 10 {
                        turn().await;
                    }
                    return;
                }
                for _ in 0..20 {
                    seen.lock().push(number);
                    turn().await;
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        run_in_turn(numbers(LONG + 10), run).await;
        let expected: Vec<usize> = (LONG..LONG + 10).flat_map(|number| [number; 20]).collect();
        assert_eq!(*seen.lock(), expected);
    }
}
