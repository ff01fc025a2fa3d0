//! Claims ready jobs for the topics that have some, as many as there are free slots, and hands them to the guests and to native handlers.

pub(crate) mod lost;
pub(crate) mod memory;
mod ready_topics;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use self::lost::give_back_lost;
use self::memory::{Memory, Ready};
use self::ready_topics::ReadyTopics;
use super::execute::native;
use super::lease_extender::extend_all;
use super::work::Work;
use crate::context::{Context, ExecutorContext};
use crate::handlers::{Handler, HandlerRegistry};
use crate::path::execute::guests::Guests;
use crate::slots::Slots;
use crate::slots::fleet_use::Shares;
use gristmill_core::job::{Claim, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_store::{ClaimFrom, Claimed, StoreError, WaitingClaim};

/// Once a slot is free, how long to wait for more so that a claim is worth its round trip.
const GATHER: Duration = Duration::from_millis(1);
/// A refused claim is tried again after this long.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);
/// A topic whose stored data is damaged is asked for again after this long.
const AFTER_DAMAGE: Duration = Duration::from_secs(30);

/// The claiming loop's own things.
pub(crate) struct Claimer {
    pub(crate) context: Context,
    pub(crate) slots: Arc<Slots>,
    pub(crate) guests: Guests,
    /// For native handlers, which do not run on the guests' threads.
    pub(crate) executor: Arc<ExecutorContext>,
    /// Topics that have ready jobs.
    pub(crate) ready: mpsc::Receiver<Ready>,
    /// Where the use of tenants is counted.
    pub(crate) shares: Shares,
    /// The store's returns, after which lost claims are looked for.
    pub(crate) returns: watch::Receiver<u64>,
    /// Those of single shards.
    pub(crate) shard_returns: watch::Receiver<u64>,
}

impl Claimer {
    /// Claims until stopped.
    pub(crate) async fn run(mut self) {
        let mut memory = Memory { hot: ReadyTopics::new(self.shares.clone()), ..Memory::default() };
        while !self.context.stop.is_cancelled() {
            let is_new = self.context.registry.has_changed().unwrap_or_default();
            let registry = Arc::clone(&self.context.registry.borrow_and_update());
            if is_new {
                memory.follow(&registry);
            }
            self.note_shard_return(&mut memory).await;
            if std::mem::take(&mut memory.shard_is_back) || self.returns.has_changed().unwrap_or_default() {
                self.returns.mark_unchanged();
                give_back_lost(&self.context, registry.tenants()).await;
            }
            self.receive(&mut memory, &registry);
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
                    self.dispatch(claimed, &mut memory);
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
        self.receive(&mut memory, &registry);
        self.pass_on(&mut memory, &[]).await;
    }

    /// Extends the leases in hand if a shard is available again: they may have run out meanwhile. Claims of it may have lost their replies.
    async fn note_shard_return(&mut self, memory: &mut Memory) {
        if self.shard_returns.has_changed().unwrap_or_default() {
            self.shard_returns.mark_unchanged();
            extend_all(&self.context).await;
            memory.shard_is_back = true;
        }
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
    fn receive(&mut self, memory: &mut Memory, registry: &HandlerRegistry) {
        while let Ok(ready) = self.ready.try_recv() {
            memory.note(ready, registry);
        }
    }

    /// Waits for a reason to claim. `ended`: what [had ended](Slots::ended) when there was none. Meanwhile a claim waits in the store, if that can: it
    /// gets what becomes ready in the same step, and a signal, a question and a commit are saved.
    async fn wait(&mut self, memory: &mut Memory, registry: &HandlerRegistry, ended: (u64, u64)) {
        let mut waiting = self.claim_ahead(memory, registry);
        let (mut answer, mut news) = (None, None);
        tokio::select! {
            claimed = claimed(&mut waiting) => answer = Some(claimed),
            () = self.context.stop.cancelled() => {}
            Some(ready) = self.ready.recv() => news = Some(ready),
            () = changed(&mut self.context.registry) => {}
            () = changed(&mut self.returns) => {}
            () = changed(&mut self.shard_returns) => {}
            have_ended = self.slots.wait_for_room(ended), if !memory.hot.is_empty() => {
                if have_ended {
                    self.gather(memory, registry, ended.0).await;
                }
            }
        }
        if let (None, Some(waiting)) = (&answer, waiting) {
            answer = waiting.take_back().await;
        }
        self.note_end_of_wait(answer, news, memory, registry);
    }

    /// Takes in what a claim that waited has got, and then the news that came meanwhile: what it drained may have got jobs since.
    fn note_end_of_wait(
        &self,
        answer: Option<Result<Claimed, StoreError>>,
        news: Option<Ready>,
        memory: &mut Memory,
        registry: &HandlerRegistry,
    ) {
        match answer {
            Some(Ok(claimed)) => {
                memory.note_unasked(&claimed, registry);
                self.dispatch(claimed, memory);
            }
            // What is ready is signalled; what was claimed is looked for once the store answers.
            Some(Err(error)) => self.context.retry.note_unavailable(error),
            None => {}
        }
        if let Some(ready) = news {
            memory.note(ready, registry);
        }
    }

    /// A claim for the topics that had jobs before, where none has any now.
    fn claim_ahead(&self, memory: &Memory, registry: &HandlerRegistry) -> Option<WaitingClaim> {
        let from = memory.plan_ahead(registry, &self.slots);
        if from.is_empty() { None } else { self.context.store.wait_to_claim(&self.context.worker, &from) }
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

    fn dispatch(&self, claimed: Claimed, memory: &mut Memory) {
        // Not the one by which the claim was made: that may be as old as an outage of the store is long.
        let registry = Arc::clone(&self.context.registry.borrow());
        let (arrived, host_now) = (Instant::now(), Timestamp::now());
        for (topic, error) in claimed.refused {
            if error.is_unavailable() {
                // The next look for work notes the topic again, once its tenant's server answers.
                tracing::warn!(%topic, "failed to claim: {:#}", anyhow::Error::from(error));
                memory.hot.remove(&topic);
                continue;
            }
            let error = anyhow::Error::from(error);
            tracing::error!(%topic, "failed to claim, trying again in {} s: {error:#}", AFTER_DAMAGE.as_secs());
            memory.hot.remove(&topic);
            memory.refused.insert(topic, arrived + AFTER_DAMAGE);
        }
        let taken = self.context.in_flight.take(claimed.claims);
        let (mut for_guests, mut native_work) = (Vec::with_capacity(taken.len()), Vec::new());
        let mut taken = taken.into_iter().peekable();
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
                if is_native { native_work.push(work) } else { for_guests.push(work) }
            }
        }
        native::hand_over(native_work, &self.executor);
        self.guests.hand_over(for_guests);
    }
}

/// Waits for what a claim gets; for ever if there is none.
async fn claimed(waiting: &mut Option<WaitingClaim>) -> Result<Claimed, StoreError> {
    match waiting {
        Some(waiting) => waiting.claimed().await,
        None => std::future::pending().await,
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
    use super::*;
    use crate::handlers::{Available, Code};
    use crate::native::{HandlerError, NativeHandler, NativeJob};
    use crate::path::claim::memory::tests::{ready, registry};
    use gristmill_config::Manifest;
    use gristmill_core::job::{Due, JobSpec, Name, NewJob, Payload};
    use gristmill_core::outcome::OutcomeKind;
    use gristmill_store::JobState;
    use gristmill_store::embedded::EmbeddedStore;

    /// A claimer with room for eight attempts, and the sender of its ready topics.
    async fn claimer() -> (Claimer, mpsc::Sender<Ready>) {
        let (sender, ready) = mpsc::channel(1);
        let context = Context::of(Arc::new(EmbeddedStore::in_memory().await.unwrap()));
        let executor = Arc::new(ExecutorContext::of(&context, mpsc::unbounded_channel().0));
        let guests = Guests::start(1, &executor).unwrap().0;
        let (returns, shard_returns) = (context.retry.returns(), context.store.returns());
        let (slots, shares) = (Slots::new(8, 1), Shares::default());
        let claimer = Claimer { context, slots, guests, executor, ready, shares, returns, shard_returns };
        (claimer, sender)
    }

    #[tokio::test]
    async fn a_topic_that_becomes_ready_ends_the_wait_for_more_slots() {
        let (mut claimer, sender) = claimer().await;
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
            sender.send(Ready { topic: fresh.clone(), is_woken: true })
        );
        sent.unwrap();
        assert!(memory.hot.contains(&fresh));
    }

    #[tokio::test]
    async fn leases_in_hand_are_extended_once_a_shard_is_available_again() {
        let (mut claimer, _tell) = claimer().await;
        let (store, topic): (_, TopicId) = (Arc::clone(&claimer.context.store), "mail".parse().unwrap());
        let job = NewJob { spec: JobSpec::new(topic.clone(), Payload::default()), due: Due::Now };
        store.push(std::slice::from_ref(&job)).await.unwrap();
        let from = ClaimFrom::new(topic.clone(), 1, Duration::from_secs(1));
        let claims = store.claim(&claimer.context.worker, &[from]).await.unwrap().claims;
        let (before, returns) = (claims[0].lease_until, watch::Sender::new(0));
        claimer.context.in_flight.take(claims);
        claimer.shard_returns = returns.subscribe();
        let lease_until = async || match store.job(&topic.tenant, &job.spec.id).await.unwrap().unwrap().state {
            JobState::Running { lease_until, .. } => lease_until,
            state => panic!("{state:?}"),
        };
        let mut memory = Memory::default();
        claimer.note_shard_return(&mut memory).await;
        assert_eq!((lease_until().await, memory.shard_is_back), (before, false));
        returns.send_modify(|returns| *returns += 1);
        claimer.note_shard_return(&mut memory).await;
        assert!(lease_until().await > before && memory.shard_is_back);
    }

    #[tokio::test]
    async fn a_topic_that_the_store_refused_is_left_alone_for_a_while() {
        let (claimer, _tell) = claimer().await;
        let damaged: TopicId = "damaged".parse().unwrap();
        let source = std::io::Error::other("WRONGTYPE").into();
        let error = StoreError::Refused { store: "here".into(), doing: "claim jobs", source };
        let mut memory = Memory { hot: ready([&damaged]), ..Memory::default() };
        let claimed = Claimed { refused: vec![(damaged.clone(), error)], ..Claimed::default() };
        claimer.dispatch(claimed, &mut memory);
        let registry = registry(&["damaged"]);
        memory.note_ready(damaged.clone(), &registry);
        assert!(memory.hot.is_empty());
        memory.refused.insert(damaged.clone(), Instant::now());
        memory.note_ready(damaged.clone(), &registry);
        assert!(memory.hot.contains(&damaged));
    }

    #[tokio::test]
    async fn a_topic_whose_server_was_unavailable_is_claimed_from_as_soon_as_work_is_seen() {
        let (claimer, _tell) = claimer().await;
        let moving: TopicId = "moving".parse().unwrap();
        let source = std::io::Error::other("slot 7 is on its way to another server").into();
        let error = StoreError::Unavailable { store: "a cluster".into(), source };
        let mut memory = Memory { hot: ready([&moving]), ..Memory::default() };
        claimer.dispatch(Claimed { refused: vec![(moving.clone(), error)], ..Claimed::default() }, &mut memory);
        assert!(memory.hot.is_empty(), "not again at once");
        memory.note_ready(moving.clone(), &registry(&["moving"]));
        assert!(memory.hot.contains(&moving));
    }

    #[tokio::test]
    async fn what_becomes_ready_while_nothing_was_is_claimed_in_the_same_step() {
        let (mut claimer, _tell) = claimer().await;
        let (topic, registry): (TopicId, _) = ("mail".parse().unwrap(), registry(&["mail"]));
        let mut memory = Memory::default();
        memory.topic_slots(&topic, &claimer.context.metrics, &claimer.slots);
        let job = NewJob { spec: JobSpec::new(topic.clone(), Payload::default()), due: Due::Now };
        let (store, ended) = (Arc::clone(&claimer.context.store), claimer.slots.ended());
        // In the order written: the claim waits when the job comes.
        let (_, pushed) =
            tokio::join!(claimer.wait(&mut memory, &registry, ended), store.push(std::slice::from_ref(&job)));
        pushed.unwrap();
        assert!(claimer.context.in_flight.has(&topic.tenant, &job.spec.id));
    }

    #[tokio::test]
    async fn a_topic_that_becomes_ready_after_a_claim_has_drained_it_is_asked_for() {
        let (claimer, _tell) = claimer().await;
        let (topic, registry): (TopicId, _) = ("mail".parse().unwrap(), registry(&["mail"]));
        let (mut memory, news) = (Memory::default(), Ready { topic: topic.clone(), is_woken: true });
        let claimed = Claimed { drained: vec![topic.clone()], ..Claimed::default() };
        claimer.note_end_of_wait(Some(Ok(claimed)), Some(news), &mut memory, &registry);
        assert!(memory.hot.contains(&topic));
    }

    #[tokio::test]
    async fn a_job_is_done_by_what_serves_once_it_is_claimed_and_not_by_what_served_when_the_claim_was_made() {
        let (mut claimer, _tell) = claimer().await;
        let (before, name): (_, Name) = (registry(&["mail"]), "mail".parse().unwrap());
        let (sender, mut finished) = mpsc::unbounded_channel();
        let reject = async |_: NativeJob| Err::<(), _>(HandlerError::reject("by the later one"));
        let code = Code::Native(NativeHandler::new(reject));
        let available = Available { handlers: [(name.clone(), Handler { name, code })].into(), ..Available::default() };
        let manifest = Manifest::parse("[topics.mail]\n", "gristmill.toml".as_ref()).unwrap();
        let now = Arc::new(HandlerRegistry::new(&manifest, &available, &before));
        claimer.context.registry = watch::Sender::new(now).subscribe();
        claimer.executor = Arc::new(ExecutorContext::of(&claimer.context, sender));
        let (context, topic): (_, TopicId) = (&claimer.context, "mail".parse().unwrap());
        let job = NewJob { spec: JobSpec::new(topic.clone(), Payload::default()), due: Due::Now };
        context.store.push(&[job]).await.unwrap();
        let from = ClaimFrom::new(topic, 1, Duration::from_secs(60));
        let claimed = context.store.claim(&context.worker, &[from]).await.unwrap();
        claimer.note_end_of_wait(Some(Ok(claimed)), None, &mut Memory::default(), &before);
        assert_eq!(finished.recv().await.unwrap().outcome, OutcomeKind::Reject);
    }
}
