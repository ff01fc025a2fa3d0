//! Jobs of native handlers on their way: on the runtime that the runner was started in, and not on the guests' threads.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::execute;
use crate::context::ExecutorContext;
use crate::path::work::Work;

/// Jobs that begin in one task, one after the other. Most end when they are first polled: a task of its own, and one that is woken to settle
/// each, would cost more than they do.
const AT_ONCE: usize = 16;

/// Once those that have begun took longer than this together, the others begin in tasks of their own: another thread may have time.
const TOGETHER_MAX: Duration = Duration::from_micros(100);

/// Has the runtime do these jobs. What comes of each is sent to be settled.
pub(crate) fn hand_over(work: Vec<Work>, context: &Arc<ExecutorContext>) {
    let mut work = work.into_iter();
    loop {
        let some: Vec<Work> = work.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            return;
        }
        tokio::spawn(begin(some, Arc::clone(context)));
    }
}

async fn begin(work: Vec<Work>, context: Arc<ExecutorContext>) {
    let begun = Instant::now();
    for work in work {
        let mut attempt = Box::pin(execute(work, Arc::clone(&context)));
        let first = match begun.elapsed() {
            took if took > TOGETHER_MAX => Poll::Pending,
            _ => poll_fn(|here| Poll::Ready(attempt.as_mut().poll(here))).await,
        };
        match first {
            Poll::Ready(finished) => _ = context.finished.send(finished),
            // It is polled there at once, so nothing that has happened meanwhile is missed.
            Poll::Pending => {
                let context = Arc::clone(&context);
                tokio::spawn(async move { context.finished.send(attempt.await).ok() });
            }
        }
    }
}
