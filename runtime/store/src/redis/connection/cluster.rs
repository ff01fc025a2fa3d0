//! The servers of a Redis Cluster, which share the keys by slots.
//!
//! Each call goes to the server that has its slot, in one round trip for all calls to a server. A call that is refused because the slot is
//! another server's was not run: it is sent again to the server that the refusal names. Nothing else is sent again: a call that a lost connection
//! leaves without an answer may have run, and fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{
    ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd, from_redis_value,
};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::error::{is_unavailable, store_error};
use super::known_id::KnownId;
use super::live::Asking;
use super::server::{Server, ServerAddress};
use super::server_link::{LinkSettings, Sent, ServerLink, Wait};
use super::slots::{SharedMap, Slot, SlotMap, slot_of_key, slots_of};
use crate::StoreError;
use crate::redis::key_names::workers;
use crate::redis::script::Call;
use gristmill_config::RedisSettings;

/// How often a call is sent that servers refuse because its slot is another's, or is on its way to another.
const TRIES: usize = 20;

/// The pause before a call is sent for the third time, and for each further time.
const PAUSE: Duration = Duration::from_millis(50);

/// The servers, and what is known of their slots.
pub(in crate::redis) struct Cluster {
    /// Those in the address, which say where the others are.
    pub(in crate::redis) seeds: Vec<Server>,
    pub(in crate::redis) settings: LinkSettings,
    /// The slot of the workers' heartbeats. Commands that mean no key go there.
    home: Slot,
    pub(in crate::redis) map: SharedMap,
    /// Held while the map is read, so that a hundred callers read it once.
    pub(in crate::redis) reading: Mutex<()>,
}

/// A call that no server has run yet: its position, and where to send it if not to the server that the map has for its slot.
type PendingCall = (usize, Option<Arc<ServerLink>>);

/// Why a server did not run a call.
enum Refusal {
    /// Another one has the slot.
    Moved(ServerAddress),
    /// Another one may have the keys, and is about to get the slot.
    Ask(ServerAddress),
    /// Some of the keys are here, and some there.
    Later,
}

impl Cluster {
    /// Reads `[[user]:password@]host[:port][,host[:port]]…[/0]`.
    ///
    /// # Errors
    /// It makes no sense.
    pub(in crate::redis) fn parse(scheme: &str, rest: &str, settings: &RedisSettings) -> RedisResult<Self> {
        let (rest, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = rest.rsplit_once('@').map_or(("", rest), |(user, hosts)| (user, hosts));
        if hosts.is_empty() || !matches!(database, "" | "0") {
            let problem = "a cluster needs hosts and has one database only: redis+cluster://h1,h2,h3";
            return Err((ErrorKind::InvalidClientConfig, problem).into());
        }
        let user = if user.is_empty() { String::new() } else { format!("{user}@") };
        let seed = |host: &str| Server::parse(&format!("{scheme}://{user}{host}"), &settings.tls);
        let map = SharedMap::default();
        Ok(Self {
            seeds: hosts.split(',').map(seed).collect::<RedisResult<_>>()?,
            settings: LinkSettings::new(settings, Some(Arc::clone(&map))),
            home: slot_of_key(workers(&settings.prefix).as_bytes()),
            map,
            reading: Mutex::new(()),
        })
    }

    /// What this process knows of the id of the store.
    pub(in crate::redis) fn known_id(&self) -> Arc<KnownId> {
        Arc::clone(&self.settings.known_id)
    }

    /// Drops the connections to all servers that have keys.
    pub(in crate::redis) fn disconnect(&self) {
        if let Some(map) = &*self.map.borrow() {
            map.ranges.iter().for_each(|range| range.server.disconnect());
        }
    }

    /// Connects to every server that has keys. One that is unavailable is an outage for its tenants alone.
    ///
    /// # Errors
    /// As [`ServerLink::connect`]: a server refuses, or all are unavailable.
    pub(in crate::redis) async fn connect(&self) -> Result<(), StoreError> {
        let map = self.map().await.map_err(|error| {
            let refused = super::error::remedy(&error).filter(|_| error.kind() == ErrorKind::InvalidClientConfig);
            match refused {
                Some(source) => StoreError::Refused { store: self.to_string(), doing: "connect", source },
                None if error.kind() == ErrorKind::AuthenticationFailed => StoreError::Refused {
                    store: self.to_string(),
                    doing: "connect",
                    source: super::error::in_words(error),
                },
                None => self.failed("connect", error),
            }
        })?;
        let servers = map.servers();
        let answers = join_all(servers.iter().map(|server| server.connect())).await;
        let is_any_there = answers.iter().any(Result::is_ok);
        answers
            .into_iter()
            .filter(|answer| !is_any_there || !answer.as_ref().is_err_and(StoreError::is_unavailable))
            .collect()
    }

    /// Runs calls, with an answer or an error for each.
    ///
    /// # Errors
    /// None was answered: the servers are unavailable. Or [`StoreError::Unconfirmed`].
    pub(in crate::redis) async fn run_each(
        &self,
        doing: &'static str,
        calls: Vec<Call>,
        wait: Wait,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let slots = slots_of(&calls, None, self.home);
        let answers = self.send(doing, &calls, &slots, wait).await?;
        let answers: Vec<_> =
            answers.into_iter().map(|answer| answer.map_err(|error| self.failed(doing, error))).collect();
        if answers.iter().all(|answer| answer.as_ref().is_err_and(StoreError::is_unavailable)) {
            return answers.into_iter().collect::<Result<Vec<_>, _>>().map(|_| Vec::new());
        }
        Ok(answers)
    }

    /// Runs plain commands, with an answer or an error for each.
    ///
    /// # Errors
    /// As [`Self::run_each`].
    pub(in crate::redis) async fn query_each(
        &self,
        doing: &'static str,
        commands: &Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, StoreError> {
        let calls = plain(commands);
        let answers = self.send(doing, &calls, &slots_of(&calls, None, self.home), Wait::Primary).await?;
        if answers.iter().all(|answer| answer.as_ref().is_err_and(is_unavailable))
            && let Some(Err(error)) = answers.first()
        {
            return Err(self.failed(doing, error.clone()));
        }
        Ok(answers)
    }

    /// Runs plain commands, or a transaction of one slot.
    pub(in crate::redis) async fn query<T: FromRedisValue>(
        &self,
        doing: &'static str,
        slot: Option<Slot>,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        let calls = plain(commands);
        let slots = slots_of(&calls, slot, self.home);
        let values = if commands.is_transaction() {
            self.transact(doing, calls, slots.first().copied().unwrap_or(self.home)).await
        } else {
            self.send(doing, &calls, &slots, Wait::Primary).await?.into_iter().collect::<RedisResult<Vec<_>>>()
        };
        let read = values.and_then(|values| Ok(from_redis_value(Value::Array(values))?));
        read.map_err(|error| self.failed(doing, error))
    }

    /// Runs a transaction. While its slot is on its way to another server, it waits.
    async fn transact(&self, doing: &'static str, calls: Vec<Call>, slot: Slot) -> RedisResult<Vec<Value>> {
        let mut all = vec![Call::plain(cmd("MULTI"))];
        all.extend(calls);
        all.push(Call::plain(cmd("EXEC")));
        for tries in 0..TRIES {
            let map = self.map().await?;
            let server = map.server(slot).ok_or_else(|| self.homeless(slot))?;
            let sent = server.send(doing, all.clone(), Asking::No, Wait::Primary).await;
            let mut answers = sent.map_err(unavailable)?.answers;
            match answers.iter().find_map(refusal) {
                Some(Refusal::Moved(address)) => self.read_map(Some(&map), Some(address)).await?,
                Some(Refusal::Ask(_) | Refusal::Later) => {}
                None => {
                    let done = answers.pop().unwrap_or(Ok(Value::Nil));
                    // Why a command was not queued, and not only that none was run then.
                    answers.into_iter().collect::<RedisResult<Vec<Value>>>()?;
                    return Ok(from_redis_value(done?)?);
                }
            }
            pause(tries).await;
        }
        Err(moving(slot))
    }

    /// Sends each call to the server that has its slot. Returns an answer for each.
    ///
    /// # Errors
    /// [`StoreError::Unconfirmed`].
    async fn send(
        &self,
        doing: &'static str,
        calls: &[Call],
        slots: &[Slot],
        wait: Wait,
    ) -> Result<Vec<RedisResult<Value>>, StoreError> {
        let mut answers: Vec<RedisResult<Value>> = slots.iter().map(|slot| Err(moving(*slot))).collect();
        let mut pending: Vec<PendingCall> = (0..calls.len()).map(|position| (position, None)).collect();
        let mut unconfirmed = None;
        for tries in 0..TRIES {
            let map = match self.map().await {
                Ok(map) => map,
                Err(error) => {
                    pending.iter().for_each(|(position, _)| put(&mut answers, *position, Err(error.clone())));
                    break;
                }
            };
            let (mut again, mut stale) = (Vec::new(), None);
            let groups = self.by_server(&map, pending, slots, &mut answers);
            for (positions, sent) in self.send_groups(doing, calls, groups, wait).await {
                let replies = match sent {
                    Ok(sent) => {
                        unconfirmed = unconfirmed.or(sent.unconfirmed);
                        sent.answers
                    }
                    Err(error) => {
                        let error = unavailable(error);
                        stale.get_or_insert(None);
                        positions.iter().for_each(|position| put(&mut answers, *position, Err(error.clone())));
                        continue;
                    }
                };
                for (position, reply) in positions.into_iter().zip(replies) {
                    match refusal(&reply) {
                        Some(Refusal::Moved(address)) => {
                            stale = Some(Some(address));
                            again.push((position, None));
                        }
                        Some(Refusal::Ask(address)) => again.push((position, Some(self.server_at(&map, address)))),
                        Some(Refusal::Later) => again.push((position, None)),
                        None => {
                            if reply.as_ref().is_err_and(is_unavailable) {
                                stale.get_or_insert(None);
                            }
                            put(&mut answers, position, reply);
                        }
                    }
                }
            }
            if let Some(hint) = stale {
                // If no server answers, the calls that are pending fail in the next round.
                drop(self.read_map(Some(&map), hint).await);
            }
            if again.is_empty() {
                break;
            }
            pending = again;
            pause(tries).await;
        }
        // It says that everything is stored.
        match unconfirmed.filter(|_| answers.iter().all(Result::is_ok)) {
            Some(error) => Err(error),
            None => Ok(answers),
        }
    }

    /// The servers that pending calls go to, each with the positions of its calls.
    fn by_server(
        &self,
        map: &SlotMap,
        pending: Vec<PendingCall>,
        slots: &[Slot],
        answers: &mut [RedisResult<Value>],
    ) -> Vec<(Arc<ServerLink>, Asking, Vec<usize>)> {
        let mut groups: Vec<(Arc<ServerLink>, Asking, Vec<usize>)> = Vec::new();
        for (position, asked) in pending {
            let slot = slots.get(position).copied().unwrap_or(self.home);
            let asking = if asked.is_some() { Asking::Yes } else { Asking::No };
            let Some(server) = asked.or_else(|| map.server(slot).cloned()) else {
                put(answers, position, Err(self.homeless(slot)));
                continue;
            };
            match groups.iter_mut().find(|(known, how, _)| Arc::ptr_eq(known, &server) && *how == asking) {
                Some((_, _, positions)) => positions.push(position),
                None => groups.push((server, asking, vec![position])),
            }
        }
        groups
    }

    async fn send_groups(
        &self,
        doing: &'static str,
        calls: &[Call],
        groups: Vec<(Arc<ServerLink>, Asking, Vec<usize>)>,
        wait: Wait,
    ) -> Vec<(Vec<usize>, Result<Sent, StoreError>)> {
        join_all(groups.into_iter().map(|(server, asking, positions)| async move {
            let calls = positions.iter().filter_map(|position| calls.get(*position)).cloned().collect();
            let sent = server.send(doing, calls, asking, wait).await;
            (positions, sent)
        }))
        .await
    }

    fn homeless(&self, slot: Slot) -> RedisError {
        std::io::Error::other(format!("no server of {self} has slot {slot}")).into()
    }

    fn failed(&self, doing: &'static str, error: RedisError) -> StoreError {
        store_error(&self.to_string(), doing, error)
    }
}

impl fmt::Display for Cluster {
    /// Without users and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds: Vec<_> = self.seeds.iter().map(ToString::to_string).collect();
        write!(f, "the cluster of {}", seeds.join(", "))
    }
}

fn plain(commands: &Pipeline) -> Vec<Call> {
    commands.cmd_iter().cloned().map(Call::plain).collect()
}

fn put(answers: &mut [RedisResult<Value>], position: usize, answer: RedisResult<Value>) {
    if let Some(slot) = answers.get_mut(position) {
        *slot = answer;
    }
}

/// At once the first time: most refusals say where to go.
async fn pause(tries: usize) {
    if tries > 0 {
        sleep(PAUSE).await;
    }
}

/// Why the server did not run the call, if another one may.
fn refusal(answer: &RedisResult<Value>) -> Option<Refusal> {
    let error = answer.as_ref().err()?;
    let address = || {
        let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
        Some(ServerAddress::Tcp(host.to_owned(), port.parse().ok()?))
    };
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => address().map(Refusal::Moved),
        ErrorKind::Server(ServerErrorKind::Ask) => address().map(Refusal::Ask),
        ErrorKind::Server(ServerErrorKind::TryAgain) => Some(Refusal::Later),
        _ => None,
    }
}

/// The slot went back and forth, or was on its way, for as long as a call may wait. Passes when it has arrived.
fn moving(slot: Slot) -> RedisError {
    std::io::Error::other(format!("slot {slot} is on its way to another server")).into()
}

/// An error of one server, for each of the calls that it was sent.
fn unavailable(error: StoreError) -> RedisError {
    std::io::Error::other(format!("{:#}", anyhow::Error::from(error))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> RedisResult<Cluster> {
        let (scheme, rest) = url.split_once("+cluster://").unwrap();
        Cluster::parse(scheme, rest, &RedisSettings::default())
    }

    #[test]
    fn an_address_names_some_servers_of_a_cluster() {
        let cluster = parse("redis+cluster://me:pw@h1,h2:7000,[::1]/0").unwrap();
        let addresses: Vec<_> = cluster.seeds.iter().map(|seed| seed.address.clone()).collect();
        assert_eq!(
            addresses,
            [("h1", 6379), ("h2", 7000), ("::1", 6379)].map(|(h, p)| ServerAddress::Tcp(h.into(), p))
        );
        assert!(cluster.seeds.iter().all(|seed| seed.settings.password() == Some("pw")));
        assert_eq!(cluster.to_string(), "the cluster of h1:6379, h2:7000, [::1]:6379");
        for url in ["redis+cluster://", "redis+cluster://h1/3", "redis+cluster://h1:x"] {
            assert!(parse(url).is_err(), "{url}");
        }
    }
}
