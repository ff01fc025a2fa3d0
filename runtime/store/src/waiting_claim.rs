//! A claim that waits in the store for jobs.

use std::fmt;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::answers::{ClaimFrom, Claimed};
use super::error::StoreError;
use gristmill_core::job::{TopicId, WorkerId};

/// Claims that wait.
pub trait WaitToClaim {
    /// Has jobs of these topics claimed in the step in which they become ready, or right behind it: a [claim](super::Claims::claim) that is made
    /// then, once. Best effort, and only for what becomes ready after this call: look for [`Signal::Ready`](super::Signal::Ready) beside it. Workers
    /// need not be woken for what such a claim has drained. `None`: the store cannot.
    ///
    /// An embedded store does so for whatever becomes ready; Redis for what a [migration](super::FindWork::migrate) of this process moves, and for single
    /// jobs that it pushes.
    fn wait_to_claim(&self, _worker: &WorkerId, _from: &[ClaimFrom]) -> Option<WaitingClaim> {
        None
    }
}

/// A claim that waits. It is taken back when this is dropped; what was claimed just then is lost, as with the answer of a claim whose caller has stopped waiting.
pub struct WaitingClaim {
    answer: BoxFuture<'static, Result<Claimed, StoreError>>,
    take_back: Option<Box<dyn FnOnce() -> bool + Send>>,
}

impl WaitingClaim {
    /// `take_back` returns whether nothing was or will be claimed.
    #[cfg(any(feature = "redis", feature = "embedded"))]
    pub(crate) fn new(
        answer: impl Future<Output = Result<Claimed, StoreError>> + Send + 'static,
        take_back: impl FnOnce() -> bool + Send + 'static,
    ) -> Self {
        Self { answer: Box::pin(answer), take_back: Some(Box::new(take_back)) }
    }

    /// Waits until there was something to claim; for ever once that was answered. Cancel-safe.
    ///
    /// # Errors
    /// As those of a claim.
    pub async fn claimed(&mut self) -> Result<Claimed, StoreError> {
        let answer = (&mut self.answer).await;
        (self.answer, self.take_back) = (Box::pin(std::future::pending()), None);
        answer
    }

    /// Ends the wait. Returns what was claimed until now; `None`: nothing.
    pub async fn take_back(mut self) -> Option<Result<Claimed, StoreError>> {
        // None: it has answered.
        let is_back = self.take_back.take().is_none_or(|take_back| take_back());
        if is_back { None } else { Some((&mut self.answer).await) }
    }
}

impl Drop for WaitingClaim {
    fn drop(&mut self) {
        self.take_back.take().map(|take_back| take_back());
    }
}

impl fmt::Debug for WaitingClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingClaim").finish_non_exhaustive()
    }
}

/// The claims of this process that wait, and what a store needs to carry them out.
#[derive(Debug)]
pub(crate) struct WaitingClaims<T>(Mutex<Numbered<T>>);

#[derive(Debug)]
struct Numbered<T> {
    claims: Vec<(u64, Vec<TopicId>, T)>,
    last: u64,
}

impl<T> Default for WaitingClaims<T> {
    fn default() -> Self {
        Self(Mutex::new(Numbered { claims: Vec::new(), last: 0 }))
    }
}

#[cfg(any(feature = "redis", feature = "embedded"))]
impl<T> WaitingClaims<T> {
    /// Returns the number by which it can be taken back.
    pub(crate) fn add(&self, from: &[ClaimFrom], claim: T) -> u64 {
        let mut all = self.0.lock();
        all.last += 1;
        let number = all.last;
        all.claims.push((number, from.iter().map(|line| line.topic.clone()).collect(), claim));
        number
    }

    /// Takes a claim back. False: it is being carried out, and answered.
    pub(crate) fn take_back(&self, number: u64) -> bool {
        let mut all = self.0.lock();
        let before = all.claims.len();
        all.claims.retain(|(known, ..)| *known != number);
        all.claims.len() < before
    }

    /// Takes the claim that has waited the longest for this topic, to carry it out, with all topics that it waits for.
    pub(crate) fn take(&self, topic: &TopicId) -> Option<(Vec<TopicId>, T)> {
        let mut all = self.0.lock();
        let first = all.claims.iter().position(|(_, topics, _)| topics.contains(topic))?;
        let (_, topics, claim) = all.claims.remove(first);
        Some((topics, claim))
    }
}
