//! What can go wrong below the contract, and what it means to the caller.

use rusqlite::ErrorCode;

use crate::StoreError;
use gristmill_core::job::TopicId;

/// Why a request was not carried out. Cloned where one failed commit is many requests' failure.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Fault {
    #[error("{message} (SQLite {extended})")]
    Sqlite { code: ErrorCode, extended: i32, message: String },
    #[error("job {job} cannot be read: {problem}")]
    Unreadable { job: String, problem: String },
    #[error("topic {topic}: {fault}")]
    Damaged { topic: TopicId, fault: Box<Self> },
    #[error("{0}")]
    Refused(String),
    #[error("the store is closed")]
    Closed,
    /// The file is not what it was.
    #[error("{0}")]
    Gone(String),
}

pub(super) type Done<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(failure, message) => Self::Sqlite {
                code: failure.code,
                extended: failure.extended_code,
                message: message.unwrap_or_else(|| failure.to_string()),
            },
            other => Self::Refused(other.to_string()),
        }
    }
}

/// What a person can do about a failure that may pass, or about one that will not.
fn remedy(code: ErrorCode) -> Option<(bool, &'static str)> {
    Some(match code {
        ErrorCode::DiskFull => {
            (true, "make room on its disk: nothing was stored now, and what was acknowledged before is safe")
        }
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen => (true, "look at its disk and at the system's log"),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            (true, "make the file and its folder writable for this process")
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            (true, "another process holds a lock on the file; end its transaction")
        }
        ErrorCode::OutOfMemory => (true, "there is no memory left"),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            (false, "the file is damaged; move it away together with its -wal, and restore a backup")
        }
        _ => return None,
    })
}

impl Fault {
    /// The fault of a topic, if what is stored of it is at fault and would be again.
    pub(super) fn of_topic(self, topic: &TopicId) -> Self {
        match self {
            Self::Sqlite { code: ErrorCode::DatabaseCorrupt, .. } | Self::Unreadable { .. } => {
                Self::Damaged { topic: topic.clone(), fault: Box::new(self) }
            }
            fault => fault,
        }
    }

    /// Whether the file cannot be what was written.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { fault, .. } => fault.is_damage(),
            Self::Sqlite { code, .. } => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase),
            _ => false,
        }
    }

    /// As the contract says it, for the store at `store`.
    pub(super) fn into_error(self, store: &str, doing: &'static str) -> StoreError {
        let store = store.to_owned();
        match self {
            Self::Unreadable { job, problem } => StoreError::Unreadable { store, job, problem },
            Self::Damaged { fault, .. } => fault.into_error(&store, doing),
            Self::Gone(problem) => StoreError::Unavailable { store, source: anyhow::anyhow!(problem) },
            Self::Closed => StoreError::Unavailable { store, source: anyhow::anyhow!("it is closed") },
            Self::Refused(problem) => StoreError::Refused { store, doing, source: anyhow::anyhow!(problem) },
            Self::Sqlite { code, .. } => match remedy(code) {
                Some((true, remedy)) => {
                    StoreError::Unavailable { store, source: anyhow::Error::from(self).context(remedy) }
                }
                Some((false, remedy)) => {
                    StoreError::Refused { store, doing, source: anyhow::Error::from(self).context(remedy) }
                }
                None => StoreError::Refused { store, doing, source: self.into() },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_may_pass_are_distinguished_from_others() {
        let away = |code| {
            let fault = Fault::Sqlite { code, extended: 0, message: "m".into() };
            fault.into_error("/jobs.db", "push jobs").is_unavailable()
        };
        for passing in [ErrorCode::DiskFull, ErrorCode::SystemIoFailure, ErrorCode::DatabaseBusy, ErrorCode::ReadOnly] {
            assert!(away(passing), "{passing:?}");
        }
        for lasting in [ErrorCode::DatabaseCorrupt, ErrorCode::NotADatabase, ErrorCode::ConstraintViolation] {
            assert!(!away(lasting), "{lasting:?}");
        }
    }

    #[test]
    fn the_error_names_file_cause_and_remedy() {
        let full = Fault::Sqlite { code: ErrorCode::DiskFull, extended: 13, message: "disk is full".into() };
        let text = format!("{:#}", anyhow::Error::from(full.into_error("/jobs.db", "push jobs")));
        for part in ["/jobs.db", "make room", "disk is full", "nothing was stored now"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("nothing is lost"), "the job of a push that was not stored is just that: {text}");
    }
}
