//! Learns what waits and what is cancelled: by the store's signals at once, and by a slow poll of its own in case some were lost.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::context::Context;
use super::path::claim::memory::Ready;
use super::path::migrate::NextDue;
use super::tenants::{self, Outside};
use crate::handlers::DeploymentRecords;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_store::{JobState, PendingWork, PollTenant, Signal};

/// How often to look without having been called, at most; jittered towards later so that runners do not look together.
const TICK: Duration = Duration::from_secs(1);

/// Tenants in one call of the store.
const TENANTS_AT_ONCE: usize = 256;

/// Where news go.
pub(super) struct Listener {
    pub(super) context: Context,
    pub(super) outside: watch::Receiver<Outside>,
    pub(super) ready: mpsc::Sender<Ready>,
    pub(super) due: mpsc::Sender<NextDue>,
    pub(super) deployments: DeploymentRecords,
}

/// Whose jobs are looked after, and of which topics this runner runs some; in order.
#[derive(PartialEq, Eq)]
struct Interest {
    tenants: BTreeSet<Name>,
    topics: Vec<TopicId>,
}

impl Listener {
    /// Listens until stopped. Subscribes anew when the tenants or the topics change.
    pub(super) async fn run(mut self) {
        while !self.context.stop.is_cancelled() {
            let of = self.interest();
            self.receive(&of).await;
        }
    }

    fn interest(&mut self) -> Interest {
        self.outside.mark_unchanged();
        let registry = self.context.registry.borrow_and_update();
        let ours = registry.entries().filter(|entry| !entry.topic.external);
        Interest {
            topics: ours.map(|entry| entry.topic.id.clone()).collect(),
            tenants: tenants::all(&registry, &self.outside),
        }
    }

    /// Subscribes, and listens until stopped, or the tenants are others. Also polls on its own, even while the subscription does not succeed: a
    /// store that emits no signals may be available otherwise.
    async fn receive(&mut self, of: &Interest) {
        let (store, retry) = (self.context.store.clone(), self.context.retry.apart());
        let (worker, tenants) = (self.context.worker.clone(), &of.tenants);
        let list: Vec<Name> = tenants.iter().cloned().collect();
        let mut subscribing = pin!(retry.call(|| store.wake_ups(&worker, &list, &of.topics)));
        let (mut signals, mut is_subscribed, mut silent) = (mpsc::channel(1).1, false, false);
        loop {
            let pause = TICK.mul_f64(1.0 + fastrand::f64() / 2.0);
            let stop = self.context.stop.clone();
            tokio::select! {
                () = stop.cancelled() => return,
                Ok(()) = self.context.registry.changed() => {
                    if self.interest() != *of {
                        return;
                    }
                }
                Ok(()) = self.outside.changed() => {
                    if self.interest() != *of {
                        return;
                    }
                }
                subscribed = &mut subscribing, if !is_subscribed => {
                    let Some(subscribed) = subscribed else { return };
                    is_subscribed = true;
                    match subscribed {
                        Ok(subscribed) => signals = subscribed,
                        Err(error) => {
                            let error = anyhow::Error::from(error);
                            tracing::error!("failed to subscribe, jobs are noticed with delay: {error:#}");
                        }
                    }
                    self.look(tenants).await;
                }
                signal = signals.recv(), if is_subscribed && !silent => match signal {
                    Some(signal) => self.pass_on(signal, tenants).await,
                    None => silent = true,
                },
                () = tokio::time::sleep(pause) => self.look(tenants).await,
            }
        }
    }

    async fn pass_on(&self, signal: Signal, tenants: &BTreeSet<Name>) {
        match signal {
            Signal::Ready(topic) => self.say_ready(topic, true).await,
            Signal::Due { tenant, wait: due_in } => {
                self.say_due(NextDue { tenant, due_in: Some(due_in), exact: false }).await
            }
            Signal::Cancelled { tenant, id: job } => self.context.in_flight.cancel(&tenant, &job),
            Signal::Killed { tenant, id: job } => self.kill(&tenant, &job).await,
            Signal::Finished { .. } => {}
            Signal::Deployed(_) => self.deployments.may_have_changed(),
            Signal::Lost => {
                self.deployments.may_have_changed();
                self.look(tenants).await;
            }
        }
    }

    async fn look(&self, tenants: &BTreeSet<Name>) {
        let registry = self.context.registry.borrow().clone();
        let poll = |tenant: &Name| PollTenant { tenant: tenant.clone(), raw: registry.raw_topics(tenant).into() };
        let polls: Vec<PollTenant> = tenants.iter().map(poll).collect();
        for polls in polls.chunks(TENANTS_AT_ONCE) {
            let found = match self.context.retry.call(|| self.context.store.poll_work(polls)).await {
                Some(Ok(found)) => found,
                Some(Err(error)) => {
                    tracing::error!("failed to look for jobs: {:#}", anyhow::Error::from(error));
                    continue;
                }
                None => return,
            };
            for (PollTenant { tenant, .. }, found) in polls.iter().zip(found) {
                match found {
                    Ok(pending) => self.note_pending(tenant, pending).await,
                    Err(error) => {
                        tracing::error!(%tenant, "failed to look for jobs: {:#}", anyhow::Error::from(error));
                    }
                }
            }
        }
    }

    async fn note_pending(&self, tenant: &Name, pending: PendingWork) {
        for job in &pending.cancelled {
            self.context.in_flight.cancel(tenant, job);
        }
        for job in &pending.killed {
            self.kill(tenant, job).await;
        }
        for topic in pending.ready {
            self.say_ready(topic, false).await;
        }
        let due_in = pending.next_due_in;
        self.say_due(NextDue { tenant: tenant.clone(), due_in, exact: true }).await;
    }

    /// Ends the attempt at a job that is in hand and marked. Asks the store once more: the message may be older than the delivery, of another
    /// job with the same id. If it does not answer, the next look finds the mark.
    async fn kill(&self, tenant: &Name, job: &JobId) {
        let Context { in_flight, store, .. } = &self.context;
        if !in_flight.has(tenant, job) {
            return;
        }
        match store.job(tenant, job).await.map(|view| view.map(|view| view.state)) {
            Ok(Some(JobState::Running { cancelled: true, delivery, .. })) => in_flight.kill(tenant, job, delivery),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%tenant, %job, "failed to look at a job to be killed: {:#}", anyhow::Error::from(error));
            }
        }
    }

    /// Waits for a full channel; a closed one means that the runner is ending. A tenant without topics here has no handlers.
    async fn say_ready(&self, topic: TopicId, is_woken: bool) {
        let ours = self.context.registry.borrow().tenants().contains(&topic.tenant);
        if ours {
            self.ready.send(Ready { topic, is_woken }).await.ok();
        }
    }

    async fn say_due(&self, due: NextDue) {
        self.due.send(due).await.ok();
    }
}
