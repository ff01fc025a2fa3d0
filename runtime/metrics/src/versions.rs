//! What a topic's attempts came to within the last minute, by the version of its handler: whether the one that was deployed fails where the
//! one before it did not.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

const SLOT: Duration = Duration::from_secs(10);
/// They are a minute.
const SLOTS: usize = 6;

/// Fewer failures than this are not reported.
const FEW: u64 = 3;
/// After this many attempts of the version before, it is known how often that failed; this much more often is worse.
const KNOWN: u64 = 20;
const WORSE: u64 = 5;

/// What the attempts of one version came to within a minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecentOfVersion {
    /// Of the component. `None`: the handler is native, or pull workers do the jobs.
    pub version: Option<[u8; 32]>,
    /// Attempts that were done, snoozed or failed.
    pub attempts: u64,
    /// Those that failed.
    pub failed: u64,
}

/// What the attempts of a topic's handler came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentByVersion {
    /// Of the version whose attempt began last, within the last minute.
    pub serving: RecentOfVersion,
    /// Of the one before it, within the last minute of its attempts.
    pub before: Option<RecentOfVersion>,
}

impl RecentByVersion {
    /// Half of the attempts fail, or a twentieth where the version before failed five times less often.
    pub fn is_failing(&self) -> bool {
        let RecentOfVersion { attempts, failed, .. } = self.serving;
        let is_worse = self.before.is_some_and(|before| {
            before.attempts >= KNOWN
                && failed * before.attempts > WORSE * before.failed * attempts
                && failed * 20 >= attempts
        });
        failed >= FEW && (failed * 2 >= attempts || failed >= WORSE && is_worse)
    }
}

/// The attempts of the latest two versions.
#[derive(Debug, Default)]
pub(super) struct Versions(Mutex<Vec<Counts>>);

#[derive(Debug)]
struct Counts {
    version: Option<[u8; 32]>,
    /// When the latest of its attempts began.
    began: Instant,
    slots: [Slot; SLOTS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Counted from the beginning of the process; 0: never used.
    number: u64,
    attempts: u64,
    failed: u64,
}

impl Versions {
    /// Adds an attempt that began then and ends now.
    pub(super) fn add(&self, version: Option<[u8; 32]>, began: Instant, now: u64, failed: bool) {
        let mut versions = self.0.lock();
        let place = versions.iter().position(|counts| counts.version == version).unwrap_or_else(|| {
            versions.sort_by_key(|counts| std::cmp::Reverse(counts.began));
            versions.truncate(1);
            versions.push(Counts { version, began, slots: Default::default() });
            versions.len() - 1
        });
        let Some(counts) = versions.get_mut(place) else { return };
        counts.began = counts.began.max(began);
        if let Some(slot) = counts.slots.get_mut((now % SLOTS as u64) as usize) {
            if slot.number != now {
                *slot = Slot { number: now, ..Slot::default() };
            }
            slot.attempts += 1;
            slot.failed += u64::from(failed);
        }
    }

    /// `None`: no attempt has ended yet.
    pub(super) fn read(&self, now: u64) -> Option<RecentByVersion> {
        let versions = self.0.lock();
        let serving = versions.iter().max_by_key(|counts| counts.began)?;
        let before = versions.iter().find(|counts| counts.version != serving.version);
        Some(RecentByVersion { serving: serving.until(now), before: before.map(|before| before.until(before.last())) })
    }
}

impl Counts {
    fn last(&self) -> u64 {
        self.slots.iter().map(|slot| slot.number).max().unwrap_or_default()
    }

    fn until(&self, last: u64) -> RecentOfVersion {
        let of = RecentOfVersion { version: self.version, ..RecentOfVersion::default() };
        let recent = self.slots.iter().filter(|slot| slot.number > 0 && slot.number + SLOTS as u64 > last);
        recent.fold(of, |of, slot| RecentOfVersion {
            attempts: of.attempts + slot.attempts,
            failed: of.failed + slot.failed,
            ..of
        })
    }
}

/// The slot that it is now: the first one of a process is far from 0.
pub(super) fn slot(since: Instant, now: Instant) -> u64 {
    now.saturating_duration_since(since).as_secs() / SLOT.as_secs() + SLOTS as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Option<[u8; 32]> = Some([1; 32]);
    const NEW: Option<[u8; 32]> = Some([2; 32]);

    fn add(versions: &Versions, version: Option<[u8; 32]>, began: Instant, now: u64, (good, bad): (u64, u64)) {
        (0..good).for_each(|_| versions.add(version, began, now, false));
        (0..bad).for_each(|_| versions.add(version, began, now, true));
    }

    #[test]
    fn a_deployed_version_that_fails_is_told_from_the_one_before_at_once_and_after_a_rollback_no_more() {
        let (versions, begin) = (Versions::default(), Instant::now());
        let at = |second| begin + Duration::from_secs(second);
        assert_eq!(versions.read(10), None);
        add(&versions, OLD, at(0), 10, (998, 2));
        assert!(!versions.read(10).unwrap().is_failing());
        add(&versions, NEW, at(10), 11, (4, 116));
        // What the version before had begun ends later.
        add(&versions, OLD, at(9), 11, (1, 0));
        let read = versions.read(11).unwrap();
        assert_eq!(read.serving, RecentOfVersion { version: NEW, attempts: 120, failed: 116 });
        assert_eq!(read.before, Some(RecentOfVersion { version: OLD, attempts: 1001, failed: 2 }));
        assert!(read.is_failing());
        let later = versions.read(17).unwrap();
        assert_eq!((later.serving.attempts, later.is_failing()), (0, false), "that was more than a minute ago");
        assert_eq!(later.before, read.before, "the last minute of the version before is kept");
        add(&versions, OLD, at(70), 17, (5, 0));
        let back = versions.read(17).unwrap();
        assert_eq!((back.serving.version, back.serving.attempts, back.is_failing()), (OLD, 5, false));
        add(&versions, None, at(80), 18, (1, 0));
        assert_eq!(versions.read(18).unwrap().before.unwrap().version, OLD, "two versions are remembered");
    }

    #[test]
    fn one_that_fails_more_often_than_the_one_before_is_failing_before_half_of_its_attempts_are() {
        let of = |attempts, failed| RecentOfVersion { version: None, attempts, failed };
        let is_failing = |serving, before| RecentByVersion { serving, before }.is_failing();
        assert!(is_failing(of(4, 3), None) && !is_failing(of(2, 2), None), "two failures say little");
        assert!(!is_failing(of(100, 10), None), "it may always have been so");
        assert!(!is_failing(of(100, 10), Some(of(100, 9))));
        assert!(is_failing(of(100, 10), Some(of(1000, 2))));
        assert!(!is_failing(of(100, 4), Some(of(1000, 2))), "and a twentieth is little");
        assert!(!is_failing(of(100, 10), Some(of(10, 0))), "ten attempts say little, too");
    }
}
