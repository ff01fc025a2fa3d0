//! Waiting for something to become so, with a bound.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// For what should take milliseconds: generous, because machines that run tests are busy.
pub const SOON: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer; panics after `bound`.
pub async fn until<T>(what: impl Display, bound: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = probe().await {
            return answer;
        }
        assert!(begun.elapsed() < bound, "waited {bound:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
