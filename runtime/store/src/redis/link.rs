//! The connection: multiplexed, replaced when it breaks, and never waited for without a bound. Each one teaches its server
//! the scripts that it is used for.
//!
//! It retries nothing. A lost connection fails the calls in flight with [`StoreError::Unavailable`], the next call makes a new
//! one, and whoever calls decides how long to back off in between.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ErrorKind, FromRedisValue, Pipeline, ProtocolVersion, RedisError, RedisResult,
    ServerErrorKind, Value,
};
use tokio::sync::Mutex;

use super::confirm::Confirmation;
use super::error::{is_broken, is_unavailable, misconfigured, remedy, store_error, timed_out};
use super::keys;
use super::script::{Call, Script};
use super::server::{CONNECT_TIMEOUT, Connection};
use super::topology::Topology;
use crate::StoreError;
use gristmill_config::{AcknowledgedBy, Acknowledgement, RedisSettings, StoreAddress};

/// The format of the keys, as `docs/redis-keys.md` describes it. Those before it were in no release and have no mark.
pub(super) const FORMAT: &str = "2";

/// A server, and the connection to it if there is one.
pub(super) struct Link {
    pub(super) topology: Topology,
    /// Where the server is, without user and password.
    pub(super) address: String,
    /// Below it are the channels of all wake-ups.
    channel: String,
    /// The key that says the format of the others.
    format: String,
    acknowledgement: Acknowledgement,
    /// What is written when a push waits for more than the primary.
    probe_key: String,
    live: ArcSwapOption<Live>,
    /// Held while connecting, so that a hundred callers make one connection and not a hundred.
    connecting: Mutex<()>,
}

/// A connection, and the scripts that it has taught its server, by their hashes.
struct Live {
    connection: Connection,
    taught: parking_lot::Mutex<HashSet<&'static str>>,
    /// Set if pushes wait for more than the primary.
    confirmation: Option<Arc<Confirmation>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Link {
    /// A link to the server at `url`, not connected yet.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`] if the URL makes no sense.
    pub(super) fn new(url: &str, settings: &RedisSettings) -> Result<Self, StoreError> {
        let topology = Topology::parse(url, &settings.tls).map_err(|error| StoreError::BadAddress {
            address: StoreAddress::Redis(url.to_owned()).to_string(),
            problem: format!("{error}; use redis://[[user]:password@]host[:port][/db], rediss://…, redis+unix:///path, or redis+sentinel://h1,h2,h3/name[/db]"),
        })?;
        let (address, channel) = (topology.to_string(), format!("{}:connected", settings.prefix));
        Ok(Self {
            topology,
            address,
            channel,
            format: keys::format(&settings.prefix),
            acknowledgement: settings.acknowledgement,
            probe_key: keys::probe(&settings.prefix),
            live: ArcSwapOption::empty(),
            connecting: Mutex::new(()),
        })
    }

    /// Runs scripts in the order given, in one round trip. Answers in the same order.
    ///
    /// # Errors
    /// The first one; the other scripts may have run.
    pub(super) async fn run(&self, doing: &'static str, calls: Vec<Call>) -> Result<Vec<Value>, StoreError> {
        self.run_each(doing, calls).await?.into_iter().collect()
    }

    /// The same with an answer or an error for each script.
    ///
    /// # Errors
    /// The server is unavailable, for the whole or for one of the scripts; the scripts may have run.
    pub(super) async fn run_each(
        &self,
        doing: &'static str,
        calls: Vec<Call>,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.with_connection(doing, async |live| live.run(calls).await).await?;
        Ok(answers.into_iter().map(|answer| answer.map_err(|error| self.failed(doing, error))).collect())
    }

    /// Runs plain commands in one round trip.
    pub(super) async fn query<T: FromRedisValue>(
        &self,
        doing: &'static str,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        self.with_connection(doing, async |live| commands.query_async(&mut live.connection.commands.clone()).await)
            .await
    }

    /// Runs plain commands in one round trip, with an answer or an error for each.
    ///
    /// # Errors
    /// The server is unavailable.
    pub(super) async fn query_each(
        &self,
        doing: &'static str,
        mut commands: Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, StoreError> {
        commands.ignore_errors();
        let query = async |live: &Live| {
            available(commands.query_async::<Vec<RedisResult<Value>>>(&mut live.connection.commands.clone()).await?)
        };
        self.with_connection(doing, query).await
    }

    /// Does `push`, and waits until what it has stored is where the settings want it.
    ///
    /// # Errors
    /// Those of `push`; or [`StoreError::Unconfirmed`].
    pub(super) async fn acknowledged<T>(
        &self,
        doing: &'static str,
        push: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.acknowledgement.by == AcknowledgedBy::Primary {
            return push.await;
        }
        let live = self.connection().await.map_err(|error| self.failed(doing, error))?;
        let answer = push.await?;
        let unconfirmed = |reason: String| {
            let source = anyhow::anyhow!("{reason}; the jobs may be pushed again with the same ids");
            StoreError::Unconfirmed { store: self.address.clone(), source }
        };
        let confirmation = live.confirmation.clone().filter(|_| self.is_live(&live));
        let Some(confirmation) = confirmation else { return Err(unconfirmed("the connection was lost".into())) };
        confirmation.confirm().await.map_err(|failure| {
            if failure.broken {
                self.live.compare_and_swap(&live, None);
            }
            unconfirmed(failure.reason)
        })?;
        Ok(answer)
    }

    /// Whether all calls since this connection was taken went by it.
    fn is_live(&self, live: &Arc<Live>) -> bool {
        self.live.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, live))
    }

    /// Makes sure that there is a connection. A wrong password or certificate is refused here, where nothing waits for the server yet and an operator
    /// looks on; later, when it was changed beneath a connection, the server counts as unavailable.
    pub(super) async fn connect(&self) -> Result<(), StoreError> {
        self.connection().await.map(drop).map_err(|error| {
            let refusal = remedy(&error);
            if refusal.is_none() && error.kind() != ErrorKind::AuthenticationFailed {
                return self.failed("connect", error);
            }
            let source = refusal.unwrap_or_else(|| error.into());
            StoreError::Refused { store: self.address.clone(), doing: "connect", source }
        })
    }

    pub(super) fn failed(&self, doing: &'static str, error: RedisError) -> StoreError {
        store_error(&self.address, doing, error)
    }

    async fn with_connection<T>(
        &self,
        doing: &'static str,
        work: impl AsyncFnOnce(&Live) -> RedisResult<T>,
    ) -> Result<T, StoreError> {
        let live = self.connection().await.map_err(|error| self.failed(doing, error))?;
        work(&live).await.map_err(|error| {
            if is_broken(&error) {
                // Only this one: another caller may have replaced it already.
                self.live.compare_and_swap(&live, None);
            }
            self.failed(doing, error)
        })
    }

    async fn connection(&self) -> RedisResult<Arc<Live>> {
        if let Some(live) = self.live.load_full() {
            return Ok(live);
        }
        let connect = async {
            let _turn = self.connecting.lock().await;
            if let Some(live) = self.live.load_full() {
                return Ok(live);
            }
            let (server, connection) =
                self.topology.connect(ProtocolVersion::RESP2, AsyncConnectionConfig::new()).await?;
            let mut commands = connection.commands.clone();
            // A user who may not publish is refused here and not in the midst of a job's path, where nothing would wake a runner.
            redis::cmd("PUBLISH").arg(&self.channel).arg("").exec_async(&mut commands).await?;
            refuse_cluster(&mut commands).await?;
            self.refuse_other_format(&mut commands).await?;
            let confirmation = if self.acknowledgement.by == AcknowledgedBy::Primary {
                None
            } else {
                let beside = server.connect(ProtocolVersion::RESP2, AsyncConnectionConfig::new()).await?;
                let key = &self.probe_key;
                Some(Arc::new(Confirmation::new(beside, &mut commands, self.acknowledgement, key).await?))
            };
            let live = Arc::new(Live { connection, taught: parking_lot::Mutex::default(), confirmation });
            self.live.store(Some(Arc::clone(&live)));
            Ok(live)
        };
        // Around the turn as well: the last of many callers waits no longer than the first.
        tokio::time::timeout(CONNECT_TIMEOUT, connect)
            .await
            .unwrap_or_else(|_| Err(timed_out("connecting took too long")))
    }

    /// Refuses keys that another version wrote in another format. Marks the format where nothing has.
    async fn refuse_other_format(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let found: Option<String> = redis::cmd("GET").arg(&self.format).query_async(connection).await?;
        let Some(found) = found else {
            let mut mark = redis::cmd("SET");
            mark.arg(&self.format).arg(FORMAT).arg("NX");
            // A server that takes no writes, as one whose memory is full, is marked by a later connection.
            let _: RedisResult<Value> = mark.query_async(connection).await;
            return Ok(());
        };
        if found == FORMAT {
            return Ok(());
        }
        let problem = format!(
            "its keys are in format {found:?}, and this version knows format {FORMAT}; use the version that wrote them, or another prefix"
        );
        Err(misconfigured(problem.into()))
    }
}

impl Live {
    /// Fails as a whole if one of the calls says that the server is unavailable.
    async fn run(&self, calls: Vec<Call>) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut connection = self.connection.commands.clone();
        let mut pipeline = Pipeline::with_capacity(calls.len());
        let mut scripts = Vec::with_capacity(calls.len());
        for call in calls {
            self.teach(call.script).await?;
            scripts.push(call.script);
            pipeline.add_command(call.command);
        }
        let mut answers: Vec<RedisResult<Value>> = pipeline.ignore_errors().query_async(&mut connection).await?;

        // Another client made the server forget its scripts: teach it again, and repeat what it did not run.
        for ((answer, script), command) in answers.iter_mut().zip(scripts).zip(pipeline.cmd_iter()) {
            if matches!(answer, Err(error) if error.kind() == ServerErrorKind::NoScript.into()) {
                script.load_async(&mut connection).await?;
                *answer = command.query_async(&mut connection).await;
            }
        }
        available(answers)
    }

    /// Before the first call, and not when one was refused: if another client teaches the server in the midst of a pipeline,
    /// its first calls are refused, its last ones are not, and what is repeated would come behind them.
    async fn teach(&self, script: &'static Script) -> RedisResult<()> {
        let hash = script.get_hash();
        let known = self.taught.lock().contains(hash);
        if !known {
            script.load_async(&mut self.connection.commands.clone()).await?;
            self.taught.lock().insert(hash);
        }
        Ok(())
    }
}

/// The answers of a pipeline, unless one of them says that the server is unavailable.
fn available(mut answers: Vec<RedisResult<Value>>) -> RedisResult<Vec<RedisResult<Value>>> {
    match answers.iter().position(|answer| answer.as_ref().is_err_and(is_unavailable)) {
        Some(unavailable) => answers.swap_remove(unavailable).map(|_| Vec::new()),
        None => Ok(answers),
    }
}

/// Refuses a server that has only some of the keys. A cluster of one server has them all. Asks by what every user may ask.
async fn refuse_cluster(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let hello: HashMap<String, Value> = redis::cmd("HELLO").query_async(connection).await?;
    if hello.get("mode") != Some(&Value::BulkString(b"cluster".to_vec())) {
        return Ok(());
    }
    let info: String = redis::cmd("CLUSTER").arg("INFO").query_async(connection).await?;
    if servers_with_keys(&info) <= Some(1) {
        return Ok(());
    }
    let problem = "it is one of several servers of a Redis Cluster, which Gristmill does not support yet; name a Redis that is no cluster";
    Err(misconfigured(problem.into()))
}

/// How many servers of a cluster have keys, by `CLUSTER INFO`. `None` while it says nothing of them.
fn servers_with_keys(info: &str) -> Option<u32> {
    info.lines().find_map(|line| line.strip_prefix("cluster_size:")?.trim().parse().ok())
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

    #[test]
    fn a_cluster_says_how_many_of_its_servers_have_keys() {
        assert_eq!(servers_with_keys("cluster_state:ok\r\ncluster_known_nodes:4\r\ncluster_size:3\r\n"), Some(3));
        assert_eq!(servers_with_keys("cluster_state:fail\r\n"), None);
    }

    #[tokio::test]
    async fn a_refused_connection_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let link =
            Link::new(&format!("unix:{}", folder.path().join("none").display()), &RedisSettings::default()).unwrap();
        assert!(link.connect().await.unwrap_err().is_unavailable());
    }
}
