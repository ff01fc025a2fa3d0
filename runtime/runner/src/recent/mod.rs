//! The attempts that this runner has settled last, with the log lines of their guests, in memory.
//!
//! Bounded for each tenant, so that one with many attempts pushes out no other's, and in all. Failures have a ring of their own: successes do
//! not push them out.

mod attempt;
mod ring;
mod run_times;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use self::attempt::BufferedAttempt;
pub use self::attempt::{LoggedLine, RecentAttempt};
use self::ring::TenantRings;
pub use self::run_times::RunTimes;
use super::record::AttemptRecord;
use gristmill_core::job::{JobId, Name};
use gristmill_core::time::Timestamp;
use gristmill_sandbox::LogTail;

/// What the attempts of all tenants may take, in bytes.
const BYTES: usize = 32 << 20;
/// What those of one tenant may take, even if it is the only one.
const TENANT_BYTES: usize = 2 << 20;
/// Tenants at once. Those whose last attempt was the earliest are forgotten.
const TENANTS: usize = 1024;

/// The attempts that a runner has settled last. Clones share them.
///
/// Of each tenant at most 1000 failures and 1000 other attempts are kept, in at most 2 MiB; of all tenants together at most 32 MiB, which is taken from
/// those that use the most, and at most 1024 tenants.
#[derive(Debug, Clone)]
pub struct RecentAttempts(Arc<Mutex<Rings>>);

/// Which attempts are wanted.
#[derive(Debug, Clone)]
pub struct RecentWanted {
    /// Of this tenant.
    pub tenant: Name,
    /// Of this topic only.
    pub topic: Option<Name>,
    /// At this job only.
    pub job: Option<JobId>,
    /// Failures only.
    pub failed: bool,
    /// At most this many, the latest.
    pub limit: usize,
}

#[derive(Debug)]
struct Rings {
    tenants: HashMap<Name, TenantRings>,
    /// Of all tenants.
    bytes: usize,
    /// Of the next attempt.
    number: u64,
    /// What a tenant that is new here may have had before that is not here.
    since: Timestamp,
}

impl Default for RecentAttempts {
    /// Begins now.
    fn default() -> Self {
        Self::since(Timestamp::now())
    }
}

impl RecentAttempts {
    fn since(since: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Rings { tenants: HashMap::new(), bytes: 0, number: 0, since })))
    }

    /// Adds attempts that were settled now.
    pub(super) fn add<'a>(&self, attempts: impl IntoIterator<Item = (&'a AttemptRecord, Option<LogTail>)>) {
        self.add_at(Timestamp::now(), attempts);
    }

    fn add_at<'a>(&self, now: Timestamp, attempts: impl IntoIterator<Item = (&'a AttemptRecord, Option<LogTail>)>) {
        let mut rings = self.0.lock();
        for (record, log) in attempts {
            rings.add(now, record, log);
        }
    }

    /// The attempts that are wanted, the latest first, and since when none is missing: of those that were settled after that time, all that are wanted
    /// and fit into the limit are here.
    pub fn of(&self, wanted: &RecentWanted) -> (Vec<RecentAttempt>, Timestamp) {
        let (kept, since) = self.0.lock().of(wanted);
        // Without the lock: what is shown is made of what was kept.
        (kept.into_iter().map(RecentAttempt::from).collect(), since)
    }
}

impl RecentAttempts {
    /// Forgets the attempts at these jobs, with their messages and logs.
    pub fn forget(&self, tenant: &Name, jobs: &[JobId]) {
        let mut rings = self.0.lock();
        let Some(of_tenant) = rings.tenants.get_mut(tenant).filter(|_| !jobs.is_empty()) else { return };
        let before = of_tenant.bytes();
        of_tenant.forget(&jobs.iter().collect());
        let now = of_tenant.bytes();
        rings.bytes -= before - now;
    }

    /// How long the attempts of a tenant ran, by topic: of those that are kept, the latest of which none is missing.
    pub fn run_times(&self, tenant: &Name) -> BTreeMap<Name, RunTimes> {
        let times = self.0.lock().tenants.get(tenant).map(TenantRings::run_times).unwrap_or_default();
        times.into_iter().filter_map(|(topic, times)| Some((topic, RunTimes::of(times)?))).collect()
    }
}

impl Rings {
    fn add(&mut self, now: Timestamp, record: &AttemptRecord, log: Option<LogTail>) {
        self.number += 1;
        let kept = BufferedAttempt::new(self.number, now, record, log);
        let tenant = &record.claim.lease.topic.tenant;
        let rings = match self.tenants.get_mut(tenant) {
            Some(rings) => rings,
            None => {
                if self.tenants.len() >= TENANTS {
                    self.forget_tenants();
                }
                let since = self.since;
                self.tenants.entry(tenant.clone()).or_insert_with(|| TenantRings::new(since))
            }
        };
        self.bytes -= rings.bytes();
        rings.push(kept);
        rings.shrink(TENANT_BYTES);
        self.bytes += rings.bytes();
        if self.bytes > BYTES {
            self.shrink();
        }
    }

    /// Takes from the tenants that use the most, down to what all may use. A little more than necessary, so that this is seldom done.
    fn shrink(&mut self) {
        let level = level(self.tenants.values().map(TenantRings::bytes).collect(), BYTES - BYTES / 8);
        for rings in self.tenants.values_mut().filter(|rings| rings.bytes() > level) {
            rings.shrink(level);
        }
        self.bytes = self.tenants.values().map(TenantRings::bytes).sum();
    }

    /// Forgets an eighth of the tenants: those whose last attempt was the earliest.
    fn forget_tenants(&mut self) {
        let mut last: Vec<_> = self.tenants.values().map(TenantRings::last).collect();
        last.sort_unstable();
        let until = last.get(TENANTS / 8).copied().unwrap_or_default();
        self.tenants.retain(|_, rings| {
            let stays = rings.last() > until;
            if !stays {
                self.since = self.since.max(rings.last().1);
                self.bytes -= rings.bytes();
            }
            stays
        });
    }

    fn of(&self, wanted: &RecentWanted) -> (Vec<BufferedAttempt>, Timestamp) {
        self.tenants.get(&wanted.tenant).map_or((Vec::new(), self.since), |rings| rings.of(wanted))
    }
}

/// The most that each may use so that all together use at most `most`.
fn level(mut sizes: Vec<usize>, most: usize) -> usize {
    sizes.sort_unstable();
    let (mut remaining, mut others) = (most, sizes.len());
    for size in sizes {
        if size.saturating_mul(others) > remaining {
            return remaining / others;
        }
        remaining -= size;
        others -= 1;
    }
    most
}
