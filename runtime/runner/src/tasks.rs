//! Named tasks that run as long as the process does.

use std::any::Any;
use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::{Id, JoinError, JoinSet};

/// Polls a future once, and catches a panic in it. If it is not ready, poll it again wherever it is to go on, or it may never be woken.
pub(crate) async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> std::thread::Result<Poll<F::Output>> {
    let mut poll = |task: &mut Context<'_>| catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task)));
    poll_fn(|task| Poll::Ready(poll(task))).await
}

/// Tasks that end only when they are stopped. Dropping them aborts them.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

/// A task has ended without being stopped: a fault, after which the process should be started anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the task `{task}` has {how}: start the process again, and report it")]
pub struct Broken {
    /// What the task does.
    pub task: &'static str,
    how: String,
}

impl Tasks {
    /// Must be called within a tokio runtime.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Waits until a task has ended, and says which. Never returns if there is none. Cancel-safe.
    pub async fn broken(&mut self) -> Broken {
        match self.set.join_next_with_id().await {
            Some(ended) => self.name(ended),
            None => std::future::pending().await,
        }
    }

    /// Waits until every task has ended, and logs those that panicked.
    pub async fn end(&mut self) {
        while let Some(ended) = self.set.join_next_with_id().await {
            if ended.is_err() {
                tracing::error!("{}", self.name(ended));
            }
        }
    }

    /// Aborts every task, and waits until all have ended.
    pub async fn abort(&mut self) {
        self.set.shutdown().await;
    }

    /// Whether every task has ended.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    fn name(&mut self, ended: Result<(Id, ()), JoinError>) -> Broken {
        let (id, how) = match ended {
            Ok((id, ())) => (id, "ended".to_owned()),
            Err(error) => {
                let id = error.id();
                let panic = error.try_into_panic().map(|panic| format!("panicked: {}", message_of(&*panic)));
                (id, panic.unwrap_or_else(|_| "been aborted".into()))
            }
        };
        Broken { task: self.names.remove(&id).unwrap_or("unknown"), how }
    }
}

/// What `panic!` was called with.
pub(super) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_by_itself_is_named_with_its_panic() {
        let mut tasks = Tasks::default();
        tasks.spawn("wait", std::future::pending());
        tasks.spawn("fall", async { panic!("over a stone") });
        let broken = tasks.broken().await;
        assert_eq!(broken.task, "fall");
        assert!(broken.to_string().contains("panicked: over a stone"), "{broken}");
        tasks.spawn("end", async {});
        assert_eq!(tasks.broken().await.to_string().split(':').next(), Some("the task `end` has ended"));
        tasks.abort().await;
        assert!(tasks.is_empty());
    }
}
