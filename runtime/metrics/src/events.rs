//! What happens on this node, for the streams that are open at that moment. While there is none, an event costs one read
//! of a number. No stream is ever waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::event::{Event, EventKind};
use gristmill_core::job::{JobId, Name};

/// Events that wait for a stream; more are missed, and counted.
const QUEUED: usize = 1024;

/// The events that a stream shows.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// None: every tenant's, and what concerns none.
    pub tenant: Option<Name>,
    /// Only events of the topic with this name.
    pub topic: Option<Name>,
    /// Only events of this job.
    pub job: Option<JobId>,
    /// None: all.
    pub kinds: Option<Vec<EventKind>>,
}

/// What a stream receives.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the docs of the variants name their fields")]
pub enum Received {
    /// Numbered by the stream's own count, missed ones included: no number shows what other streams receive.
    Event { number: u64, event: Arc<Event> },
    /// This many events were missed here.
    Lagged(u64),
}

/// Emits what happens.
#[derive(Debug, Default)]
pub struct Events(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// As many as there are subscribers, to be read without a lock.
    count: AtomicUsize,
    subscribers: Mutex<Vec<Subscriber>>,
    /// Events that streams have missed since the process began.
    missed: AtomicU64,
}

/// The sending end of a stream.
#[derive(Debug)]
struct Subscriber {
    filter: Filter,
    queue: mpsc::Sender<Received>,
    /// Changed under the lock alone.
    missed: Arc<AtomicU64>,
    offered: u64,
}

/// Receives events from its creation on, until it is dropped.
#[derive(Debug)]
pub struct EventStream {
    queue: mpsc::Receiver<Received>,
    missed: Arc<AtomicU64>,
    shared: Arc<Shared>,
}

impl Events {
    /// Emits an event to the streams that want it. The event is only made if a stream is open.
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if self.has_subscribers() {
            let event = Arc::new(event());
            let missed = self
                .0
                .subscribers
                .lock()
                .iter_mut()
                .map(|subscriber| subscriber.offer(&event))
                .filter(|received| !received)
                .count();
            self.0.missed.fetch_add(missed as u64, Ordering::Relaxed);
        }
    }

    /// Whether a stream is open: for callers that would have to gather what to emit.
    pub fn has_subscribers(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) > 0
    }

    /// A stream of what happens from now on. Each event is compared with the filter of each stream that is open, so the
    /// caller bounds their number.
    pub fn subscribe(&self, filter: Filter) -> EventStream {
        let (sender, queue) = mpsc::channel(QUEUED);
        let missed = Arc::<AtomicU64>::default();
        let mut subscribers = self.0.subscribers.lock();
        subscribers.push(Subscriber { filter, queue: sender, missed: Arc::clone(&missed), offered: 0 });
        self.0.count.store(subscribers.len(), Ordering::Relaxed);
        EventStream { queue, missed, shared: Arc::clone(&self.0) }
    }

    /// How many streams are open.
    pub(super) fn streams(&self) -> usize {
        self.0.count.load(Ordering::Relaxed)
    }

    /// How many events streams have missed because their readers were too slow.
    pub(super) fn missed(&self) -> u64 {
        self.0.missed.load(Ordering::Relaxed)
    }
}

impl Filter {
    fn wants(&self, event: &Event) -> bool {
        let concerns = |tenant| event.tenant.as_ref() == Some(tenant) || event.concerns.contains(tenant);
        self.tenant.as_ref().is_none_or(concerns)
            && (self.topic.is_none() || self.topic == event.topic)
            && (self.job.is_none() || self.job == event.job)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&event.kind))
    }
}

impl Subscriber {
    /// Returns `false` if it wants this event and its queue is full.
    fn offer(&mut self, event: &Arc<Event>) -> bool {
        if !self.filter.wants(event) {
            return true;
        }
        self.offered += 1;
        // Missed events are reported first.
        let missed = self.missed.load(Ordering::Relaxed);
        let whole = missed == 0 || self.queue.try_send(Received::Lagged(missed)).is_ok();
        if whole {
            self.missed.store(0, Ordering::Relaxed);
        }
        let item = Received::Event { number: self.offered, event: Arc::clone(event) };
        let received = whole && self.queue.try_send(item).is_ok();
        if !received {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        received
    }
}

impl EventStream {
    /// The next event, in the order in which they happened. Cancel-safe.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Received> {
        match self.queue.poll_recv(context) {
            Poll::Ready(Some(item)) => Poll::Ready(item),
            // The subscriber exists as long as this stream.
            Poll::Ready(None) => Poll::Pending,
            Poll::Pending if self.missed.load(Ordering::Relaxed) > 0 => self.poll_missed(),
            Poll::Pending => Poll::Pending,
        }
    }

    /// The subscriber missed events, and no later event has come that could report it. Counted under the lock of the subscribers.
    fn poll_missed(&mut self) -> Poll<Received> {
        let _lock = self.shared.subscribers.lock();
        if let Ok(item) = self.queue.try_recv() {
            return Poll::Ready(item);
        }
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => Poll::Pending,
            missed => Poll::Ready(Received::Lagged(missed)),
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let mut subscribers = self.shared.subscribers.lock();
        subscribers.retain(|subscriber| !Arc::ptr_eq(&subscriber.missed, &self.missed));
        self.shared.count.store(subscribers.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn pushed(topic: &str, job: usize) -> Event {
        Event::of_job(EventKind::JobPushed, &topic.parse().unwrap(), &job.to_string().parse().unwrap())
    }

    async fn next(listener: &mut EventStream) -> Received {
        let next = poll_fn(|context| listener.poll_next(context));
        tokio::time::timeout(std::time::Duration::from_secs(30), next).await.expect("an event")
    }

    /// The number and the job of the next event.
    async fn job(listener: &mut EventStream) -> (u64, String) {
        match next(listener).await {
            Received::Event { number, event } => (number, event.job.as_ref().unwrap().to_string()),
            Received::Lagged(missed) => panic!("missed {missed}"),
        }
    }

    #[tokio::test]
    async fn a_stream_has_what_its_filter_wants_and_nothing_of_another_tenant() {
        let events = Events::default();
        let of = |tenant: &str| Filter { tenant: Some(tenant.parse().unwrap()), ..Filter::default() };
        let mut all = events.subscribe(Filter::default());
        let mut acme = events.subscribe(of("acme"));
        let topic = Some("b".parse().unwrap());
        let mut topic = events.subscribe(Filter { topic, ..of("acme") });
        for (number, name) in ["mill/a", "acme/a", "acme/b"].into_iter().enumerate() {
            events.emit(|| pushed(name, number));
        }
        events.emit(|| Event { concerns: vec!["acme".parse().unwrap()], ..Event::new(EventKind::HandlerRemoved) });
        assert_eq!([job(&mut all).await, job(&mut all).await], [(1, "0".into()), (2, "1".into())]);
        assert_eq!([job(&mut acme).await, job(&mut acme).await], [(1, "1".into()), (2, "2".into())]);
        assert!(
            matches!(next(&mut acme).await, Received::Event { number: 3, event } if event.kind == EventKind::HandlerRemoved)
        );
        assert_eq!(job(&mut topic).await, (1, "2".into()));
        assert!(topic.queue.is_empty());
    }

    #[tokio::test]
    async fn a_slow_stream_gets_the_number_of_missed_events_in_their_place() {
        let events = Events::default();
        let mut listener = events.subscribe(Filter::default());
        let emit = |numbers: std::ops::Range<usize>| numbers.for_each(|number| events.emit(|| pushed("a", number)));
        emit(0..QUEUED + 3);
        assert_eq!(job(&mut listener).await, (1, "0".into()));
        assert_eq!(job(&mut listener).await, (2, "1".into()));
        emit(QUEUED + 3..QUEUED + 4);
        for number in 2..QUEUED {
            assert_eq!(job(&mut listener).await.1, number.to_string());
        }
        assert!(matches!(next(&mut listener).await, Received::Lagged(3)));
        assert_eq!(job(&mut listener).await, (QUEUED as u64 + 4, (QUEUED + 3).to_string()));
    }

    #[tokio::test]
    async fn missed_events_are_reported_although_no_event_follows() {
        let events = Events::default();
        let mut listener = events.subscribe(Filter::default());
        (0..=QUEUED).for_each(|number| events.emit(|| pushed("a", number)));
        for _ in 0..QUEUED {
            job(&mut listener).await;
        }
        assert!(matches!(next(&mut listener).await, Received::Lagged(1)));
        events.emit(|| pushed("a", 0));
        assert_eq!(job(&mut listener).await.0, QUEUED as u64 + 2);
    }

    #[test]
    fn no_event_is_made_while_no_stream_is_open() {
        let events = Events::default();
        drop(events.subscribe(Filter::default()));
        events.emit(|| panic!("no stream is open"));
        assert!(!events.has_subscribers());
    }
}
