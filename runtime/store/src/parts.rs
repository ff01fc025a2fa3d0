//! Batches of which each item is for one of several stores.

use std::borrow::Cow;

use futures_util::future::join_all;

use crate::StoreError;

/// What a store answered to its part of a batch.
pub(crate) struct Part<S, A> {
    pub(crate) store: S,
    /// The positions in the batch of what the store was asked.
    pub(crate) positions: Vec<usize>,
    pub(crate) answer: Result<A, StoreError>,
}

/// Sends each item to the store that `choose` names for it and its position, all stores at once. Items for which it names
/// none are left out.
pub(crate) async fn ask_by_store<'a, S: Clone + PartialEq, T: Clone, A, F: Future<Output = Result<A, StoreError>>>(
    items: &'a [T],
    choose: impl Fn(usize, &T) -> Option<S>,
    ask: impl Fn(S, Cow<'a, [T]>) -> F,
) -> Vec<Part<S, A>> {
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
        Part { store, positions, answer }
    }))
    .await
}

impl<S, A> Part<S, Vec<A>> {
    /// Puts one answer for each position into `answers`.
    pub(crate) fn put_into(self, answers: &mut [A]) -> Result<(), StoreError> {
        for (position, answer) in self.positions.into_iter().zip(self.answer?) {
            if let Some(slot) = answers.get_mut(position) {
                *slot = answer;
            }
        }
        Ok(())
    }
}

/// Returns `None` if the store is unavailable.
pub(crate) fn if_available<A>(answer: Result<A, StoreError>) -> Result<Option<A>, StoreError> {
    match answer {
        Err(error) if error.is_unavailable() => Ok(None),
        answer => answer.map(Some),
    }
}
