//! Jobs of native handlers: they run on the runtime that the runner was started in, and not on the guests' threads.

use std::sync::Arc;
use std::task::Poll;

use super::execute;
use crate::context::ExecutorContext;
use crate::path::work::Work;
use crate::tasks::poll_once;

/// Jobs that begin in one task, one after the other, where those of their topic are [brief](crate::slots::TopicSlots::is_brief): a task of its own
/// would cost each more than it takes.
const AT_ONCE: usize = 16;

/// Has the runtime run these jobs. What comes of each is sent to be settled.
pub(crate) fn hand_over(work: Vec<Work>, context: &Arc<ExecutorContext>) {
    let (brief, others): (Vec<_>, Vec<_>) = work.into_iter().partition(|work| work.slot.topic().is_brief());
    for work in others {
        let context = Arc::clone(context);
        tokio::spawn(async move { context.finished.send(execute(work, Arc::clone(&context)).await).ok() });
    }
    let mut brief = brief.into_iter();
    loop {
        let batch: Vec<Work> = brief.by_ref().take(AT_ONCE).collect();
        if batch.is_empty() {
            return;
        }
        tokio::spawn(begin_all(batch, Arc::clone(context)));
    }
}

/// Runs each to where it first waits. What waits goes on in a task of its own, where it is polled again at once: so nothing that has happened
/// meanwhile is missed. An attempt that panics, which no handler can make it do, ends without a settlement, and its job comes back when its lease
/// has run out.
async fn begin_all(batch: Vec<Work>, context: Arc<ExecutorContext>) {
    for work in batch {
        let mut attempt = Box::pin(execute(work, Arc::clone(&context)));
        match poll_once(attempt.as_mut()).await {
            Ok(Poll::Ready(finished)) => _ = context.finished.send(finished),
            Ok(Poll::Pending) => {
                let context = Arc::clone(&context);
                tokio::spawn(async move { context.finished.send(attempt.await).ok() });
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::{Duration, Instant};

    use tokio::sync::{Semaphore, mpsc};

    use super::*;
    use crate::context::Context;
    use crate::handlers::{Available, Code, Handler, HandlerRegistry};
    use crate::native::{HandlerError, NativeHandler, NativeJob};
    use crate::slots::{Slots, TopicSlots};
    use gristmill_config::Manifest;
    use gristmill_core::job::{Due, JobSpec, Name, NewJob, Payload, TopicId, WorkerId};
    use gristmill_core::outcome::OutcomeKind;
    use gristmill_metrics::Metrics;
    use gristmill_store::ClaimFrom;
    use gristmill_store::embedded::EmbeddedStore;

    /// Completes, panics, or waits for a permit and completes: as the body says.
    async fn by_its_body(job: NativeJob, permits: Arc<Semaphore>) -> Result<(), HandlerError> {
        match job.body() {
            b"panic" => panic!("on fire"),
            b"wait" => permits.acquire().await?.forget(),
            _ => {}
        }
        Ok(())
    }

    #[tokio::test]
    async fn of_brief_jobs_that_begin_in_one_task_each_ends_by_itself() {
        let bodies: Vec<&str> = ["", "wait", "panic", ""].into_iter().cycle().take(2 * AT_ONCE + 1).collect();
        let context = Context::of(Arc::new(EmbeddedStore::in_memory().await.unwrap()));
        let topic: TopicId = "brief".parse().unwrap();
        let job = |body: &&str| {
            let body = Payload { data: body.as_bytes().to_vec(), content_type: None };
            NewJob { spec: JobSpec::new(topic.clone(), body), due: Due::Now }
        };
        context.store.push(&bodies.iter().map(job).collect::<Vec<_>>()).await.unwrap();
        let from = [ClaimFrom::new(topic.clone(), bodies.len(), Duration::from_secs(60))];
        let claimed = context.store.claim(&WorkerId::new("w"), &from).await.unwrap();
        let permits = Arc::new(Semaphore::new(0));
        let given = Arc::clone(&permits);
        let name: Name = "brief".parse().unwrap();
        let code = Code::Native(NativeHandler::new(move |job| by_its_body(job, Arc::clone(&given))));
        let manifest = Manifest::parse("[topics.brief]\n", "gristmill.toml".as_ref()).unwrap();
        let handlers = [(name.clone(), Handler { name, code })].into();
        let available = Available { handlers, ..Available::default() };
        let registry = HandlerRegistry::new(&manifest, &available, &HandlerRegistry::default());
        let slots = Slots::new(bodies.len(), 1);
        let of_topic = TopicSlots::new(&slots, Metrics::default().topic(&topic), Arc::default());
        of_topic.note_duration(Duration::from_micros(1));
        let (send, mut finished) = mpsc::unbounded_channel();
        let work = |(claim, control)| Work {
            claim,
            entry: registry.get(&topic).cloned(),
            slot: of_topic.enter(),
            arrived: Instant::now(),
            clock_offset_ms: 0,
            control,
        };
        let work = context.in_flight.take(claimed.claims).into_iter().map(work).collect();
        hand_over(work, &Arc::new(ExecutorContext::of(&context, send)));

        let mut ended: HashMap<OutcomeKind, usize> = HashMap::new();
        let of = |body| bodies.iter().filter(|other| **other == body).count();
        for _ in 0..bodies.len() - of("wait") {
            *ended.entry(finished.recv().await.unwrap().outcome).or_default() += 1;
        }
        assert_eq!(ended, [(OutcomeKind::Complete, of("")), (OutcomeKind::Trapped, of("panic"))].into());
        assert!(finished.try_recv().is_err());
        permits.add_permits(of("wait"));
        for _ in 0..of("wait") {
            assert_eq!(finished.recv().await.unwrap().outcome, OutcomeKind::Complete);
        }
        assert_eq!(slots.unsettled.count(), 0);
    }
}
