//! What others count already, and is asked for when a page is written.

use std::fmt;
use std::sync::OnceLock;

/// Reads a number, at once and at any time.
type Reading = Box<dyn Fn() -> u64 + Send + Sync>;

/// Each is said once, by whoever counts it; until then there is nothing to show.
#[derive(Default)]
pub(super) struct Sources {
    /// Attempts in flight, and how many there may be.
    guests: OnceLock<(u64, Reading)>,
    /// Instances that wait for the next job, and the bytes of their memories.
    kept: OnceLock<Box<dyn Fn() -> (u64, u64) + Send + Sync>>,
    /// Attempts that are missing in the journal.
    journal: OnceLock<Reading>,
}

impl Sources {
    pub(super) fn set_guests(&self, most: u64, running: Reading) {
        self.guests.set((most, running)).ok();
    }

    pub(super) fn set_kept(&self, instances_and_bytes: Box<dyn Fn() -> (u64, u64) + Send + Sync>) {
        self.kept.set(instances_and_bytes).ok();
    }

    pub(super) fn set_journal(&self, lost: Reading) {
        self.journal.set(lost).ok();
    }

    pub(super) fn guests(&self) -> Option<(u64, u64)> {
        self.guests.get().map(|(most, running)| (*most, running()))
    }

    pub(super) fn kept(&self) -> Option<(u64, u64)> {
        self.kept.get().map(|kept| kept())
    }

    pub(super) fn journal(&self) -> Option<u64> {
        self.journal.get().map(|lost| lost())
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}
