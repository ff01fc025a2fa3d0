//! The attempts of one tenant: a ring of failures, and one of all others.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::RecentWanted;
use super::attempt::BufferedAttempt;
use gristmill_core::job::{JobId, Name};
use gristmill_core::time::Timestamp;

/// Attempts in one ring.
const ATTEMPTS: usize = 1000;

#[derive(Debug)]
pub(super) struct TenantRings {
    failed: Ring,
    others: Ring,
}

#[derive(Debug)]
struct Ring {
    attempts: VecDeque<BufferedAttempt>,
    bytes: usize,
    /// No attempt that was settled after this time is missing.
    since: Timestamp,
}

impl TenantRings {
    pub(super) fn new(since: Timestamp) -> Self {
        let ring = || Ring { attempts: VecDeque::new(), bytes: 0, since };
        Self { failed: ring(), others: ring() }
    }

    pub(super) fn push(&mut self, kept: BufferedAttempt) {
        if kept.failed { self.failed.push(kept) } else { self.others.push(kept) }
    }

    /// Drops the earliest attempts until they take at most this many bytes: three quarters are for failures.
    pub(super) fn shrink(&mut self, bytes: usize) {
        self.failed.shrink(bytes / 4 * 3);
        self.others.shrink(bytes / 4);
    }

    pub(super) fn forget(&mut self, jobs: &HashSet<&JobId>) {
        for ring in [&mut self.failed, &mut self.others] {
            ring.attempts.retain(|kept| !jobs.contains(kept.line.job()));
            ring.bytes = ring.attempts.iter().map(|kept| kept.bytes).sum();
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.failed.bytes + self.others.bytes
    }

    /// Number and time of the latest attempt.
    pub(super) fn last(&self) -> (u64, Timestamp) {
        let last = [&self.failed, &self.others].into_iter().filter_map(|ring| ring.attempts.back());
        last.map(|kept| (kept.number, kept.at)).max().unwrap_or((0, self.failed.since.max(self.others.since)))
    }

    pub(super) fn of(&self, wanted: &RecentWanted) -> (Vec<BufferedAttempt>, Timestamp) {
        let fits = |kept: &&BufferedAttempt| {
            wanted.topic.as_ref().is_none_or(|topic| kept.line.topic() == topic)
                && wanted.job.as_ref().is_none_or(|job| kept.line.job() == job)
        };
        let latest = |ring: &Ring| ring.attempts.iter().rev().filter(fits).take(wanted.limit).cloned().collect();
        let (mut attempts, mut since): (Vec<BufferedAttempt>, _) = (latest(&self.failed), self.failed.since);
        if !wanted.failed {
            attempts.append(&mut latest(&self.others));
            attempts.sort_unstable_by_key(|kept| std::cmp::Reverse(kept.number));
            attempts.truncate(wanted.limit);
            since = since.max(self.others.since);
        }
        (attempts, since)
    }

    /// How many microseconds each attempt ran, by topic. Failures are kept for longer than the others: those from before the others are left out.
    pub(super) fn run_times(&self) -> BTreeMap<Name, Vec<u64>> {
        let since = self.failed.since.max(self.others.since);
        let mut times: BTreeMap<Name, Vec<u64>> = BTreeMap::new();
        let kept = self.failed.attempts.iter().chain(&self.others.attempts).filter(|kept| kept.at > since);
        for (topic, took) in kept.filter_map(|kept| Some((kept.line.topic(), kept.line.took_us()?))) {
            match times.get_mut(topic) {
                Some(times) => times.push(took),
                None => _ = times.insert(topic.clone(), vec![took]),
            }
        }
        times
    }
}

impl Ring {
    fn push(&mut self, kept: BufferedAttempt) {
        self.bytes += kept.bytes;
        self.attempts.push_back(kept);
    }

    fn shrink(&mut self, bytes: usize) {
        while (self.bytes > bytes || self.attempts.len() > ATTEMPTS)
            && let Some(first) = self.attempts.pop_front()
        {
            self.bytes -= first.bytes;
            self.since = self.since.max(first.at);
        }
    }
}
