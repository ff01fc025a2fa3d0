//! The state of the job's key: what the jobs of a key leave for each other.
//!
//! ```
//! # use gristmill_guest::{Failure, Job, state};
//! fn add(job: Job) -> Result<(), Failure> {
//!     let mut cart: Vec<String> = state::json()?.unwrap_or_default();
//!     cart.push(job.text()?.to_owned());
//!     state::set_json(&cart)?; // stored in the step that completes this job, or not at all
//!     Ok(())
//! }
//! ```
//!
//! Of the jobs of a key one runs at a time, so what a job reads stands until it ends. A component that uses this module imports
//! `gristmill:job/state`, and runs only in a topic with `state = true`.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;
use crate::bindings::state::gristmill::job::state as wire;
use crate::host::state as host;

/// The state; `None` if there is none. After [`set`] or [`delete`], what that said.
///
/// # Errors
///
/// [`Error::NoKey`] and [`Error::Unavailable`].
pub fn get() -> Result<Option<Vec<u8>>, Error> {
    host::get().map_err(Error::from)
}

/// The state, from JSON; `None` if there is none.
///
/// # Errors
///
/// Those of [`get`]; and a reject with the code `bad-state` if the state is not such JSON.
pub fn json<T: DeserializeOwned>() -> Result<Option<T>, Failure> {
    let Some(state) = get()? else { return Ok(None) };
    let read = serde_json::from_slice(&state);
    read.map(Some).map_err(|error| Failure::reject("bad-state", format!("the state is not the expected JSON: {error}")))
}

/// Has the state be these bytes once this attempt has completed. The last call counts, and none does if the attempt fails or snoozes.
///
/// # Errors
///
/// See [`Error`]; what was set before stands.
pub fn set(state: impl AsRef<[u8]>) -> Result<(), Error> {
    host::set(Some(state.as_ref())).map_err(Error::from)
}

/// The same with `value` as JSON.
///
/// # Errors
///
/// Those of [`set`]; and a reject with the code `bad-state` if `value` cannot be written as JSON.
pub fn set_json(value: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
    let written = serde_json::to_vec(value);
    let state =
        written.map_err(|error| Failure::reject("bad-state", format!("the state cannot be written: {error}")))?;
    Ok(set(state)?)
}

/// Has the state deleted once this attempt has completed.
///
/// # Errors
///
/// See [`Error`].
pub fn delete() -> Result<(), Error> {
    host::set(None).map_err(Error::from)
}

/// Why a state was not read, or is not set. Through `?` it fails the attempt: with a retry if the store did not answer, else with a reject.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum Error {
    /// The job has no key.
    NoKey,
    /// Larger than the topic allows.
    TooLarge { limit_bytes: u64 },
    /// The store did not answer.
    Unavailable { reason: String },
}

impl From<wire::StateError> for Error {
    fn from(error: wire::StateError) -> Self {
        match error {
            wire::StateError::NoKey => Self::NoKey,
            wire::StateError::TooLarge(limit_bytes) => Self::TooLarge { limit_bytes },
            wire::StateError::Unavailable(reason) => Self::Unavailable { reason },
        }
    }
}

/// It does not implement `std::error::Error`: that conversion makes a retry of every error, and some of these are not worth one.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::NoKey => Self::reject("no-key", message),
            Error::TooLarge { .. } => Self::reject("state-too-large", message),
            Error::Unavailable { .. } => Self::retry("state-unavailable", message),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => write!(f, "the job has no key, so it has no state: push it with one"),
            Self::TooLarge { limit_bytes } => write!(f, "the state is larger than {limit_bytes} bytes"),
            Self::Unavailable { reason } => write!(f, "the state cannot be read now: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Host, job};

    fn count(_: crate::Job) -> Result<String, Failure> {
        let count = json::<u32>()?.unwrap_or_default() + 1;
        set_json(&count)?;
        Ok(json::<u32>()?.unwrap_or_default().to_string())
    }

    #[test]
    fn what_one_job_sets_the_next_one_of_its_key_reads() {
        let first = Host::new().run(count, job("t").key("k"));
        assert_eq!((first.text().as_str(), first.state()), ("1", Some(&b"1"[..])));
        let second = Host::new().state(first.state().unwrap_or_default()).run(count, job("t").key("k"));
        assert_eq!((second.text().as_str(), second.state()), ("2", Some(&b"2"[..])));
    }

    #[test]
    fn a_failed_attempt_leaves_the_state_as_it_was() {
        let fail = |_| -> Result<(), Failure> {
            delete()?;
            Err(Failure::retry("late", "after the fact"))
        };
        let run = Host::new().state("old").run(fail, job("t").key("k"));
        assert_eq!((run.failure().map(Failure::code), run.state()), (Some("late"), Some(&b"old"[..])));
    }

    #[test]
    fn a_deleted_state_is_none() {
        let clear = |_| -> Result<bool, Failure> {
            delete()?;
            Ok(get()?.is_none())
        };
        let run = Host::new().state("old").run(|job| clear(job).map(|gone| gone.to_string()), job("t").key("k"));
        assert_eq!((run.text().as_str(), run.state()), ("true", None));
    }

    #[test]
    fn without_a_key_and_over_the_limit_there_is_no_state() {
        let run = Host::new().run(count, job("t"));
        assert_eq!(run.failure().map(|failure| (failure.code(), failure.is_retry())), Some(("no-key", false)));
        let fill = |bytes: usize| Host::new().state_limit(3).run(move |_| set(vec![0; bytes]), job("t").key("k"));
        assert_eq!(fill(3).state().map(<[u8]>::len), Some(3));
        assert_eq!(fill(4).failure().map(Failure::code), Some("state-too-large"));
        let run = Host::new().without_states().run(count, job("t").key("k"));
        assert_eq!(run.failure().map(Failure::is_retry), Some(true));
    }
}
