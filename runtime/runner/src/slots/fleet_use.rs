//! What each tenant has used of all runners, so that its share holds in the whole fleet and not only in each runner.
//!
//! The bill's entries carry it: each says what the tenant has used of this runner, and its answer what it has used of all. A tenant that
//! waits for its share has no costs to bill. While it competes with others, the runner sends an entry without costs.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::shares::TenantUse;
use gristmill_core::job::Name;

/// Two answers that are further apart are not compared: what other runners used in between is ignored, like what was used before this runner
/// started.
const IN_TURN: Duration = Duration::from_secs(5);

/// The tenants whose attempts use this runner, and how much. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shares(Arc<Mutex<HashMap<Name, Weak<TenantUse>>>>);

impl Shares {
    /// Where the use of a tenant is counted.
    pub(crate) fn of(&self, tenant: &Name) -> Arc<TenantUse> {
        let mut tenants = self.0.lock();
        if let Some(known) = tenants.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::<TenantUse>::default();
        tenants.insert(tenant.clone(), Arc::downgrade(&new));
        new
    }

    /// All that are in use.
    fn all(&self) -> Vec<(Name, Arc<TenantUse>)> {
        let mut tenants = self.0.lock();
        tenants.retain(|_, usage| usage.strong_count() > 0);
        tenants.iter().filter_map(|(name, usage)| Some((name.clone(), usage.upgrade()?))).collect()
    }
}

/// What has been sent to the store of this runner's tenants, and what it answered.
#[derive(Debug)]
pub(crate) struct FleetUse {
    shares: Shares,
    tenants: HashMap<Name, ReportedUse>,
}

#[derive(Debug)]
struct ReportedUse {
    usage: Weak<TenantUse>,
    sent_us: u64,
    /// What the store answered last, and when.
    answer: Option<(u64, Instant)>,
    /// No other process can use its store.
    is_alone: bool,
}

impl FleetUse {
    pub(crate) fn new(shares: Shares) -> Self {
        Self { shares, tenants: HashMap::new() }
    }

    /// Takes in which tenants there are, and returns those that compete for slots, if other processes can use the store.
    pub(crate) fn competing(&mut self) -> Vec<Name> {
        let all = self.shares.all();
        let ready: Vec<Name> = all.iter().filter(|(_, usage)| usage.is_ready()).map(|(name, _)| name.clone()).collect();
        let mut before = std::mem::take(&mut self.tenants);
        for (name, usage) in all {
            let usage = Arc::downgrade(&usage);
            let reported = before.remove(&name).filter(|reported| reported.usage.ptr_eq(&usage));
            let new = || ReportedUse { usage, sent_us: 0, answer: None, is_alone: false };
            self.tenants.insert(name, reported.unwrap_or_else(new));
        }
        let is_shared = |tenant: &Name| self.tenants.get(tenant).is_some_and(|reported| !reported.is_alone);
        if ready.len() > 1 { ready.into_iter().filter(is_shared).collect() } else { Vec::new() }
    }

    /// What the tenant has used of this runner that has not been sent to the store, in microseconds. It counts as sent from now on.
    pub(crate) fn take_us(&mut self, tenant: &Name) -> u64 {
        let Some((reported, usage)) = self.find(tenant) else { return 0 };
        let used_us = usage.used_us();
        used_us - std::mem::replace(&mut reported.sent_us, used_us)
    }

    fn find(&mut self, tenant: &Name) -> Option<(&mut ReportedUse, Arc<TenantUse>)> {
        let reported = self.tenants.get_mut(tenant)?;
        let usage = reported.usage.upgrade()?;
        Some((reported, usage))
    }

    /// Notes what the store answered to an entry with `sent_us` in it.
    pub(crate) fn learn(&mut self, tenant: &Name, sent_us: u64, total_us: Option<u64>, now: Instant) {
        let Some((reported, usage)) = self.find(tenant) else { return };
        reported.is_alone = total_us.is_none();
        let Some(total_us) = total_us else { return };
        if let Some((before, at)) = reported.answer.replace((total_us, now))
            && now - at < IN_TURN
        {
            usage.charge_others(total_us.saturating_sub(before).saturating_sub(sent_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::shares::SCALE;

    fn tenant() -> Name {
        "acme".parse().unwrap()
    }

    #[test]
    fn what_others_use_counts_from_one_answer_to_the_next() {
        let (shares, acme, now) = (Shares::default(), tenant(), Instant::now());
        let usage = shares.of(&acme);
        let mut fleet = FleetUse::new(shares.clone());
        assert_eq!(fleet.competing(), []);
        usage.charge(0, Duration::from_millis(3), 1.0);
        assert_eq!((fleet.take_us(&acme), fleet.take_us(&acme)), (3000, 0));
        let mut learn = |sent_us, total_us, now| {
            fleet.learn(&acme, sent_us, Some(total_us), now);
            usage.take_others(1) / SCALE
        };
        assert_eq!(learn(3000, 50_000, now), 0, "what was used before is nothing that it owes");
        assert_eq!(learn(1000, 53_000, now), 2_000_000);
        assert_eq!(learn(0, 10, now), 0, "the store began anew");
        assert_eq!(learn(0, 70_000, now + IN_TURN), 0, "it was not asked for a while");
        drop(usage);
        assert_eq!(fleet.competing(), []);
        assert!(fleet.tenants.is_empty(), "what is not in use is forgotten");
    }

    #[test]
    fn tenants_compete_if_several_are_ready() {
        let shares = Shares::default();
        let [acme, other] = ["acme", "other"].map(|name| shares.of(&name.parse().unwrap()));
        let mut fleet = FleetUse::new(shares);
        acme.set_ready(true);
        assert_eq!(fleet.competing(), []);
        other.set_ready(true);
        assert_eq!(fleet.competing().len(), 2);
        acme.set_ready(false);
        assert_eq!(fleet.competing(), []);
    }
}
