//! What this attempt may still use, and what it wants to remember.

use std::fmt;

use crate::Failure;
use crate::bindings::gristmill::job::context as wire;
use crate::host::context as host;

/// Fuel left for this attempt. A unit is about one WebAssembly instruction.
pub fn fuel_remaining() -> u64 {
    host::fuel_remaining()
}

/// Milliseconds since the Unix epoch, by the store's clock.
pub fn now() -> u64 {
    host::now()
}

/// True once the job was cancelled or the runner is shutting down. A handler that never asks is stopped at its deadline.
pub fn is_cancelled() -> bool {
    host::is_cancelled()
}

/// Saves `state` durably: the next attempt finds these bytes in `job.checkpoint`. Each call replaces the last one's.
///
/// # Errors
///
/// Nothing was saved, and an earlier checkpoint stands. The handler may go on.
pub fn checkpoint(state: impl AsRef<[u8]>) -> Result<(), CheckpointError> {
    host::checkpoint(state.as_ref()).map_err(|error| match error {
        wire::CheckpointError::TooLarge(limit_bytes) => CheckpointError::TooLarge { limit_bytes },
        wire::CheckpointError::Unavailable(reason) => CheckpointError::Unavailable { reason },
    })
}

/// Reports progress to people: 0 to 10000 (basis points; more counts as 10000) and a short note.
pub fn progress(basis_points: u32, note: Option<&str>) {
    host::progress(basis_points, note);
}

/// Why a checkpoint was not saved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum CheckpointError {
    /// Larger than the topic allows.
    TooLarge { limit_bytes: u64 },
    /// The store could not take it now.
    Unavailable { reason: String },
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit_bytes } => write!(f, "the checkpoint is larger than {limit_bytes} bytes"),
            Self::Unavailable { reason } => write!(f, "the checkpoint cannot be saved now: {reason}"),
        }
    }
}

/// It does not implement `std::error::Error`: that conversion makes a retry of every error, and one of these is not worth it.
impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        let message = error.to_string();
        match error {
            CheckpointError::TooLarge { .. } => Self::reject("checkpoint-failed", message),
            CheckpointError::Unavailable { .. } => Self::retry("checkpoint-failed", message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_is_too_large_is_not_worth_another_try() {
        let too_large = Failure::from(CheckpointError::TooLarge { limit_bytes: 5 });
        assert_eq!((too_large.code(), too_large.is_retry()), ("checkpoint-failed", false));
        assert_eq!(too_large.message(), "the checkpoint is larger than 5 bytes");
        assert!(Failure::from(CheckpointError::Unavailable { reason: "gone".into() }).is_retry());
    }
}
