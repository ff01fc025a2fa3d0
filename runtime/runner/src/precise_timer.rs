//! Waits precisely: tokio's timers count whole milliseconds and wake up to two of them late, which would be most of a
//! delayed job's lateness. A thread that waits on a condition variable wakes within a tenth of a millisecond.

use std::io;
#[cfg(target_os = "linux")]
use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

/// A timer with a thread of its own.
#[derive(Debug)]
pub(super) struct PreciseTimer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    setting: Mutex<Setting>,
    changed: Condvar,
    rang: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
enum Setting {
    #[default]
    Off,
    At(Instant),
    /// No task can set it any more.
    Ended,
}

impl PreciseTimer {
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn new() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        thread::Builder::new().name("timer".into()).spawn(move || own.ring())?;
        Ok(Self(shared))
    }

    /// Waits until then; not at all if it is past. Cancel-safe. One waiter at a time.
    pub(super) async fn wait_until(&self, then: Instant) {
        // Also passes over the ring of a wait that was given up.
        while Instant::now() < then {
            let rang = self.0.rang.notified();
            self.0.set(Setting::At(then));
            rang.await;
        }
    }
}

impl Drop for PreciseTimer {
    fn drop(&mut self) {
        self.0.set(Setting::Ended);
    }
}

impl Shared {
    fn set(&self, setting: Setting) {
        *self.setting.lock() = setting;
        self.changed.notify_one();
    }

    /// The thread: until the timer is dropped.
    fn ring(&self) {
        // The kernel may wake a thread this much later than asked: 50 µs, unless the thread says otherwise.
        #[cfg(target_os = "linux")]
        rustix::thread::set_current_timer_slack(NonZero::new(1)).ok();
        let mut setting = self.setting.lock();
        loop {
            match *setting {
                Setting::Ended => return,
                Setting::Off => self.changed.wait(&mut setting),
                Setting::At(then) if then <= Instant::now() => {
                    *setting = Setting::Off;
                    self.rang.notify_one();
                }
                Setting::At(then) => drop(self.changed.wait_until(&mut setting, then)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn wakes_no_earlier_than_asked_and_can_be_set_again() {
        let timer = PreciseTimer::new().unwrap();
        let past = Instant::now();
        timer.wait_until(past).await;
        tokio::select! {
            biased;
            () = timer.wait_until(past + Duration::from_secs(3600)) => panic!("woke an hour early"),
            () = tokio::task::yield_now() => {}
        }
        for wait in [Duration::from_micros(300), Duration::from_millis(2)] {
            let then = Instant::now() + wait;
            timer.wait_until(then).await;
            assert!(Instant::now() >= then);
        }
    }
}
