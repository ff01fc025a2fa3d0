//! [`RedisStore`]: how it is opened, and what it holds.

use std::collections::HashMap;
use std::sync::Arc;

use super::Partitions;
use crate::redis::connection::link::Link;
use crate::redis::store::Server;
use crate::{Clock, Probe, Shards, StoreError};
use async_trait::async_trait;
use gristmill_config::RedisSettings;

/// Jobs in a Redis server. Clones share one connection.
///
/// No call waits longer than seven seconds (two to connect, five for a reply); none retries. A lost connection fails the
/// calls in flight with [`StoreError::Unavailable`], and the next call connects anew.
#[derive(Debug, Clone)]
pub struct RedisStore {
    pub(in crate::redis) server: Server,
    pub(in crate::redis) partitions: Partitions,
}

impl RedisStore {
    /// Connects to `url` (`redis://[[user]:password@]host[:port][/db]`, `rediss://…` for TLS, or `redis+unix:///path`). All keys
    /// begin with `prefix`, [`DEFAULT_PREFIX`](crate::redis::DEFAULT_PREFIX) unless several installations share a server.
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
        store.server.link.connect().await?;
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
        Ok(Self::of(Server {
            link: Arc::new(Link::new(url, settings)?),
            prefix: prefix.into(),
            clock: Clock::Own,
            listed: Arc::default(),
            woken: Arc::default(),
            full: Arc::default(),
            replies: Arc::default(),
            clock_watch: Arc::default(),
            map_age: Arc::default(),
            renewals: Arc::default(),
        }))
    }

    fn of(server: Server) -> Self {
        Self { partitions: Partitions::new(&server), server }
    }

    /// Logs a warning for each setting of the server by which it may lose jobs, and one if it confirms no push. Does nothing if the server is unavailable, or does
    /// not show its settings to this user.
    pub async fn warn_of_risks(&self) {
        let mut look = redis::pipe();
        for setting in ["maxmemory-policy", "appendonly", "save"] {
            look.cmd("CONFIG").arg("GET").arg(setting);
        }
        let found = self.server.link.query::<Vec<HashMap<String, String>>>("look at its settings", &look).await;
        for risk in risks(&found.unwrap_or_default().into_iter().flatten().collect()) {
            tracing::warn!(store = %self.server.link.address, "{risk}");
        }
        // Logs it if no push can be confirmed.
        drop(self.server.link.unconfirming().await);
    }

    /// The same store by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self::of(Server { clock, ..self.server })
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

/// One server.
#[async_trait]
impl Shards for RedisStore {
    async fn unavailable(&self) -> Result<Vec<StoreError>, StoreError> {
        self.probe().await?;
        self.server.link.unconfirming().await
    }
}

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
