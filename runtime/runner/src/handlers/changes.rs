//! What a look at the folder changed.

use std::path::PathBuf;
use std::time::Duration;

use gristmill_core::job::Name;
use gristmill_sandbox::Component;

/// A component that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the handler.
    pub handler: Name,
    /// The file.
    pub path: PathBuf,
    /// Why it is not served.
    pub reason: String,
}

/// What a look or some loads changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Handlers that were loaded for the first time or in a new version.
    pub loaded: Vec<LoadedFile>,
    pub removed: Vec<Name>,
    pub refused: Vec<Refusal>,
    /// Files that are no component for their name, and what is wrong with that.
    pub misnamed: Vec<(PathBuf, String)>,
    /// Some file may still be being written: look again soon.
    pub unsettled: bool,
    /// Files were found that have to be compiled.
    pub waiting: bool,
}

/// A file that gave a handler.
#[derive(Debug)]
pub struct LoadedFile {
    /// The name of the handler.
    pub handler: Name,
    /// What runs.
    pub component: Component,
    /// It took the place of another version.
    pub is_replaced: bool,
    /// To read, compile and check it.
    pub took: Duration,
}

impl Changes {
    /// The handlers are not what they were.
    pub fn any(&self) -> bool {
        !self.loaded.is_empty() || !self.removed.is_empty() || self.waiting
    }

    /// Adds later changes of other files.
    pub(super) fn extend(&mut self, other: Self) {
        self.loaded.extend(other.loaded);
        self.removed.extend(other.removed);
        self.refused.extend(other.refused);
        self.misnamed.extend(other.misnamed);
        self.unsettled |= other.unsettled;
        self.waiting |= other.waiting;
    }
}
