//! A store and the model of it: what both answer is compared here.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use gristmill_core::job::{Claim, Due, JobSpec, Lease, Name, NewJob, Payload, TopicId, WorkerId};
use gristmill_core::token::{TokenId, TokenRequirement};
use gristmill_store::{Check, ClaimFrom, JobView, Signal, StateFilter, StoreError, StoredJob};
use gristmill_store_tests::test_store::{TestStore, poll};
use gristmill_test_servers::wait::SOON;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::listing::Listing;
use super::operations::{TENANTS, TOPICS};
use super::plain::{Key, Model};
use super::wake_ups::Outlook;

/// What was to be seen, and what was.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) text: String,
    /// Nothing is wrong but that the store did not answer in time.
    pub(super) unavailable: bool,
}

impl Difference {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), unavailable: false }
    }

    /// `place`: the step's, counted from 0.
    pub(super) fn in_step(self, place: usize) -> Self {
        Self { text: format!("step {}: {}", place + 1, self.text), ..self }
    }
}

impl From<StoreError> for Difference {
    fn from(error: StoreError) -> Self {
        Self { text: format!("the store failed: {error:?}"), unavailable: error.is_unavailable() }
    }
}

pub(super) fn same<T: PartialEq + Debug>(what: &str, store: T, model: T) -> Result<(), Difference> {
    if store == model {
        return Ok(());
    }
    Err(Difference::new(format!("{what}\n  of the store: {store:?}\n  of the model: {model:?}")))
}

#[derive(Debug)]
pub(super) struct Side {
    pub(super) queue: TestStore,
    pub(super) model: Model,
    /// Every claim ever made here, the latest last.
    pub(super) claims: Vec<Claim>,
    /// The jobs that were last read for a move, all of one topic.
    pub(super) exported: Vec<StoredJob>,
    tenants: [Name; TENANTS],
    signals: Receiver<Signal>,
    before: Vec<Outlook>,
    /// In each shard a running job: a signal of its cancellation comes after all that were emitted earlier.
    fences: Vec<Lease>,
    token_changes: Option<Receiver<TokenId>>,
    listing: Option<Listing>,
}

impl Side {
    pub(super) async fn new(queue: TestStore, tenants: [Name; TENANTS]) -> Result<Self, Difference> {
        let model = Model::new(queue.now());
        let mut fences = Vec::new();
        for tenant in queue.a_tenant_of_each_shard() {
            let topic = TopicId { tenant, topic: "fence".parse().unwrap() };
            let spec = JobSpec::new(topic.clone(), Payload { data: Vec::new(), content_type: None });
            queue.store.push(&[NewJob { spec, due: Due::Now }]).await?;
            let from = ClaimFrom::new(topic, 1, SOON);
            let claimed = queue.store.claim(&WorkerId::new("fence"), &[from]).await?;
            fences.extend(claimed.claims.into_iter().map(|claim| claim.lease));
        }
        let signals = subscribe(&queue, &tenants, &fences).await?;
        let before = tenants.iter().map(|tenant| Outlook::of(&model, tenant)).collect();
        let (claims, exported, token_changes, listing) = (Vec::new(), Vec::new(), None, None);
        Ok(Self { queue, model, claims, exported, tenants, signals, before, fences, token_changes, listing })
    }

    pub(super) async fn reopen(&mut self) -> Result<(), Difference> {
        // A subscription keeps the old store open.
        self.signals.close();
        self.token_changes = None;
        self.queue.reopen().await;
        self.signals = subscribe(&self.queue, &self.tenants, &self.fences).await?;
        Ok(())
    }

    /// Compares all that can be seen of the store, and the signals since the last time.
    pub(super) async fn compare(&mut self, topics: &[TopicId; TOPICS], pushed: &[Key]) -> Result<(), Difference> {
        if let Some(listing) = &mut self.listing {
            listing.observe(&self.model);
        }
        let store = &self.queue.store;
        for tenant in &self.tenants {
            let mut counts = store.counts(tenant).await?;
            for counts in &mut counts {
                counts.totals.retain(|_, n| *n > 0);
            }
            same("counts", counts, self.model.counts(tenant))?;
            let wanted = poll(&**store, tenant).await;
            same("next due time", wanted.next_due_in, self.model.next_due_in(tenant))?;
            same("cancelled jobs", wanted.cancelled.into_iter().collect(), self.model.cancelled(tenant))?;
            same("killed jobs", wanted.killed.into_iter().collect(), self.model.killed(tenant))?;
            let (named, (surely, perhaps)) = (BTreeSet::from_iter(wanted.ready), self.model.ready(tenant));
            if !named.is_superset(&surely) || !named.is_subset(&perhaps) {
                return Err(Difference::new(format!("ready: {named:?} is not between {surely:?} and {perhaps:?}")));
            }
        }
        for topic in topics {
            same("dead jobs", store.oldest_dead(topic, 1000).await?, self.model.dead(topic))?;
            same("jobs at rest", store.export(topic, 1000).await?, self.model.export(topic))?;
        }
        self.compare_views(pushed).await?;
        self.compare_recordings().await?;
        self.compare_signals().await
    }

    /// Asks for all jobs at once: one by one takes most of the time of a sequence.
    async fn compare_views(&self, pushed: &[Key]) -> Result<(), Difference> {
        let keys: BTreeSet<Key> = pushed.iter().cloned().collect();
        let views = keys.into_iter().map(|key| {
            let store = Arc::clone(&self.queue.store);
            tokio::spawn(async move {
                let view = store.job(&key.0, &key.1).await;
                (key, view)
            })
        });
        for view in views.collect::<Vec<_>>() {
            let (key, seen) = view.await.expect("looking at a job does not panic");
            // Conformance tests when it was claimed.
            let seen = seen?.map(|view| JobView { claimed_at: None, result_topic: None, ..view });
            let (mut seen, mut expected) = (seen, self.model.view(&key));
            if self.model.is_blurred(&key) {
                let blur = |view: Option<JobView>| {
                    let view = view.filter(|view| view.job.is_some());
                    view.map(|view| JobView { result: None, ..view })
                };
                (seen, expected) = (blur(seen), blur(expected));
            }
            same("view of a job", seen, expected)?;
        }
        Ok(())
    }

    async fn compare_signals(&mut self) -> Result<(), Difference> {
        let signals = self.signals_so_far().await?;
        let (finished, stopping) = (std::mem::take(&mut self.model.finished), std::mem::take(&mut self.model.stopping));
        let after: Vec<Outlook> = self.tenants.iter().map(|tenant| Outlook::of(&self.model, tenant)).collect();
        for (before, after) in std::mem::take(&mut self.before).into_iter().zip(&after) {
            before.check(after, self.model.now, &signals, &finished, &stopping)?;
        }
        self.before = after;
        Ok(())
    }

    async fn signals_so_far(&mut self) -> Result<Vec<Signal>, Difference> {
        let mut signals = Vec::new();
        for fence in &self.fences {
            self.queue.store.cancel(&fence.topic.tenant, std::slice::from_ref(&fence.job)).await?;
            let end = Signal::Cancelled { tenant: fence.topic.tenant.clone(), id: fence.job.clone() };
            loop {
                match timeout(SOON, self.signals.recv()).await {
                    Ok(Some(signal)) if signal == end => break,
                    Ok(Some(signal)) => signals.push(signal),
                    silence => return Err(Difference::new(format!("no signals: {silence:?} after {signals:?}"))),
                }
            }
        }
        Ok(signals)
    }

    /// Some pages of the list that was begun, or of a new one.
    pub(super) async fn list(
        &mut self,
        topic: &TopicId,
        place: StateFilter,
        limit: usize,
        pages: usize,
    ) -> Result<(), Difference> {
        let mut listing = self.listing.take().unwrap_or_else(|| Listing::new(&self.model, topic, place));
        for _ in 0..pages {
            let Some(goes_on) = listing.page(&*self.queue.store, &self.model, limit).await? else { return Ok(()) };
            listing = goes_on;
        }
        self.listing = Some(listing);
        Ok(())
    }

    /// Leaves the list that was begun.
    pub(super) fn end_listing(&mut self) {
        self.listing = None;
    }

    /// Reads the list that was begun to its end, and looks for damage.
    pub(super) async fn end(&mut self) -> Result<(), Difference> {
        while let Some(listing) = self.listing.take() {
            self.listing = listing.page(&*self.queue.store, &self.model, 1).await?;
        }
        let mut found = self.queue.store.fsck().await?.findings;
        // Jobs that hold the same value may meet when they move: one of them is left without it.
        found.retain(|finding| finding.check != Check::UniqueNotHeld);
        same("damage", found, Vec::new())
    }

    /// Subscribes to changes of tokens, before the first one.
    pub(super) async fn watch_tokens(&mut self) -> Result<(), Difference> {
        if self.token_changes.is_none() {
            self.token_changes = Some(self.queue.store.token_changes().await?);
        }
        Ok(())
    }

    pub(super) fn watches_tokens(&self) -> bool {
        self.token_changes.is_some()
    }

    /// Compares the tokens with those of the model, and which of them were said to have changed.
    pub(super) async fn compare_tokens(&mut self, mut changed: BTreeSet<TokenId>) -> Result<(), Difference> {
        while let Some(changes) = self.token_changes.as_mut().filter(|_| !changed.is_empty()) {
            match timeout(SOON, changes.recv()).await {
                Ok(Some(id)) if changed.remove(&id) => {}
                other => return Err(Difference::new(format!("changed tokens: {other:?} before {changed:?}"))),
            }
        }
        let (store, model) = (&self.queue.store, &self.model);
        for tenant in self.tenants.iter().map(Some).chain([None]) {
            same("tokens", store.tokens(tenant).await?, model.tokens_of(tenant))?;
        }
        let requirement = model.token_requirement.unwrap_or(TokenRequirement::NeverSet);
        same("token requirement", store.token_requirement().await?, requirement)?;
        for (id, token) in &model.tokens {
            let found = store.find_token(id).await?.map(|found| (found.token, found.expires_in));
            same("token", found, model.valid(token))?;
        }
        Ok(())
    }
}

async fn subscribe(
    queue: &TestStore,
    tenants: &[Name; TENANTS],
    fences: &[Lease],
) -> Result<Receiver<Signal>, Difference> {
    let fences = fences.iter().map(|fence| fence.topic.tenant.clone());
    let tenants: Vec<Name> = tenants.iter().cloned().chain(fences).collect();
    Ok(queue.store.signals(&tenants).await?)
}
