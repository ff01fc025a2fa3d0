//! Where the server is that takes the writes: at one address, or wherever the sentinels say.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{
    AsyncConnectionConfig, ErrorKind, ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult, Value, cmd,
};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::error::{misconfigured, timed_out};
use super::sentinel_watch::watch as watch_sentinels;
use super::server::{Connection, PrimaryChoice, Server, ServerAddress};
use super::timeout::timeout;
use gristmill_config::RedisTls;

/// How long the sentinels may take to say where the primary is. Most answer in a millisecond; one whose machine is gone is not waited for.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(700);

/// Where a sentinel listens if the address does not say it.
const SENTINEL_PORT: u16 = 26379;

/// The servers that an address stands for.
#[derive(Debug)]
pub(in crate::redis) enum Topology {
    Single(Server),
    /// With the task that listens to them, from the first connection on.
    Sentinels(Arc<Sentinels>, OnceLock<AbortOnDropHandle<()>>),
}

/// Sentinels, and the primary that they watch by this name.
#[derive(Debug)]
pub(in crate::redis) struct Sentinels {
    pub(super) sentinels: Vec<Server>,
    pub(super) name: String,
    /// What they said when they were last asked.
    pub(super) choice: watch::Sender<PrimaryChoice>,
    /// How to greet the primary. Its address is what the sentinels say.
    primary: Server,
}

/// What the sentinels say.
pub(super) struct Votes {
    /// What most of those say that have answered.
    address: ServerAddress,
    /// Whether that is what most of all say.
    pub(super) choice: PrimaryChoice,
}

impl Topology {
    /// Reads the address of a server, or `redis+sentinel://[[user]:password@]host[:port][,host[:port]]…/name[/db]`, the same with
    /// `rediss+sentinel`. Behind `?` the sentinels' own `sentinel-user` and `sentinel-password` may follow.
    ///
    /// # Errors
    /// It is none of them, or makes no sense.
    pub(in crate::redis) fn parse(url: &str, files: &RedisTls) -> RedisResult<Self> {
        match url.split_once("+sentinel://") {
            Some((scheme, rest)) => {
                Ok(Self::Sentinels(Arc::new(Sentinels::parse(scheme, rest, files)?), OnceLock::new()))
            }
            None => Server::parse(url, files).map(Self::Single),
        }
    }

    /// Connects to the server that takes writes, and returns which one that is.
    ///
    /// # Errors
    /// As [`Server::connect`]; or no sentinel answers, or what they name is no primary, which passes with a failover.
    pub(in crate::redis) async fn connect(
        &self,
        protocol: ProtocolVersion,
        config: AsyncConnectionConfig,
    ) -> RedisResult<(Cow<'_, Server>, Connection)> {
        match self {
            Self::Single(server) => Ok((Cow::Borrowed(server), server.connect(protocol, config).await?)),
            Self::Sentinels(sentinels, watching) => {
                watching.get_or_init(|| AbortOnDropHandle::new(tokio::spawn(watch_sentinels(Arc::clone(sentinels)))));
                let primary = sentinels.primary().await?;
                let connection = primary.connect(protocol, config).await?;
                refuse_replica(&primary, &connection).await?;
                Ok((Cow::Owned(primary), connection))
            }
        }
    }
}

impl Sentinels {
    fn parse(scheme: &str, rest: &str, files: &RedisTls) -> RedisResult<Self> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = hosts.rsplit_once('@').map_or(("", hosts), |(user, hosts)| (user, hosts));
        let (name, database) = path.split_once('/').unwrap_or((path, ""));
        if name.is_empty() || hosts.is_empty() {
            return Err(bad("sentinels need hosts and the name of what they watch: redis+sentinel://h1,h2,h3/name/db"));
        }
        let mut login = RedisConnectionInfo::default();
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            login = match key.as_ref() {
                "sentinel-user" => login.set_username(value),
                "sentinel-password" => login.set_password(value),
                _ => return Err(bad("behind `?` there are `sentinel-user` and `sentinel-password`")),
            };
        }
        let sentinel = |host: &str| {
            let mut sentinel =
                Server { settings: login.clone(), ..Server::parse(&format!("{scheme}://{host}"), files)? };
            if let ServerAddress::Tcp(_, port) = &mut sentinel.address
                && !has_port(host)
            {
                *port = SENTINEL_PORT;
            }
            Ok::<_, RedisError>(sentinel)
        };
        let sentinels = hosts.split(',').map(sentinel).collect::<RedisResult<_>>()?;
        // Its host is that of a sentinel until the sentinels are asked.
        let first = hosts.split(',').next().unwrap_or(hosts);
        let user = if user.is_empty() { String::new() } else { format!("{user}@") };
        let primary = Server::parse(&format!("{scheme}://{user}{first}/{database}"), files)?;
        let choice = watch::Sender::new(PrimaryChoice::Unclear);
        Ok(Self { sentinels, name: name.to_owned(), choice, primary })
    }

    /// The primary by the word of most sentinels that answer: one that is cut off from the others may still name the last one.
    async fn primary(&self) -> RedisResult<Server> {
        if *self.choice.borrow() == PrimaryChoice::UnderWay {
            return Err(std::io::Error::other("the sentinels have begun a failover").into());
        }
        let address = self.ask().await?;
        Ok(Server { address, choice: Some(self.choice.subscribe()), ..self.primary.clone() })
    }

    /// Asks the sentinels, and makes what they say the choice, unless a failover has begun.
    pub(super) async fn ask(&self) -> RedisResult<ServerAddress> {
        let votes = self.votes().await;
        let made = votes.as_ref().map_or(PrimaryChoice::Unclear, |votes| votes.choice.clone());
        self.choice.send_if_modified(|choice| {
            let changes = *choice != made && *choice != PrimaryChoice::UnderWay;
            if changes {
                *choice = made;
            }
            changes
        });
        votes.map(|votes| votes.address)
    }

    /// What the sentinels say that answer in time.
    pub(super) async fn votes(&self) -> RedisResult<Votes> {
        let mut named: Vec<ServerAddress> = Vec::new();
        let mut problem = timed_out("no sentinel answered in time");
        let mut answers: FuturesUnordered<_> = self.sentinels.iter().map(|one| self.ask_one(one)).collect();
        let is_majority = |votes: usize| votes > self.sentinels.len() / 2;
        let voting = async {
            while let Some(answer) = answers.next().await {
                let address = match answer {
                    Ok(address) => address,
                    Err(error) => {
                        problem = error;
                        continue;
                    }
                };
                named.push(address);
                if is_majority(votes(&named, named.last())) {
                    return;
                }
            }
        };
        // Those that have answered by then decide.
        drop(timeout(SENTINEL_TIMEOUT, voting).await);
        let address = named.iter().max_by_key(|address| votes(&named, Some(address))).cloned().ok_or(problem)?;
        let is_made = is_majority(votes(&named, Some(&address)));
        let choice = if is_made { PrimaryChoice::Made(address.clone()) } else { PrimaryChoice::Unclear };
        Ok(Votes { address, choice })
    }

    async fn ask_one(&self, sentinel: &Server) -> RedisResult<ServerAddress> {
        let mut connection = sentinel.connect(ProtocolVersion::RESP2, AsyncConnectionConfig::new()).await?;
        let mut ask = cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let answer: RedisResult<Option<(String, u16)>> = ask.query_async(&mut connection.commands).await;
        let answer = answer.map_err(|error| match error.detail() {
            Some(said) if said.contains("unknown command") => {
                misconfigured(format!("{sentinel} is no sentinel; correct `url`, or begin it with `redis://`"))
            }
            _ => error,
        })?;
        let (host, port) = answer.ok_or_else(|| {
            misconfigured(format!("the sentinel {sentinel} watches nothing by the name `{}`; correct `url`", self.name))
        })?;
        Ok(ServerAddress::Tcp(host, port))
    }
}

/// How many sentinels name the address.
fn votes(named: &[ServerAddress], address: Option<&ServerAddress>) -> usize {
    named.iter().filter(|other| Some(*other) == address).count()
}

/// Sentinels take a while to notice that a primary is one no more.
async fn refuse_replica(server: &Server, connection: &Connection) -> RedisResult<()> {
    let role: Vec<Value> = cmd("ROLE").query_async(&mut connection.commands.clone()).await?;
    if role.first() == Some(&Value::BulkString(b"master".to_vec())) {
        return Ok(());
    }
    let problem = format!("the sentinels name {server}, which is no primary: a failover is under way");
    Err(std::io::Error::other(problem).into())
}

fn has_port(host: &str) -> bool {
    // Behind the bracket of an IPv6 address.
    host.rsplit_once(']').map_or(host, |(_, port)| port).contains(':')
}

fn bad(problem: &'static str) -> RedisError {
    (ErrorKind::InvalidClientConfig, problem).into()
}

impl fmt::Display for Topology {
    /// Without users and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(server) => server.fmt(f),
            Self::Sentinels(watched, _) => {
                let Sentinels { sentinels, name, .. } = &**watched;
                let hosts: Vec<_> = sentinels.iter().map(ToString::to_string).collect();
                write!(f, "{name} by the sentinels {}", hosts.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> RedisResult<Topology> {
        Topology::parse(url, &RedisTls::default())
    }

    #[test]
    fn an_address_names_sentinels_and_what_they_watch() {
        let url = "redis+sentinel://me:pw@h1,h2:7000,[::1]/main/3?sentinel-user=s&sentinel-password=a%40b";
        let Topology::Sentinels(watched, _) = parse(url).unwrap() else { panic!("{url}") };
        let Sentinels { sentinels, name, primary, .. } = &*watched;
        let addresses: Vec<_> = sentinels.iter().map(|sentinel| sentinel.address.clone()).collect();
        assert_eq!(
            addresses,
            [("h1", 26379), ("h2", 7000), ("::1", 26379)].map(|(h, p)| ServerAddress::Tcp(h.into(), p))
        );
        assert_eq!((name.as_str(), primary.settings.db()), ("main", 3));
        assert_eq!((primary.settings.username(), primary.settings.password()), (Some("me"), Some("pw")));
        let settings = &sentinels[0].settings;
        assert_eq!((settings.username(), settings.password()), (Some("s"), Some("a@b")));
        let shown = parse(url).unwrap().to_string();
        assert_eq!(shown, "main by the sentinels h1:26379, h2:7000, [::1]:26379");
    }

    #[test]
    fn addresses_of_sentinels_that_make_no_sense_are_refused() {
        for url in [
            "redis+sentinel://h1,h2",
            "redis+sentinel:///main",
            "redis+sentinel://h1/main/x",
            "redis+sentinel://h1/main?password=x",
            "redis+sentinel://h1:x/main",
        ] {
            assert!(parse(url).is_err(), "{url}");
        }
    }
}
