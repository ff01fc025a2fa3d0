//! A store in a private server.

use std::ops::Deref;
use std::time::Duration;

pub(super) use gristmill_test_servers::redis::Redis;
use tokio::time::{interval, timeout};

use crate::redis::{DEFAULT_PREFIX, RedisStore};
use crate::tests::{TestStore, still_clock};

/// Waits until `condition` holds, for at most thirty seconds.
pub(super) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        let mut ticks = interval(Duration::from_millis(2));
        loop {
            ticks.tick().await;
            if condition().await {
                return;
            }
        }
    };
    timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// A store in a server of its own.
pub(super) struct TestRedis {
    pub(super) server: Redis,
    inner: TestStore<RedisStore>,
}

impl Deref for TestRedis {
    type Target = TestStore<RedisStore>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl TestRedis {
    pub(super) async fn new() -> Self {
        let server = Redis::start_without_log().await;
        let mut store = None;
        until("the server answers the store", async || {
            store = RedisStore::connect(&server.url(), DEFAULT_PREFIX).await.ok();
            store.is_some()
        })
        .await;
        let (still, clock) = still_clock();
        let inner = TestStore { store: store.unwrap().with_clock(still), clock };
        Self { server, inner }
    }

    /// The same by a connection of its own.
    pub(super) async fn raw_beside(&self, command: &redis::Cmd) {
        let mut connection = None;
        until("the server to answer", async || {
            connection = self.server.connect().await.ok();
            connection.is_some()
        })
        .await;
        command.exec_async(&mut connection.unwrap()).await.unwrap();
    }

    /// Speaks to the server behind the store's back, as a raw producer or an accident does.
    pub(super) async fn raw(&self, command: &mut redis::Cmd) -> redis::Value {
        let mut commands = redis::pipe();
        commands.add_command(std::mem::take(command));
        self.inner.store.server.link.query::<Vec<redis::Value>>("test", &commands).await.unwrap().pop().unwrap()
    }
}
