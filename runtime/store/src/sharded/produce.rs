//! Pushes to each tenant's first place, and signals from all places.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::all::all;
use super::member::Shard;
use super::store::ShardedStore;
use crate::{JobState, Push, Pushed, Signal, Signals, StoreError};
use gristmill_core::job::{Name, NewJob};

/// Signals waiting to be heard; more than that and the stores' side waits, too.
const WAITING: usize = 1024;
/// How long to leave a store alone that ended its subscription, or takes none.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Jobs of a moving tenant that are looked for at once.
const LOOKED_FOR: usize = 32;

#[async_trait]
impl Push for ShardedStore {
    async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        let mut answers: Vec<Option<Pushed>> = vec![None; jobs.len()];
        let moving: Vec<usize> = self.positions(jobs, |job| self.places(&job.spec.topic.tenant).is_moving);
        for chunk in moving.chunks(LOOKED_FOR) {
            let found = all(chunk.iter().filter_map(|at| Some(self.waits_behind(jobs.get(*at)?)))).await;
            for (at, found) in chunk.iter().zip(found) {
                if let Some(answer) = answers.get_mut(*at) {
                    *answer = found?.then_some(Pushed::Exists);
                }
            }
        }
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, (job, answer)) in jobs.iter().zip(&answers).enumerate() {
            if answer.is_none() {
                groups.entry(self.first(&job.spec.topic.tenant)?).or_default().push(at);
            }
        }
        if let (Some((place, group)), 1) = (groups.first_key_value(), groups.len())
            && group.len() == jobs.len()
        {
            let member = self.member(*place);
            return member.ask(member.store.push(jobs)).await;
        }
        let pushes = groups.into_iter().map(|(place, group)| async move {
            let batch: Vec<NewJob> = group.iter().filter_map(|at| jobs.get(*at)).cloned().collect();
            let member = self.member(place);
            let pushed = member.ask(member.store.push(&batch)).await?;
            Ok::<_, StoreError>(group.into_iter().zip(pushed).collect::<Vec<_>>())
        });
        for pushed in all(pushes).await {
            for (at, pushed) in pushed? {
                if let Some(answer) = answers.get_mut(at) {
                    *answer = Some(pushed);
                }
            }
        }
        // Every job was looked for or pushed; there is none left.
        Ok(answers.into_iter().flatten().collect())
    }
}

#[async_trait]
impl Signals for ShardedStore {
    /// Listens at every place of these tenants, also at those that come later.
    async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
        let (heard, receiver) = mpsc::channel(WAITING);
        let first = all((0..self.0.members.len()).map(|place| self.subscribe(place, tenants))).await;
        for (place, subscription) in first.into_iter().enumerate() {
            let forwarder =
                SignalForwarder { several: self.clone(), place, tenants: tenants.into(), heard: heard.clone() };
            tokio::spawn(forwarder.run(subscription));
        }
        Ok(receiver)
    }
}

impl ShardedStore {
    /// Whether the job's id is one of a job that has not moved yet: it exists, as it would in one store.
    async fn waits_behind(&self, job: &NewJob) -> Result<bool, StoreError> {
        let tenant = &job.spec.topic.tenant;
        let places = self.places(tenant);
        for place in places.in_order_of_moves().filter(|place| places.members.first() != Some(place)) {
            let member = self.member(place);
            let view = member.ask(member.store.job(tenant, &job.spec.id)).await?;
            if view.is_some_and(|view| view.state != JobState::Finished) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn positions<T>(&self, items: &[T], which: impl Fn(&T) -> bool) -> Vec<usize> {
        items.iter().enumerate().filter(|(_, item)| which(item)).map(|(at, _)| at).collect()
    }

    /// Whose signals to expect at this place, and the signals; none where there is nobody or the store takes none.
    async fn subscribe(&self, place: usize, tenants: &[Name]) -> Subscription {
        let view = self.view();
        let here = tenants.iter().filter(|tenant| view.of(tenant).members.contains(&place));
        let tenants: Vec<Name> = here.cloned().collect();
        if tenants.is_empty() {
            return Subscription { tenants, signals: None };
        }
        let member: &Arc<Shard> = self.member(place);
        match member.ask(member.store.signals(&tenants)).await {
            Ok(signals) => Subscription { tenants, signals: Some(signals) },
            Err(error) => {
                let error = anyhow::Error::from(error);
                tracing::debug!(store = %member.name, "no signals yet: {error:#}");
                Subscription { tenants, signals: None }
            }
        }
    }
}

struct Subscription {
    tenants: Vec<Name>,
    signals: Option<mpsc::Receiver<Signal>>,
}

/// Passes on what one store signals, for as long as somebody hears it.
struct SignalForwarder {
    several: ShardedStore,
    place: usize,
    tenants: Arc<[Name]>,
    heard: mpsc::Sender<Signal>,
}

impl SignalForwarder {
    async fn run(self, mut subscription: Subscription) {
        let mut changes = self.several.0.changes.subscribe();
        loop {
            let is_deaf = subscription.signals.is_none() && !subscription.tenants.is_empty();
            tokio::select! {
                () = self.heard.closed() => return,
                signal = next(&mut subscription.signals) => match signal {
                    Some(signal) => {
                        if let Signal::Ready(topic) = &signal {
                            self.several.note_ready(self.place, [topic]);
                        }
                        if self.heard.send(signal).await.is_err() {
                            return;
                        }
                        continue;
                    }
                    None => {
                        subscription.signals = None;
                        tokio::time::sleep(AGAIN_AFTER).await;
                    }
                },
                Ok(()) = changes.changed() => {
                    let view = self.several.view();
                    let here = self.tenants.iter().filter(|tenant| view.of(tenant).members.contains(&self.place));
                    if subscription.signals.is_some() && here.eq(&subscription.tenants) {
                        continue;
                    }
                }
                () = tokio::time::sleep(AGAIN_AFTER), if is_deaf => {}
            }
            let was_heard = subscription.signals.is_some();
            subscription = self.several.subscribe(self.place, &self.tenants).await;
            // In between something may have happened.
            if (was_heard || subscription.signals.is_some()) && self.heard.send(Signal::Lost).await.is_err() {
                return;
            }
            if subscription.signals.is_none() {
                tokio::select! {
                    () = tokio::time::sleep(AGAIN_AFTER) => {}
                    () = self.heard.closed() => return,
                }
            }
        }
    }
}

/// None: the subscription has ended. Waits for ever if there is none.
async fn next(signals: &mut Option<mpsc::Receiver<Signal>>) -> Option<Signal> {
    match signals {
        Some(signals) => signals.recv().await,
        None => std::future::pending().await,
    }
}
