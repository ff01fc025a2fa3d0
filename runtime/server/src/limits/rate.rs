//! How often: the generic cell rate algorithm (ITU-T I.371), which is a leaky bucket that needs one point in time for each
//! who is limited, and no clock that ticks.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use gristmill_core::token::Rate;

/// From this many on, those that have waited long enough to have their whole burst again are forgotten.
const FORGET_FROM: usize = 1024;

/// When each of many would have used up what they have been given, had they asked evenly.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    used_up: HashMap<K, Instant>,
    forget_from: usize,
}

impl<K> Default for Rates<K> {
    fn default() -> Self {
        Self { used_up: HashMap::new(), forget_from: FORGET_FROM }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// Counts one request. Err: it is one too many, and how long to wait before the next; it is not counted.
    pub(crate) fn count(&mut self, who: K, rate: Rate, now: Instant) -> Result<(), Duration> {
        if self.used_up.len() >= self.forget_from {
            self.used_up.retain(|_, used_up| *used_up > now);
            self.forget_from = FORGET_FROM.max(self.used_up.len() * 2);
        }
        let each = Duration::from_secs(1) / rate.per_second.get();
        let used_up = self.used_up.entry(who).or_insert(now);
        let next = now.max(*used_up) + each;
        let ahead = next - now;
        let allowed = each * rate.burst.get();
        if ahead > allowed {
            return Err(ahead - allowed);
        }
        *used_up = next;
        Ok(())
    }

    /// How long to wait until one more would be counted; zero if it would be now.
    pub(crate) fn wait(&self, who: &K, rate: Rate, now: Instant) -> Duration {
        let each = Duration::from_secs(1) / rate.per_second.get();
        let used_up = self.used_up.get(who).map_or(now, |used_up| now.max(*used_up));
        (used_up + each).saturating_duration_since(now + each * rate.burst.get())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second: NonZero::new(per_second).unwrap(), burst: NonZero::new(burst).unwrap() }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_and_not_one_more() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        for _ in 0..5 {
            assert_eq!(rates.count("a", rate(10, 5), now), Ok(()));
        }
        assert_eq!(rates.count("a", rate(10, 5), now), Err(ms(100)));
        assert_eq!(rates.count("b", rate(10, 5), now), Ok(()), "others are not held up");
        assert_eq!(rates.count("a", rate(10, 5), now + ms(99)), Err(ms(1)));
        assert_eq!(rates.count("a", rate(10, 5), now + ms(100)), Ok(()), "exactly when it was said");
        assert_eq!(rates.count("a", rate(10, 5), now + ms(100)), Err(ms(100)));
    }

    #[test]
    fn in_the_long_run_it_is_so_many_a_second() {
        let (mut rates, begin) = (Rates::default(), Instant::now());
        let allowed = (0..10_000).filter(|n| rates.count("a", rate(50, 1), begin + ms(*n)).is_ok()).count();
        assert_eq!(allowed, 500);
    }

    #[test]
    fn a_pause_gives_the_burst_back_and_no_more() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        let burst = |rates: &mut Rates<_>, at| (0..100).filter(|_| rates.count("a", rate(10, 5), at).is_ok()).count();
        assert_eq!(burst(&mut rates, now), 5);
        assert_eq!(burst(&mut rates, now + ms(86_400_000)), 5);
    }

    #[test]
    fn a_limit_that_changes_holds_at_once() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        for _ in 0..100 {
            rates.count("a", rate(1000, 100), now).unwrap();
        }
        assert!(rates.count("a", rate(1000, 100), now).is_err());
        assert_eq!(rates.count("a", rate(1000, 1000), now), Ok(()));
        assert!(rates.count("a", rate(10, 1), now).is_err());
    }

    #[test]
    fn a_client_that_came_once_is_forgotten() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        for n in 0..100_000_u64 {
            rates.count(n, rate(1000, 1), now + ms(n)).unwrap();
        }
        assert!(rates.used_up.len() <= FORGET_FROM, "{}", rates.used_up.len());
    }
}
