//! The way to the servers that have the keys: one, or several that share them.

use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use redis::{FromRedisValue, Pipeline, RedisError, RedisResult, Value, from_redis_value, pipe};

use super::cluster::Cluster;
use super::error::store_error;
use super::known_id::KnownId;
use super::server_link::{LinkSettings, ServerLink, Wait};
use super::slots::Slot;
use super::topology::Topology;
use super::wrong_type::{keys_of, problem};
use crate::StoreError;
use crate::redis::script::Call;
use gristmill_config::{RedisSettings, StoreAddress};

/// One server, or those of a cluster.
pub(in crate::redis) struct Link {
    pub(in crate::redis) servers: Servers,
    /// Where they are, without user and password.
    pub(in crate::redis) address: String,
    pub(in crate::redis) known_id: Arc<KnownId>,
}

pub(in crate::redis) enum Servers {
    One(ServerLink),
    Cluster(Cluster),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Link {
    /// A link to what the URL names, not connected yet.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`] if the URL makes no sense.
    pub(in crate::redis) fn new(url: &str, settings: &RedisSettings) -> Result<Self, StoreError> {
        Self::parse(url, settings).map_err(|error| StoreError::BadAddress {
            address: StoreAddress::Redis(url.to_owned()).to_string(),
            problem: format!(
                "{error}; give redis://[[user]:password@]host[:port][/db], rediss://…, redis+unix:///path, \
                 redis+sentinel://h1,h2,h3/name[/db], or redis+cluster://h1,h2,h3"
            ),
        })
    }

    fn parse(url: &str, settings: &RedisSettings) -> RedisResult<Self> {
        if let Some((scheme, rest)) = url.split_once("+cluster://") {
            let cluster = Cluster::parse(scheme, rest, settings)?;
            let (address, known_id) = (cluster.to_string(), cluster.known_id());
            return Ok(Self { address, known_id, servers: Servers::Cluster(cluster) });
        }
        let settings_of_link = LinkSettings::new(settings, None);
        let known_id = Arc::clone(&settings_of_link.known_id);
        let one = ServerLink::new(Topology::parse(url, &settings.tls)?, settings_of_link);
        Ok(Self { address: one.address.clone(), known_id, servers: Servers::One(one) })
    }

    /// Runs scripts in the order given, in one round trip to each server. Answers in the same order.
    ///
    /// # Errors
    /// The first one; the other scripts may have run.
    pub(in crate::redis) async fn run(&self, doing: &'static str, calls: Vec<Call>) -> Result<Vec<Value>, StoreError> {
        self.run_each(doing, calls).await?.into_iter().collect()
    }

    /// Runs scripts with an answer or an error for each.
    ///
    /// # Errors
    /// The server is unavailable, for the whole or for one of the scripts; the scripts may have run. In a cluster, all servers that
    /// were asked: one of them spoils no other's answers.
    pub(in crate::redis) async fn run_each(
        &self,
        doing: &'static str,
        calls: Vec<Call>,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        self.run_waiting(doing, calls, Wait::Primary).await
    }

    /// The same for calls that may have to wait for more than the server's answer.
    ///
    /// # Errors
    /// As [`Link::run_each`]; or [`StoreError::Unconfirmed`].
    pub(in crate::redis) async fn run_waiting(
        &self,
        doing: &'static str,
        calls: Vec<Call>,
        wait: Wait,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        match &self.servers {
            _ if calls.is_empty() => Ok(Vec::new()),
            Servers::One(server) => server.run_each(doing, calls, wait).await,
            Servers::Cluster(cluster) => cluster.run_each(doing, calls, wait).await,
        }
    }

    /// Runs plain commands in one round trip. In a cluster, commands without a key go where the one before them goes, or the next one
    /// that has a key. What writes must be safe to repeat in part.
    pub(in crate::redis) async fn query<T: FromRedisValue>(
        &self,
        doing: &'static str,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        self.query_at(doing, None, commands).await
    }

    /// The same. Commands without a key before all that have one go where the slot is.
    ///
    /// Each transaction here only reads. A server whose memory is full begins none: then the commands are run without one, and commands of other
    /// clients may come between them. Without that, no runner could start and make room.
    pub(in crate::redis) async fn query_at<T: FromRedisValue>(
        &self,
        doing: &'static str,
        slot: Option<Slot>,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        match self.query_once(doing, slot, commands).await {
            Err(StoreError::Full { .. }) if commands.is_transaction() => {
                let mut one_by_one = pipe();
                commands.cmd_iter().for_each(|command| _ = one_by_one.add_command(command.clone()));
                self.query_once(doing, slot, &one_by_one).await
            }
            answer => answer,
        }
    }

    async fn query_once<T: FromRedisValue>(
        &self,
        doing: &'static str,
        slot: Option<Slot>,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        match &self.servers {
            Servers::One(server) => server.query(doing, commands).await,
            Servers::Cluster(cluster) => cluster.query(doing, slot, commands).await,
        }
    }

    /// Runs plain commands, with an answer or an error for each.
    ///
    /// # Errors
    /// As [`Link::run_each`].
    pub(in crate::redis) async fn query_each(
        &self,
        doing: &'static str,
        commands: Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, StoreError> {
        match &self.servers {
            Servers::One(server) => server.query_each(doing, commands).await,
            Servers::Cluster(cluster) => cluster.query_each(doing, &commands).await,
        }
    }

    /// Says which key of the call is of another type than it has to be, if one is.
    pub(in crate::redis) async fn wrong_key(&self, doing: &'static str, prefix: &str, call: &Call) -> Option<String> {
        let keys = keys_of(prefix, std::iter::once(&call.command));
        let mut ask = pipe();
        keys.iter().for_each(|key| _ = ask.cmd("TYPE").arg(key));
        let found = self.query_each(doing, ask).await.ok()?;
        keys.iter()
            .zip(found)
            .find_map(|(key, found)| problem(prefix, key, &from_redis_value::<String>(found.ok()?).ok()?))
    }

    pub(in crate::redis) const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Makes sure that there are connections. A wrong password or certificate is refused here, where nothing waits for the server yet and an
    /// operator looks on; later, when it was changed beneath a connection, the server counts as unavailable.
    pub(in crate::redis) async fn connect(&self) -> Result<(), StoreError> {
        match &self.servers {
            Servers::One(server) => server.connect().await,
            Servers::Cluster(cluster) => cluster.connect().await,
        }
    }

    /// The servers that confirm no push, each as the error that it gives.
    ///
    /// # Errors
    /// None confirms any.
    pub(in crate::redis) async fn unconfirming(&self) -> Result<Vec<StoreError>, StoreError> {
        match &self.servers {
            Servers::One(server) => server.confirms().await.map(|()| Vec::new()),
            Servers::Cluster(cluster) => {
                let map = cluster.map().await.map_err(|error| self.failed("confirm a push", error))?;
                let answers = join_all(map.servers().iter().map(|server| server.confirms())).await;
                let (all, mut refusals) =
                    (answers.len(), answers.into_iter().filter_map(Result::err).collect::<Vec<_>>());
                if refusals.len() < all { Ok(refusals) } else { refusals.pop().map_or(Ok(Vec::new()), Err) }
            }
        }
    }

    /// Drops the connections: the next call makes new ones, if it may.
    pub(in crate::redis) fn disconnect(&self) {
        match &self.servers {
            Servers::One(server) => server.disconnect(),
            Servers::Cluster(cluster) => cluster.disconnect(),
        }
    }

    pub(in crate::redis) fn failed(&self, doing: &'static str, error: RedisError) -> StoreError {
        store_error(&self.address, doing, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_addresses_are_named_without_their_password() {
        for (url, shown) in [
            ("nonsense", "redis://nonsense"),
            ("amqp://u:secret@host", "amqp://host"),
            ("rediss://:secret@host/x", "rediss://host/x"),
        ] {
            let error = Link::new(url, &RedisSettings::default()).unwrap_err();
            assert!(matches!(&error, StoreError::BadAddress { address, .. } if address == shown), "{error}");
            assert!(!error.to_string().contains(" unix:"), "{error}");
        }
        for (url, shown) in [("redis://u:secret@host/3", "host:6379"), ("rediss://u:secret@host", "rediss://host:6379")]
        {
            assert_eq!(Link::new(url, &RedisSettings::default()).unwrap().address, shown);
        }
    }

    #[tokio::test]
    async fn a_refused_connection_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let link =
            Link::new(&format!("unix:{}", folder.path().join("none").display()), &RedisSettings::default()).unwrap();
        assert!(link.connect().await.unwrap_err().is_unavailable());
    }
}
