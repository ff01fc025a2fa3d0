//! Waiting for something to become so, with a bound.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// For what should take milliseconds: generous, because machines that run tests are busy.
pub const SOON: Duration = Duration::from_secs(120);

/// Asks again and again until there is an answer; panics after `bound`.
pub async fn until<T>(what: impl Display, bound: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        // There is always a look after the time was over: it may have passed while this process stood still.
        let is_last = begun.elapsed() >= bound;
        if let Some(answer) = probe().await {
            return answer;
        }
        assert!(!is_last, "waited {bound:?} in vain for {what}");
        // A look costs, most of all one into a browser: they come seldom where it takes long, and the answer at most a tenth later.
        tokio::time::sleep((begun.elapsed() / 10).clamp(Duration::from_millis(2), Duration::from_millis(50))).await;
    }
}
