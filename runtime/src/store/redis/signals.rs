//! Wake-ups over publish/subscribe, on a connection of their own.
//!
//! Redis forgets messages that nobody hears, so every gap ends with [`Signal::Lost`]: after a reconnect, and when the
//! receiver was too slow.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Msg, ProtocolVersion, PushInfo, PushKind, RedisError, RedisResult, cmd};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::clock::wait;
use super::error::timed_out;
use super::link::{CONNECT_TIMEOUT, Link, RESPONSE_TIMEOUT};
use super::store::RedisStore;
use crate::job::{Name, TopicId};
use crate::store::{Signal, StoreError};

/// How many signals may wait for the receiver. One that is further behind had better look for itself.
const WAITING: usize = 1024;

/// How often a quiet connection is asked whether it is still there: a half-open one would be silent for ever.
const PING_EVERY: Duration = Duration::from_secs(10);

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What a channel is about.
#[derive(Debug)]
enum Channel {
    Wake(Name),
    Done(Name),
}

/// Listens for one receiver, for as long as it is there.
struct Listener {
    link: Arc<Link>,
    channels: Arc<HashMap<String, Channel>>,
    signals: mpsc::Sender<Signal>,
}

/// A connection that is subscribed to all channels.
struct Line {
    connection: MultiplexedConnection,
    broken: Arc<Notify>,
    overflowed: Arc<Notify>,
}

impl RedisStore {
    pub(super) async fn listen(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
        let channels = tenants.iter().flat_map(|tenant| {
            let keys = self.keys(tenant);
            [(keys.wake_channel(), Channel::Wake(tenant.clone())), (keys.done_channel(), Channel::Done(tenant.clone()))]
        });
        let (signals, receiver) = mpsc::channel(WAITING);
        let listener = Listener { link: Arc::clone(&self.link), channels: Arc::new(channels.collect()), signals };
        if !listener.channels.is_empty() {
            let line = listener.subscribe().await.map_err(self.misread("subscribe to signals"))?;
            tokio::spawn(listener.listen(line));
        }
        Ok(receiver)
    }
}

impl Listener {
    /// Ends when the receiver is dropped.
    async fn listen(self, mut line: Line) {
        while self.until_broken(&mut line).await {
            tracing::warn!(store = %self.link.address, "lost the connection for signals; reconnecting");
            let Some(again) = self.reconnect().await else { return };
            line = again;
            if self.signals.send(Signal::Lost).await.is_err() {
                return;
            }
        }
    }

    /// True: the connection is broken. False: nobody listens any more.
    async fn until_broken(&self, line: &mut Line) -> bool {
        loop {
            tokio::select! {
                () = self.signals.closed() => return false,
                () = line.broken.notified() => return true,
                () = line.overflowed.notified() => {
                    // Waits for room; what arrives meanwhile is dropped, and is among what is lost.
                    if self.signals.send(Signal::Lost).await.is_err() {
                        return false;
                    }
                }
                () = sleep(PING_EVERY) => {
                    if cmd("PING").exec_async(&mut line.connection).await.is_err() {
                        return true;
                    }
                }
            }
        }
    }

    /// None: nobody listens any more. Tries at once, then after pauses that double up to [`LONGEST_PAUSE`], each shortened
    /// by up to half at random, so that a hundred runners do not come back in step.
    async fn reconnect(&self) -> Option<Line> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.subscribe().await {
                Ok(line) => return Some(line),
                Err(error) => tracing::debug!(store = %self.link.address, %error, "no connection for signals yet"),
            }
            tokio::select! {
                () = self.signals.closed() => return None,
                () = sleep(pause.mul_f64(1.0 - fastrand::f64() / 2.0)) => {}
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// RESP3, because there messages come as pushes beside replies, so that the same connection can be pinged.
    async fn subscribe(&self) -> RedisResult<Line> {
        let info = self.link.client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = redis::Client::open(info.set_redis_settings(settings))?;
        let (broken, overflowed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_push_sender(self.receiver(Arc::clone(&broken), Arc::clone(&overflowed)));
        let connect = async {
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            connection.subscribe(self.channels.keys().collect::<Vec<_>>()).await?;
            Ok::<_, RedisError>(Line { connection, broken, overflowed })
        };
        timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| Err(timed_out("subscribing took too long")))
    }

    /// What the connection calls for every push. It must not wait, so a full queue is only noted.
    fn receiver(
        &self,
        broken: Arc<Notify>,
        overflowed: Arc<Notify>,
    ) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let (channels, signals) = (Arc::clone(&self.channels), self.signals.downgrade());
        move |push| {
            if push.kind == PushKind::Disconnection {
                broken.notify_one();
                return Ok(());
            }
            let signal = Msg::from_push_info(push)
                .and_then(|message| read(channels.get(message.get_channel_name())?, message.get_payload_bytes()));
            if let (Some(signal), Some(signals)) = (signal, signals.upgrade())
                && let Err(TrySendError::Full(_)) = signals.try_send(signal)
            {
                overflowed.notify_one();
            }
            Ok(())
        }
    }
}

/// None for what is not ours.
fn read(channel: &Channel, message: &[u8]) -> Option<Signal> {
    let message = std::str::from_utf8(message).ok()?;
    match channel {
        Channel::Done(tenant) => Some(Signal::Finished(tenant.clone(), message.parse().ok()?)),
        Channel::Wake(tenant) => match message.split_once(' ')? {
            ("ready", topic) => Some(Signal::Ready(TopicId { tenant: tenant.clone(), topic: topic.parse().ok()? })),
            ("due", text) => Some(Signal::Due(tenant.clone(), wait(text)?)),
            ("cancel", id) => Some(Signal::Cancelled(tenant.clone(), id.parse().ok()?)),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let tenant: Name = "acme".parse().unwrap();
        let (wake, done) = (Channel::Wake(tenant.clone()), Channel::Done(tenant.clone()));
        assert_eq!(read(&wake, b"ready mail"), Some(Signal::Ready("acme/mail".parse().unwrap())));
        assert_eq!(read(&wake, b"due 1500"), Some(Signal::Due(tenant.clone(), Duration::from_millis(1500))));
        assert_eq!(read(&wake, b"cancel j1"), Some(Signal::Cancelled(tenant.clone(), "j1".parse().unwrap())));
        assert_eq!(read(&done, b"j1"), Some(Signal::Finished(tenant, "j1".parse().unwrap())));
        for noise in [&b"ready"[..], b"due soon", b"ready {", b"other x", b"\xff"] {
            assert_eq!(read(&wake, noise), None);
        }
    }
}
