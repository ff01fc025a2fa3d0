//! The connection to one server: multiplexed, replaced when it breaks, and never waited for without a bound.
//!
//! It retries nothing. A lost connection fails the calls in flight with [`StoreError::Unavailable`], the next call makes a new
//! one, and the caller decides how long to back off in between.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use redis::{
    AsyncConnectionConfig, ErrorKind, FromRedisValue, Pipeline, ProtocolVersion, RedisError, RedisResult, Value,
};
use tokio::sync::Mutex;

use super::commands::Commands;
use super::confirm::{Confirmation, ProbeKeys};
use super::error::{in_words, is_broken, is_unavailable, misconfigured, remedy, store_error, timed_out};
use super::known_id::KnownId;
use super::live::{Asking, Live};
use super::rights::check_rights;
use super::server::{CONNECT_TIMEOUT, ServerAddress};
use super::slots::{SharedMap, slot_of_key};
use super::timeout::timeout;
use super::topology::Topology;
use super::wrong_type::{is_wrong_type, name_key, name_keys};
use crate::StoreError;
use crate::redis::key_names;
use crate::redis::script::Call;
use gristmill_config::{AcknowledgedBy, Acknowledgement, RedisSettings};

/// The format of the keys, as `docs/reference/redis-keys.md` describes it. Those before it were in no release and have no mark.
pub(in crate::redis) const FORMAT: &str = "2";

/// A server, or the one of several that takes writes, and the connection to it if there is one.
pub(in crate::redis) struct ServerLink {
    pub(in crate::redis) topology: Topology,
    /// Where the server is, without user and password.
    pub(in crate::redis) address: String,
    settings: LinkSettings,
    live: ArcSwapOption<Live>,
    /// Held while connecting, so that a hundred callers make one connection and not a hundred.
    connecting: Mutex<()>,
    /// Whether the last push was not confirmed, so that the log says it once.
    unconfirmed: AtomicBool,
}

/// How to use a connection.
#[derive(Debug, Clone)]
pub(in crate::redis) struct LinkSettings {
    /// What the names of all keys begin with.
    prefix: Arc<str>,
    /// Below it are the channels of all wake-ups.
    channel: String,
    acknowledgement: Acknowledgement,
    /// What is written when a push waits for more than the primary begins so.
    probe_key: String,
    /// The key that says the format of the others.
    format: String,
    pub(in crate::redis) known_id: Arc<KnownId>,
    /// Set if the server may be one of several that share the keys.
    map: Option<SharedMap>,
}

impl LinkSettings {
    pub(in crate::redis) fn new(settings: &RedisSettings, map: Option<SharedMap>) -> Self {
        Self {
            prefix: settings.prefix.as_str().into(),
            channel: format!("{}:connected", settings.prefix),
            acknowledgement: settings.acknowledgement,
            probe_key: key_names::probe(&settings.prefix),
            format: key_names::format(&settings.prefix),
            known_id: Arc::new(KnownId::new(&settings.prefix)),
            map,
        }
    }
}

/// What a server of a cluster answered.
pub(in crate::redis) struct Sent {
    pub(in crate::redis) answers: Vec<RedisResult<Value>>,
    /// Set if what the commands have stored is not confirmed.
    pub(in crate::redis) unconfirmed: Option<StoreError>,
}

/// What an answer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Wait {
    /// The primary, which has answered.
    Primary,
    /// Whatever the settings want a push to wait for.
    Acknowledgement,
}

impl fmt::Debug for ServerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLink").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ServerLink {
    /// A link that is not connected yet.
    pub(in crate::redis) fn new(topology: Topology, settings: LinkSettings) -> Self {
        let address = topology.to_string();
        Self {
            topology,
            address,
            settings,
            live: ArcSwapOption::empty(),
            connecting: Mutex::new(()),
            unconfirmed: AtomicBool::new(false),
        }
    }

    /// Runs scripts in the order given, in one round trip. Answers in the same order, with an error for each that was refused.
    ///
    /// # Errors
    /// The server is unavailable, for the whole or for one of the scripts; the scripts may have run. Or [`StoreError::Unconfirmed`].
    pub(in crate::redis) async fn run_each(
        &self,
        doing: &'static str,
        calls: Vec<Call>,
        wait: Wait,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let work = async |live: &Live| available(live.run(calls, Asking::No).await?);
        let (live, answers) = self.with_connection(doing, work).await?;
        if answers.iter().all(Result::is_ok) {
            self.confirm(&live, wait).await?;
        }
        Ok(answers.into_iter().map(|answer| answer.map_err(|error| self.failed(doing, error))).collect())
    }

    /// Sends commands to a server of a cluster. Answers in the same order, with the server's error for each that was not run.
    ///
    /// # Errors
    /// The server is unavailable; the commands may have run.
    pub(in crate::redis) async fn send(
        &self,
        doing: &'static str,
        calls: Vec<Call>,
        asking: Asking,
        wait: Wait,
    ) -> Result<Sent, StoreError> {
        let (live, answers) = self.with_connection(doing, async |live| live.run(calls, asking).await).await?;
        if answers.iter().any(|answer| answer.as_ref().is_err_and(is_broken)) {
            self.live.compare_and_swap(&live, None);
        }
        let is_anything_stored = answers.iter().any(Result::is_ok);
        let unconfirmed = if is_anything_stored { self.confirm(&live, wait).await.err() } else { None };
        Ok(Sent { answers, unconfirmed })
    }

    /// Runs plain commands in one round trip.
    pub(in crate::redis) async fn query<T: FromRedisValue>(
        &self,
        doing: &'static str,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        let query = async |live: &Live| {
            let connection = &mut live.connection.commands.clone();
            match commands.query_async(connection).await {
                Err(error) if is_wrong_type(&error) => {
                    Err(name_key(connection, &live.prefix, commands.cmd_iter()).await.unwrap_or(error))
                }
                answer => answer,
            }
        };
        self.with_connection(doing, query).await.map(|(_, answer)| answer)
    }

    /// Runs plain commands in one round trip, with an answer or an error for each.
    ///
    /// # Errors
    /// The server is unavailable.
    pub(in crate::redis) async fn query_each(
        &self,
        doing: &'static str,
        mut commands: Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, StoreError> {
        commands.ignore_errors();
        let query = async |live: &Live| {
            let connection = &mut live.connection.commands.clone();
            let mut answers: Vec<RedisResult<Value>> = commands.query_async(connection).await?;
            name_keys(connection, &live.prefix, commands.cmd_iter(), &mut answers).await;
            available(answers)
        };
        self.with_connection(doing, query).await.map(|(_, answers)| answers)
    }

    /// Waits until what the connection has stored is where the settings want it. The connection is the one that has stored it: another one
    /// may be to another server.
    async fn confirm(&self, live: &Arc<Live>, wait: Wait) -> Result<(), StoreError> {
        let Some(confirmation) = live.confirmation.clone().filter(|_| wait == Wait::Acknowledgement) else {
            return Ok(());
        };
        let confirmed = confirmation.confirm().await;
        // An outage is logged elsewhere.
        if confirmed.as_ref().err().is_none_or(|failure| !failure.broken) {
            let was = self.unconfirmed.swap(confirmed.is_err(), Ordering::Relaxed);
            match &confirmed {
                Err(failure) if !was => {
                    tracing::warn!(store = %self.address, "no push is confirmed: {}", failure.reason)
                }
                Ok(()) if was => tracing::info!(store = %self.address, "pushes are confirmed again"),
                _ => {}
            }
        }
        confirmed.map_err(|failure| {
            if failure.broken {
                self.live.compare_and_swap(live, None);
            }
            StoreError::Unconfirmed { store: self.address.clone(), source: anyhow::Error::msg(failure.reason) }
        })
    }

    /// Whether it confirms a push that would be made now.
    ///
    /// # Errors
    /// The server is unavailable. Or [`StoreError::Unconfirmed`].
    pub(in crate::redis) async fn confirms(&self) -> Result<(), StoreError> {
        let live = self.connection().await.map_err(|error| self.failed("confirm a push", error))?;
        self.confirm(&live, Wait::Acknowledgement).await
    }

    /// Makes sure that there is a connection. A wrong password or certificate is refused here, where nothing waits for the server yet and an operator
    /// looks on; later, when it was changed beneath a connection, the server counts as unavailable.
    pub(in crate::redis) async fn connect(&self) -> Result<(), StoreError> {
        self.connection().await.map(drop).map_err(|error| {
            let refusal = remedy(&error);
            if refusal.is_none() && error.kind() != ErrorKind::AuthenticationFailed {
                return self.failed("connect", error);
            }
            let source = refusal.unwrap_or_else(|| in_words(error));
            StoreError::Refused { store: self.address.clone(), doing: "connect", source }
        })
    }

    pub(in crate::redis) fn failed(&self, doing: &'static str, error: RedisError) -> StoreError {
        store_error(&self.address, doing, error)
    }

    /// Drops the connection: the next call makes a new one, if it may.
    pub(in crate::redis) fn disconnect(&self) {
        self.live.store(None);
    }

    async fn with_connection<T>(
        &self,
        doing: &'static str,
        work: impl AsyncFnOnce(&Live) -> RedisResult<T>,
    ) -> Result<(Arc<Live>, T), StoreError> {
        let live = self.connection().await.map_err(|error| self.failed(doing, error))?;
        match work(&live).await {
            Ok(answer) => Ok((live, answer)),
            Err(error) => {
                if is_broken(&error) {
                    // Only this one: another caller may have replaced it already.
                    self.live.compare_and_swap(&live, None);
                }
                Err(self.failed(doing, error))
            }
        }
    }

    async fn connection(&self) -> RedisResult<Arc<Live>> {
        let open = || self.live.load_full().filter(|live| live.connection.is_open());
        if let Some(live) = open() {
            return Ok(live);
        }
        let connect = async {
            let _turn = self.connecting.lock().await;
            if let Some(live) = open() {
                return Ok(live);
            }
            let (server, connection) =
                self.topology.connect(ProtocolVersion::RESP2, AsyncConnectionConfig::new()).await?;
            let mut commands = connection.commands.clone();
            // A user who may not publish is refused here and not in the midst of a job's path, where nothing would wake a runner.
            let publish = redis::cmd("PUBLISH").arg(&self.settings.channel).arg("").exec_async(&mut commands).await;
            if let Err(error) = publish {
                return Err(server.explain_end(error).await);
            }
            check_rights(&mut commands, &self.settings.format).await?;
            if self.settings.map.is_none() {
                refuse_cluster(&mut commands).await?;
            }
            self.refuse_other_format(&mut commands).await?;
            self.settings.known_id.check(&mut commands).await?;
            let acknowledgement = &self.settings.acknowledgement;
            let confirmation = if acknowledgement.by == AcknowledgedBy::Primary {
                None
            } else {
                let beside = server.connect(ProtocolVersion::RESP2, AsyncConnectionConfig::new()).await?;
                Some(Arc::new(Confirmation::new(beside, &mut commands, *acknowledgement, self.probe_keys()).await?))
            };
            let (taught, prefix) = (parking_lot::Mutex::default(), Arc::clone(&self.settings.prefix));
            let live = Arc::new(Live { connection, taught, prefix, confirmation });
            self.live.store(Some(Arc::clone(&live)));
            Ok(live)
        };
        // Around the turn as well: the last of many callers waits no longer than the first.
        let connected = timeout(CONNECT_TIMEOUT, connect).await;
        let connected = connected.unwrap_or_else(|_| Err(timed_out("connecting took too long")));
        // Without a connection no call can be made: the server is unavailable until an operator has changed what it refuses.
        connected.map_err(|error| match self.failed("connect", error.clone()) {
            StoreError::Refused { source, .. } => misconfigured(format!("{source:#}")),
            _ => error,
        })
    }
}

impl ServerLink {
    /// Makes a key that no other connection has, in a slot of this server.
    fn probe_keys(&self) -> ProbeKeys {
        let (begin, map) = (self.settings.probe_key.clone(), self.settings.map.clone());
        let own = match &self.topology {
            Topology::Single(server) => Some(server.address.clone()),
            Topology::Sentinels(..) => None,
        };
        Box::new(move || {
            let map = map.as_ref().and_then(|map| map.borrow().clone());
            let is_ours = |key: &String| {
                let owner = map.as_ref().map(|map| map.server(slot_of_key(key.as_bytes())));
                owner.is_none_or(|owner| owner.is_some_and(|owner| owner.is_at(own.as_ref())))
            };
            let mut keys = std::iter::repeat_with(|| format!("{begin}:{:032x}", fastrand::u128(..)));
            keys.by_ref().take(PROBE_KEYS).find(is_ours).unwrap_or_else(|| begin.clone())
        })
    }

    /// Whether this is the server at the address.
    pub(in crate::redis) fn is_at(&self, address: Option<&ServerAddress>) -> bool {
        matches!(&self.topology, Topology::Single(server) if Some(&server.address) == address)
    }

    /// Refuses keys that another version wrote in another format. Marks the format where nothing has.
    async fn refuse_other_format(&self, connection: &mut Commands) -> RedisResult<()> {
        let get = redis::cmd("GET").arg(&self.settings.format).to_owned();
        let found: RedisResult<Option<String>> = get.query_async(connection).await;
        let found = match found {
            Err(error) if is_wrong_type(&error) => {
                let named = name_key(connection, &self.settings.prefix, std::iter::once(&get)).await;
                return Err(named.unwrap_or(error));
            }
            // The server of a cluster that has the key looks at it.
            Err(error) if error.is_cluster_error() => return Ok(()),
            found => found?,
        };
        let Some(found) = found else {
            let mut mark = redis::cmd("SET");
            mark.arg(&self.settings.format).arg(FORMAT).arg("NX");
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
        Err(misconfigured(problem))
    }
}

/// How many keys are tried to find one in a slot of the server.
const PROBE_KEYS: usize = 100_000;

/// The answers of a pipeline, unless one of them says that the server is unavailable.
fn available(mut answers: Vec<RedisResult<Value>>) -> RedisResult<Vec<RedisResult<Value>>> {
    match answers.iter().position(|answer| answer.as_ref().is_err_and(is_unavailable)) {
        Some(unavailable) => answers.swap_remove(unavailable).map(|_| Vec::new()),
        None => Ok(answers),
    }
}

/// Refuses a server that has only some of the keys. A cluster of one server has them all. Asks by what every user may ask.
async fn refuse_cluster(connection: &mut Commands) -> RedisResult<()> {
    let hello: HashMap<String, Value> = redis::cmd("HELLO").query_async(connection).await?;
    if hello.get("mode") != Some(&Value::BulkString(b"cluster".to_vec())) {
        return Ok(());
    }
    let info: String = redis::cmd("CLUSTER").arg("INFO").query_async(connection).await?;
    if servers_with_keys(&info) <= Some(1) {
        return Ok(());
    }
    let problem = "it is one of several servers of a Redis Cluster, which have the keys together; begin `url` with `redis+cluster://`";
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
    fn a_cluster_says_how_many_of_its_servers_have_keys() {
        assert_eq!(servers_with_keys("cluster_state:ok\r\ncluster_known_nodes:4\r\ncluster_size:3\r\n"), Some(3));
        assert_eq!(servers_with_keys("cluster_state:fail\r\n"), None);
    }
}
