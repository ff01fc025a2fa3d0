//! A connection that is subscribed to channels, and says when it is broken.

use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Msg, ProtocolVersion, PushInfo, PushKind, RedisError, RedisResult, cmd};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::error::timed_out;
use super::link::Link;
use super::server::{CONNECT_TIMEOUT, Connection};

/// How often a quiet connection is asked whether it is still there: a half-open one would be silent for ever.
const PING_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Line {
    connection: Connection,
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
    /// RESP3, because there messages come as pushes beside replies, so that the same connection can be pinged.
    pub(super) async fn subscribe(
        &self,
        channels: &[String],
        hear: impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static,
    ) -> RedisResult<Line> {
        let (broken, overflowed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let receiver = receiver(Arc::clone(&broken), Arc::clone(&overflowed), hear);
        let config = AsyncConnectionConfig::new().set_push_sender(receiver);
        let connect = async {
            let (_, mut connection) = self.topology.connect(ProtocolVersion::RESP3, config).await?;
            connection.commands.subscribe(channels).await?;
            Ok::<_, RedisError>(Line { connection, broken, overflowed })
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
                    if cmd("PING").exec_async(&mut self.connection.commands).await.is_err() {
                        return Trouble::Broken;
                    }
                }
            }
        }
    }
}

/// What the connection calls for every push.
fn receiver(
    broken: Arc<Notify>,
    overflowed: Arc<Notify>,
    hear: impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static,
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
