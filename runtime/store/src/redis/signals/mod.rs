//! Wake-ups over publish/subscribe, on a connection of their own.
//!
//! Redis drops messages that no connection receives, so every gap ends with [`Signal::Lost`]: after a reconnect, and when the
//! receiver was too slow.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, interval_at, sleep};

use super::clock::wait;
use super::connection::slots::Origin;
use super::connection::subscription::{ChannelSubscription, Trouble};
use super::key_names::{Keys, runner_channel, runners_channel};
use super::partitions::RedisStore;
use super::script::{Call, script};
use super::store::{CALLS_AT_ONCE, Partition, SCRIPT_JOBS, by_tenant};
use crate::clock::wait_ms;
use crate::{Signal, Signals, StoreError};
use gristmill_core::job::{Name, TopicId, WorkerId};

/// How many signals may wait for the receiver. One that is further behind had better look for itself.
const WAITING: usize = 1024;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often a runner that goes on waiting for its topics says so.
const WAIT_AGAIN: Duration = Duration::from_secs(3600);
/// A runner that has not said so for this long is gone.
const GONE_AFTER: Duration = Duration::from_secs(3 * 3600);

/// What a channel is about.
#[derive(Debug)]
enum Channel {
    Wake(Name),
    Done(Name),
    /// All tenants' news for runners, for one of them or for all.
    Runner,
}

/// Listens for one receiver, for as long as it is there.
struct Listener {
    store: RedisStore,
    channels: Arc<HashMap<String, Channel>>,
    /// What a runner waits for, if it is one that listens.
    waits: Option<Waits>,
    signals: mpsc::Sender<Signal>,
}

/// The channel that wakes a runner, and the topics that it waits for.
struct Waits {
    channel: String,
    topics: Vec<TopicId>,
}

#[async_trait]
impl Signals for RedisStore {
    async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
        let channels = tenants.iter().flat_map(|tenant| {
            let keys = Keys::new(&self.server.prefix, tenant, 0);
            [(keys.wake_channel(), Channel::Wake(tenant.clone())), (keys.done_channel(), Channel::Done(tenant.clone()))]
        });
        self.listen(channels.collect(), None).await
    }
}

impl RedisStore {
    /// What [`FindWork::wake_ups`](crate::FindWork::wake_ups) promises.
    pub(super) async fn wake(
        &self,
        worker: &WorkerId,
        topics: &[TopicId],
    ) -> Result<mpsc::Receiver<Signal>, StoreError> {
        let channel = runner_channel(&self.server.prefix, worker);
        let channels = [(channel.clone(), Channel::Runner), (runners_channel(&self.server.prefix), Channel::Runner)];
        // Before the worker waits for the first time, so that a claim of the same moment has it wait again.
        self.server.woken.lock().insert(worker.clone());
        self.listen(channels.into(), Some(Waits { channel, topics: topics.into() })).await
    }

    async fn listen(
        &self,
        channels: HashMap<String, Channel>,
        waits: Option<Waits>,
    ) -> Result<mpsc::Receiver<Signal>, StoreError> {
        let (signals, receiver) = mpsc::channel(WAITING);
        let listener = Listener { store: self.clone(), channels: Arc::new(channels), waits, signals };
        if !listener.channels.is_empty() {
            let subscription = listener.subscribe().await?;
            tokio::spawn(listener.listen(subscription));
        }
        Ok(receiver)
    }
}

impl Listener {
    /// Ends when the receiver is dropped.
    async fn listen(self, mut subscription: ChannelSubscription) {
        while self.until_broken(&mut subscription).await {
            let Some(again) = self.reconnect().await else { return };
            subscription = again;
            if self.signals.send(Signal::Lost).await.is_err() {
                return;
            }
        }
    }

    /// Waits until there must be another subscription. Returns `false` if nothing listens any more.
    async fn until_broken(&self, subscription: &mut ChannelSubscription) -> bool {
        let mut again = interval_at(Instant::now() + WAIT_AGAIN, WAIT_AGAIN);
        loop {
            let trouble = tokio::select! {
                () = self.signals.closed() => return false,
                trouble = subscription.trouble() => trouble,
                _ = again.tick() => {
                    if let Err(error) = self.wait().await {
                        tracing::debug!(store = %self.store.server.link.address, error = %anyhow::Error::from(error), "failed to wait for jobs again");
                    }
                    continue;
                }
            };
            match trouble {
                Trouble::Broken => {
                    tracing::warn!(store = %self.store.server.link.address, "lost the connection for signals; reconnecting");
                    return true;
                }
                Trouble::Moved => return true,
                Trouble::Overflowed => {}
            }
            // Waits for room; what arrives meanwhile is dropped, and is among what is lost.
            if self.signals.send(Signal::Lost).await.is_err() {
                return false;
            }
        }
    }

    /// Returns `None` if the receiver is gone. Tries at once, then after pauses that double up to [`LONGEST_PAUSE`], each shortened
    /// by up to half at random, so that a hundred runners do not come back in step.
    async fn reconnect(&self) -> Option<ChannelSubscription> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.subscribe().await {
                Ok(subscription) => return Some(subscription),
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    tracing::debug!(store = %self.store.server.link.address, "no connection for signals yet: {error:#}");
                }
            }
            tokio::select! {
                () = self.signals.closed() => return None,
                () = sleep(pause.mul_f64(1.0 - fastrand::f64() / 2.0)) => {}
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    async fn subscribe(&self) -> Result<ChannelSubscription, StoreError> {
        const DOING: &str = "subscribe to signals";
        let (channels, signals) = (Arc::clone(&self.channels), self.signals.downgrade());
        let prefix = Arc::clone(&self.store.server.prefix);
        let receive = move |channel: &str, message: &[u8], origin: &Origin| {
            let is_first = |tenant: &Name| origin.has(&Keys::new(&prefix, tenant, 0).wake_channel());
            let signal = channels.get(channel).and_then(|channel| read(channel, message, is_first));
            let (Some(signal), Some(signals)) = (signal, signals.upgrade()) else { return true };
            !matches!(signals.try_send(signal), Err(TrySendError::Full(_)))
        };
        let subscription =
            self.store.server.link.subscribe(&self.channels.keys().cloned().collect::<Vec<_>>(), receive).await;
        let subscription = subscription.map_err(self.store.server.misread(DOING))?;
        // Only now: one that waits and does not listen is passed over for good.
        self.wait().await?;
        Ok(subscription)
    }

    /// Has the runner wait for its topics.
    async fn wait(&self) -> Result<(), StoreError> {
        let Some(Waits { channel, topics }) = &self.waits else { return Ok(()) };
        let map = self.store.map().await?;
        let waits = self.store.ask_partitions(
            topics,
            |topic| map.of_topic(topic),
            |partition, topics| async move { partition.wait_for(channel, &topics).await },
        );
        waits.await.into_iter().try_for_each(|part| part.answer)
    }
}

impl Partition {
    /// Has the runner that listens to the channel wait for the topics.
    async fn wait_for(&self, channel: &str, topics: &[TopicId]) -> Result<(), StoreError> {
        for topics in topics.chunks(SCRIPT_JOBS * CALLS_AT_ONCE) {
            let mut calls = Vec::new();
            for (tenant, group) in by_tenant(topics, |topic| &topic.tenant) {
                let keys = self.keys(tenant);
                for group in group.chunks(SCRIPT_JOBS) {
                    let waiters: Vec<String> = group.iter().map(|(_, topic)| keys.waiters(&topic.topic)).collect();
                    let mut call = Call::new(script!("signals/wait_for_topics.lua"), &waiters);
                    call.arg(self.now_argument()).arg(channel).arg(wait_ms(GONE_AFTER));
                    calls.push(call);
                }
            }
            self.link.run("wait for jobs", calls).await?;
        }
        Ok(())
    }
}

/// Returns `None` for what is not ours, and for news of a tenant that another server of a cluster also passes on.
fn read(channel: &Channel, message: &[u8], is_first: impl Fn(&Name) -> bool) -> Option<Signal> {
    let message = std::str::from_utf8(message).ok()?;
    match channel {
        Channel::Done(tenant) => Some(Signal::Finished { tenant: tenant.clone(), id: message.parse().ok()? }),
        Channel::Wake(tenant) => {
            let (what, of) = message.split_once(' ')?;
            read_news(what, tenant.clone(), of)
        }
        Channel::Runner => {
            let (what, rest) = message.split_once(' ')?;
            let (tenant, of) = rest.split_once(' ')?;
            let tenant = tenant.parse().ok().filter(is_first)?;
            read_news(what, tenant, of)
        }
    }
}

fn read_news(what: &str, tenant: Name, of: &str) -> Option<Signal> {
    match what {
        "ready" => Some(Signal::Ready(TopicId { tenant, topic: of.parse().ok()? })),
        "due" => Some(Signal::Due { tenant, wait: wait(of)? }),
        "cancel" => Some(Signal::Cancelled { tenant, id: of.parse().ok()? }),
        "deployed" => Some(Signal::Deployed(TopicId { tenant, topic: of.parse().ok()? })),
        "kill" => Some(Signal::Killed { tenant, id: of.parse().ok()? }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_message_is_recognised() {
        let tenant: Name = "acme".parse().unwrap();
        let read = |channel: &Channel, message: &[u8]| read(channel, message, |_| true);
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
        assert_eq!(read(&Channel::Runner, b"ready acme mail"), read(&wake, b"ready mail"));
        assert_eq!(read(&Channel::Runner, b"due acme 7.5"), read(&wake, b"due 7.5"));
        assert_eq!(read(&Channel::Runner, b"cancel acme j1"), read(&wake, b"cancel j1"));
        let killed = Some(Signal::Killed { tenant: tenant.clone(), id: "j1".parse().unwrap() });
        assert_eq!((read(&wake, b"kill j1"), read(&Channel::Runner, b"kill acme j1")), (killed.clone(), killed));
        assert_eq!(read(&Channel::Runner, b"deployed acme mail"), Some(Signal::Deployed("acme/mail".parse().unwrap())));
        assert_eq!(read(&Channel::Runner, b"ready mail"), None);
        assert_eq!(read(&done, b"j1"), Some(Signal::Finished { tenant, id: "j1".parse().unwrap() }));
        for noise in [&b"ready"[..], b"due soon", b"ready {", b"other x", b"\xff"] {
            assert_eq!(read(&wake, noise), None);
        }
    }
}
