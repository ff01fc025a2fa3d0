//! A task of a [`Gristmill`](crate::Gristmill) beside its runner and its server.

use tokio_util::sync::{CancellationToken, DropGuard};

use gristmill_runner::Tasks;

/// A task that runs until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Background {
    stop: DropGuard,
    pub(crate) task: Tasks,
}

impl Background {
    /// Spawns what `run` makes of the token that ends it.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(
        name: &'static str,
        run: impl FnOnce(CancellationToken) -> F,
    ) -> Self {
        let (stop, mut task) = (CancellationToken::new(), Tasks::default());
        task.spawn(name, run(stop.clone()));
        Self { task, stop: stop.drop_guard() }
    }

    /// Stops the task and waits for its end.
    pub(crate) async fn end(mut self) {
        drop(self.stop);
        self.task.end().await;
    }
}
