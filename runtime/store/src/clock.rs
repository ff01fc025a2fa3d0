//! Whose clock rules: the store's own, or a test's; how far it is from this host's; and the bounds of the times that stores keep.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StoreError;
use gristmill_core::time::{Timestamp, whole_millis};
use gristmill_core::units::about_duration;

/// The latest time that a store can keep, in milliseconds: late in the year 5138. Lua 5.1 writes whole numbers of up to
/// 14 digits without an exponent.
const LATEST_MS: u64 = 99_999_999_999_999;

/// Until when a job is delayed that waits for others: a time that never comes.
pub(super) const NEVER: Timestamp = Timestamp::from_millis(LATEST_MS);

/// A store's clock that is less than this ahead of the host's, or behind it, is as right as clocks of two machines are: Redis' own clock is
/// corrected by as much without a word, and leases and the time after which a worker counts as dead leave room for it.
const NOTICED: Duration = Duration::from_secs(2);

/// How far a store's clock is from this host's, as of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockOffset {
    /// What the store's clock shows, in milliseconds since 1970.
    #[serde(rename = "store_ms")]
    pub store: Timestamp,
    /// What this host's clock shows.
    #[serde(rename = "host_ms")]
    pub host: Timestamp,
}

impl ClockOffset {
    /// Asks a store for its time. How long it takes to answer makes no difference: of what this host's clock showed meanwhile, what is nearest counts.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn of(store: impl Future<Output = Result<Timestamp, StoreError>>) -> Result<Self, StoreError> {
        let asked = Timestamp::now();
        let store = store.await?;
        Ok(Self { store, host: store.max(asked).min(Timestamp::now()) })
    }

    /// The same if the clocks differ by more than two seconds.
    #[must_use]
    pub fn noticed(self) -> Option<Self> {
        (self.store.since(self.host).max(self.host.since(self.store)) > NOTICED).then_some(self)
    }
}

/// As a part of a sentence about the store's clock.
impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ahead, behind) = (self.store.since(self.host), self.host.since(self.store));
        let (apart, side) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
        write!(f, "{} {side} this host's", about_duration(apart))
    }
}

/// Where a store takes the time from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// Its own clock: Redis' `TIME`, or this host's for the embedded store, whose only host it is.
    #[default]
    Own,
    /// A test's clock.
    Manual(Arc<ManualClock>),
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    /// What it shows, in milliseconds since the Unix epoch.
    shown: AtomicU64,
    /// How many milliseconds have passed, however it was set.
    passed: AtomicU64,
}

impl ManualClock {
    /// A clock that shows this many milliseconds since 1970.
    pub fn new(ms: u64) -> Self {
        Self { shown: AtomicU64::new(ms), passed: AtomicU64::new(0) }
    }

    /// What it shows.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.shown.load(Ordering::SeqCst))
    }

    /// Lets this many milliseconds pass.
    pub fn pass(&self, ms: u64) {
        self.passed.fetch_add(ms, Ordering::SeqCst);
        self.shown.fetch_add(ms, Ordering::SeqCst);
    }

    /// Is set back by this many milliseconds.
    pub fn set_back(&self, ms: u64) {
        self.shown.fetch_sub(ms, Ordering::SeqCst);
    }

    /// Is set forward by this many milliseconds.
    pub fn set_forward(&self, ms: u64) {
        self.shown.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock {
    /// The time, given the store's own.
    pub(super) fn now(&self, own: impl FnOnce() -> Timestamp) -> Timestamp {
        match self {
            Self::Own => own(),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// How much time has passed since some moment, however the clock was set; a sleep of the machine counts where the system reports it.
    #[cfg(any(feature = "redis", feature = "embedded"))]
    pub(super) fn passed(&self) -> Duration {
        match self {
            Self::Own => since_boot(),
            Self::Manual(clock) => Duration::from_millis(clock.passed.load(Ordering::SeqCst)),
        }
    }
}

#[cfg(all(target_os = "linux", any(feature = "redis", feature = "embedded")))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(all(not(target_os = "linux"), any(feature = "redis", feature = "embedded")))]
fn since_boot() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGIN.elapsed()
}

/// The part of a millisecond that the host's clock shows beyond its whole ones; none on a test's clock. For waits that the store
/// reports: a caller that waits for this much less than the whole milliseconds still wakes in the right one.
pub(super) fn fraction(clock: &Clock) -> Duration {
    match clock {
        Clock::Own => Timestamp::fraction(),
        Clock::Manual(_) => Duration::ZERO,
    }
}

/// A wait in whole milliseconds, rounded up: nothing that waits may come early. At most 1,000 years, so that sums with
/// the time stay below [`LATEST_MS`].
pub(super) fn wait_ms(wait: Duration) -> u64 {
    const LONGEST_MS: u64 = 1000 * 365 * 24 * 3_600_000;
    whole_millis(wait).min(LONGEST_MS)
}

/// A point in time as stores keep it.
pub(super) fn point_ms(at: Timestamp) -> u64 {
    at.as_millis().min(LATEST_MS)
}

/// When a job is due as stores keep it: before [`NEVER`].
pub(super) fn due_ms(at: Timestamp) -> u64 {
    at.as_millis().min(LATEST_MS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_noticed_however_long_the_answer_took() {
        let at = |second: u64| Timestamp::from_millis(1_000_000_000_000 + second * 1000);
        let noticed = |store, host| ClockOffset { store: at(store), host: at(host) }.noticed().map(|it| it.to_string());
        assert_eq!((noticed(8, 10), noticed(12, 10)), (None, None));
        assert_eq!(noticed(7, 10), Some("3s behind this host's".into()));
        assert_eq!(noticed(3610, 10), Some("1h ahead of this host's".into()));
    }

    #[tokio::test]
    async fn of_what_the_host_showed_while_the_store_answered_the_nearest_counts() {
        let now = Timestamp::now();
        let right = ClockOffset::of(async { Ok(Timestamp::now()) }).await.unwrap();
        assert_eq!(right.store, right.host);
        let ahead = ClockOffset::of(async { Ok(now.plus(Duration::from_secs(3600))) }).await.unwrap();
        assert!(ahead.host >= now && ahead.host <= Timestamp::now(), "{ahead:?}");
        let behind = ClockOffset::of(async { Ok(Timestamp::from_millis(1)) }).await.unwrap();
        assert!(behind.host >= now && behind.noticed().is_some(), "{behind:?}");
    }

    #[test]
    fn waits_are_rounded_up_and_bounded() {
        assert_eq!(wait_ms(Duration::ZERO), 0);
        assert_eq!(wait_ms(Duration::from_nanos(1)), 1);
        assert_eq!(wait_ms(Duration::from_millis(7)), 7);
        assert_eq!(wait_ms(Duration::from_micros(7001)), 8);
        assert_eq!(wait_ms(Duration::MAX), 31_536_000_000_000);
        assert_eq!(point_ms(Timestamp::from_millis(u64::MAX)), LATEST_MS);
    }
}
