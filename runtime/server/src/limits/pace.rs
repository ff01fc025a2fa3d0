//! Turns on the server's threads. The runtime gives each connection the same part of them, so a client with a hundred busy
//! connections would have a hundred parts. Here a client that keeps threads busy waits for a turn each time, and has few turns at
//! once however many connections it has. All other connections run at once.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use axum::http::{Extensions, StatusCode};
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use super::network;
use super::shares::{Share, Shares};
use gristmill_core::job::Name;

/// What a client may use of one thread in the long run before it counts as busy: one part in this many.
const PART: u32 = 2;
/// What it may use beyond that before it counts as busy.
const CREDIT: Duration = Duration::from_millis(5);
/// How long a client may count as busy after it has stopped, whatever it used.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);

/// How long a refusal is held back from a client that keeps threads busy.
const REFUSALS_APART: Duration = Duration::from_millis(100);

/// Gives turns to the connections of a server. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Pacer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    busy: Shares<Client>,
    accounts: Mutex<Accounts>,
}

/// From this many on, the accounts of clients that are gone and owe nothing are forgotten.
const FORGET_FROM: usize = 1024;

#[derive(Debug)]
struct Accounts {
    by_client: HashMap<Client, Arc<Account>>,
    forget_from: usize,
}

/// A client that takes turns with others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Client {
    Tenant(Name),
    /// The connections whose tenant is not known.
    Network(IpAddr),
}

/// How much of the processor's time a client has used on the server's threads.
#[derive(Debug)]
struct Account {
    client: Client,
    /// When the client has waited long enough for what it used.
    settled_at: Mutex<Instant>,
}

/// What a connection uses of the threads, and the turns that it takes. Clones are of the same connection.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    pacer: Pacer,
    /// `None` for a client that never waits for a turn.
    account: Arc<Mutex<Option<Arc<Account>>>>,
}

/// Counts the connection of the request with these extensions with others of this tenant; see [`Pace::count_for`].
pub(crate) async fn count_for(of_request: &Extensions, tenant: Option<&Name>) {
    if let Some(pace) = of_request.get::<Pace>() {
        pace.count_for(tenant).await;
    }
}

impl Pacer {
    /// For this many threads. Clients that keep them busy have all but one, and each of these clients half of those.
    pub(crate) fn new(threads: usize) -> Self {
        let busy = threads.saturating_sub(1).max(1);
        let busy = Shares::new(busy, busy.div_ceil(2));
        let accounts = Mutex::new(Accounts { by_client: HashMap::new(), forget_from: FORGET_FROM });
        Self(Arc::new(Shared { busy, accounts }))
    }

    /// A new connection from this address. On this machine, where a proxy may connect for many clients, each is counted on its own.
    pub(crate) fn connection(&self, from: IpAddr) -> Pace {
        let network = network(from);
        let account = match network.is_loopback() {
            true => Arc::new(Account::new(Client::Network(network))),
            false => self.account(Client::Network(network)),
        };
        Pace { pacer: self.clone(), account: Arc::new(Mutex::new(Some(account))) }
    }

    /// For work that is done for a tenant without a connection: counted with its connections.
    pub(crate) fn of(&self, tenant: &Name) -> Pace {
        let account = self.account(Client::Tenant(tenant.clone()));
        Pace { pacer: self.clone(), account: Arc::new(Mutex::new(Some(account))) }
    }

    fn account(&self, client: Client) -> Arc<Account> {
        let mut accounts = self.0.accounts.lock();
        if accounts.by_client.len() >= accounts.forget_from {
            accounts.by_client.retain(|_, account| Arc::strong_count(account) > 1 || !account.is_settled());
            accounts.forget_from = FORGET_FROM.max(accounts.by_client.len() * 2);
        }
        let new = || Arc::new(Account::new(client.clone()));
        Arc::clone(accounts.by_client.entry(client.clone()).or_insert_with(new))
    }
}

impl Account {
    fn new(client: Client) -> Self {
        Self { client, settled_at: Mutex::new(Instant::now()) }
    }

    fn is_settled(&self) -> bool {
        *self.settled_at.lock() <= Instant::now()
    }

    fn is_busy(&self) -> bool {
        self.settled_at.lock().saturating_duration_since(Instant::now()) > CREDIT * PART
    }

    fn count(&self, used: Duration) {
        let mut settled_at = self.settled_at.lock();
        let now = Instant::now();
        *settled_at = ((*settled_at).max(now) + used * PART).min(now + FORGIVEN_AFTER);
    }
}

impl Pace {
    /// Counts the connection with others of this tenant from now on. `None`: of all tenants, which never waits for a turn. If the
    /// tenant keeps threads busy, what follows waits for a turn.
    async fn count_for(&self, tenant: Option<&Name>) {
        let account = tenant.map(|tenant| self.pacer.account(Client::Tenant(tenant.clone())));
        let is_busy = account.as_ref().is_some_and(|account| account.is_busy());
        *self.account.lock() = account;
        if is_busy {
            tokio::task::yield_now().await;
        }
    }

    /// Does the work of the connection. Each time that it can go on, it waits for a turn first if its client keeps threads busy.
    pub(crate) async fn run<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        loop {
            let turn = self.turn().await;
            signal.is_set.swap(false, Ordering::AcqRel);
            let begun = self.is_counted().then(processor_time);
            let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
            if let Some(begun) = begun {
                self.count(processor_time().saturating_sub(begun));
            }
            if let Some(turn) = turn {
                // The turn lasts until everything else that was ready has run, and the runtime has asked the system for more.
                tokio::task::yield_now().await;
                drop(turn);
            }
            match polled {
                Poll::Ready(done) => return done,
                Poll::Pending => signal.wait().await,
            }
        }
    }

    /// Holds an answer of this status back if it refuses what a client asked that keeps threads busy: many such clients ask again
    /// at once, and are refused again.
    pub(crate) async fn hold_refusal(&self, status: StatusCode) {
        let is_refusal = status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE;
        if is_refusal && self.busy_account().is_some() {
            tokio::time::sleep(REFUSALS_APART).await;
        }
    }

    fn busy_account(&self) -> Option<Arc<Account>> {
        self.account.lock().clone().filter(|account| account.is_busy())
    }

    async fn turn(&self) -> Option<Share<Client>> {
        let account = self.busy_account()?;
        Some(self.pacer.0.busy.acquire(Some(&account.client)).await)
    }

    fn is_counted(&self) -> bool {
        self.account.lock().is_some()
    }

    fn count(&self, used: Duration) {
        if let Some(account) = &*self.account.lock() {
            account.count(used);
        }
    }
}

/// What this thread has used. By the clock, a client would also pay for the time in which other processes had the processor.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// That work can go on.
#[derive(Debug, Default)]
struct Signal {
    is_set: AtomicBool,
    task: AtomicWaker,
}

impl Signal {
    /// Waits for the signal. Other tasks have their turn before it returns.
    async fn wait(&self) {
        let mut has_waited = false;
        poll_fn(|context| {
            self.task.register(context.waker());
            match (self.is_set.load(Ordering::Acquire), std::mem::replace(&mut has_waited, true)) {
                (true, true) => Poll::Ready(()),
                (true, false) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                (false, _) => Poll::Pending,
            }
        })
        .await;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::mpsc;
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const FLOOD: usize = 100;
    const STEPS: usize = 50;

    /// A connection of a tenant that has kept a thread busy for an hour, or for no time.
    async fn connection(pacer: &Pacer, tenant: &str, is_busy: bool) -> Pace {
        let pace = pacer.connection(HERE);
        pace.count_for(Some(&tenant.parse().unwrap())).await;
        pace.count(Duration::from_secs(if is_busy { 3600 } else { 0 }));
        pace
    }

    /// How many steps a hundred connections of a busy tenant made while another tenant's connection made fifty.
    async fn steps_beside(other: &str, other_is_busy: bool) -> usize {
        let (pacer, steps) = (Pacer::new(1), Arc::new(AtomicUsize::new(0)));
        let mut flood = JoinSet::new();
        for _ in 0..FLOOD {
            let (pace, steps) = (connection(&pacer, "evil", true).await, Arc::clone(&steps));
            flood.spawn(pace.run(async move {
                loop {
                    steps.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            }));
        }
        // The other connection asks and is answered, again and again, as by a store.
        let (ask, mut asked) = mpsc::unbounded_channel();
        let (answer, mut answered) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(question) = asked.recv().await {
                answer.send(question).ok();
            }
        });
        let work = async move {
            for step in 0..STEPS {
                ask.send(step).unwrap();
                assert_eq!(answered.recv().await, Some(step));
            }
        };
        let pace = connection(&pacer, other, other_is_busy).await;
        yield_now().await;
        steps.store(0, Ordering::Relaxed);
        tokio::spawn(pace.run(work)).await.unwrap();
        steps.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_client_with_many_busy_connections_has_no_more_of_a_thread_than_one_with_one() {
        let (beside_idle, beside_busy) = (steps_beside("honest", false).await, steps_beside("honest", true).await);
        assert!(beside_idle <= 4 * STEPS, "{beside_idle} steps of the flood for {STEPS}");
        assert!(beside_busy <= 4 * STEPS, "{beside_busy} steps of the flood for {STEPS}");
    }

    #[tokio::test]
    async fn connections_of_one_client_count_together_and_the_operator_never_waits() {
        let pacer = Pacer::new(4);
        let (one, two) = (connection(&pacer, "acme", true).await, connection(&pacer, "acme", false).await);
        assert!(one.turn().await.is_some() && two.turn().await.is_some());
        assert!(connection(&pacer, "other", false).await.turn().await.is_none());
        assert!(pacer.connection(HERE).turn().await.is_none(), "a connection of this machine counts by itself");
        let elsewhere = IpAddr::from([192, 0, 2, 1]);
        pacer.connection(elsewhere).count(Duration::from_secs(3600));
        let next = pacer.connection(elsewhere);
        assert!(next.turn().await.is_some(), "a client that connects anew owes what it used before");
        next.count_for(None).await;
        assert!(next.turn().await.is_none());
    }

    #[tokio::test]
    async fn a_refusal_is_held_back_from_a_busy_client_and_from_no_other() {
        let pacer = Pacer::new(1);
        for (is_busy, status, holds) in [
            (true, StatusCode::TOO_MANY_REQUESTS, true),
            (true, StatusCode::SERVICE_UNAVAILABLE, true),
            (true, StatusCode::OK, false),
            (false, StatusCode::TOO_MANY_REQUESTS, false),
        ] {
            let pace = connection(&pacer, if is_busy { "evil" } else { "honest" }, is_busy).await;
            let mut held = pin!(pace.hold_refusal(status));
            let polled = poll_fn(|context| Poll::Ready(held.as_mut().poll(context))).await;
            assert_eq!(polled.is_pending(), holds, "{is_busy} {status}");
        }
    }

    #[test]
    fn clients_that_are_gone_and_owe_nothing_are_forgotten() {
        let pacer = Pacer::new(1);
        let of = |number: usize| IpAddr::from(u32::try_from(number + (1 << 24)).unwrap().to_be_bytes());
        let (busy, open) = (pacer.connection(of(0)), pacer.connection(of(1)));
        busy.count(Duration::from_secs(3600));
        drop(busy);
        for number in 2..3 * FORGET_FROM {
            drop(pacer.connection(of(number)));
        }
        let accounts = pacer.0.accounts.lock();
        assert!(accounts.by_client.len() <= FORGET_FROM, "{}", accounts.by_client.len());
        for number in [0, 1] {
            assert!(accounts.by_client.contains_key(&Client::Network(of(number))), "client {number}");
        }
        drop((open, accounts));
    }
}
