//! A timeout that a standstill of this process does not use up.

use std::pin::pin;
use std::time::Duration;

use tokio::time::error::Elapsed;

/// How many parts a wait has. A standstill uses up one of them.
const PARTS: u32 = 5;

/// Waits for `future`, at most for `limit`, as [`tokio::time::timeout`] does. But if this process stands still meanwhile, as in a container that
/// is paused, that uses up at most a fifth of `limit`, however long it is: the answer may be on its way. Cancel-safe if `future` is.
///
/// # Errors
/// The time is over.
pub(super) async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    for _ in 1..PARTS {
        if let Ok(done) = tokio::time::timeout(limit / PARTS, &mut future).await {
            return Ok(done);
        }
    }
    tokio::time::timeout(limit / PARTS, future).await
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Instant;

    use tokio::sync::oneshot;
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);

    /// On one thread: while it is blocked, nothing else runs, and no timer ends.
    #[tokio::test]
    async fn an_answer_after_a_standstill_is_taken() {
        let (answer, answered) = oneshot::channel();
        let waiting = tokio::spawn(timeout(LIMIT, answered));
        tokio::task::yield_now().await;
        let begin = Instant::now();
        while begin.elapsed() < 2 * LIMIT {}
        // All timers that are over end now, one each. What is begun after them ends after this one.
        sleep(Duration::from_millis(1)).await;
        answer.send("late").unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(Ok("late")));
    }

    #[tokio::test]
    async fn without_an_answer_it_ends_after_the_limit() {
        let begin = Instant::now();
        assert!(timeout(LIMIT, pending::<()>()).await.is_err());
        assert!(begin.elapsed() >= LIMIT);
    }
}
