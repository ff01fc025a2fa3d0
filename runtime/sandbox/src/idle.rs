//! What waits for its next use: instances of guests and connections, within limits on their number, size and age.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// What may be kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleLimits {
    pub(super) items: usize,
    /// Of all items together.
    pub(super) bytes: u64,
    /// How long one may be idle before it is freed.
    pub(super) idle: Duration,
}

impl IdleLimits {
    /// For instances: some eighty Python guests. One that is idle for a minute was needed for a peak only.
    pub(super) fn of(instances: u32) -> Self {
        Self { items: instances as usize, bytes: 1 << 30, idle: Duration::from_secs(60) }
    }
}

/// Idle items, each with the key by which it is taken out again. When there are too many, those that have been idle longest
/// are freed.
pub(super) struct IdleItems<K, T> {
    limits: IdleLimits,
    content: Mutex<Content<K, T>>,
}

struct Content<K, T> {
    /// The one used last at the back. There are few: a search is cheap.
    items: VecDeque<Idle<K, T>>,
    bytes: u64,
    /// A task waits for items to have been idle too long.
    watched: bool,
}

struct Idle<K, T> {
    key: K,
    item: T,
    bytes: u64,
    since: Instant,
}

impl<K: PartialEq + Send + 'static, T: Send + 'static> IdleItems<K, T> {
    pub(super) fn new(limits: IdleLimits) -> Self {
        Self { limits, content: Mutex::new(Content { items: VecDeque::new(), bytes: 0, watched: false }) }
    }

    /// The item used last: its memory is likeliest to be in the processor's cache, and the others may grow old.
    pub(super) fn take(&self, key: &K) -> Option<T> {
        let mut content = self.content.lock();
        let last = content.items.iter().rposition(|idle| idle.key == *key)?;
        content.remove(last).map(|idle| idle.item)
    }

    /// Keeps an item, and frees whatever is then too much. Needs a tokio runtime with time enabled.
    pub(super) fn put(self: &Arc<Self>, key: K, item: T, bytes: u64) {
        let mut content = self.content.lock();
        content.bytes += bytes;
        content.items.push_back(Idle { key, item, bytes, since: Instant::now() });
        let mut surplus = Vec::new();
        while content.items.len() > self.limits.items || content.bytes > self.limits.bytes {
            surplus.extend(content.remove(0));
        }
        let watched = mem::replace(&mut content.watched, true);
        drop(content);
        free(surplus);
        if !watched {
            tokio::spawn(watch(Watcher { idle: Arc::downgrade(self), ended: false }));
        }
    }

    /// Frees the item that has been idle longest, at once; false if there is none.
    pub(super) fn free_oldest(&self) -> bool {
        let oldest = self.content.lock().remove(0);
        oldest.is_some()
    }

    /// The number of idle items, and their bytes.
    pub(super) fn kept(&self) -> (u64, u64) {
        let content = self.content.lock();
        (content.items.len() as u64, content.bytes)
    }

    /// Frees all items of a key.
    pub(super) fn clear(&self, key: &K) {
        let mut content = self.content.lock();
        let (cleared, kept) = mem::take(&mut content.items).into_iter().partition(|idle| idle.key == *key);
        content.items = kept;
        content.bytes = content.items.iter().map(|idle| idle.bytes).sum();
        drop(content);
        free(Vec::from(cleared));
    }

    /// Frees what has been idle too long at `now`, and returns when to check again; `None` if no instance remains.
    fn free_idle(&self, now: Instant) -> Option<Instant> {
        let mut content = self.content.lock();
        let mut old = Vec::new();
        let next = loop {
            match content.items.front().map(|oldest| oldest.since + self.limits.idle) {
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

impl<K, T> Content<K, T> {
    fn remove(&mut self, index: usize) -> Option<Idle<K, T>> {
        let idle = self.items.remove(index)?;
        self.bytes -= idle.bytes;
        Some(idle)
    }
}

/// Giving a large memory back to the kernel takes a millisecond, which no guest has to wait for.
fn free<T: Send + 'static>(items: Vec<T>) {
    if items.is_empty() {
        return;
    }
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(items))),
        Err(_) => drop(items),
    }
}

/// Waits while there is anything idle, and frees what was idle too long.
async fn watch<K: PartialEq + Send + 'static, T: Send + 'static>(mut watcher: Watcher<K, T>) {
    while let Some(next) = watcher.idle.upgrade().and_then(|idle| idle.free_idle(Instant::now())) {
        tokio::time::sleep_until(next).await;
    }
    watcher.ended = true;
}

struct Watcher<K, T> {
    idle: Weak<IdleItems<K, T>>,
    /// It found nothing to watch, and another task may be watching by now.
    ended: bool,
}

impl<K, T> Drop for Watcher<K, T> {
    /// If it is dropped with its runtime, the next item that is kept starts another task.
    fn drop(&mut self) {
        if let (false, Some(idle)) = (self.ended, self.idle.upgrade()) {
            idle.content.lock().watched = false;
        }
    }
}

impl<K, T> fmt::Debug for IdleItems<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleItems").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    impl crate::guest_instance::IdleInstances {
        /// Idle instances.
        pub(crate) fn instances(&self) -> usize {
            let content = self.content.lock();
            assert_eq!(content.items.iter().map(|idle| idle.bytes).sum::<u64>(), content.bytes);
            content.items.len()
        }
    }
}
