//! What happens on this node, told to whoever listens at that moment. While nobody does, an event costs one look at a
//! number; nobody who listens is ever waited for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::event::{Event, Kind};
use gristmill_core::job::{JobId, Name};

/// Who may listen at once, in all and of one tenant.
const LISTENERS: usize = 64;
const LISTENERS_OF_A_TENANT: usize = 16;
/// Events that wait for a listener; what is over is missed, and counted.
const WAITING: usize = 1024;

/// What somebody wants to hear.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// None: every tenant's, and what concerns none.
    pub tenant: Option<Name>,
    pub topic: Option<Name>,
    pub job: Option<JobId>,
    /// None: all.
    pub kinds: Option<Vec<Kind>>,
}

/// What a listener hears.
#[derive(Debug, Clone)]
pub enum Told {
    /// Numbered by the listener's own count, missed ones included: what others hear shows in no number.
    Event { number: u64, event: Arc<Event> },
    /// So many events were missed here.
    Lagged(u64),
}

/// Too many listen already.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} streams of events are open already, which is the most; close one")]
pub struct TooMany(usize);

/// Tells what happens.
#[derive(Debug, Default)]
pub struct Events(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// As many as there are ears, to be read without a lock.
    listening: AtomicUsize,
    ears: Mutex<Vec<Ear>>,
    /// Events that somebody missed, since the process began.
    missed: AtomicU64,
}

/// The near end of a listener.
#[derive(Debug)]
struct Ear {
    filter: Filter,
    queue: mpsc::Sender<Told>,
    /// Changed under the lock alone.
    missed: Arc<AtomicU64>,
    told: u64,
}

/// Hears events from its making on, until it is dropped.
#[derive(Debug)]
pub struct Listener {
    queue: mpsc::Receiver<Told>,
    missed: Arc<AtomicU64>,
    shared: Arc<Shared>,
}

impl Events {
    /// Tells those who want to hear it. The event is made only if somebody listens.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.are_heard() {
            let event = Arc::new(event());
            let missed = self.0.ears().iter_mut().map(|ear| ear.hear(&event)).filter(|heard| !heard).count();
            self.0.missed.fetch_add(missed as u64, Ordering::Relaxed);
        }
    }

    /// Whether anybody listens: for who would have to gather what to tell.
    pub fn are_heard(&self) -> bool {
        self.0.listening.load(Ordering::Relaxed) > 0
    }

    /// # Errors
    /// So many listen already, or so many of this tenant.
    pub fn listen(&self, filter: Filter) -> Result<Listener, TooMany> {
        let (tell, queue) = mpsc::channel(WAITING);
        let missed = Arc::<AtomicU64>::default();
        let mut ears = self.0.ears();
        let ours = ears.iter().filter(|ear| ear.filter.tenant.is_some() && ear.filter.tenant == filter.tenant).count();
        if ears.len() >= LISTENERS {
            return Err(TooMany(LISTENERS));
        } else if ours >= LISTENERS_OF_A_TENANT {
            return Err(TooMany(LISTENERS_OF_A_TENANT));
        }
        ears.push(Ear { filter, queue: tell, missed: Arc::clone(&missed), told: 0 });
        self.0.listening.store(ears.len(), Ordering::Relaxed);
        Ok(Listener { queue, missed, shared: Arc::clone(&self.0) })
    }

    /// How many listen.
    pub(super) fn listeners(&self) -> usize {
        self.0.listening.load(Ordering::Relaxed)
    }

    /// How many events listeners have missed because they were too slow.
    pub(super) fn missed(&self) -> u64 {
        self.0.missed.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn ears(&self) -> MutexGuard<'_, Vec<Ear>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Ear {
    /// False: it wants to hear this, and has no room for it.
    fn hear(&mut self, event: &Arc<Event>) -> bool {
        if !self.filter.wants(event) {
            return true;
        }
        self.told += 1;
        // Where something is missing, that is said first.
        let missed = self.missed.load(Ordering::Relaxed);
        let whole = missed == 0 || self.queue.try_send(Told::Lagged(missed)).is_ok();
        if whole {
            self.missed.store(0, Ordering::Relaxed);
        }
        let told = Told::Event { number: self.told, event: Arc::clone(event) };
        let heard = whole && self.queue.try_send(told).is_ok();
        if !heard {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        heard
    }
}

impl Listener {
    /// What is heard next, in the order in which it happened. Cancel-safe.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Told> {
        match self.queue.poll_recv(context) {
            Poll::Ready(Some(told)) => Poll::Ready(told),
            // The ear is there for as long as we are.
            Poll::Ready(None) => Poll::Pending,
            Poll::Pending if self.missed.load(Ordering::Relaxed) > 0 => self.poll_missed(),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Something was missed, and nothing has come behind it that could have said so. Counted under the lock of the ears.
    fn poll_missed(&mut self) -> Poll<Told> {
        let _ears = self.shared.ears();
        if let Ok(told) = self.queue.try_recv() {
            return Poll::Ready(told);
        }
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => Poll::Pending,
            missed => Poll::Ready(Told::Lagged(missed)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut ears = self.shared.ears();
        ears.retain(|ear| !Arc::ptr_eq(&ear.missed, &self.missed));
        self.shared.listening.store(ears.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn pushed(topic: &str, job: usize) -> Event {
        Event::of_job(Kind::JobPushed, &topic.parse().unwrap(), &job.to_string().parse().unwrap())
    }

    async fn next(listener: &mut Listener) -> Told {
        let next = poll_fn(|context| listener.poll_next(context));
        tokio::time::timeout(std::time::Duration::from_secs(30), next).await.expect("to be told")
    }

    /// The number and the job of the event that is told next.
    async fn job(listener: &mut Listener) -> (u64, String) {
        match next(listener).await {
            Told::Event { number, event } => (number, event.job.as_ref().unwrap().to_string()),
            Told::Lagged(missed) => panic!("missed {missed}"),
        }
    }

    #[tokio::test]
    async fn each_hears_what_it_asked_for_and_nothing_of_another_tenant() {
        let events = Events::default();
        let of = |tenant: &str| Filter { tenant: Some(tenant.parse().unwrap()), ..Filter::default() };
        let mut all = events.listen(Filter::default()).unwrap();
        let mut acme = events.listen(of("acme")).unwrap();
        let topic = Some("b".parse().unwrap());
        let mut topic = events.listen(Filter { topic, ..of("acme") }).unwrap();
        for (number, name) in ["mill/a", "acme/a", "acme/b"].into_iter().enumerate() {
            events.tell(|| pushed(name, number));
        }
        events.tell(|| Event { concerns: vec!["acme".parse().unwrap()], ..Event::new(Kind::HandlerRemoved) });
        assert_eq!([job(&mut all).await, job(&mut all).await], [(1, "0".into()), (2, "1".into())]);
        assert_eq!([job(&mut acme).await, job(&mut acme).await], [(1, "1".into()), (2, "2".into())]);
        assert!(
            matches!(next(&mut acme).await, Told::Event { number: 3, event } if event.kind == Kind::HandlerRemoved)
        );
        assert_eq!(job(&mut topic).await, (1, "2".into()));
        assert!(topic.queue.is_empty());
    }

    #[tokio::test]
    async fn a_slow_listener_is_told_how_many_it_missed_in_their_place() {
        let events = Events::default();
        let mut listener = events.listen(Filter::default()).unwrap();
        let tell = |numbers: std::ops::Range<usize>| numbers.for_each(|number| events.tell(|| pushed("a", number)));
        tell(0..WAITING + 3);
        assert_eq!(job(&mut listener).await, (1, "0".into()));
        assert_eq!(job(&mut listener).await, (2, "1".into()));
        tell(WAITING + 3..WAITING + 4);
        for number in 2..WAITING {
            assert_eq!(job(&mut listener).await.1, number.to_string());
        }
        assert!(matches!(next(&mut listener).await, Told::Lagged(3)));
        assert_eq!(job(&mut listener).await, (WAITING as u64 + 4, (WAITING + 3).to_string()));
    }

    #[tokio::test]
    async fn what_was_missed_is_told_although_nothing_comes_behind_it() {
        let events = Events::default();
        let mut listener = events.listen(Filter::default()).unwrap();
        (0..=WAITING).for_each(|number| events.tell(|| pushed("a", number)));
        for _ in 0..WAITING {
            job(&mut listener).await;
        }
        assert!(matches!(next(&mut listener).await, Told::Lagged(1)));
        events.tell(|| pushed("a", 0));
        assert_eq!(job(&mut listener).await.0, WAITING as u64 + 2);
    }

    #[test]
    fn nothing_is_made_while_nobody_listens() {
        let events = Events::default();
        drop(events.listen(Filter::default()).unwrap());
        events.tell(|| panic!("nobody listens any more"));
        assert!(!events.are_heard());
    }

    #[test]
    fn so_many_may_listen_and_no_more() {
        let events = Events::default();
        let of = |tenant: &str| Filter { tenant: Some(tenant.parse().unwrap()), ..Filter::default() };
        let ours: Vec<_> = (0..LISTENERS_OF_A_TENANT).map(|_| events.listen(of("acme")).unwrap()).collect();
        assert_eq!(events.listen(of("acme")).unwrap_err(), TooMany(LISTENERS_OF_A_TENANT));
        let others = LISTENERS - LISTENERS_OF_A_TENANT;
        let others: Vec<_> = (0..others).map(|_| events.listen(Filter::default()).unwrap()).collect();
        assert_eq!(events.listen(Filter::default()).unwrap_err(), TooMany(LISTENERS));
        drop((ours, others));
        assert!(events.listen(of("acme")).is_ok());
    }
}
