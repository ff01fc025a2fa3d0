//! The idle instances of a sandbox, over all topics, within limits on their number, memory and age.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::instance_pool::GuestInstance;

/// What a sandbox may keep.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleLimits {
    pub(super) instances: usize,
    /// Of their linear memories together.
    pub(super) bytes: u64,
    /// How long one may be idle before it is freed.
    pub(super) idle: Duration,
}

impl IdleLimits {
    /// Some eighty Python guests. An instance that is idle for a minute was needed for a peak only.
    pub(super) fn of(instances: u32) -> Self {
        Self { instances: instances as usize, bytes: 1 << 30, idle: Duration::from_secs(60) }
    }
}

/// A pool takes out only the instances that it put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PoolId(u64);

/// All idle instances of a sandbox. When there are too many, those that have been idle longest are freed.
pub(super) struct IdleInstances {
    limits: IdleLimits,
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    /// Of all pools, the one used last at the back. There are few: a search is cheap.
    idle: VecDeque<Idle>,
    /// Of their memories.
    bytes: u64,
    next_pool: u64,
    /// A task waits for instances to have been idle too long.
    watched: bool,
}

struct Idle {
    pool: PoolId,
    instance: GuestInstance,
    bytes: u64,
    since: Instant,
}

impl IdleInstances {
    pub(super) fn new(limits: IdleLimits) -> Self {
        Self { limits, content: Mutex::default() }
    }

    pub(super) fn open_pool(&self) -> PoolId {
        let mut content = self.content.lock();
        content.next_pool += 1;
        PoolId(content.next_pool)
    }

    /// The instance used last: its memory is likeliest to be in the processor's cache, and the others may grow old.
    pub(super) fn take(&self, pool: PoolId) -> Option<GuestInstance> {
        let mut content = self.content.lock();
        let last = content.idle.iter().rposition(|idle| idle.pool == pool)?;
        content.remove(last).map(|idle| idle.instance)
    }

    /// Keeps an instance, and frees whatever is then too much. Needs a tokio runtime with time enabled.
    pub(super) fn put(self: &Arc<Self>, pool: PoolId, instance: GuestInstance) {
        let bytes = instance.memory_bytes();
        let mut content = self.content.lock();
        content.bytes += bytes;
        content.idle.push_back(Idle { pool, instance, bytes, since: Instant::now() });
        let mut surplus = Vec::new();
        while content.idle.len() > self.limits.instances || content.bytes > self.limits.bytes {
            surplus.extend(content.remove(0));
        }
        let watched = mem::replace(&mut content.watched, true);
        drop(content);
        free(surplus);
        if !watched {
            tokio::spawn(watch(Watcher { idle: Arc::downgrade(self), ended: false }));
        }
    }

    /// Frees the instance that has been idle longest, at once; false if there is none.
    pub(super) fn free_oldest(&self) -> bool {
        let oldest = self.content.lock().remove(0);
        oldest.is_some()
    }

    /// The number of idle instances, and the bytes of their memories.
    pub(super) fn kept(&self) -> (u64, u64) {
        let content = self.content.lock();
        (content.idle.len() as u64, content.bytes)
    }

    /// Frees all instances of a pool.
    pub(super) fn clear(&self, pool: PoolId) {
        let mut content = self.content.lock();
        let (cleared, kept) = mem::take(&mut content.idle).into_iter().partition(|idle| idle.pool == pool);
        content.idle = kept;
        content.bytes = content.idle.iter().map(|idle| idle.bytes).sum();
        drop(content);
        free(VecDeque::into(cleared));
    }

    /// Frees what has been idle too long at `now`, and says when to look again; none if nothing is left.
    fn free_idle(&self, now: Instant) -> Option<Instant> {
        let mut content = self.content.lock();
        let mut old = Vec::new();
        let next = loop {
            match content.idle.front().map(|oldest| oldest.since + self.limits.idle) {
                Some(end) if end <= now => old.extend(content.remove(0)),
                next => break next,
            }
        };
        content.watched = next.is_some();
        drop(content);
        free(old);
        next
    }
}

impl Content {
    fn remove(&mut self, index: usize) -> Option<Idle> {
        let idle = self.idle.remove(index)?;
        self.bytes -= idle.bytes;
        Some(idle)
    }
}

/// Giving a large memory back to the kernel takes a millisecond, which no guest has to wait for.
fn free(instances: Vec<Idle>) {
    if instances.is_empty() {
        return;
    }
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(instances))),
        Err(_) => drop(instances),
    }
}

/// Waits while there is anything idle, and frees what was idle too long.
async fn watch(mut watcher: Watcher) {
    while let Some(next) = watcher.idle.upgrade().and_then(|idle| idle.free_idle(Instant::now())) {
        tokio::time::sleep_until(next).await;
    }
    watcher.ended = true;
}

struct Watcher {
    idle: Weak<IdleInstances>,
    /// It found nothing to watch, and another task may be watching by now.
    ended: bool,
}

impl Drop for Watcher {
    /// If it is dropped with its runtime, the next instance that is kept starts another task.
    fn drop(&mut self) {
        if let (false, Some(idle)) = (self.ended, self.idle.upgrade()) {
            idle.content.lock().watched = false;
        }
    }
}

impl fmt::Debug for IdleInstances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (instances, bytes) = self.kept();
        f.debug_struct("IdleInstances").field("instances", &instances).field("bytes", &bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl IdleInstances {
        /// Idle instances.
        pub(crate) fn instances(&self) -> usize {
            let content = self.content.lock();
            assert_eq!(content.idle.iter().map(|idle| idle.bytes).sum::<u64>(), content.bytes);
            content.idle.len()
        }
    }
}
