//! Wake-ups over publish/subscribe, on a connection of their own.
//!
//! Redis forgets messages that nobody hears, so every gap ends with [`Signal::Lost`]: after a reconnect, and when the
//! receiver was too slow.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::RedisResult;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::sleep;

use super::clock::wait;
use super::line::{Line, Trouble};
use super::link::Link;
use super::store::RedisStore;
use crate::{Signal, Signals, StoreError};
use gristmill_core::job::{Name, TopicId};

/// How many signals may wait for the receiver. One that is further behind had better look for itself.
const WAITING: usize = 1024;

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

#[async_trait]
impl Signals for RedisStore {
    async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
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
            let trouble = tokio::select! {
                () = self.signals.closed() => return false,
                trouble = line.trouble() => trouble,
            };
            if trouble == Trouble::Broken {
                return true;
            }
            // Waits for room; what arrives meanwhile is dropped, and is among what is lost.
            if self.signals.send(Signal::Lost).await.is_err() {
                return false;
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

    async fn subscribe(&self) -> RedisResult<Line> {
        let (channels, signals) = (Arc::clone(&self.channels), self.signals.downgrade());
        let hear = move |channel: &str, message: &[u8]| {
            let signal = channels.get(channel).and_then(|channel| read(channel, message));
            let (Some(signal), Some(signals)) = (signal, signals.upgrade()) else { return true };
            !matches!(signals.try_send(signal), Err(TrySendError::Full(_)))
        };
        self.link.subscribe(&self.channels.keys().cloned().collect::<Vec<_>>(), hear).await
    }
}

/// None for what is not ours.
fn read(channel: &Channel, message: &[u8]) -> Option<Signal> {
    let message = std::str::from_utf8(message).ok()?;
    match channel {
        Channel::Done(tenant) => Some(Signal::Finished { tenant: tenant.clone(), id: message.parse().ok()? }),
        Channel::Wake(tenant) => match message.split_once(' ')? {
            ("ready", topic) => Some(Signal::Ready(TopicId { tenant: tenant.clone(), topic: topic.parse().ok()? })),
            ("due", text) => Some(Signal::Due { tenant: tenant.clone(), wait: wait(text)? }),
            ("cancel", id) => Some(Signal::Cancelled { tenant: tenant.clone(), id: id.parse().ok()? }),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_message_is_recognised() {
        let tenant: Name = "acme".parse().unwrap();
        let (wake, done) = (Channel::Wake(tenant.clone()), Channel::Done(tenant.clone()));
        assert_eq!(read(&wake, b"ready mail"), Some(Signal::Ready("acme/mail".parse().unwrap())));
        assert_eq!(
            read(&wake, b"due 1500"),
            Some(Signal::Due { tenant: tenant.clone(), wait: Duration::from_millis(1500) })
        );
        assert_eq!(
            read(&wake, b"cancel j1"),
            Some(Signal::Cancelled { tenant: tenant.clone(), id: "j1".parse().unwrap() })
        );
        assert_eq!(read(&done, b"j1"), Some(Signal::Finished { tenant, id: "j1".parse().unwrap() }));
        for noise in [&b"ready"[..], b"due soon", b"ready {", b"other x", b"\xff"] {
            assert_eq!(read(&wake, noise), None);
        }
    }
}
