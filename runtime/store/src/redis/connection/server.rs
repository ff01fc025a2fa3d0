//! One server, as an address names it, and how a connection to it is made.

use std::future::{pending, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ErrorKind, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    RedisError, RedisResult, cmd,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::commands::Commands;
use super::error::{TOO_MANY_CLIENTS, misconfigured, timed_out};
use super::timeout::timeout;
use super::tls::{Tls, speaks_tls};
use gristmill_config::RedisTls;

/// Name lookup, TCP, TLS and greeting together.
pub(in crate::redis) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A server without TLS waits for the rest of what it takes for a command. Leaves time to find out that it does.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a quiet connection is asked whether it is still there: a half-open one would be silent for ever.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Where a server is, and how to greet it.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Server {
    pub(in crate::redis) address: ServerAddress,
    /// The user, the password and the database.
    pub(in crate::redis) settings: RedisConnectionInfo,
    pub(in crate::redis) tls: Option<Arc<Tls>>,
    /// Set for a primary that sentinels name: its connections end when they choose another one.
    pub(in crate::redis) choice: Option<watch::Receiver<PrimaryChoice>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redis) enum ServerAddress {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// Which server takes the writes, by the last word of the sentinels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redis) enum PrimaryChoice {
    /// No majority names one.
    Unclear,
    Made(ServerAddress),
    /// A failover has begun.
    UnderWay,
}

impl PrimaryChoice {
    /// Whether a connection to the server may stay.
    pub(in crate::redis) fn allows(&self, server: &ServerAddress) -> bool {
        match self {
            Self::Unclear => true,
            Self::Made(primary) => primary == server,
            Self::UnderWay => false,
        }
    }
}

/// A connection, with the task that reads and writes it. Both end together.
#[derive(Debug)]
pub(in crate::redis) struct Connection {
    pub(in crate::redis) commands: Commands,
    task: AbortOnDropHandle<()>,
}

impl Connection {
    pub(in crate::redis) fn is_open(&self) -> bool {
        !self.task.is_finished()
    }

    /// Waits until it is no longer open, or does not answer. Cancel-safe.
    pub(in crate::redis) async fn broken(&mut self) {
        loop {
            tokio::select! {
                () = poll_fn(|context| self.poll_ended(context)) => return,
                () = sleep(PING_EVERY) => {
                    if cmd("PING").exec_async(&mut self.commands).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // A task that was ready once must not be polled again.
        if self.is_open() { Pin::new(&mut self.task).poll(context).map(drop) } else { Poll::Ready(()) }
    }
}

impl Server {
    /// Reads `redis://[[user]:password@]host[:port][/db]`, the same with `rediss`, or `redis+unix:///path`.
    ///
    /// # Errors
    /// It is none of them, or makes no sense.
    pub(in crate::redis) fn parse(url: &str, files: &RedisTls) -> RedisResult<Self> {
        let plain = url.strip_prefix("rediss://").map(|rest| format!("redis://{rest}"));
        let info = plain.as_deref().unwrap_or(url).into_connection_info()?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) => ServerAddress::Tcp(host.clone(), *port),
            ConnectionAddr::Unix(path) => ServerAddress::Unix(path.clone()),
            _ => return Err((ErrorKind::InvalidClientConfig, "it is no host and no socket").into()),
        };
        let tls = plain.map(|_| Arc::new(Tls::new(files.clone())));
        Ok(Self { address, settings: info.redis_settings().clone(), tls, choice: None })
    }

    /// Connects and logs in. Takes at most [`CONNECT_TIMEOUT`] for each.
    ///
    /// # Errors
    /// - Of the kind [`ErrorKind::InvalidClientConfig`] for what an operator has to change, with the remedy.
    /// - Any other: nothing answers there, or not as a Redis does, or the password is wrong.
    pub(in crate::redis) async fn connect(
        &self,
        protocol: ProtocolVersion,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Connection> {
        let (host, port) = match &self.address {
            ServerAddress::Unix(path) => {
                return match self.greet(UnixStream::connect(path).await?, protocol, config).await {
                    Err(error) => Err(self.explain_end(error).await),
                    greeted => greeted,
                };
            }
            ServerAddress::Tcp(host, port) => (host, *port),
        };
        let stream = open(host, port).await?;
        let Some(tls) = &self.tls else {
            let greeted = self.greet(stream, protocol, config).await;
            return match greeted {
                Err(error) if broke_off(&error) && speaks_tls(host, open(host, port).await?).await => {
                    Err(misconfigured(format!("{self} speaks TLS; begin `url` with `rediss://`")))
                }
                Err(error) => Err(self.explain_end(error).await),
                greeted => greeted,
            };
        };
        let handshake = timeout(HANDSHAKE_TIMEOUT, tls.connect(host, stream));
        match handshake.await.unwrap_or_else(|_| Err(timed_out("the TLS handshake took too long"))) {
            Ok(stream) => self.greet(stream, protocol, config).await.map_err(|error| self.explain_alert(error)),
            Err(error) if error.is_io_error() && speaks_plainly(open(host, port).await?).await => {
                Err(misconfigured(format!("{self} does not speak TLS; begin `url` with `redis://`")))
            }
            Err(error) => Err(error),
        }
    }

    async fn greet<S>(
        &self,
        stream: S,
        protocol: ProtocolVersion,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Connection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let settings = self.settings.clone().set_protocol(protocol);
        let config = config.set_response_timeout(None);
        let (commands, task) = MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        let left = left(self.address.clone(), self.choice.clone());
        // Calls that it has not answered by then fail as if the server had closed the connection.
        let task = async move {
            tokio::select! {
                () = task => {}
                () = left => {}
            }
        };
        Ok(Connection { commands: Commands(commands), task: AbortOnDropHandle::new(tokio::spawn(task)) })
    }

    /// Finds out for a connection that the server has ended whether it takes no further client. The server sends that to each
    /// client as it comes. A client that has sent something by then may not receive it.
    pub(in crate::redis) async fn explain_end(&self, error: RedisError) -> RedisError {
        if !error.is_connection_dropped() {
            return error;
        }
        let mut said = [0; 64];
        let listen = async {
            match &self.address {
                ServerAddress::Unix(path) => UnixStream::connect(path).await?.read(&mut said).await,
                ServerAddress::Tcp(host, port) => open(host, *port).await?.read(&mut said).await,
            }
        };
        let answered = matches!(timeout(HANDSHAKE_TIMEOUT / 2, listen).await, Ok(Ok(_)));
        if answered && String::from_utf8_lossy(&said).contains(TOO_MANY_CLIENTS) {
            return io::Error::other(TOO_MANY_CLIENTS).into();
        }
        error
    }

    /// A server says only after the handshake that it wants another certificate.
    fn explain_alert(&self, error: RedisError) -> RedisError {
        match error.to_string().split_once("received fatal alert: ") {
            Some((_, alert)) => misconfigured(format!(
                "{self} refuses this client's certificate ({alert}); set `certificate` and `key` in [store.tls] to a pair that it accepts"
            )),
            None => error,
        }
    }
}

impl fmt::Display for Server {
    /// Without the user and the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss://" } else { "" };
        write!(f, "{scheme}{}", self.address)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Waits until the server at the address is not the primary any more, or is about to be none.
async fn left(address: ServerAddress, choice: Option<watch::Receiver<PrimaryChoice>>) {
    let Some(mut choice) = choice else { return pending().await };
    if choice.wait_for(|choice| !choice.allows(&address)).await.is_err() {
        pending().await
    }
}

/// Connects to whichever of the host's addresses answers first.
async fn open(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = lookup_host((host, port)).await?.map(|address| Box::pin(TcpStream::connect(address)));
    let addresses: Vec<_> = addresses.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
    }
    let (stream, _) = select_ok(addresses).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whether the server closed the connection in the midst of its greeting.
fn broke_off(error: &RedisError) -> bool {
    error.is_connection_dropped() || error.kind() == ErrorKind::Parse
}

/// Whether the server answers a command that was sent without TLS.
async fn speaks_plainly(mut stream: TcpStream) -> bool {
    let ask = async {
        stream.write_all(b"PING\r\n").await?;
        stream.read_u8().await
    };
    matches!(timeout(HANDSHAKE_TIMEOUT / 2, ask).await, Ok(Ok(b'+' | b'-')))
}
