//! Claims ready jobs for the topics that have some, as many as there are free slots, and hands them to the guests.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::execute::{ExecutorContext, Work, execute};
use super::fleet_use::Shares;
use super::guests::Guests;
use super::in_flight::give_back_lost;
use super::ready_topics::{ReadyTopics, TopicsInHand};
use super::shares::Free;
use super::slots::{Slots, TopicSlots};
use super::start::Context;
use crate::handlers::{Handler, HandlerRegistry};
use gristmill_core::job::{Claim, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::FleetLimits;
use gristmill_metrics::Metrics;
use gristmill_store::{ClaimFrom, Claimed};

/// Once a slot is free, how long to wait for more so that a claim is worth its round trip.
const GATHER: Duration = Duration::from_millis(1);
/// Topics with ready jobs and without a handler that are remembered. The listener names further ones again.
const UNSERVED_MAX: usize = 10_000;
/// A refused claim is tried again after this long.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);
/// A topic whose stored data is damaged is asked for again after this long.
const AFTER_DAMAGE: Duration = Duration::from_secs(30);

/// The claiming loop's own things.
pub(super) struct Claimer {
    pub(super) context: Context,
    pub(super) slots: Arc<Slots>,
    pub(super) guests: Guests,
    /// For native handlers, which do not run on the guests' threads.
    pub(super) executor: Arc<ExecutorContext>,
    /// Topics that have ready jobs.
    pub(super) ready: mpsc::Receiver<Ready>,
    /// Where the use of tenants is counted.
    pub(super) shares: Shares,
    /// The store's returns, after which lost claims are looked for.
    pub(super) returns: watch::Receiver<u64>,
}

/// News of a topic with ready jobs.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) topic: TopicId,
    /// The store woke this runner for the topic, and perhaps no other.
    pub(super) is_woken: bool,
}

/// What the loop remembers from round to round.
#[derive(Default)]
struct Memory {
    /// Topics with a handler that were not empty by the last signal or poll.
    hot: ReadyTopics,
    /// The same without a handler: their jobs begin when it comes.
    unserved: BTreeSet<TopicId>,
    /// Topics for which the store woke this runner, since it last claimed.
    woken: BTreeSet<TopicId>,
    /// How often parts of the store have come back, and whether one has since lost claims were last looked for.
    shard_returns: u64,
    shard_is_back: bool,
    topic_slots: TopicsInHand,
    /// The limits for all runners together, of the topics that have some, by the registry that was followed last.
    limits: HashMap<TopicId, FleetLimits>,
    /// Topics that the store refused, and until when they are not asked for.
    refused: HashMap<TopicId, Instant>,
}

impl Claimer {
    /// Claims until stopped.
    pub(super) async fn run(mut self) {
        let mut memory = Memory { hot: ReadyTopics::new(self.shares.clone()), ..Memory::default() };
        while !self.context.stop.is_cancelled() {
            let is_new = self.context.registry.has_changed().unwrap_or_default();
            let registry = Arc::clone(&self.context.registry.borrow_and_update());
            if is_new {
                memory.follow(&registry);
            }
            if std::mem::take(&mut memory.shard_is_back) || self.returns.has_changed().unwrap_or_default() {
                self.returns.mark_unchanged();
                give_back_lost(&self.context, registry.tenants()).await;
            }
            self.hear(&mut memory, &registry);
            // Before the plan: an attempt that ends between plan and wait must end the wait.
            let ended = self.slots.ended();
            let from = memory.plan(&registry, self.slots.free());
            self.pass_on(&mut memory, &from).await;
            if from.is_empty() {
                self.wait(&mut memory, &registry, ended).await;
                continue;
            }
            match self.context.retry.call(|| self.context.store.claim(&self.context.worker, &from)).await {
                Some(Ok(claimed)) => {
                    memory.note_answer(&from, &claimed);
                    self.dispatch(claimed, &registry, &mut memory);
                }
                Some(Err(error)) => {
                    tracing::error!("failed to claim: {:#}", anyhow::Error::from(error));
                    // The store may have served some of several tenants.
                    give_back_lost(&self.context, registry.tenants()).await;
                    tokio::select! {
                        () = tokio::time::sleep(AFTER_REFUSAL) => {}
                        () = self.context.stop.cancelled() => {}
                    }
                }
                None => return,
            }
        }
        let registry = Arc::clone(&self.context.registry.borrow());
        self.hear(&mut memory, &registry);
        self.pass_on(&mut memory, &[]).await;
    }

    /// Has other runners do what this one was woken for and does not claim now: it has no room, or no handler, or it ends.
    async fn pass_on(&self, memory: &mut Memory, from: &[ClaimFrom]) {
        let mut woken = std::mem::take(&mut memory.woken);
        woken.retain(|topic| from.iter().all(|line| line.topic != *topic));
        if woken.is_empty() {
            return;
        }
        let topics: Vec<TopicId> = woken.into_iter().collect();
        if let Err(error) = self.context.store.pass_on(&topics).await {
            tracing::debug!("failed to wake another runner, which polls: {:#}", anyhow::Error::from(error));
        }
    }

    /// Takes in what has been signalled. Signals that came during a claim are read after the topics that it drained
    /// are struck off, so that none is lost; at worst one claim finds nothing.
    fn hear(&mut self, memory: &mut Memory, registry: &HandlerRegistry) {
        while let Ok(ready) = self.ready.try_recv() {
            memory.note(ready, registry);
        }
    }

    /// Waits for a reason to claim. `ended`: what [had ended](Slots::ended) when there was none.
    async fn wait(&mut self, memory: &mut Memory, registry: &HandlerRegistry, ended: (u64, u64)) {
        tokio::select! {
            () = self.context.stop.cancelled() => {}
            Some(ready) = self.ready.recv() => memory.note(ready, registry),
            () = changed(&mut self.context.registry) => {}
            () = changed(&mut self.returns) => {}
            have_ended = self.slots.wait_for_room(ended), if !memory.hot.is_empty() => {
                if have_ended {
                    self.gather(memory, registry, ended.0).await;
                }
            }
        }
    }

    /// Waits until a third of the attempts has ended, so that the claim is worth its round trip. The rest keeps the threads busy until it is here; with a half they
    /// had nothing to do for a part of that time.
    async fn gather(&mut self, memory: &mut Memory, registry: &HandlerRegistry, ended: u64) {
        let attempts = &self.slots.attempts;
        let third = ended + (attempts.count() as u64 + 1).div_ceil(3);
        tokio::select! {
            biased;
            // Slots may have been free all the time, and only the topics known so far at their limits.
            Some(ready) = self.ready.recv() => memory.note(ready, registry),
            _ = tokio::time::timeout(GATHER, attempts.wait_for(third)) => {}
        }
    }

    fn dispatch(&self, claimed: Claimed, registry: &HandlerRegistry, memory: &mut Memory) {
        let (arrived, host_now) = (Instant::now(), Timestamp::now());
        for (topic, error) in claimed.refused {
            let error = anyhow::Error::from(error);
            tracing::error!(%topic, "failed to claim, trying again in {} s: {error:#}", AFTER_DAMAGE.as_secs());
            memory.hot.remove(&topic);
            memory.refused.insert(topic, arrived + AFTER_DAMAGE);
        }
        let taken = self.context.in_flight.take(claimed.claims);
        let (mut for_guests, mut taken) = (Vec::with_capacity(taken.len()), taken.into_iter().peekable());
        // What belongs to a topic is looked up once for the jobs of it that stand together.
        while let Some((first, _)) = taken.peek() {
            let topic = first.job.spec.topic.clone();
            let slots = memory.topic_slots(&topic, &self.context.metrics, &self.slots);
            let entry = registry.get(&topic);
            while let Some((claim, control)) = taken.next_if(|(claim, _)| claim.job.spec.topic == topic) {
                let (slot, clock_offset_ms) = (slots.enter(), offset_ms(&claim, host_now));
                let entry = entry.map(|entry| Arc::clone(entry.of_job(&claim.job.spec)));
                let handler = entry.as_deref().and_then(|entry| entry.handler.as_ref());
                let is_native = handler.is_some_and(Handler::is_native);
                let work = Work { entry, slot, arrived, clock_offset_ms, control, claim };
                if is_native {
                    let context = Arc::clone(&self.executor);
                    tokio::spawn(async move { context.finished.send(execute(work, Arc::clone(&context)).await).ok() });
                } else {
                    for_guests.push(work);
                }
            }
        }
        self.guests.hand_over(for_guests);
    }
}

impl Memory {
    fn note(&mut self, Ready { topic, is_woken }: Ready, registry: &HandlerRegistry) {
        if is_woken {
            self.woken.insert(topic.clone());
        }
        self.note_ready(topic, registry);
    }

    /// Notes a topic that has ready jobs, unless the store refused it a short while ago.
    fn note_ready(&mut self, topic: TopicId, registry: &HandlerRegistry) {
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
    fn note_answer(&mut self, from: &[ClaimFrom], claimed: &Claimed) {
        self.shard_is_back = claimed.shard_returns != self.shard_returns;
        self.shard_returns = claimed.shard_returns;
        for topic in &claimed.drained {
            self.hot.remove(topic);
        }
        let mut served: HashSet<&TopicId> = claimed.claims.iter().map(|claim| &claim.lease.topic).collect();
        served.extend(claimed.refused.iter().map(|(topic, _)| topic));
        let mut begin_behind = Vec::new();
        let is_left = |line: &ClaimFrom| self.hot.contains(&line.topic) && !served.contains(&line.topic);
        // From the last one on, so that each tenant's first one counts.
        for (place, left) in from.iter().enumerate().rev().filter(|(_, line)| is_left(line)) {
            let before = place.checked_sub(1).and_then(|before| from.get(before));
            if let Some(before) = before.filter(|before| before.topic.tenant == left.topic.tenant) {
                begin_behind.push(before.topic.clone());
            }
        }
        begin_behind.iter().for_each(|topic| self.hot.ended_with(topic));
    }

    /// Sorts the topics by whether a new registry has a handler for them, and forgets the slots of topics that it does not
    /// have. Topics whose limits are new may have jobs that the old ones keep in line, and which the store says nothing of.
    fn follow(&mut self, registry: &HandlerRegistry) {
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

    fn plan(&mut self, registry: &HandlerRegistry, free: Free) -> Vec<ClaimFrom> {
        self.hot.plan(registry, &self.topic_slots, free)
    }

    fn topic_slots(&mut self, topic: &TopicId, metrics: &Metrics, slots: &Arc<Slots>) -> &Arc<TopicSlots> {
        match self.topic_slots.entry(topic.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(TopicSlots::new(slots, metrics.topic(topic), self.hot.usage(&topic.tenant)))
            }
        }
    }
}

/// Waits for a value that was not looked at, and leaves that to others; for ever if there will be none.
async fn changed<T>(value: &mut watch::Receiver<T>) {
    match value.changed().await {
        Ok(()) => value.mark_changed(),
        Err(_) => std::future::pending().await,
    }
}

/// The store's clock minus this host's, as seen when the claim arrived.
fn offset_ms(claim: &Claim, host_now: Timestamp) -> i64 {
    let (store, host) = (claim.claimed_at.as_millis(), host_now.as_millis());
    i64::try_from(store).unwrap_or(i64::MAX).saturating_sub(i64::try_from(host).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::handlers::{Available, Code};
    use crate::native::{HandlerError, NativeHandler, NativeJob};
    use gristmill_config::Manifest;
    use gristmill_core::job::{Due, JobSpec, Name, NewJob, Payload, WorkerId};
    use gristmill_store::embedded::EmbeddedStore;
    use gristmill_store::{Claims, Push, StoreError};

    /// A registry with a native handler for each of these topics.
    fn registry(topics: &[&str]) -> HandlerRegistry {
        let handler = |topic: &&str| {
            let name: Name = topic.parse().unwrap();
            let code = Code::Native(NativeHandler::new(async |_: NativeJob| Ok::<_, HandlerError>(())));
            (name.clone(), Handler { name, code })
        };
        let handlers: BTreeMap<Name, Handler> = topics.iter().map(handler).collect();
        let manifest = Manifest::parse("", Path::new("gristmill.toml")).unwrap();
        HandlerRegistry::new(&manifest, &Available { handlers, ..Available::default() }, &HandlerRegistry::default())
    }

    fn ready<'a>(topics: impl IntoIterator<Item = &'a TopicId>) -> ReadyTopics {
        let mut ready = ReadyTopics::default();
        topics.into_iter().for_each(|topic| ready.insert(topic.clone(), 1));
        ready
    }

    /// A claimer with room for eight attempts, and the sender of its ready topics.
    async fn claimer() -> (Claimer, mpsc::Sender<Ready>) {
        let (tell, ready) = mpsc::channel(1);
        let context = Context::of(Arc::new(EmbeddedStore::in_memory().await.unwrap()));
        let executor = Arc::new(ExecutorContext::of(&context, mpsc::unbounded_channel().0));
        let guests = Guests::start(1, &executor).unwrap().0;
        let returns = context.retry.returns();
        let claimer =
            Claimer { context, slots: Slots::new(8, 1), guests, executor, ready, shares: Shares::default(), returns };
        (claimer, tell)
    }

    #[tokio::test]
    async fn a_topic_that_becomes_ready_ends_the_wait_for_more_slots() {
        let (mut claimer, tell) = claimer().await;
        let (busy, fresh): (TopicId, TopicId) = ("busy".parse().unwrap(), "fresh".parse().unwrap());
        let mut memory = Memory { hot: ready([&busy]), ..Memory::default() };
        let mut taken: Vec<_> =
            (0..8).map(|_| memory.topic_slots(&busy, &claimer.context.metrics, &claimer.slots).enter()).collect();
        let ended = claimer.slots.ended();
        // One of eight: it waits for two more.
        drop(taken.pop());
        // In the order written: the claimer waits for more slots when the signal comes.
        let registry = registry(&["busy", "fresh"]);
        let (_, sent) = tokio::join!(
            claimer.wait(&mut memory, &registry, ended),
            tell.send(Ready { topic: fresh.clone(), is_woken: true })
        );
        sent.unwrap();
        assert!(memory.hot.contains(&fresh));
    }

    #[tokio::test]
    async fn a_topic_that_the_store_refused_is_left_alone_for_a_while() {
        let (claimer, _tell) = claimer().await;
        let damaged: TopicId = "damaged".parse().unwrap();
        let source = std::io::Error::other("WRONGTYPE").into();
        let error = StoreError::Refused { store: "here".into(), doing: "claim jobs", source };
        let mut memory = Memory { hot: ready([&damaged]), ..Memory::default() };
        let claimed = Claimed { refused: vec![(damaged.clone(), error)], ..Claimed::default() };
        claimer.dispatch(claimed, &claimer.context.registry.borrow().clone(), &mut memory);
        let registry = registry(&["damaged"]);
        memory.note_ready(damaged.clone(), &registry);
        assert!(memory.hot.is_empty());
        memory.refused.insert(damaged.clone(), Instant::now());
        memory.note_ready(damaged.clone(), &registry);
        assert!(memory.hot.contains(&damaged));
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
}
