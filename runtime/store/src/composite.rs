//! Stores that are made of several stores, and batches of which each item is for one of these.

use std::borrow::Cow;

use futures_util::future::join_all;

use crate::StoreError;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::schedule::ScheduleId;

/// A store that is made of several stores: the partitions of a Redis, or shards. [`operations!`](crate::operations) asks those
/// that the row of an operation names.
pub(crate) trait CompositeStore {
    type Store;

    /// Asks each store that may hold something of the scope. What moves from one to another meanwhile is not missed, and may be
    /// reported by two.
    ///
    /// # Errors
    /// One of them refuses, or is unavailable and is not skipped. Others may have done what was asked.
    async fn ask<A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        how: Asking,
        scope: &impl Scope,
        ask: impl Fn(Self::Store) -> F,
    ) -> Result<Vec<A>, StoreError>;

    /// The store that has what is kept once of a scope, and takes what is new.
    async fn current(&self, scope: &impl Scope) -> Result<Self::Store, StoreError>;
}

/// What a call asks for. It says which stores are skipped while they are unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// An answer: those that hardly ever have something of the scope. At least one answers.
    Answer,
    /// The same, and to change waiting and dead jobs: none of them moves meanwhile.
    Change,
    /// All that there is: none, and at least one answers.
    All,
    /// What a runner repeats: every one.
    News,
}

/// What a call is about: a tenant, or a topic of it.
pub(crate) trait Scope {
    fn tenant(&self) -> &Name;

    fn topic(&self) -> Option<&TopicId> {
        None
    }
}

impl Scope for Name {
    fn tenant(&self) -> &Name {
        self
    }
}

impl Scope for ScheduleId {
    fn tenant(&self) -> &Name {
        &self.topic.tenant
    }
}

impl Scope for TopicId {
    fn tenant(&self) -> &Name {
        &self.tenant
    }

    fn topic(&self) -> Option<&TopicId> {
        Some(self)
    }
}

/// The answer of one store to its part of a batch.
pub(crate) struct StoreAnswer<S, A> {
    pub(crate) store: S,
    /// The positions in the batch of what the store was asked.
    pub(crate) positions: Vec<usize>,
    pub(crate) answer: Result<A, StoreError>,
}

/// Sends each item to the store that `choose` names for it and its position, all stores at once. Items for which it names
/// none are skipped.
pub(crate) async fn ask_by_store<'a, S: Clone + PartialEq, T: Clone, A, F: Future<Output = Result<A, StoreError>>>(
    items: &'a [T],
    choose: impl Fn(usize, &T) -> Option<S>,
    ask: impl Fn(S, Cow<'a, [T]>) -> F,
) -> Vec<StoreAnswer<S, A>> {
    let mut groups: Vec<(S, Vec<usize>)> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let Some(store) = choose(position, item) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == store) {
            Some((_, positions)) => positions.push(position),
            None => groups.push((store, vec![position])),
        }
    }
    let ask = &ask;
    join_all(groups.into_iter().map(|(store, positions)| async move {
        let part = if positions.len() == items.len() {
            Cow::Borrowed(items)
        } else {
            positions.iter().filter_map(|position| items.get(*position)).cloned().collect()
        };
        let answer = ask(store.clone(), part).await;
        StoreAnswer { store, positions, answer }
    }))
    .await
}

/// The same, where each store has one answer for each item that it is asked about. `answers` has those to the others.
pub(crate) async fn answer_by_store<'a, S: Clone + PartialEq, T: Clone, A, F>(
    items: &'a [T],
    choose: impl Fn(usize, &T) -> Option<S>,
    mut answers: Vec<A>,
    ask: impl Fn(S, Cow<'a, [T]>) -> F,
) -> Result<Vec<A>, StoreError>
where
    F: Future<Output = Result<Vec<A>, StoreError>>,
{
    for part in ask_by_store(items, choose, ask).await {
        add(&mut answers, part.positions, part.answer?, |slot, answer| *slot = answer);
    }
    Ok(answers)
}

/// Adds a part's answers to the totals of a batch.
pub(crate) fn add<T, A>(totals: &mut [T], positions: Vec<usize>, answers: Vec<A>, add: impl Fn(&mut T, A)) {
    for (position, answer) in positions.into_iter().zip(answers) {
        if let Some(total) = totals.get_mut(position) {
            add(total, answer);
        }
    }
}

/// Returns `None` if the store is unavailable.
pub(crate) fn if_available<A>(answer: Result<A, StoreError>) -> Result<Option<A>, StoreError> {
    match answer {
        Err(error) if error.is_unavailable() => Ok(None),
        answer => answer.map(Some),
    }
}
