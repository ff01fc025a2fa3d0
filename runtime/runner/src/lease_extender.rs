//! Extends the leases and saves the checkpoints of running attempts.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::lease;
use super::start::Context;
use gristmill_core::job::Lease;
use gristmill_sandbox::CheckpointRequest;
use gristmill_store::Store;

/// Extensions in one call.
const AT_ONCE: usize = 256;

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

/// Saves checkpoints until every sender is gone, or until `abort`: a native handler may keep a sender in a task of its own. A
/// guest waits for its checkpoint, so it is not retried: the guest gets the error and decides.
pub(super) async fn checkpoints(
    store: Arc<dyn Store>,
    mut asked: mpsc::Receiver<CheckpointRequest>,
    abort: CancellationToken,
) {
    while let Some(Some(CheckpointRequest { lease, state, reply })) = abort.run_until_cancelled(asked.recv()).await {
        let saved = match store.checkpoint(&lease, &state).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the lease is lost".into()),
            Err(error) => Err(format!("{:#}", anyhow::Error::from(error))),
        };
        reply.send(saved).ok();
    }
}
