//! A claim that is sent right behind the script that makes its jobs ready.

use futures_util::future::join;
use tokio::sync::oneshot;

use gristmill_core::job::TopicId;

/// The message to a claim that waits: it goes out now, behind a script.
#[derive(Debug)]
pub(in crate::redis) struct Behind {
    /// What the script makes ready, of those topics that the claim waits for.
    pub(in crate::redis) topics: Vec<TopicId>,
    /// Ends when the script has been answered.
    pub(in crate::redis) answered: oneshot::Receiver<()>,
}

/// Has a claim sent that waits.
pub(in crate::redis) type Go = oneshot::Sender<Behind>;

/// Sends a script, and behind it the claim that waits for what it makes ready: in this order where the connection is there, since the first poll of the
/// script's call puts it there.
pub(in crate::redis) async fn and_claim<T>(script: impl Future<Output = T>, claim: Option<(Vec<TopicId>, Go)>) -> T {
    let (done, answered) = oneshot::channel();
    let go = async {
        if let Some((topics, go)) = claim {
            // Fails if the worker has ended.
            go.send(Behind { topics, answered }).ok();
        }
    };
    let answer = join(script, go).await.0;
    drop(done);
    answer
}
