//! Connections that are subscribed to channels, and report when one is broken.

use std::future::pending;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use redis::{AsyncConnectionConfig, Msg, ProtocolVersion, PushInfo, RedisResult};
use tokio::sync::{Notify, watch};

use super::error::timed_out;
use super::link::{Link, Servers};
use super::server::{CONNECT_TIMEOUT, Connection};
use super::server_link::ServerLink;
use super::slots::{Origin, SlotMap};
use super::timeout::timeout;

/// A subscription to channels, on all servers that have some of them.
pub(in crate::redis) struct ChannelSubscription {
    /// One to each server that has channels of ours.
    connections: Vec<Connection>,
    overflowed: Arc<Notify>,
    /// Set in a cluster.
    cluster: Option<Listened>,
}

/// Where in a cluster a subscription listens.
struct Listened {
    channels: Vec<String>,
    servers: Vec<Arc<ServerLink>>,
    map: watch::Receiver<Option<Arc<SlotMap>>>,
}

/// Why [`ChannelSubscription::trouble`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Trouble {
    Broken,
    /// The channels are at other servers now.
    Moved,
    /// A receiver had no room for a message.
    Overflowed,
}

impl Link {
    /// Calls `receive` with each message, its channel and the server that it came from, from now on. It must not wait; false: there was no room.
    ///
    /// In a cluster, a message on a channel of all tenants comes from each server, and so several times.
    ///
    /// RESP3, because there messages come as pushes beside replies, so that the same connection can be pinged.
    pub(in crate::redis) async fn subscribe(
        &self,
        channels: &[String],
        receive: impl Fn(&str, &[u8], &Origin) -> bool + Send + Sync + 'static,
    ) -> RedisResult<ChannelSubscription> {
        let overflowed = Arc::new(Notify::new());
        let receive = Arc::new(receive);
        let config = |origin: Origin| {
            let receiver = receiver(Arc::clone(&overflowed), Arc::clone(&receive), origin);
            AsyncConnectionConfig::new().set_push_sender(receiver)
        };
        let connect = async {
            let (connections, listened) = match &self.servers {
                Servers::One(server) => (vec![subscribe(server, config(Origin::Alone), channels).await?], None),
                Servers::Cluster(cluster) => {
                    let map = cluster.map.subscribe();
                    let parts = cluster.map().await?.by_listening(channels);
                    let origin = |server| Origin::OneOf(Arc::clone(server), Arc::clone(&cluster.map));
                    let subscribing =
                        parts.iter().map(|(server, channels)| subscribe(server, config(origin(server)), channels));
                    let connections = try_join_all(subscribing).await?;
                    let servers = parts.into_iter().map(|(server, _)| server).collect();
                    (connections, Some(Listened { channels: channels.into(), servers, map }))
                }
            };
            Ok(ChannelSubscription { connections, overflowed: Arc::clone(&overflowed), cluster: listened })
        };
        timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| Err(timed_out("subscribing took too long")))
    }
}

impl ChannelSubscription {
    /// Waits until there is something wrong. Cancel-safe.
    pub(in crate::redis) async fn trouble(&mut self) -> Trouble {
        tokio::select! {
            () = one_broken(&mut self.connections) => Trouble::Broken,
            () = self.overflowed.notified() => Trouble::Overflowed,
            () = moved(self.cluster.as_mut()) => Trouble::Moved,
        }
    }
}

/// Waits until one of them is broken. Cancel-safe.
async fn one_broken(connections: &mut [Connection]) {
    let mut each: FuturesUnordered<_> = connections.iter_mut().map(Connection::broken).collect();
    if each.next().await.is_none() {
        pending().await
    }
}

/// Waits until the channels are at other servers than those that are listened to. Cancel-safe.
async fn moved(cluster: Option<&mut Listened>) {
    let Some(Listened { channels, servers, map }) = cluster else { return pending().await };
    while map.changed().await.is_ok() {
        let now = map.borrow_and_update().as_ref().map(|map| map.by_listening(channels)).unwrap_or_default();
        let is_listened_to = |server: &Arc<ServerLink>| servers.iter().any(|one| Arc::ptr_eq(one, server));
        if now.len() != servers.len() || !now.iter().all(|(server, _)| is_listened_to(server)) {
            return;
        }
    }
    pending().await
}

async fn subscribe(server: &ServerLink, config: AsyncConnectionConfig, channels: &[String]) -> RedisResult<Connection> {
    let (_, mut connection) = server.topology.connect(ProtocolVersion::RESP3, config).await?;
    connection.commands.subscribe(channels).await?;
    Ok(connection)
}

/// What the connection calls for every push.
fn receiver(
    overflowed: Arc<Notify>,
    receive: Arc<impl Fn(&str, &[u8], &Origin) -> bool + Send + Sync + 'static>,
    origin: Origin,
) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
    move |push| {
        if let Some(message) = Msg::from_push_info(push)
            && !receive(message.get_channel_name(), message.get_payload_bytes(), &origin)
        {
            overflowed.notify_one();
        }
        Ok(())
    }
}
