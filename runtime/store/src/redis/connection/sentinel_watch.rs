//! Leaves the last primary when the sentinels choose another one. During a failover that an operator asks for, the last primary goes on answering
//! for about ten seconds, and what it still takes is lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, RedisResult};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::error::timed_out;
use super::server::{CONNECT_TIMEOUT, Connection, PrimaryChoice, Server, ServerAddress};
use super::timeout::timeout;
use super::topology::Sentinels;

/// What a sentinel publishes a tenth of a second before it makes another server the primary.
const BEGINS: &str = "+failover-state-send-slaveof-noone";

/// With what a sentinel publishes as it begins to name another primary: the one that leads the failover, and the others.
const CHANNELS: [&str; 3] = [BEGINS, "+failover-state-reconf-slaves", "+switch-master"];

/// How long no primary is taken at most after a failover has begun: it may fail.
const FAILOVER_LIMIT: Duration = Duration::from_secs(5);

/// How long after a failover has begun the sentinels are asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long after a sentinel was out of reach it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What the sentinels have published.
#[derive(Debug, Default)]
struct Published {
    begins: Notify,
    /// Also whatever may have been published before a subscription.
    named: Notify,
}

/// Keeps the choice up to date, for as long as it is polled.
pub(in crate::redis) async fn watch(sentinels: Arc<Sentinels>) {
    let published = Arc::new(Published::default());
    let listen = sentinels.sentinels.iter().map(|sentinel| listen(sentinel, &sentinels.name, &published));
    tokio::join!(follow(&sentinels, &published), join_all(listen));
}

async fn follow(sentinels: &Sentinels, published: &Published) {
    let mut last = None;
    loop {
        tokio::select! {
            () = published.begins.notified() => follow_failover(sentinels).await,
            () = published.named.notified() => {}
        }
        let primary = primary(sentinels).await;
        if last.as_ref().is_some_and(|last| *last != primary) {
            tracing::info!("the sentinels name another primary, {primary}");
        }
        last = Some(primary);
    }
}

/// Waits until most sentinels name the same primary.
async fn primary(sentinels: &Sentinels) -> ServerAddress {
    loop {
        drop(sentinels.ask().await);
        if let PrimaryChoice::Made(primary) = &*sentinels.choice.borrow() {
            return primary.clone();
        }
        sleep(RETRY).await;
    }
}

/// Waits until the sentinels name another primary than the last one, or for [`FAILOVER_LIMIT`].
async fn follow_failover(sentinels: &Sentinels) {
    let last = sentinels.choice.send_replace(PrimaryChoice::UnderWay);
    tracing::info!("the sentinels begin a failover: leaving the primary until they name the next one");
    let named = async {
        let is_another = |choice: PrimaryChoice| choice != PrimaryChoice::Unclear && choice != last;
        while !sentinels.votes().await.is_ok_and(|votes| is_another(votes.choice)) {
            sleep(ASK_AGAIN).await;
        }
    };
    // If it ends without another primary, the last one is taken again.
    drop(timeout(FAILOVER_LIMIT, named).await);
    sentinels.choice.send_replace(PrimaryChoice::Unclear);
}

async fn listen(sentinel: &Server, name: &str, published: &Arc<Published>) {
    let mut is_reported = false;
    loop {
        let subscribing = timeout(CONNECT_TIMEOUT, subscribe(sentinel, name, Arc::clone(published))).await;
        match subscribing.unwrap_or_else(|_| Err(timed_out("subscribing took too long"))) {
            Ok(mut connection) => {
                published.named.notify_one();
                connection.broken().await;
            }
            // One that is out of reach is nothing special as long as others are not.
            Err(error) if error.is_io_error() || is_reported => {}
            Err(error) => {
                is_reported = true;
                tracing::warn!(%sentinel, "the sentinel does not let this process subscribe to failovers: {error}");
            }
        }
        sleep(RETRY).await;
    }
}

async fn subscribe(sentinel: &Server, name: &str, published: Arc<Published>) -> RedisResult<Connection> {
    // Sentinels may watch others, too. The message names the server to be promoted, and behind `@` its primary.
    let primary = format!("@ {name} ");
    let receive = move |push: PushInfo| {
        if push.kind == PushKind::Message
            && let Some(message) = redis::Msg::from_push_info(push)
        {
            if message.get_channel_name() != BEGINS {
                published.named.notify_one();
            } else if String::from_utf8_lossy(message.get_payload_bytes()).contains(&primary) {
                published.begins.notify_one();
            }
        }
        Ok::<_, ()>(())
    };
    let config = AsyncConnectionConfig::new().set_push_sender(receive);
    let mut connection = sentinel.connect(ProtocolVersion::RESP3, config).await?;
    connection.commands.subscribe(&CHANNELS[..]).await?;
    Ok(connection)
}
