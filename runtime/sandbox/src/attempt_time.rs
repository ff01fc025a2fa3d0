//! An attempt's time: what it computes, and what it waits for the host's answers. What it waits for a thread does not count.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use super::attempt::AttemptControl;
use super::classify::Stopped;

/// Turns after the alarm in which the guest may go on: the runner notes every few turns that a thread stood still, and then more time remains.
const LAST_TURNS: u32 = 8;

/// The clock of an attempt, which stands still while others have the thread.
pub(super) struct AttemptTime<'a> {
    control: &'a AttemptControl,
    started: Instant,
    /// What was waited before.
    waited: Duration,
    timeout: Duration,
}

impl<'a> AttemptTime<'a> {
    pub(super) fn start(control: &'a AttemptControl, timeout: Duration) -> Self {
        Self { control, started: Instant::now(), waited: control.waited(), timeout }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    fn remaining(&self) -> Duration {
        let waited = self.control.waited().saturating_sub(self.waited);
        self.timeout.saturating_sub(self.started.elapsed().saturating_sub(waited))
    }
}

/// A call within the attempt's time. When that is up the call's future is dropped, which unwinds the guest's stack; its store can then
/// still be read, but not entered.
pub(super) async fn within<T>(
    time: &AttemptTime<'_>,
    call: impl Future<Output = Result<T, Stopped>>,
) -> Result<T, Stopped> {
    // Pinned where it is: it is large.
    let mut call = pin!(call);
    // A call that ends at once needs none.
    let mut alarm: Option<Pin<Box<Sleep>>> = None;
    let mut late_turns = 0;
    poll_fn(|context| {
        if late_turns >= LAST_TURNS && time.remaining().is_zero() {
            return Poll::Ready(Err(Stopped::Deadline));
        }
        if let Poll::Ready(ended) = call.as_mut().poll(context) {
            return Poll::Ready(ended);
        }
        let alarm = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(time.remaining())));
        while alarm.as_mut().poll(context).is_ready() {
            let remaining = time.remaining();
            if remaining.is_zero() {
                late_turns += 1;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            late_turns = 0;
            alarm.as_mut().reset(tokio::time::Instant::now() + remaining);
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(5);

    /// A guest that never ends. Each of its turns takes as long as all may, and is called a wait if `others` have the thread meanwhile.
    async fn endless(control: &AttemptControl, turns: &mut u32, others: u32) -> Result<(), Stopped> {
        loop {
            *turns += 1;
            let begun = Instant::now();
            while begun.elapsed() < TIMEOUT {}
            if *turns <= others {
                control.note_wait(2 * TIMEOUT);
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn the_clock_stands_still_while_others_have_the_thread() {
        for others in [0, 4] {
            let (control, mut turns) = (AttemptControl::default(), 0);
            let ended = within(&AttemptTime::start(&control, TIMEOUT), endless(&control, &mut turns, others)).await;
            assert!(matches!(ended, Err(Stopped::Deadline)));
            assert!(turns > others, "{turns} turns");
        }
    }

    #[tokio::test]
    async fn what_the_guest_waits_for_counts() {
        let control = AttemptControl::default();
        let ended = within(&AttemptTime::start(&control, TIMEOUT), std::future::pending::<Result<(), Stopped>>()).await;
        assert!(matches!(ended, Err(Stopped::Deadline)));
    }
}
