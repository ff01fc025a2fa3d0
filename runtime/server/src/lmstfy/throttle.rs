//! lmstfy's throttler: bounds the successful publishes and consumes of a token in each interval. Each server counts for itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::refusal::Refusal;
use gristmill_core::token::{Throttle, TokenId};

/// From this number of counts on, those whose interval is over are dropped.
const FORGET_FROM: usize = 1024;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Produce,
    Consume,
}

/// The counts of all tokens.
#[derive(Debug, Clone, Default)]
pub(super) struct Throttles(Arc<Mutex<HashMap<(TokenId, Action), Window>>>);

#[derive(Debug)]
struct Window {
    count: u32,
    until: Instant,
}

/// A counted request. Dropped, it is not counted any more, unless it [succeeded](Counted::succeed).
#[derive(Debug)]
pub(super) struct Counted {
    throttles: Throttles,
    /// For each limit, the token, the action and the end of the interval.
    windows: Vec<(TokenId, Action, Instant)>,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
        }
    }
}

impl Throttles {
    /// Counts a request for each of these limits.
    ///
    /// # Errors
    /// The interval of one of them has had as many as the token allows.
    pub(super) fn count<'a>(
        &self,
        limits: impl IntoIterator<Item = (&'a TokenId, Throttle)>,
        action: Action,
        now: Instant,
    ) -> Result<Counted, Refusal> {
        let mut counted = Counted { throttles: self.clone(), windows: Vec::new() };
        for (token, throttle) in limits {
            let most = match action {
                Action::Produce => throttle.write,
                Action::Consume => throttle.read,
            };
            if most > 0 {
                let until = self.count_one(token, throttle, most, action, now)?;
                counted.windows.push((token.clone(), action, until));
            }
        }
        Ok(counted)
    }

    /// Returns the end of the interval.
    fn count_one(
        &self,
        token: &TokenId,
        throttle: Throttle,
        most: u32,
        action: Action,
        now: Instant,
    ) -> Result<Instant, Refusal> {
        let mut windows = self.0.lock();
        if windows.len() >= FORGET_FROM {
            windows.retain(|_, window| window.until > now);
        }
        let fresh = || Window { count: 0, until: now + Duration::from_secs(throttle.interval_s.get().into()) };
        let window = windows.entry((token.clone(), action)).or_insert_with(fresh);
        if window.until <= now {
            *window = fresh();
        }
        if window.count >= most {
            return Err(Refusal::TooFast { action: action.as_str(), again_after: window.until - now });
        }
        window.count += 1;
        Ok(window.until)
    }
}

impl Counted {
    pub(super) fn succeed(mut self) {
        self.windows.clear();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for (token, action, until) in std::mem::take(&mut self.windows) {
            // The interval may be over, and another one begun.
            let mut windows = self.throttles.0.lock();
            if let Some(window) = windows.get_mut(&(token, action)).filter(|window| window.until == until) {
                window.count = window.count.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;
    use gristmill_core::token::TokenHash;

    fn throttle(read: u32, write: u32) -> Throttle {
        Throttle { read, write, interval_s: NonZero::new(10).unwrap() }
    }

    #[test]
    fn only_successes_count_and_an_interval_begins_anew() {
        let (throttles, id, now) = (Throttles::default(), TokenHash::of("t").id(), Instant::now());
        let count =
            |action, after| throttles.count(Some((&id, throttle(2, 1))), action, now + Duration::from_secs(after));
        for _ in 0..5 {
            drop(count(Action::Consume, 0).unwrap());
        }
        count(Action::Consume, 0).unwrap().succeed();
        count(Action::Consume, 1).unwrap().succeed();
        match count(Action::Consume, 3).unwrap_err() {
            Refusal::TooFast { action: "consume", again_after } => assert_eq!(again_after, Duration::from_secs(7)),
            other => panic!("{other:?}"),
        }
        count(Action::Produce, 3).unwrap().succeed();
        assert!(count(Action::Produce, 9).is_err(), "each action has its own count");
        let late = count(Action::Consume, 10).unwrap();
        count(Action::Consume, 19).unwrap().succeed();
        assert!(count(Action::Consume, 19).is_err());
        count(Action::Consume, 20).unwrap().succeed();
        drop(late);
        count(Action::Consume, 20).unwrap().succeed();
        assert!(count(Action::Consume, 20).is_err(), "what began in the last interval gives nothing back to this one");
    }

    #[test]
    fn zero_is_no_limit_and_tokens_have_limits_of_their_own() {
        let (throttles, now) = (Throttles::default(), Instant::now());
        let (a, b) = (TokenHash::of("a").id(), TokenHash::of("b").id());
        for _ in 0..100 {
            throttles.count(Some((&a, throttle(0, 1))), Action::Consume, now).unwrap().succeed();
            throttles.count(None, Action::Produce, now).unwrap().succeed();
        }
        throttles.count(Some((&a, throttle(0, 1))), Action::Produce, now).unwrap().succeed();
        assert!(throttles.count(Some((&a, throttle(0, 1))), Action::Produce, now).is_err());
        throttles.count(Some((&b, throttle(0, 1))), Action::Produce, now).unwrap().succeed();
    }
}
