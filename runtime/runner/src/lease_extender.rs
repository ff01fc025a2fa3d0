//! Extends the leases and saves the checkpoints of running attempts.

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::lease;
use super::start::Context;
use gristmill_core::job::Lease;
use gristmill_sandbox::CheckpointRequest;
use gristmill_store::StoreError;

/// Extensions in one call.
const AT_ONCE: usize = 256;

/// Checkpoints that are on their way to the store at a time.
const CHECKPOINTS_AT_ONCE: usize = 64;

/// An attempt asks to keep its lease.
#[derive(Debug)]
pub(super) struct Extension {
    lease: Lease,
    kept: oneshot::Sender<bool>,
}

impl Extension {
    /// Returns false if the lease is lost. If the store does not answer, the runner assumes that the lease is kept; the
    /// settle checks it.
    pub(super) async fn ask(extensions: &mpsc::Sender<Self>, lease: &Lease) -> bool {
        let (kept, answer) = oneshot::channel();
        let extension = Self { lease: lease.clone(), kept };
        if extensions.send(extension).await.is_err() {
            return true;
        }
        answer.await.unwrap_or(true)
    }
}

/// Extends leases until every sender is gone.
pub(super) async fn extensions(context: Context, mut asked: mpsc::Receiver<Extension>) {
    let Context { store, retry, .. } = context;
    let mut batch = Vec::new();
    while asked.recv_many(&mut batch, AT_ONCE).await > 0 {
        let (leases, replies): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|Extension { lease, kept }| (lease, kept)).unzip();
        match retry.call(|| store.extend(&leases, lease::LONGEST)).await {
            Some(Ok(kept)) => {
                for (reply, kept) in replies.into_iter().zip(kept) {
                    // Gone if the attempt has ended meanwhile.
                    reply.send(kept).ok();
                }
            }
            Some(Err(error)) => tracing::error!("failed to extend leases: {:#}", anyhow::Error::from(error)),
            None => {}
        }
    }
}

/// Saves checkpoints, several at once, until every sender is gone, or until `abort`: a native handler may keep a sender in a task
/// of its own. A guest waits for its checkpoint, so it is not retried: the guest gets the error and decides.
pub(super) async fn checkpoints<F>(
    save: impl Fn(Lease, Vec<u8>) -> F,
    mut asked: mpsc::Receiver<CheckpointRequest>,
    abort: CancellationToken,
) where
    F: Future<Output = Result<bool, StoreError>> + Send + 'static,
{
    let mut saving = JoinSet::new();
    loop {
        tokio::select! {
            () = abort.cancelled() => break,
            request = asked.recv(), if saving.len() < CHECKPOINTS_AT_ONCE => {
                let Some(CheckpointRequest { lease, state, reply }) = request else { break };
                let saved = save(lease, state);
                saving.spawn(async move {
                    let saved = match saved.await {
                        Ok(true) => Ok(()),
                        Ok(false) => Err("the lease is lost".into()),
                        Err(error) => Err(format!("{:#}", anyhow::Error::from(error))),
                    };
                    reply.send(saved).ok();
                });
            }
            Some(_) = saving.join_next() => {}
        }
    }
    while saving.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gristmill_core::job::{JobId, WorkerId};
    use tokio::sync::Barrier;

    #[tokio::test]
    async fn one_checkpoint_does_not_wait_for_another() {
        let (requests, asked) = mpsc::channel(CHECKPOINTS_AT_ONCE);
        let replies: Vec<_> = (0..CHECKPOINTS_AT_ONCE)
            .map(|_| {
                let (reply, saved) = oneshot::channel();
                let (job, topic) = (JobId::generate(), "t".parse().unwrap());
                let lease = Lease { job, topic, worker: WorkerId::new("w"), delivery: 1, batch: None };
                requests.try_send(CheckpointRequest { lease, state: Vec::new(), reply }).unwrap();
                saved
            })
            .collect();
        drop(requests);
        // None is saved before all are asked for.
        let all = Arc::new(Barrier::new(CHECKPOINTS_AT_ONCE));
        let save = move |_, _| {
            let all = Arc::clone(&all);
            async move {
                all.wait().await;
                Ok(true)
            }
        };
        checkpoints(save, asked, CancellationToken::new()).await;
        for saved in replies {
            saved.await.unwrap().unwrap();
        }
    }
}
