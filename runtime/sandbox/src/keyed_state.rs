//! The state of a job's key, as one attempt reads and changes it.

use tokio::sync::{mpsc, oneshot};

use super::attempt::Attempt;
use gristmill_core::job::TopicId;
use gristmill_core::outcome::StateChange;
use gristmill_core::topic::Capability;

/// Carries an attempt's question for the state of its key to the task that asks the store.
#[derive(Debug, Clone)]
pub struct StateReader(pub mpsc::Sender<StateRequest>);

/// An attempt asks for a state; the answer is the state, if there is one, or an error text.
#[derive(Debug)]
pub struct StateRequest {
    /// Whose key it is.
    pub topic: TopicId,
    /// The key.
    pub key: String,
    /// Answers once the store has.
    pub reply: oneshot::Sender<Result<Option<Vec<u8>>, String>>,
}

/// Why a state was not read, or is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// There is no key whose state it could be.
    #[error("the job has no key: push it with one")]
    NoKey,
    /// The limit, in bytes.
    #[error("the state of a key has at most {0} bytes in this topic")]
    TooLarge(u64),
    /// The topic does not grant it, or the store did not answer.
    #[error("{0}")]
    Unavailable(String),
}

impl StateError {
    /// The topic keeps no states.
    pub fn not_granted() -> Self {
        Self::Unavailable("this topic keeps no states: add `state = true` to its section".to_owned())
    }
}

/// What an attempt knows of the state of its job's key, and does to it.
#[derive(Debug, Clone)]
pub struct KeyedState {
    topic: TopicId,
    key: String,
    limit: u64,
    reader: Option<StateReader>,
    change: Option<StateChange>,
}

impl KeyedState {
    /// Of an attempt that has changed nothing; `None` if its topic keeps no states.
    pub fn of(attempt: &Attempt) -> Option<Self> {
        let spec = &attempt.job.spec;
        attempt.grants.has(Capability::State).then(|| Self {
            topic: spec.topic.clone(),
            key: spec.shared_key().unwrap_or_default().to_owned(),
            limit: attempt.limits.state_bytes,
            reader: attempt.states.clone(),
            change: None,
        })
    }

    /// The state, or what was set in its place. None in a trial, which has no store.
    ///
    /// # Errors
    /// [`StateError::NoKey`] and [`StateError::Unavailable`].
    pub async fn get(&self) -> Result<Option<Vec<u8>>, StateError> {
        self.check()?;
        let reader = match (&self.change, &self.reader) {
            (Some(StateChange::Set(value)), _) => return Ok(Some(value.clone())),
            (Some(StateChange::Delete), _) | (None, None) => return Ok(None),
            (None, Some(reader)) => reader,
        };
        let ending = || StateError::Unavailable("the runner is shutting down".to_owned());
        let (reply, answer) = oneshot::channel();
        let request = StateRequest { topic: self.topic.clone(), key: self.key.clone(), reply };
        reader.0.send(request).await.map_err(|_| ending())?;
        answer.await.map_err(|_| ending())?.map_err(StateError::Unavailable)
    }

    /// Has the state be `value` once the attempt is settled as completed; none: has it deleted.
    ///
    /// # Errors
    /// [`StateError`]; what was set before stands.
    pub fn set(&mut self, value: Option<Vec<u8>>) -> Result<(), StateError> {
        self.check()?;
        if value.as_ref().is_some_and(|value| value.len() as u64 > self.limit) {
            return Err(StateError::TooLarge(self.limit));
        }
        self.change = Some(value.map_or(StateChange::Delete, StateChange::Set));
        Ok(())
    }

    /// What the attempt does to the state, if anything.
    pub fn take_change(&mut self) -> Option<StateChange> {
        self.change.take()
    }

    fn check(&self) -> Result<(), StateError> {
        if self.key.is_empty() { Err(StateError::NoKey) } else { Ok(()) }
    }
}
