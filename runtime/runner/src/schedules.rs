//! Has the schedules in the store be those of the manifest.
//!
//! Runners are replaced one by one, so for a while some have an old manifest and some a new one. The store keeps them from undoing each
//! other's work: see [`ManifestRecord`](gristmill_core::schedule::ManifestRecord). A runner backs its manifest once a minute; where no
//! process has backed the manifest in force for a while, this one takes over, and it removes the schedules of topics that are in
//! no manifest any more.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::context::Context;
use super::tenants;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::schedule::{Offer, Schedule, Standing};
use gristmill_store::ManifestStanding;

/// How often a manifest is backed, jittered.
const EVERY: Duration = Duration::from_secs(60);
/// A manifest that no process has backed for this long gives way to this one.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(180);
/// So does one whose topic is not in this manifest.
const REMOVE_AFTER: Duration = Duration::from_secs(600);

/// Offers until stopped: when the registry or the tenants change, and every minute to those tenants that have schedules of manifests.
pub(super) async fn run(mut context: Context) {
    let mut outside = context.tenants.outside();
    let mut offers = Offers::default();
    loop {
        let registry = context.registry.borrow_and_update().clone();
        outside.mark_unchanged();
        let mut schedules: BTreeMap<Name, BTreeMap<TopicId, BTreeMap<Name, Schedule>>> = BTreeMap::new();
        for tenant in tenants::all(&registry, &outside) {
            schedules.insert(tenant, BTreeMap::new());
        }
        for topic in registry.entries().map(|entry| &entry.topic) {
            let of_tenant = schedules.entry(topic.id.tenant.clone()).or_default();
            of_tenant.insert(topic.id.clone(), (*topic.schedules).clone());
        }
        for (tenant, topics) in schedules {
            let offered = tokio::select! {
                biased;
                () = context.stop.cancelled() => return,
                offered = offers.make(&context, &tenant, topics, Instant::now()) => offered,
            };
            if let Err(error) = offered {
                tracing::error!(%tenant, "failed to make the schedules of the manifest: {error:#}");
            }
        }
        let pause = EVERY.mul_f64(0.75 + fastrand::f64() / 2.0);
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            Ok(()) = context.registry.changed() => {}
            Ok(()) = outside.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// What was offered, and how it stands.
#[derive(Default)]
struct Offers {
    topics: HashMap<TopicId, OfferState>,
    /// The tenants that this process has offered to, with whether manifests have spoken for some topic.
    tenants: HashMap<Name, bool>,
}

/// How the offers for a topic stand, once some manifest has made one.
struct OfferState {
    /// What this process offered last, if it did.
    offered: Option<String>,
    /// A number that grows while some process backs the manifest in force, and since when this process has seen it.
    backed: u64,
    since: Instant,
    standing: Option<Standing>,
}

impl Offers {
    async fn make(
        &mut self,
        context: &Context,
        tenant: &Name,
        topics: BTreeMap<TopicId, BTreeMap<Name, Schedule>>,
        now: Instant,
    ) -> anyhow::Result<()> {
        let mut offers = Vec::with_capacity(topics.len());
        for (topic, schedules) in topics {
            let digest_of = serde_json::to_vec(&schedules)?;
            offers.push(self.offer(Offer::new(topic, schedules, digest_of), now));
        }
        let is_same = offers.iter().all(|offer| offer.replaces.as_ref() == Some(&offer.digest));
        if is_same && self.tenants.get(tenant) == Some(&false) {
            return Ok(());
        }
        let is_abandoned = |topic: &TopicId, state: &OfferState| {
            let is_elsewhere = topic.tenant == *tenant && offers.iter().all(|offer| offer.topic != *topic);
            is_elsewhere && state.backed > 0 && now.saturating_duration_since(state.since) > REMOVE_AFTER
        };
        let abandoned = self.topics.iter().filter(|(topic, state)| is_abandoned(topic, state));
        let removals: Vec<_> = abandoned.map(|(topic, _)| removal(topic)).collect();
        for Offer { topic, .. } in &removals {
            tracing::info!(%topic, "no runner's manifest has the topic any more: its schedules are removed");
        }
        offers.extend(removals);
        let offer = || context.store.offer_schedules(tenant, &offers);
        let Some(standings) = context.retry.call(offer).await.transpose()? else { return Ok(()) };
        let has_schedules = standings.iter().any(|standing| standing.backed > 0);
        self.tenants.insert(tenant.clone(), has_schedules);
        let before = self.topics.extract_if(|topic, _| topic.tenant == *tenant).collect();
        for standing in &standings {
            let topic = TopicId { tenant: tenant.clone(), topic: standing.topic.clone() };
            let offered = offers.iter().find(|offer| offer.topic == topic).map(|offer| offer.digest.clone());
            self.note(topic, offered, standing, &before, now);
        }
        Ok(())
    }

    /// Adds to an offer what this process knows of the topic.
    fn offer(&self, offer: Offer, now: Instant) -> Offer {
        let Some(state) = self.topics.get(&offer.topic) else { return offer };
        let is_abandoned = state.standing == Some(Standing::Superseded)
            && now.saturating_duration_since(state.since) > TAKE_OVER_AFTER;
        Offer { replaces: state.offered.clone(), seen: Some(state.backed), insist: is_abandoned, ..offer }
    }

    fn note(
        &mut self,
        topic: TopicId,
        offered: Option<String>,
        &ManifestStanding { standing, backed, .. }: &ManifestStanding,
        before: &HashMap<TopicId, OfferState>,
        now: Instant,
    ) {
        let before = before.get(&topic);
        let is_new = before.is_none_or(|before| before.standing != standing);
        if is_new && standing == Some(Standing::Superseded) {
            let minutes = TAKE_OVER_AFTER.as_secs() / 60;
            tracing::warn!(
                %topic,
                "the schedules of a later manifest are in force; those of this one take over when no runner has had that one for {minutes} \
                 minutes"
            );
        }
        let since = before.filter(|before| before.backed == backed).map_or(now, |before| before.since);
        self.topics.insert(topic, OfferState { offered, backed, since, standing });
    }
}

/// What takes the schedules of manifests out of a topic that no manifest has any more.
fn removal(topic: &TopicId) -> Offer {
    Offer { insist: true, ..Offer::new(topic.clone(), BTreeMap::new(), "removed") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gristmill_store::embedded::EmbeddedStore;

    use super::*;

    /// A store, and the runners that look at it.
    struct Runners {
        context: Context,
        tenant: Name,
        now: Instant,
    }

    impl Runners {
        async fn new() -> Self {
            let store = EmbeddedStore::in_memory().await.unwrap();
            Self { context: Context::of(Arc::new(store)), tenant: "acme".parse().unwrap(), now: Instant::now() }
        }

        /// A runner whose manifest has the topic with these schedules looks.
        async fn look(&self, runner: &mut Offers, schedules: &[&str]) {
            let schedule = Schedule { every: Some(EVERY), ..Schedule::default() };
            let schedules = schedules.iter().map(|name| (name.parse().unwrap(), schedule.clone())).collect();
            runner.make(&self.context, &self.tenant, BTreeMap::from([(topic(), schedules)]), self.now).await.unwrap();
        }

        /// A runner without the topic looks.
        async fn look_from_elsewhere(&self, runner: &mut Offers) {
            runner.make(&self.context, &self.tenant, BTreeMap::new(), self.now).await.unwrap();
        }

        async fn names(&self) -> Vec<String> {
            let schedules = self.context.store.schedules(&self.tenant, None).await.unwrap();
            schedules.into_iter().map(|schedule| schedule.id.name.to_string()).collect()
        }
    }

    fn topic() -> TopicId {
        "acme/report".parse().unwrap()
    }

    #[tokio::test]
    async fn an_old_manifest_comes_back_only_when_no_runner_has_the_later_one() {
        let (mut runners, [mut old, mut new]) = (Runners::new().await, [Offers::default(), Offers::default()]);
        runners.look(&mut old, &["a"]).await;
        runners.look(&mut new, &["b"]).await;
        for _ in 0..10 {
            runners.now += EVERY;
            runners.look(&mut old, &["a"]).await;
            runners.look(&mut new, &["b"]).await;
            assert_eq!(runners.names().await, ["b"]);
        }
        for _ in 0..4 {
            runners.now += EVERY;
            assert_eq!(runners.names().await, ["b"]);
            runners.look(&mut old, &["a"]).await;
        }
        runners.now += EVERY;
        runners.look(&mut old, &["a"]).await;
        assert_eq!(runners.names().await, ["a"]);
    }

    #[tokio::test]
    async fn a_change_that_is_taken_back_holds_at_once() {
        let (runners, mut runner) = (Runners::new().await, Offers::default());
        for names in [["a"], ["b"], ["a"], ["b"]] {
            runners.look(&mut runner, &names).await;
            assert_eq!(runners.names().await, names);
        }
    }

    #[tokio::test]
    async fn the_schedules_of_a_topic_that_no_manifest_has_are_removed() {
        let (mut runners, [mut with, mut without]) = (Runners::new().await, [Offers::default(), Offers::default()]);
        runners.look(&mut with, &["a"]).await;
        for _ in 0..20 {
            runners.now += EVERY;
            runners.look(&mut with, &["a"]).await;
            runners.look_from_elsewhere(&mut without).await;
            assert_eq!(runners.names().await, ["a"]);
        }
        runners.now += REMOVE_AFTER;
        runners.look_from_elsewhere(&mut without).await;
        assert_eq!(runners.names().await, ["a"]);
        runners.now += EVERY;
        runners.look_from_elsewhere(&mut without).await;
        assert_eq!(runners.names().await, Vec::<String>::new());
        runners.look_from_elsewhere(&mut without).await;
        assert_eq!((without.tenants[&runners.tenant], without.topics.len()), (false, 0), "there is nothing to look at");
    }
}
