//! Extends the leases of attempts, and asks the store what they ask.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::lease;
use crate::context::Context;
use crate::limits::storage::{Added, StorageUse};
use gristmill_sandbox::{CheckpointRequest, StateRequest};
use gristmill_store::{Store, StoreError};

/// Extensions in one call.
const AT_ONCE: usize = 256;
/// How often leases are looked at. A third of the shortest lease is over three seconds.
const PERIOD: Duration = Duration::from_secs(1);

/// Questions of attempts that are on their way to the store at a time.
const QUESTIONS_AT_ONCE: usize = 64;

/// Extends the leases of attempts in hand until stopped, also of those that wait for a thread. If the store does not answer, they are
/// assumed to be kept; the settle checks it.
pub(crate) async fn keep(context: Context) {
    let Context { store, retry, in_flight, stop, .. } = context;
    while stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_some() {
        for leases in in_flight.to_extend(Instant::now()).chunks(AT_ONCE) {
            match retry.call(|| store.extend(leases, lease::LONGEST)).await {
                Some(Ok(kept)) => {
                    let lost = leases.iter().zip(kept).filter(|(_, kept)| !kept);
                    lost.for_each(|(lease, _)| in_flight.lose(lease));
                }
                Some(Err(error)) => tracing::error!("failed to extend leases: {:#}", anyhow::Error::from(error)),
                None => return,
            }
        }
    }
}

/// Extends all leases in hand, after an outage: they may have run out meanwhile. Not tried again.
pub(crate) async fn extend_all(context: &Context) {
    let leases = context.in_flight.leases();
    if leases.is_empty() {
        return;
    }
    match context.store.extend(&leases, lease::LONGEST).await {
        Ok(_) => {}
        Err(error) if error.is_unavailable() => context.retry.note_unavailable(error),
        Err(error) => tracing::error!("failed to extend leases after an outage: {:#}", anyhow::Error::from(error)),
    }
}

/// Saves a checkpoint, if the tenant may store that much. A guest waits for it, so it is not retried: the guest gets the error and decides.
pub(crate) async fn save_checkpoint(context: Context, storage: Arc<StorageUse>, asked: CheckpointRequest) {
    let CheckpointRequest { lease, state, reply } = asked;
    let tenant = &lease.topic.tenant;
    let limits = context.registry.borrow().limits(tenant);
    let added = Added { bytes: state.len() as u64, ..Added::default() };
    let saving = async {
        match storage.let_in(&*context.store, tenant, added, &limits, |_| true).await? {
            Some(full) => Ok(Err(format!("the tenant has as much in the store as `{}` allows", full.limit()))),
            None if context.store.checkpoint(&lease, &state).await? => Ok(Ok(())),
            None => Ok(Err("the lease is lost".into())),
        }
    };
    let saved: Result<_, StoreError> = saving.await;
    reply.send(saved.unwrap_or_else(|error| Err(format!("{:#}", anyhow::Error::from(error))))).ok();
}

/// Reads the state of a key; not retried either.
pub(crate) async fn read_state(store: Arc<dyn Store>, StateRequest { topic, key, reply }: StateRequest) {
    let state = store.state(&topic, &key).await;
    let state = state.map(|state| state.map(|state| state.value));
    reply.send(state.map_err(|error| format!("{:#}", anyhow::Error::from(error)))).ok();
}

/// Answers questions of attempts, several at once, until every sender is gone, or until `abort`: a native handler may keep a sender in
/// a task of its own.
pub(crate) async fn answer<Q, F>(ask: impl Fn(Q) -> F, mut asked: mpsc::Receiver<Q>, abort: CancellationToken)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut asking = JoinSet::new();
    loop {
        tokio::select! {
            () = abort.cancelled() => break,
            question = asked.recv(), if asking.len() < QUESTIONS_AT_ONCE => {
                let Some(question) = question else { break };
                asking.spawn(ask(question));
            }
            Some(_) = asking.join_next() => {}
        }
    }
    while asking.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::{Barrier, oneshot};

    #[tokio::test]
    async fn one_question_does_not_wait_for_another() {
        let (questions, asked) = mpsc::channel(QUESTIONS_AT_ONCE);
        let replies: Vec<_> = (0..QUESTIONS_AT_ONCE)
            .map(|_| {
                let (reply, answered) = oneshot::channel();
                questions.try_send(reply).unwrap();
                answered
            })
            .collect();
        drop(questions);
        // None is answered before all are asked.
        let all = Arc::new(Barrier::new(QUESTIONS_AT_ONCE));
        let ask = move |reply: oneshot::Sender<()>| {
            let all = Arc::clone(&all);
            async move {
                all.wait().await;
                reply.send(()).ok();
            }
        };
        answer(ask, asked, CancellationToken::new()).await;
        for answered in replies {
            answered.await.unwrap();
        }
    }
}
