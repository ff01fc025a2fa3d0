//! How many attempts of a topic have begun and not ended, and whether others are held back because of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts against a bound that each call names, since manifests change.
#[derive(Debug, Default)]
pub(super) struct Begun {
    count: AtomicUsize,
    /// Work is held back until one ends.
    holds_back: AtomicBool,
}

impl Begun {
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether one more may begin. If not, the next call of [`Self::end`] reports that. For one caller at a time.
    pub(super) fn has_room(&self, most: usize) -> bool {
        // The second look is for an end between the first one and the note.
        while self.count.load(Ordering::SeqCst) >= most {
            if self.holds_back.swap(true, Ordering::SeqCst) {
                return false;
            }
        }
        true
    }

    /// Begins one more, unless that is too many.
    pub(super) fn begin(&self, most: usize) -> bool {
        let more = |count| (count < most).then_some(count + 1);
        self.count.fetch_update(Ordering::SeqCst, Ordering::Relaxed, more).is_ok()
    }

    /// One has ended. Returns whether something was held back, which may begin now.
    pub(super) fn end(&self) -> bool {
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.holds_back.load(Ordering::SeqCst) && self.holds_back.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_end_reports_what_was_held_back() {
        let begun = Begun::default();
        assert!(begun.has_room(2) && begun.begin(2) && begun.begin(2));
        assert!(!begun.begin(2) && !begun.has_room(2) && !begun.has_room(2));
        assert_eq!((begun.end(), begun.end(), begun.count()), (true, false, 0));
        assert!(begun.has_room(2) && !begun.has_room(0));
        assert!(begun.begin(1) && begun.end());
    }
}
