//! [`RedisStore`]: what it holds, and which file does what of the contract.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::RedisError;

use super::clock::{self, ClockWatch, TimeReply};
use super::gather::Gathering;
use super::keys::{self, Keys};
use super::link::Link;
use super::migrate::DueNext;
use super::quiet::Busy;
use super::replies::Replies;
use super::script::{Call, script};
use super::tenants::Listed;
use crate::batch::Weight;
use crate::{Clock, Probe, Shards, StoreError};
use gristmill_config::RedisSettings;
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

/// Jobs in a Redis server. Clones share one connection.
///
/// No call waits longer than seven seconds (two to connect, five for a reply); none retries. A lost connection fails the
/// calls in flight with [`StoreError::Unavailable`], and the next call connects anew.
#[derive(Debug, Clone)]
pub struct RedisStore {
    pub(super) link: Arc<Link>,
    pub(super) prefix: Arc<str>,
    pub(super) clock: Clock,
    pub(super) due_next: Arc<DueNext>,
    /// Tenants with something for a poll to find, and with running jobs.
    pub(super) waiting: Arc<Busy>,
    pub(super) running: Arc<Busy>,
    pub(super) listed: Arc<Listed>,
    pub(super) gathering: Arc<Gathering>,
    /// The workers that have asked to be woken: what they drain they wait for.
    pub(super) woken: Arc<Mutex<HashSet<WorkerId>>>,
    pub(super) replies: Arc<Replies>,
    pub(super) clock_watch: Arc<ClockWatch>,
    /// The number of the last claim of this process.
    pub(super) last_batch: Arc<AtomicU64>,
}

impl RedisStore {
    /// Connects to `url` (`redis://[[user]:password@]host[:port][/db]`, `rediss://…` for TLS, or `redis+unix:///path`). All keys
    /// begin with `prefix`, [`DEFAULT_PREFIX`](super::DEFAULT_PREFIX) unless several installations share a server.
    ///
    /// # Errors
    /// As [`RedisStore::open`].
    pub async fn connect(url: &str, prefix: &str) -> Result<Self, StoreError> {
        Self::open(url, &RedisSettings { prefix: prefix.to_owned(), ..RedisSettings::default() }).await
    }

    /// Connects to `url` as the settings say.
    ///
    /// # Errors
    /// - [`StoreError::BadAddress`]: the URL makes no sense, or the prefix contains braces.
    /// - [`StoreError::Unavailable`]: no server answers there.
    /// - [`StoreError::Refused`]: wrong password, wrong certificate, no such database, one of several servers of a Redis
    ///   Cluster, or keys in a format that this version does not know.
    pub async fn open(url: &str, settings: &RedisSettings) -> Result<Self, StoreError> {
        let store = Self::at(url, settings)?;
        store.link.connect().await?;
        Ok(store)
    }

    /// The same, connected when it is first asked for something.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`].
    pub fn at(url: &str, settings: &RedisSettings) -> Result<Self, StoreError> {
        let prefix = settings.prefix.as_str();
        if prefix.contains(['{', '}']) {
            let problem = "braces in the prefix of the keys would hide the tenant's hash tag".into();
            return Err(StoreError::BadAddress { address: prefix.into(), problem });
        }
        let link = Link::new(url, settings)?;
        Ok(Self {
            link: Arc::new(link),
            prefix: prefix.into(),
            clock: Clock::Own,
            due_next: Arc::default(),
            waiting: Arc::default(),
            running: Arc::default(),
            listed: Arc::default(),
            gathering: Arc::default(),
            woken: Arc::default(),
            replies: Arc::default(),
            clock_watch: Arc::default(),
            last_batch: Arc::default(),
        })
    }

    /// Logs a warning for each setting of the server by which it may lose jobs. Does nothing if the server is unavailable, or does
    /// not show its settings to this user.
    pub async fn warn_of_risks(&self) {
        let mut look = redis::pipe();
        for setting in ["maxmemory-policy", "appendonly", "save"] {
            look.cmd("CONFIG").arg("GET").arg(setting);
        }
        let found = self.link.query::<Vec<HashMap<String, String>>>("look at its settings", &look).await;
        for risk in risks(&found.unwrap_or_default().into_iter().flatten().collect()) {
            tracing::warn!(store = %self.link.address, "{risk}");
        }
    }

    /// The same store by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

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

    pub(super) fn keys(&self, tenant: &Name) -> Keys {
        Keys::new(&self.prefix, tenant)
    }

    /// For replies that are not what the script can have said.
    pub(super) fn misread(&self, doing: &'static str) -> impl Fn(RedisError) -> StoreError + '_ {
        move |error| self.link.failed(doing, error)
    }

    /// For requests that are not sent.
    pub(super) fn refused(&self, doing: &'static str, source: impl Into<anyhow::Error>) -> StoreError {
        StoreError::Refused { store: self.link.address.clone(), doing, source: source.into() }
    }
}

/// What may lose jobs with these settings, and what to do.
fn risks(settings: &HashMap<String, String>) -> Vec<String> {
    let setting = |name: &str| settings.get(name).map(String::as_str);
    let mut risks = Vec::new();
    if let Some(policy) = setting("maxmemory-policy").filter(|policy| *policy != "noeviction") {
        risks.push(format!(
            "with `maxmemory-policy {policy}` this Redis drops keys when its memory is full, and with them jobs or results; \
             set it to `noeviction`"
        ));
    }
    if setting("appendonly") == Some("no") {
        let lost = if setting("save") == Some("") { "all jobs" } else { "the jobs since its last snapshot" };
        risks.push(format!("this Redis loses {lost} when it ends or crashes; set `appendonly yes`"));
    }
    risks
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

#[async_trait]
impl Probe for RedisStore {
    /// Costs the server three commands. It refuses them for whatever it refuses a push: without memory, with a disk that takes no
    /// snapshot, as a replica.
    async fn probe(&self) -> Result<(), StoreError> {
        let call = Call::new(script!("probe.lua"), &[keys::probe(&self.prefix)]);
        self.link.run("push jobs", vec![call]).await.map(drop)
    }
}

/// One server.
impl Shards for RedisStore {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_may_lose_jobs_are_named() {
        let risks = |policy: &str, log: &str, save: &str| {
            let settings = [("maxmemory-policy", policy), ("appendonly", log), ("save", save)];
            risks(&settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()).join("\n")
        };
        assert_eq!(risks("noeviction", "yes", ""), "");
        assert!(risks("allkeys-lru", "yes", "").contains("`maxmemory-policy allkeys-lru`"));
        assert!(risks("noeviction", "no", "").contains("all jobs"));
        assert!(risks("noeviction", "no", "3600 1").contains("since its last snapshot"));
    }
}
