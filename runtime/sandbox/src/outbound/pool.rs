//! Connections of one topic that wait for its next request.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::connect::{Connection, Origin};
use parking_lot::Mutex;

/// Connections that are kept, over all origins; the oldest is closed first.
const IDLE_MAX: usize = 32;
/// Shorter than the idle time after which most servers close.
const IDLE_TIME: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    /// Oldest first.
    connections: VecDeque<(Instant, Origin, Connection)>,
    /// A task is running that closes what waited too long.
    swept: bool,
}

impl Pool {
    /// The connection that was used last, if one to this origin is still open.
    pub(super) fn take(&self, origin: &Origin) -> Option<Connection> {
        let mut idle = self.0.lock();
        idle.connections.retain(|(since, _, connection)| since.elapsed() < IDLE_TIME && connection.is_open());
        let position = idle.connections.iter().rposition(|(_, kept, _)| kept == origin)?;
        idle.connections.remove(position).map(|(_, _, connection)| connection)
    }

    /// Keeps a connection that has brought its answer whole. Needs a tokio runtime.
    pub(super) fn put(self: &Arc<Self>, origin: Origin, connection: Connection) {
        let mut idle = self.0.lock();
        idle.connections.push_back((Instant::now(), origin, connection));
        if idle.connections.len() > IDLE_MAX {
            idle.connections.pop_front();
        }
        if !idle.swept {
            idle.swept = true;
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().connections.is_empty()
    }
}

/// Closes what waited too long, until no connection is left.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_TIME / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.0.lock();
        idle.connections.retain(|(since, _, connection)| since.elapsed() < IDLE_TIME && connection.is_open());
        if idle.connections.is_empty() {
            idle.swept = false;
            return;
        }
    }
}
