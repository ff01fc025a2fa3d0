//! The limits that hold for all claims of a topic together.

pub(super) mod tenant;

use super::fault::Done;
use super::memory::topics::Number;
use super::work::Work;
use crate::{ClaimFrom, LimitReached, Signal};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{FleetLimits, TenantFleetLimits};

impl Work<'_> {
    /// How many jobs a claim may take of the topic, of those that it asks for.
    pub(super) fn allowed(&mut self, topic: Number, from: &ClaimFrom) -> Done<usize> {
        let of_tenant = match from.limits.tenant {
            TenantFleetLimits::NONE => None,
            limits => Some(self.allowed_of_tenant(&from.topic.tenant, limits)?),
        };
        let topic = self.topics.get(topic);
        let running = from.limits.max_running.map(|most| u64::from(most).saturating_sub(topic.running));
        let rate = from.limits.rate.map(|rate| rate.allowed(topic.rate_full_at, micros(self.now())));
        let least = running.into_iter().chain(rate).chain(of_tenant).min();
        let least = least.map(|least| usize::try_from(least).unwrap_or(usize::MAX));
        Ok(least.map_or(from.max, |least| least.min(from.max)))
    }

    /// Notes that a claim took `count` jobs of a topic with limits, and which of these keeps the others in line, if one does.
    pub(super) fn note_started(
        &mut self,
        topic: Number,
        limits: FleetLimits,
        count: usize,
        is_held_back: bool,
    ) -> Done<()> {
        if limits.tenant.is_some() {
            let tenant = self.topics.get(topic).id.tenant.clone();
            self.note_started_of_tenant(&tenant, limits.tenant, count)?;
        }
        let now = micros(self.now());
        if let Some(rate) = limits.rate {
            let before = self.topics.get(topic).rate_full_at;
            let full_at = rate.full_again(before, now, count as u64);
            // A bucket that is emptier than empty is cut by any claim, whether it takes a job or not.
            if count > 0 || full_at < before {
                self.topics.change(topic).rate_full_at = full_at;
            }
        }
        let limited = if is_held_back { self.limit_reached(topic, limits)? } else { None };
        let before = self.topics.get(topic).limited;
        if limited.is_some() && limited != before {
            self.limit(topic, limited);
        } else if limited.is_none() && (is_held_back || before.is_some()) {
            // The limits are new ones, or jobs that could not be read have ended at once.
            self.unlimit(topic);
        }
        Ok(())
    }

    fn limit_reached(&mut self, topic: Number, limits: FleetLimits) -> Done<Option<LimitReached>> {
        let now = micros(self.now());
        let tenant = self.topics.get(topic).id.tenant.clone();
        if let Some(budget) = self.budget_use(&tenant, limits.tenant)?.used_up(limits.tenant) {
            return Ok(Some(budget));
        }
        let running = self.topics.get(topic).running;
        if limits.max_running.is_some_and(|most| running >= u64::from(most)) {
            return Ok(Some(LimitReached::MaxRunning));
        }
        if let Some(most) = limits.tenant.max_running
            && self.topics.tenant_run(&tenant).running >= u64::from(most)
        {
            return Ok(Some(LimitReached::TenantMaxRunning));
        }
        let Some(rate) = limits.rate else { return Ok(None) };
        let next_at = rate.next_at(self.topics.get(topic).rate_full_at, now, rate.gathered());
        Ok(Some(LimitReached::Rate { until: Timestamp::from_millis(next_at.div_ceil(1000)) }))
    }

    fn limit(&mut self, topic: Number, limited: Option<LimitReached>) {
        let tenant = self.topics.get(topic).id.tenant.clone();
        self.topics.set_limited(topic, None);
        let earliest = self.topics.due(&tenant).next();
        self.topics.set_limited(topic, limited);
        if let Some(until) = limited.as_ref().and_then(LimitReached::until)
            && earliest.is_none_or(|(earliest, _)| until < earliest)
        {
            self.signals.push(Signal::Due { tenant, wait: self.time.until(until) });
        }
    }

    /// Has a topic claimed from again of which a limit kept jobs in line, if it still has some. If these were cancelled, the next
    /// push announces it. Returns whether it has some.
    pub(super) fn unlimit(&mut self, topic: Number) -> bool {
        self.topics.set_limited(topic, None);
        let found = self.topics.get(topic);
        let is_ready = found.active && found.has_claimable();
        if is_ready {
            self.signals.push(Signal::Ready(found.id.clone()));
        } else if found.active {
            self.topics.change(topic).active = false;
        }
        is_ready
    }

    /// Counts a running job of the topic less. If as many ran as may, of the topic or of its tenant, others start.
    pub(super) fn end_run(&mut self, topic: Number) {
        if self.topics.get(topic).limited == Some(LimitReached::MaxRunning) {
            self.unlimit(topic);
        }
        self.topics.add_running(topic, -1);
        while let Some(waiting) = self.topics.waiting_beside(topic) {
            if self.unlimit(waiting) {
                break;
            }
        }
    }
}

pub(super) fn micros(at: Timestamp) -> u64 {
    at.as_millis().saturating_mul(1000)
}
