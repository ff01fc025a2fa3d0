//! The threads that guests run on, one single-threaded runtime each.
//!
//! A guest runs inside `poll`, so a busy one holds its thread until it yields (every some 100,000 units of fuel). On
//! threads of their own they cannot hold up the store's loops. [`RunOrder`](super::turns::RunOrder) says which guest a thread
//! polls next; the runtime is there for timers and sockets. A guest may go on on another thread than it began on.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::guest_server::serve;
use super::threads::Shared;
use crate::context::ExecutorContext;
use crate::path::work::{Finished, Work};
use crate::slots::Slots;

/// Hands work to the guest threads. Dropping it ends them once their queues are empty.
#[derive(Debug)]
pub(crate) struct Guests(Arc<Shared>);

impl Guests {
    /// Starts `count` threads; the handles end when the [`Guests`] is dropped and the last attempt has ended.
    pub(crate) fn start(count: usize, context: &Arc<ExecutorContext>) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let count = count.max(1);
        let shared = Arc::new(Shared::new(count));
        let guests = Self(Arc::clone(&shared));
        let handles = (0..count).map(|number| start(number, Arc::clone(&shared), Arc::clone(context)));
        let handles = handles.collect::<io::Result<_>>()?;
        Ok((guests, handles))
    }

    /// Puts a batch in line, and wakes as many threads as it takes. The line is as long as the runner's slots let it be.
    pub(crate) fn hand_over(&self, work: Vec<Work>) {
        self.0.join(work);
    }

    /// [Watches](Shared::watch) the threads and the line until `stop`. Keeps no channel open.
    pub(crate) fn watchdog(
        &self,
        slots: Arc<Slots>,
        finished: mpsc::WeakUnboundedSender<Finished>,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.0);
        async move { stop.run_until_cancelled(shared.watch(&slots, &finished)).await.unwrap_or_default() }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn start(number: usize, shared: Arc<Shared>, context: Arc<ExecutorContext>) -> io::Result<JoinHandle<()>> {
    let parked = |shared: &Arc<Shared>, parked| {
        let shared = Arc::clone(shared);
        move || {
            if let Some(thread) = shared.threads.get(number) {
                thread.set_parked(parked);
            }
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(parked(&shared, true))
        .on_thread_unpark(parked(&shared, false))
        .build()?;
    let thread = std::thread::Builder::new().name(format!("guest-{number}"));
    let serve = move || async move {
        if let Some(thread) = shared.threads.get(number) {
            serve(&shared, thread, context).await;
        }
    };
    thread.spawn(move || runtime.block_on(serve()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::super::threads::IN_LINE_MAX;
    use super::*;
    use crate::context::Context;
    use crate::handlers::{Available, Code, Handler, HandlerRegistry, TopicHandler};
    use crate::native::{HandlerError, NativeHandler, NativeJob};
    use crate::slots::TopicSlots;
    use gristmill_config::Manifest;
    use gristmill_core::job::{Due, JobSpec, NewJob, Payload, TopicId, WorkerId};
    use gristmill_core::outcome::OutcomeKind;
    use gristmill_metrics::Metrics;
    use gristmill_store::ClaimFrom;
    use gristmill_store::embedded::EmbeddedStore;
    use tokio::sync::Semaphore;

    /// A topic of two at once, whose attempts last until there is a permit for each.
    fn topic_of_two(permits: &Arc<Semaphore>) -> Arc<TopicHandler> {
        let permits = Arc::clone(permits);
        let run = move |_: NativeJob| {
            let permits = Arc::clone(&permits);
            async move {
                permits.acquire().await.unwrap().forget();
                Ok::<_, HandlerError>(())
            }
        };
        let name: gristmill_core::job::Name = "slow".parse().unwrap();
        let handler = Handler { name: name.clone(), code: Code::Native(NativeHandler::new(run)) };
        let manifest = Manifest::parse("[topics.slow]\nconcurrency = 2\n", "gristmill.toml".as_ref()).unwrap();
        let available = Available { handlers: [(name, handler)].into(), ..Available::default() };
        let registry = HandlerRegistry::new(&manifest, &available, &HandlerRegistry::default());
        Arc::clone(registry.get(&"slow".parse().unwrap()).unwrap())
    }

    #[tokio::test]
    async fn no_more_begin_than_may_and_what_waits_for_them_too_long_is_given_back() {
        const JOBS: usize = 5;
        let context = Context::of(Arc::new(EmbeddedStore::in_memory().await.unwrap()));
        let topic: TopicId = "slow".parse().unwrap();
        let job = || NewJob { spec: JobSpec::new(topic.clone(), Payload::default()), due: Due::Now };
        context.store.push(&std::array::from_fn::<_, JOBS, _>(|_| job())).await.unwrap();
        let from = [ClaimFrom::new(topic.clone(), JOBS, Duration::from_secs(60))];
        let claimed = context.store.claim(&WorkerId::new("w"), &from).await.unwrap();
        let (permits, (send, mut finished)) = (Arc::new(Semaphore::new(0)), mpsc::unbounded_channel());
        let (entry, slots) = (topic_of_two(&permits), Slots::new(8, 1));
        let of_topic = TopicSlots::new(&slots, Metrics::default().topic(&topic), Arc::default());
        let executor = Arc::new(ExecutorContext::of(&context, send));
        let (guests, _threads) = Guests::start(1, &executor).unwrap();
        let work = |(claim, control)| Work {
            claim,
            entry: Some(Arc::clone(&entry)),
            slot: of_topic.enter(),
            arrived: std::time::Instant::now() - IN_LINE_MAX,
            clock_offset_ms: 0,
            control,
        };
        guests.hand_over(context.in_flight.take(claimed.claims).into_iter().map(work).collect());
        // As many as may begin have, and wait.
        while of_topic.may_still_begin(2) > 0 || guests.0.waiting.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        let mut given_back = 0;
        while given_back < JOBS - 2 {
            // The thread may have the third in hand for a moment, to find that it may not begin.
            guests.0.give_back(&executor.finished.downgrade());
            while let Ok(returned) = finished.try_recv() {
                assert_eq!(returned.outcome, OutcomeKind::PoolFull);
                given_back += 1;
            }
            tokio::task::yield_now().await;
        }
        assert!(finished.try_recv().is_err());
        permits.add_permits(2);
        for _ in 0..2 {
            assert_eq!(finished.recv().await.unwrap().outcome, OutcomeKind::Complete);
        }
        assert_eq!((of_topic.may_still_begin(2), slots.unsettled.count()), (2, 0));
    }
}
