//! The exit codes.

use std::process::ExitCode;

use super::screen::Closed;
use crate::StartError;
use gristmill_config::ManifestError;
use gristmill_store::StoreError;

/// Shown under every help text.
pub(super) const HELP: &str = "\
Exit codes:
  0  done
  1  failed, or `check`, `build` or `fsck` found a problem
  2  the command line or the manifest makes no sense
  3  the store, or a server that the command needs, is unavailable
  4  the job was not completed: it is dead or expired
  5  waited long enough: the job is still on its way, or `build`'s component is
     not served yet";

/// The exit codes. They are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    StoreUnavailable = 3,
    NotCompleted = 4,
    TimedOut = 5,
}

/// The command line contradicts itself in a way that its grammar cannot express.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(pub(super) String);

/// Only a server can answer, and none is running here. Says why, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoServer(pub(super) &'static str);

impl Exit {
    /// The code that an error ends with.
    pub(super) fn of(error: &anyhow::Error) -> Self {
        for cause in error.chain() {
            if let Some(error) = cause.downcast_ref::<StoreError>() {
                return Self::of_store(error);
            }
            match cause.downcast_ref::<StartError>() {
                Some(StartError::Store(error)) => return Self::of_store(error),
                Some(StartError::NoTokens(_) | StartError::NoCacheDirectory) => return Self::Usage,
                _ => {}
            }
            if cause.is::<Usage>() || cause.is::<ManifestError>() {
                return Self::Usage;
            }
            if cause.is::<NoServer>() {
                return Self::StoreUnavailable;
            }
            // The reader has seen enough, as in `gristmill stats | head -1`.
            if cause.is::<Closed>() {
                return Self::Done;
            }
        }
        Self::Failed
    }

    fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. }
            | StoreError::Full { .. }
            | StoreError::Unconfirmed { .. }
            | StoreError::Owned { .. } => Self::StoreUnavailable,
            // A wrong password or database.
            StoreError::Refused { doing: "connect", .. } => Self::StoreUnavailable,
            StoreError::BadAddress { .. } => Self::Usage,
            StoreError::Refused { .. } | StoreError::Unreadable { .. } => Self::Failed,
        }
    }

    /// As `--json` calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::StoreUnavailable => "store-unavailable",
            Self::NotCompleted => "not-completed",
            Self::TimedOut => "timed-out",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    fn unavailable() -> StoreError {
        StoreError::Unavailable { store: "redis://nowhere".into(), source: anyhow!("connection refused") }
    }

    fn refused(doing: &'static str) -> StoreError {
        StoreError::Refused { store: "redis://here".into(), doing, source: anyhow!("no") }
    }

    #[test]
    fn errors_end_with_their_code_however_deep_they_lie() {
        let usage = || Usage("--id names one job".into());
        let cases = [
            (anyhow::Error::new(unavailable()), Exit::StoreUnavailable),
            (Err::<(), _>(unavailable()).context("failed to push").unwrap_err(), Exit::StoreUnavailable),
            (anyhow::Error::new(refused("connect")), Exit::StoreUnavailable),
            (anyhow::Error::new(refused("push jobs")), Exit::Failed),
            (Err::<(), _>(usage()).context("failed to push").unwrap_err(), Exit::Usage),
            (NoServer("start one").into(), Exit::StoreUnavailable),
            (anyhow!("something else"), Exit::Failed),
            (Closed.into(), Exit::Done),
        ];
        for (error, exit) in cases {
            assert_eq!(Exit::of(&error), exit, "{error:#}");
        }
    }

    #[test]
    fn the_help_names_every_code() {
        for code in 0..=5 {
            assert!(HELP.contains(&format!("\n  {code}  ")));
        }
    }
}
