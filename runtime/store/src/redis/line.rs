//! Connections that are subscribed to channels, and say when one is broken.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::{AsyncConnectionConfig, Msg, ProtocolVersion, PushInfo, PushKind, RedisResult, cmd};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::error::timed_out;
use super::link::{Link, Servers};
use super::server::{CONNECT_TIMEOUT, Connection};
use super::server_link::ServerLink;

/// How often a quiet connection is asked whether it is still there: a half-open one would be silent for ever.
const PING_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Line {
    /// One to each server that has channels of ours.
    connections: Vec<Connection>,
    broken: Arc<Notify>,
    overflowed: Arc<Notify>,
}

/// Why a line has something to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Broken,
    /// Somebody had no room for a message.
    Overflowed,
}

impl Link {
    /// Calls `hear` with each message and its channel, from now on. It must not wait; false: there was no room.
    ///
    /// In a cluster, a message on a channel of all tenants comes from each server, and so several times.
    ///
    /// RESP3, because there messages come as pushes beside replies, so that the same connection can be pinged.
    pub(super) async fn subscribe(
        &self,
        channels: &[String],
        hear: impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static,
    ) -> RedisResult<Line> {
        let (broken, overflowed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let hear = Arc::new(hear);
        let config = || {
            let receiver = receiver(Arc::clone(&broken), Arc::clone(&overflowed), Arc::clone(&hear));
            AsyncConnectionConfig::new().set_push_sender(receiver)
        };
        let connect = async {
            let connections = match &self.servers {
                Servers::One(server) => vec![subscribe(server, config(), channels).await?],
                Servers::Cluster(cluster) => {
                    let parts = cluster.by_listening(channels).await?;
                    try_join_all(parts.iter().map(|(server, channels)| subscribe(server, config(), channels))).await?
                }
            };
            Ok(Line { connections, broken: Arc::clone(&broken), overflowed: Arc::clone(&overflowed) })
        };
        timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| Err(timed_out("subscribing took too long")))
    }
}

impl Line {
    /// Waits until there is something wrong. Cancel-safe.
    pub(super) async fn trouble(&mut self) -> Trouble {
        loop {
            tokio::select! {
                () = self.broken.notified() => return Trouble::Broken,
                () = self.overflowed.notified() => return Trouble::Overflowed,
                () = sleep(PING_EVERY) => {
                    for connection in &mut self.connections {
                        if cmd("PING").exec_async(&mut connection.commands).await.is_err() {
                            return Trouble::Broken;
                        }
                    }
                }
            }
        }
    }
}

async fn subscribe(server: &ServerLink, config: AsyncConnectionConfig, channels: &[String]) -> RedisResult<Connection> {
    let (_, mut connection) = server.topology.connect(ProtocolVersion::RESP3, config).await?;
    connection.commands.subscribe(channels).await?;
    Ok(connection)
}

/// What the connection calls for every push.
fn receiver(
    broken: Arc<Notify>,
    overflowed: Arc<Notify>,
    hear: Arc<impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static>,
) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
    move |push| {
        if push.kind == PushKind::Disconnection {
            broken.notify_one();
        } else if let Some(message) = Msg::from_push_info(push)
            && !hear(message.get_channel_name(), message.get_payload_bytes())
        {
            overflowed.notify_one();
        }
        Ok(())
    }
}
