//! What the claiming loop remembers from round to round: which topics have jobs.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::ready_topics::{ReadyTopics, TopicsInHand, plan_ahead};
use crate::handlers::HandlerRegistry;
use crate::slots::shares::Free;
use crate::slots::{Slots, TopicSlots};
use gristmill_core::job::TopicId;
use gristmill_core::topic::FleetLimits;
use gristmill_metrics::Metrics;
use gristmill_store::{ClaimFrom, Claimed};

/// Topics with ready jobs and without a handler that are remembered. The listener names further ones again.
const UNSERVED_MAX: usize = 10_000;

/// News of a topic with ready jobs.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) topic: TopicId,
    /// The store woke this runner for the topic, and perhaps no other.
    pub(crate) is_woken: bool,
}

/// What the loop remembers from round to round.
#[derive(Default)]
pub(super) struct Memory {
    /// Topics with a handler that were not empty by the last signal or poll.
    pub(super) hot: ReadyTopics,
    /// The same without a handler: their jobs begin when it comes.
    pub(super) unserved: BTreeSet<TopicId>,
    /// Topics for which the store woke this runner, since it last claimed.
    pub(super) woken: BTreeSet<TopicId>,
    /// How often parts of the store have come back, and whether one has since lost claims were last looked for.
    pub(super) shard_returns: u64,
    pub(super) shard_is_back: bool,
    pub(super) topic_slots: TopicsInHand,
    /// The limits for all runners together, of the topics that have some, by the registry that was followed last.
    pub(super) limits: HashMap<TopicId, FleetLimits>,
    /// Topics that the store refused, and until when they are not asked for.
    pub(super) refused: HashMap<TopicId, Instant>,
}

impl Memory {
    pub(super) fn note(&mut self, Ready { topic, is_woken }: Ready, registry: &HandlerRegistry) {
        if is_woken {
            self.woken.insert(topic.clone());
        }
        self.note_ready(topic, registry);
    }

    /// Notes a topic that has ready jobs, unless the store refused it a short while ago.
    pub(super) fn note_ready(&mut self, topic: TopicId, registry: &HandlerRegistry) {
        if !self.refused.is_empty() {
            let now = Instant::now();
            self.refused.retain(|_, until| *until > now);
        }
        if self.refused.contains_key(&topic) {
            return;
        }
        let entry = registry.get(&topic);
        if entry.is_some_and(|entry| entry.handler.is_some()) {
            let weight = registry.limits(&topic.tenant).weight;
            self.hot.insert(topic, weight);
            return;
        }
        if let Some(entry) = entry {
            registry.demand(entry);
        }
        if self.unserved.len() < UNSERVED_MAX {
            self.unserved.insert(topic);
        }
    }

    /// Strikes off the topics that a claim drained. A claim is bounded in bytes: if there was no room for a topic, the next
    /// round begins with it, so that large jobs of another one do not keep it waiting for ever.
    pub(super) fn note_answer(&mut self, from: &[ClaimFrom], claimed: &Claimed) {
        self.shard_is_back = claimed.shard_returns != self.shard_returns;
        self.shard_returns = claimed.shard_returns;
        self.hot.note_drained(from.len(), claimed.drained.len());
        for topic in &claimed.drained {
            self.hot.remove(topic);
        }
        let mut served: HashSet<&TopicId> = claimed.claims.iter().map(|claim| &claim.lease.topic).collect();
        served.extend(claimed.refused.iter().map(|(topic, _)| topic));
        let mut begin_behind = Vec::new();
        let is_passed_over = |line: &ClaimFrom| self.hot.contains(&line.topic) && !served.contains(&line.topic);
        // From the last one on, so that each tenant's first one counts.
        for (place, passed_over) in from.iter().enumerate().rev().filter(|(_, line)| is_passed_over(line)) {
            let before = place.checked_sub(1).and_then(|before| from.get(before));
            if let Some(before) = before.filter(|before| before.topic.tenant == passed_over.topic.tenant) {
                begin_behind.push(before.topic.clone());
            }
        }
        begin_behind.iter().for_each(|topic| self.hot.ended_with(topic));
    }

    /// Notes what a claim has got that waited: its topics had jobs, and those that it has not drained still have some.
    pub(super) fn note_unasked(&mut self, claimed: &Claimed, registry: &HandlerRegistry) {
        for claims in claimed.claims.chunk_by(|a, b| a.lease.topic == b.lease.topic) {
            let Some(first) = claims.first() else { continue };
            self.note_ready(first.lease.topic.clone(), registry);
        }
        for topic in &claimed.drained {
            self.hot.remove(topic);
        }
    }

    /// Sorts the topics by whether a new registry has a handler for them, and forgets the slots of topics that it does not
    /// have. Topics whose limits are new may have jobs that the old ones keep in line, and which the store says nothing of.
    pub(super) fn follow(&mut self, registry: &HandlerRegistry) {
        for topic in self.hot.take().into_iter().chain(std::mem::take(&mut self.unserved)) {
            self.note_ready(topic, registry);
        }
        let limits =
            registry.entries().map(|entry| &entry.topic).filter(|topic| topic.fleet.is_some() && !topic.external);
        let limits: HashMap<TopicId, FleetLimits> = limits.map(|topic| (topic.id.clone(), topic.fleet)).collect();
        let before = std::mem::replace(&mut self.limits, limits.clone());
        for topic in limits.keys().chain(before.keys()).filter(|topic| limits.get(*topic) != before.get(*topic)) {
            self.note_ready(topic.clone(), registry);
        }
        self.topic_slots.retain(|topic, slots| registry.get(topic).is_some() || slots.unsettled() > 0);
    }

    pub(super) fn plan(&mut self, registry: &HandlerRegistry, free: Free) -> Vec<ClaimFrom> {
        self.hot.plan(registry, &self.topic_slots, free)
    }

    /// A claim to make once one of the topics that had jobs has some again; nothing while others have. Of each topic one more than there are threads
    /// without work: other runners may have some for the rest, and a claim that gets less than it may has drained the topic.
    pub(super) fn plan_ahead(&self, registry: &HandlerRegistry, slots: &Slots) -> Vec<ClaimFrom> {
        let idle = slots.threads.saturating_sub(slots.attempts.count());
        if idle == 0 || !self.hot.is_empty() {
            return Vec::new();
        }
        let topics = self.topic_slots.keys().filter(|topic| !self.refused.contains_key(*topic));
        plan_ahead(topics, registry, &self.topic_slots, slots.free(), idle + 1)
    }

    pub(super) fn topic_slots(&mut self, topic: &TopicId, metrics: &Metrics, slots: &Arc<Slots>) -> &Arc<TopicSlots> {
        match self.topic_slots.entry(topic.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(TopicSlots::new(slots, metrics.topic(topic), self.hot.usage(&topic.tenant)))
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::handlers::{Available, Code, Handler};
    use crate::native::{HandlerError, NativeHandler, NativeJob};
    use gristmill_config::Manifest;
    use gristmill_core::job::{Due, JobSpec, Name, NewJob, Payload, WorkerId};
    use gristmill_store::embedded::EmbeddedStore;
    use gristmill_store::{Claims, Push};

    /// A registry with a native handler for each of these topics.
    pub(crate) fn registry(topics: &[&str]) -> HandlerRegistry {
        let handler = |topic: &&str| {
            let name: Name = topic.parse().unwrap();
            let code = Code::Native(NativeHandler::new(async |_: NativeJob| Ok::<_, HandlerError>(())));
            (name.clone(), Handler { name, code })
        };
        let handlers: BTreeMap<Name, Handler> = topics.iter().map(handler).collect();
        let manifest = Manifest::parse("", Path::new("gristmill.toml")).unwrap();
        HandlerRegistry::new(&manifest, &Available { handlers, ..Available::default() }, &HandlerRegistry::default())
    }

    pub(crate) fn ready<'a>(topics: impl IntoIterator<Item = &'a TopicId>) -> ReadyTopics {
        let mut ready = ReadyTopics::default();
        topics.into_iter().for_each(|topic| ready.insert(topic.clone(), 1));
        ready
    }

    #[test]
    fn topics_without_a_handler_are_not_claimed_from_and_begin_when_it_comes() {
        let mut memory = Memory::default();
        let none = HandlerRegistry::default();
        for n in 0..=UNSERVED_MAX {
            memory.note_ready(format!("t{n}").parse().unwrap(), &none);
        }
        assert!(
            memory.hot.is_empty(),
            "a claimer walks through them in each round, and they wake it when an attempt ends"
        );
        assert_eq!(memory.unserved.len(), UNSERVED_MAX);
        let served = registry(&["t7"]);
        memory.follow(&served);
        let planned: Vec<TopicId> =
            memory.plan(&served, Free { all: 8, kept: 0 }).into_iter().map(|line| line.topic).collect();
        assert_eq!(planned, ["t7".parse().unwrap()]);
        memory.follow(&none);
        assert!(memory.plan(&none, Free { all: 8, kept: 0 }).is_empty() && memory.hot.is_empty());
    }

    #[tokio::test]
    async fn a_topic_that_a_claim_had_no_room_for_comes_first_in_the_next() {
        let store = EmbeddedStore::in_memory().await.unwrap();
        let line = |name: &str| ClaimFrom::new(name.parse().unwrap(), 2, Duration::from_secs(9));
        let from = ["a", "b", "c"].map(line);
        let jobs = from.each_ref().map(|line| {
            let data = vec![0; 9 << 20];
            NewJob { spec: JobSpec::new(line.topic.clone(), Payload { data, content_type: None }), due: Due::Now }
        });
        store.push(&jobs).await.unwrap();
        let mut hot = ready(from.each_ref().map(|line| &line.topic));
        hot.ended_with(&from[2].topic);
        let mut memory = Memory { hot, ..Memory::default() };
        let claimed = store.claim(&WorkerId::new("w"), &from).await.unwrap();
        memory.note_answer(&from, &claimed);
        let next = memory.plan(&registry(&["a", "b", "c"]), Free { all: 8, kept: 0 });
        assert_eq!(next.iter().map(|line| line.topic.to_string()).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn ahead_of_jobs_the_topics_that_had_some_share_the_slots() {
        let slots = Slots::new(8, 2);
        let registry = registry(&["a", "b", "c"]);
        let mut memory = Memory::default();
        let ahead = |memory: &Memory| {
            let from = memory.plan_ahead(&registry, &slots);
            let mut from: Vec<_> = from.into_iter().map(|line| (line.topic.to_string(), line.max)).collect();
            from.sort();
            from
        };
        assert_eq!(ahead(&memory), []);
        for topic in ["a", "b"] {
            memory.topic_slots(&topic.parse().unwrap(), &Metrics::default(), &slots);
        }
        assert_eq!(ahead(&memory), [("a".to_owned(), 3), ("b".to_owned(), 3)]);
        let running = memory.topic_slots(&"a".parse().unwrap(), &Metrics::default(), &slots).enter();
        assert_eq!(ahead(&memory), [("a".to_owned(), 2), ("b".to_owned(), 2)], "one thread has work");
        drop(running);
        memory.refused.insert("a".parse().unwrap(), Instant::now() + Duration::from_secs(9));
        assert_eq!(ahead(&memory), [("b".to_owned(), 3)]);
        memory.note_ready("c".parse().unwrap(), &registry);
        assert_eq!(ahead(&memory), [], "those that have jobs come first");
    }
}
