//! A pool that tenants or addresses share: a bound for all, and no more than its share for each. The operator may also have a share.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The pool. Clones share it. A holder is known by its key.
#[derive(Debug)]
pub(crate) struct Shares<K: Eq + Hash + Clone> {
    all: Arc<Semaphore>,
    /// The most of one holder.
    each: usize,
    /// What the holders without a key share among them. `None`: they may have it all.
    keyless: Option<Arc<Semaphore>>,
    holders: Arc<Mutex<HashMap<K, Arc<Semaphore>>>>,
}

/// A part of the pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Eq + Hash + Clone> {
    /// `None` for a holder without a key.
    _own: Option<OwnShare<K>>,
    _of_keyless: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

/// What a holder has of its share. Dropped, with or without a permit, it forgets a holder that has nothing and waits for
/// nothing.
#[derive(Debug)]
struct OwnShare<K: Eq + Hash + Clone> {
    key: K,
    permit: Option<OwnedSemaphorePermit>,
    holders: Arc<Mutex<HashMap<K, Arc<Semaphore>>>>,
}

impl<K: Eq + Hash + Clone> Clone for Shares<K> {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), each: self.each, keyless: self.keyless.clone(), holders: self.holders.clone() }
    }
}

impl<K: Eq + Hash + Clone> Shares<K> {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        let all = all.clamp(1, Semaphore::MAX_PERMITS);
        Self { all: Arc::new(Semaphore::new(all)), each: each.clamp(1, all), keyless: None, holders: Arc::default() }
    }

    /// The same. Those without a key have no more than this together: the rest is always for the others.
    pub(crate) fn with_keyless(self, most: usize) -> Self {
        Self { keyless: Some(Arc::new(Semaphore::new(most.max(1)))), ..self }
    }

    /// Waits for one of the pool. `None` is a holder without a key. A holder that has its share waits for itself; the
    /// others wait in the order in which they came. Cancel-safe.
    pub(crate) async fn acquire(&self, holder: Option<&K>) -> Share<K> {
        let of_keyless = match self.keyless.clone().filter(|_| holder.is_none()) {
            Some(keyless) => keyless.acquire_owned().await.ok(),
            None => None,
        };
        let own = match holder {
            Some(key) => {
                let (mut own, share) = self.own(key);
                // The semaphores are never closed.
                own.permit = share.acquire_owned().await.ok();
                Some(own)
            }
            None => None,
        };
        Share { _own: own, _of_keyless: of_keyless, _of_all: self.all.clone().acquire_owned().await.ok() }
    }

    /// Takes `count` of the pool now. Returns `None` if that is more than there is, or more than the holder's share.
    pub(crate) fn try_acquire(&self, holder: Option<&K>, count: u32) -> Option<Share<K>> {
        let of_keyless = match self.keyless.clone().filter(|_| holder.is_none()) {
            Some(keyless) => Some(keyless.try_acquire_many_owned(count).ok()?),
            None => None,
        };
        let own = match holder {
            Some(key) => {
                let (mut own, share) = self.own(key);
                own.permit = Some(share.try_acquire_many_owned(count).ok()?);
                Some(own)
            }
            None => None,
        };
        let of_all = Some(self.all.clone().try_acquire_many_owned(count).ok()?);
        Some(Share { _own: own, _of_keyless: of_keyless, _of_all: of_all })
    }

    /// Whether the holder has all of its share.
    pub(crate) fn is_used_up(&self, holder: Option<&K>) -> bool {
        let holders = self.holders.lock();
        holder.and_then(|key| holders.get(key)).is_some_and(|own| own.available_permits() == 0)
    }

    /// A holder without a permit yet, and what it takes one from.
    fn own(&self, key: &K) -> (OwnShare<K>, Arc<Semaphore>) {
        let new = || Arc::new(Semaphore::new(self.each));
        let share = self.holders.lock().entry(key.clone()).or_insert_with(new).clone();
        (OwnShare { key: key.clone(), permit: None, holders: self.holders.clone() }, share)
    }
}

impl<K: Eq + Hash + Clone> Drop for OwnShare<K> {
    fn drop(&mut self) {
        let mut holders = self.holders.lock();
        drop(self.permit.take());
        // A holder that waits also has a reference.
        if holders.get(&self.key).is_some_and(|own| Arc::strong_count(own) == 1) {
            holders.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_those_without_a_key_have_together_leaves_the_rest_to_others() {
        let shares = Shares::new(4, 1).with_keyless(2);
        let held = [shares.try_acquire(None, 1).unwrap(), shares.acquire(None).await];
        assert!(shares.try_acquire(None, 1).is_none());
        let mut waits = Box::pin(shares.acquire(None));
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let others = [shares.acquire(Some(&"a")).await, shares.acquire(Some(&"b")).await];
        drop((others, held));
        drop(waits.await);
        assert!(shares.try_acquire(None, 3).is_none() && shares.try_acquire(None, 2).is_some());
    }

    #[tokio::test]
    async fn a_holder_gets_its_share_and_leaves_the_rest_to_others() {
        let shares = Shares::new(4, 2);
        let mut held: Vec<_> = (0..2).map(|_| shares.try_acquire(Some(&"a"), 1).unwrap()).collect();
        assert!(shares.try_acquire(Some(&"a"), 1).is_none() && shares.is_used_up(Some(&"a")));
        assert!(!shares.is_used_up(Some(&"b")) && !shares.is_used_up(None));
        assert!(shares.try_acquire(Some(&"b"), 3).is_none(), "more than a share");
        assert_eq!(shares.holders.lock().len(), 1, "a holder that gets nothing is forgotten");
        let other = shares.acquire(Some(&"b")).await;
        let operator = shares.acquire(None).await;
        assert!(shares.try_acquire(None, 1).is_none(), "more than there is");
        let waits = tokio::spawn({
            let shares = shares.clone();
            async move { shares.acquire(Some(&"a")).await }
        });
        drop((other, operator));
        tokio::task::yield_now().await;
        assert!(!waits.is_finished(), "it has its share");
        held.pop();
        drop(tokio::time::timeout(Duration::from_secs(30), waits).await.expect("a part that became free"));
        held.clear();
        let last = shares.acquire(Some(&"a")).await;
        let more = shares.acquire(Some(&"a")).await;
        let mut waits = Box::pin(shares.acquire(Some(&"a")));
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The holder that waits is given up after what it waits for was given back.
        drop((last, more));
        drop(waits);
        assert!(shares.holders.lock().is_empty(), "holders of nothing are forgotten");
        assert!(shares.try_acquire(None, 4).is_some());
    }
}
