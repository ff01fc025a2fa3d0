//! The idle instances of a sandbox, over all topics, within limits on their number, memory and age.

use std::collections::{HashMap, VecDeque};
use std::fmt;
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
    /// Each pool's instances, the one used last at the back; no entry for a pool without idle instances.
    idle: HashMap<PoolId, VecDeque<Idle>>,
    instances: usize,
    bytes: u64,
    next_pool: u64,
    /// A task waits for instances to have been idle too long.
    watched: bool,
}

struct Idle {
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
        self.content.lock().take(pool, VecDeque::pop_back).map(|idle| idle.instance)
    }

    /// Keeps an instance, and frees whatever is then too much. Needs a tokio runtime with time enabled.
    pub(super) fn put(self: &Arc<Self>, pool: PoolId, instance: GuestInstance) {
        let bytes = instance.memory_bytes();
        let mut content = self.content.lock();
        content.put(pool, Idle { instance, bytes, since: Instant::now() });
        let mut surplus = Vec::new();
        while content.instances > self.limits.instances || content.bytes > self.limits.bytes {
            surplus.extend(content.take_oldest());
        }
        let watched = std::mem::replace(&mut content.watched, true);
        drop(content);
        free(surplus);
        if !watched {
            tokio::spawn(watch(Watcher { idle: Arc::downgrade(self), ended: false }));
        }
    }

    /// Frees the instance that has been idle longest, at once; false if there is none.
    pub(super) fn free_oldest(&self) -> bool {
        let oldest = self.content.lock().take_oldest();
        oldest.is_some()
    }

    /// The number of idle instances, and the bytes of their memories.
    pub(super) fn kept(&self) -> (u64, u64) {
        let content = self.content.lock();
        (content.instances as u64, content.bytes)
    }

    /// Frees all instances of a pool.
    pub(super) fn clear(&self, pool: PoolId) {
        let all = self.content.lock().take_all(pool);
        free(all.into());
    }

    /// Frees what has been idle too long at `now`, and says when to look again; none if nothing is left.
    fn free_idle(&self, now: Instant) -> Option<Instant> {
        let mut content = self.content.lock();
        let mut old = Vec::new();
        let next = loop {
            match content.oldest().map(|(_, since)| since + self.limits.idle) {
                Some(end) if end <= now => old.extend(content.take_oldest()),
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
    fn put(&mut self, pool: PoolId, idle: Idle) {
        self.instances += 1;
        self.bytes += idle.bytes;
        self.idle.entry(pool).or_default().push_back(idle);
    }

    fn take(&mut self, pool: PoolId, which: impl Fn(&mut VecDeque<Idle>) -> Option<Idle>) -> Option<Idle> {
        let pooled = self.idle.get_mut(&pool)?;
        let idle = which(pooled)?;
        if pooled.is_empty() {
            self.idle.remove(&pool);
        }
        self.instances -= 1;
        self.bytes -= idle.bytes;
        Some(idle)
    }

    fn take_all(&mut self, pool: PoolId) -> VecDeque<Idle> {
        let all = self.idle.remove(&pool).unwrap_or_default();
        self.instances -= all.len();
        self.bytes -= all.iter().map(|idle| idle.bytes).sum::<u64>();
        all
    }

    fn take_oldest(&mut self) -> Option<Idle> {
        let (pool, _) = self.oldest()?;
        self.take(pool, VecDeque::pop_front)
    }

    /// Visits every pool with idle instances: rare, and there are no more pools than instances.
    fn oldest(&self) -> Option<(PoolId, Instant)> {
        let fronts = self.idle.iter().filter_map(|(pool, idle)| Some((*pool, idle.front()?.since)));
        fronts.min_by_key(|(_, since)| *since)
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
        let Content { instances, bytes, .. } = &*self.content.lock();
        f.debug_struct("IdleInstances").field("instances", instances).field("bytes", bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl IdleInstances {
        /// Idle instances.
        pub(crate) fn instances(&self) -> usize {
            let content = self.content.lock();
            assert_eq!(content.idle.values().map(VecDeque::len).sum::<usize>(), content.instances);
            assert_eq!(content.idle.values().flatten().map(|idle| idle.bytes).sum::<u64>(), content.bytes);
            content.instances
        }
    }
}
