//! [`Partition`] and [`Server`]: what they hold, and what all calls have in common.

use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use redis::RedisError;

use super::clock::{self, ClockWatch, TimeReply};
use super::connection::link::Link;
use super::key_names::Keys;
use super::look::ended::renewals::Renewals;
use super::partitions::partition_map::MapAge;
use super::path::claim::behind::Go;
use super::path::migrate::due_next::AllDueNext;
use super::path::push::gathering::Gathering;
use super::path::settle::replies::Replies;
use super::tenants::known::{Busy, Listed};
use crate::batch::Weight;
use crate::{Clock, StoreError, WaitingClaims};
use gristmill_core::job::{Name, WorkerId};
use gristmill_core::time::Timestamp;

/// How many jobs one script call may touch: about a millisecond of the server's only thread.
pub(super) const SCRIPT_JOBS: usize = 500;

/// How many bytes of jobs one script call may carry, unless a single job is larger.
pub(super) const SCRIPT_BYTES: usize = 4 * 1024 * 1024;

/// Both: what one script call may carry.
pub(super) const SCRIPT: Weight = Weight { jobs: SCRIPT_JOBS, bytes: SCRIPT_BYTES };

/// How many full script calls go out in one round trip.
pub(super) const CALLS_AT_ONCE: usize = 8;

/// The way to the server, and what this process knows of it.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(super) link: Arc<Link>,
    pub(super) prefix: Arc<str>,
    pub(super) clock: Clock,
    pub(super) listed: Arc<Listed>,
    /// The workers that have asked to be woken: what they drain they wait for.
    pub(super) woken: Arc<Mutex<HashSet<WorkerId>>>,
    /// The tenants that have as much in the store as they may.
    pub(super) full: Arc<Mutex<HashSet<Name>>>,
    pub(super) replies: Arc<Replies>,
    pub(super) clock_watch: Arc<ClockWatch>,
    pub(super) map_age: Arc<MapAge>,
    pub(super) renewals: Arc<Renewals>,
}

/// The partition of each tenant that has this number: jobs whose keys share a slot. It does what the contract says for them
/// alone; [`RedisStore`](super::RedisStore) joins the partitions of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    server: Server,
    pub(super) number: u32,
    pub(super) due_next: Arc<AllDueNext>,
    /// Tenants with something for a poll to find, and with running jobs.
    pub(super) waiting: Arc<Busy>,
    pub(super) running: Arc<Busy>,
    pub(super) gathering: Arc<Gathering>,
    /// The number of this process's last claim.
    pub(super) last_batch: Arc<AtomicU64>,
    pub(super) waiting_claims: Arc<WaitingClaims<Go>>,
}

impl Deref for Partition {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Partition {
    pub(super) fn new(server: Server, number: u32) -> Self {
        Self {
            server,
            number,
            due_next: Arc::default(),
            waiting: Arc::default(),
            running: Arc::default(),
            gathering: Arc::default(),
            last_batch: Arc::default(),
            waiting_claims: Arc::default(),
        }
    }

    pub(super) fn keys(&self, tenant: &Name) -> Keys {
        Keys::new(&self.prefix, tenant, self.number)
    }
}

impl Server {
    /// What scripts get as `now`.
    pub(super) fn now_argument(&self) -> String {
        clock::argument(&self.clock)
    }

    /// The time, given the server's, rounded down.
    pub(super) fn now(&self, server: TimeReply) -> Timestamp {
        self.clock.now(|| clock::server_time(server))
    }

    /// The same since the Unix epoch, with its fraction of a millisecond.
    pub(super) fn exact(&self, server: TimeReply) -> Duration {
        match &self.clock {
            Clock::Own => clock::exact_time(server),
            Clock::Manual(_) => Duration::from_millis(self.now(server).as_millis()),
        }
    }

    /// For replies that are not what the script can have returned.
    pub(super) fn misread(&self, doing: &'static str) -> impl Fn(RedisError) -> StoreError + '_ {
        move |error| self.link.failed(doing, error)
    }

    /// For requests that are not sent.
    pub(super) fn refused(&self, doing: &'static str, source: impl Into<anyhow::Error>) -> StoreError {
        StoreError::Refused { store: self.link.address.clone(), doing, source: source.into() }
    }
}

/// Gathers items by tenant, each with its place in the batch.
pub(super) fn by_tenant<'a, T>(
    items: &'a [T],
    tenant: impl Fn(&'a T) -> &'a Name,
) -> BTreeMap<&'a Name, Vec<(usize, &'a T)>> {
    let mut groups: BTreeMap<&Name, Vec<(usize, &T)>> = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        groups.entry(tenant(item)).or_default().push((place, item));
    }
    groups
}

/// Answers in the order of the batch, from answers in any order, each with its place.
pub(super) fn in_order<T>(mut answers: Vec<(usize, T)>) -> Vec<T> {
    answers.sort_unstable_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Numbers things as Lua does, from 1 on, in the order of their first appearance.
#[derive(Debug)]
pub(super) struct Numbered<T>(pub(super) Vec<T>);

impl<T: PartialEq> Numbered<T> {
    pub(super) fn number(&mut self, thing: T) -> usize {
        // Batches name few things, and mostly the same one again: no map is faster than this.
        if let Some(place) = self.0.iter().rposition(|known| *known == thing) {
            return place + 1;
        }
        self.0.push(thing);
        self.0.len()
    }
}
