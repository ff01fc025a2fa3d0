//! Spreads topics over the partitions of Redis servers, as the manifest says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Opened;
use crate::background::Background;
use gristmill_core::job::TopicId;
use gristmill_runner::handlers::HandlerRegistry;
use gristmill_store::redis::RedisStore;

/// How long to wait before asking a server again that is unavailable.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Opened {
    /// Starts the task that spreads topics, now and whenever the manifest says more.
    pub(crate) fn spread_topics(&self, registry: watch::Receiver<Arc<HandlerRegistry>>) -> Background {
        let servers = self.by_kind.servers.clone();
        Background::spawn("spread topics", |stop| spread_topics(servers, registry, stop))
    }
}

async fn spread_topics(
    servers: Vec<RedisStore>,
    mut registry: watch::Receiver<Arc<HandlerRegistry>>,
    stop: CancellationToken,
) {
    let mut done = BTreeMap::new();
    loop {
        let wanted = registry.borrow_and_update().spread_topics();
        let is_done = wanted == done || spread(&servers, &wanted).await;
        if is_done {
            done = wanted;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            Ok(()) = registry.changed() => {}
            () = tokio::time::sleep(RETRY_PAUSE), if !is_done => {}
        }
    }
}

/// Returns whether no server was unavailable.
async fn spread(servers: &[RedisStore], topics: &BTreeMap<TopicId, u32>) -> bool {
    let mut is_done = true;
    for server in servers {
        match server.spread(topics).await {
            Err(error) if error.is_unavailable() => is_done = false,
            Err(error) => tracing::error!("failed to spread topics: {:#}", anyhow::Error::from(error)),
            Ok(()) => {}
        }
    }
    is_done
}
