//! One store of several, and whether it is there.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use parking_lot::Mutex;

use crate::inspect::probe;
use crate::{StoreError, Transfer};
use gristmill_core::job::Name;

/// How long to wait before knocking at a store that is away: doubling from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A store, and what it is called among others.
#[derive(Debug, Clone)]
pub struct ShardSpec {
    pub name: Name,
    pub store: Arc<dyn Transfer>,
    /// It lies across a network: who asks it while it is away would wait.
    pub is_far: bool,
}

/// A store that is asked no more while it is away, but by one who knocks: nobody else waits for it in vain.
pub(crate) struct Shard {
    pub(super) name: Name,
    pub(crate) store: Arc<dyn Transfer>,
    is_far: bool,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    away: Option<Unavailable>,
    back_since: Option<Instant>,
    returns: u64,
}

#[derive(Debug)]
struct Unavailable {
    since: Instant,
    /// Its address, and what it said last.
    store: String,
    problem: String,
}

impl Shard {
    pub(super) fn new(ShardSpec { name, store, is_far }: ShardSpec) -> Self {
        Self { name, store, is_far, health: Mutex::default() }
    }

    /// The answer to a call of this member's store; while it is away, that at once, and the call is not made.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if let Some(away) = self.away() {
            return Err(away);
        }
        let answer = call.await;
        if let Err(StoreError::Unavailable { store, source }) = &answer {
            self.note_unavailable(store, source);
        }
        answer
    }

    /// Whether it answers. Cheap.
    pub(super) async fn probe(self: &Arc<Self>) -> Result<(), StoreError> {
        self.ask(probe(&*self.store)).await
    }

    pub(super) fn away(&self) -> Option<StoreError> {
        let health = self.health.lock();
        let Unavailable { store, problem, .. } = health.away.as_ref()?;
        Some(StoreError::Unavailable { store: store.clone(), source: anyhow!("{problem}") })
    }

    /// How often it has come back.
    pub(super) fn returns(&self) -> u64 {
        self.health.lock().returns
    }

    /// After an outage everybody's heartbeat is old. Until there was time for new ones nobody is called dead.
    pub(super) fn dead_after(&self, dead_after: Duration) -> Duration {
        let back_since = self.health.lock().back_since;
        let judged = back_since.is_none_or(|since| since.elapsed() >= dead_after);
        if judged { dead_after } else { Duration::MAX }
    }

    fn note_unavailable(self: &Arc<Self>, store: &str, problem: &anyhow::Error) {
        let mut health = self.health.lock();
        if !self.is_far || health.away.is_some() {
            return;
        }
        let problem = format!("{problem:#}");
        tracing::error!(store = %self.name, "{store} is away: {problem}; the tenants of other stores go on");
        health.away = Some(Unavailable { since: Instant::now(), store: store.into(), problem });
        drop(tokio::spawn(knock(Arc::downgrade(self))));
    }

    fn note_back(&self) {
        let mut health = self.health.lock();
        if let Some(Unavailable { since, .. }) = health.away.take() {
            tracing::info!(store = %self.name, away_for = ?since.elapsed(), "is back");
            health.back_since = Some(Instant::now());
            health.returns += 1;
        }
    }
}

/// Asks until there is an answer, or nobody needs the store any more.
async fn knock(member: Weak<Shard>) {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause.mul_f64(1.0 - fastrand::f64() / 2.0)).await;
        let Some(member) = member.upgrade() else { return };
        match probe(&*member.store).await {
            Err(error) if error.is_unavailable() => pause = (pause * 2).min(LONGEST_PAUSE),
            _ => return member.note_back(),
        }
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.name, self.store)
    }
}
