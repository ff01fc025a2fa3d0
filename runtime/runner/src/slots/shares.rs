//! What each tenant has used of this runner, and which tenants the free slots go to: those that have used the least for their
//! weight.
//!
//! Each tenant has a virtual time, which grows by what its attempts cost, divided by its weight; a slot goes to the earliest one
//! (start-time fair queueing: Goyal, Vin, Cheng 1996). An attempt costs the larger part of what it takes of two things: computing
//! and slots (dominant resource fairness: Ghodsi et al. 2011).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Of an attempt that uses no fuel: a fresh instance, and its part of claim and settlement.
const LEAST_NS: u64 = 10_000;
/// What a guest uses in a nanosecond: compiled code does some 2 to 10 units, by what it does.
const FUEL_PER_NS: u64 = 4;
/// What an attempt is taken to cost until one of the tenant's has ended.
const UNKNOWN_NS: u64 = 1_000_000;
/// How much a new cost counts in the mean: one part in this many.
const MEMORY: u64 = 16;
/// A tenant holds few slots if it holds less than one part in this many of those that are kept.
const KEPT_BY_ONE: usize = 4;
/// So that weights divide without loss.
pub(crate) const SCALE: i128 = 1000;

/// A point in virtual time: thousandths of nanoseconds of a guest thread, at weight 1.
pub(crate) type VirtualTime = i128;

/// What a tenant has used since this runner began. Guest threads write, the claimer reads.
#[derive(Debug)]
pub(crate) struct TenantUse {
    used_ns: AtomicU64,
    /// What other runners reported since [`Self::take_others`] was called last.
    others_ns: AtomicU64,
    /// Whether it has topics with ready jobs.
    ready: AtomicBool,
    running: Mutex<Running>,
    mean_ns: AtomicU64,
}

#[derive(Debug)]
struct Running {
    /// Attempts that hold a slot, and whose cost is not known.
    slots: u32,
    /// Those of them that have started, and when each did, added up, as seconds since `epoch`.
    started: u32,
    starts: f64,
    epoch: Instant,
    thread_per_slot: f64,
}

impl Default for TenantUse {
    fn default() -> Self {
        let running = Running { slots: 0, started: 0, starts: 0.0, epoch: Instant::now(), thread_per_slot: 0.0 };
        Self {
            used_ns: AtomicU64::new(0),
            others_ns: AtomicU64::new(0),
            ready: AtomicBool::new(false),
            running: Mutex::new(running),
            mean_ns: AtomicU64::new(UNKNOWN_NS),
        }
    }
}

impl TenantUse {
    /// An attempt gets a slot.
    pub(super) fn begin(&self) {
        self.running.lock().slots += 1;
    }

    /// An attempt starts, in a slot that is worth this part of a thread.
    pub(super) fn start(&self, at: Instant, thread_per_slot: f64) {
        let mut running = self.running.lock();
        running.started += 1;
        running.starts += at.saturating_duration_since(running.epoch).as_secs_f64();
        running.thread_per_slot = thread_per_slot;
    }

    /// The cost of an attempt is known, or there is none. `started`: when it did.
    pub(super) fn end(&self, started: Option<Instant>) {
        let mut running = self.running.lock();
        running.slots = running.slots.saturating_sub(1);
        let Some(started) = started else { return };
        running.started = running.started.saturating_sub(1);
        running.starts -= started.saturating_duration_since(running.epoch).as_secs_f64();
        if running.started == 0 {
            // Differences of fractions do not add up.
            running.starts = 0.0;
        }
    }

    /// Counts an attempt that used this much fuel, and was this long in a slot that is worth `thread_per_slot` of a thread.
    pub(crate) fn charge(&self, fuel: u64, duration: Duration, thread_per_slot: f64) {
        let in_slot = (duration.as_nanos() as f64 * thread_per_slot) as u64;
        let cost = in_slot.max(LEAST_NS + fuel / FUEL_PER_NS);
        self.used_ns.fetch_add(cost, Ordering::Relaxed);
        // Two threads at once may lose one of two costs from the mean, which is an estimate.
        let mean = self.mean_ns.load(Ordering::Relaxed);
        let mean = if mean == UNKNOWN_NS { cost } else { mean - mean / MEMORY + cost / MEMORY };
        self.mean_ns.store(mean.max(LEAST_NS), Ordering::Relaxed);
    }

    /// Counts what its attempts took of other runners.
    pub(crate) fn charge_others(&self, used_us: u64) {
        self.others_ns.fetch_add(used_us.saturating_mul(1000), Ordering::Relaxed);
    }

    /// What its attempts took of other runners since this was asked last, at this weight.
    pub(crate) fn take_others(&self, weight: u32) -> VirtualTime {
        at_weight(self.others_ns.swap(0, Ordering::Relaxed), weight)
    }

    /// What its attempts took of this runner.
    pub(super) fn used_us(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed) / 1000
    }

    /// Slots that its attempts hold.
    pub(super) fn held(&self) -> usize {
        self.running.lock().slots as usize
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// How far the tenant's virtual time has come at this weight: what attempts have used that have ended, and what those have used of slots that
    /// run.
    pub(crate) fn so_far(&self, weight: u32) -> VirtualTime {
        self.with_running(weight, |in_slots, _| in_slots)
    }

    /// The same with what runs as if it had ended.
    pub(crate) fn virtual_time(&self, weight: u32) -> VirtualTime {
        self.with_running(weight, |in_slots, count| in_slots.max(count * self.mean()))
    }

    fn with_running(&self, weight: u32, cost: impl FnOnce(u64, u64) -> u64) -> VirtualTime {
        let (in_slots, count) = {
            let running = self.running.lock();
            let seconds = running.epoch.elapsed().as_secs_f64() * f64::from(running.started) - running.starts;
            ((seconds.max(0.0) * running.thread_per_slot * 1e9) as u64, u64::from(running.slots))
        };
        at_weight(self.used_ns.load(Ordering::Relaxed).saturating_add(cost(in_slots, count)), weight)
    }

    /// How far one more attempt will bring it.
    fn step(&self, weight: u32) -> VirtualTime {
        at_weight(self.mean(), weight)
    }

    fn mean(&self) -> u64 {
        self.mean_ns.load(Ordering::Relaxed)
    }
}

fn at_weight(used_ns: u64, weight: u32) -> VirtualTime {
    i128::from(used_ns) * SCALE / i128::from(weight.max(1))
}

/// A tenant that wants slots.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) usage: &'a TenantUse,
    pub(crate) weight: u32,
    /// Where its virtual time stands.
    pub(crate) at: VirtualTime,
    /// The most slots that it can use.
    pub(crate) room: usize,
}

/// Free slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Free {
    /// All of them.
    pub(crate) all: usize,
    /// Once no more than this many are free, they go to tenants that hold few: so one that floods the runner with long jobs leaves room
    /// for the first job of another.
    pub(crate) kept: usize,
}

impl Free {
    /// What a tenant that holds `held` slots can get of them.
    fn room(self, held: usize) -> usize {
        self.all.saturating_sub(self.kept).max(self.few().saturating_sub(held).min(self.all))
    }

    /// Whether one more of them may go to a tenant that got `given` already.
    fn has_room_for(self, wish: &Wish<'_>, given: usize) -> bool {
        self.all > self.kept || self.room(wish.usage.held() + given) > 0
    }

    /// How many slots count as few.
    fn few(self) -> usize {
        self.kept.div_ceil(KEPT_BY_ONE)
    }
}

/// How many of the free slots go to each: one at a time to the one that is behind the others.
pub(crate) fn share_out(free: Free, wishes: &[Wish<'_>]) -> Vec<usize> {
    let mut given = vec![0; wishes.len()];
    if let ([one], [all]) = (wishes, given.as_mut_slice()) {
        *all = one.room.min(free.room(one.usage.held()));
        return given;
    }
    let mut line: BinaryHeap<_> = wishes.iter().enumerate().map(|(place, wish)| Reverse((wish.at, place))).collect();
    for all in (1..=free.all).rev() {
        let remaining = Free { all, ..free };
        let next = loop {
            let Some(Reverse((at, place))) = line.pop() else { return given };
            match (wishes.get(place), given.get_mut(place)) {
                (Some(wish), Some(slots)) if *slots < wish.room && remaining.has_room_for(wish, *slots) => {
                    *slots += 1;
                    break Reverse((at + wish.usage.step(wish.weight), place));
                }
                _ => {}
            }
        };
        line.push(next);
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(fuel: u64, attempts: u32) -> TenantUse {
        let usage = TenantUse::default();
        (0..attempts).for_each(|_| usage.charge(fuel, Duration::ZERO, 1.0));
        usage
    }

    fn all(all: usize) -> Free {
        Free { all, kept: 0 }
    }

    fn wish(usage: &TenantUse, weight: u32, room: usize) -> Wish<'_> {
        Wish { usage, weight, at: usage.virtual_time(weight), room }
    }

    #[test]
    fn slots_go_to_the_tenant_that_has_used_the_least_for_its_weight() {
        let (busy, quiet) = (used(4_000_000, 10), used(4_000_000, 0));
        assert_eq!(
            share_out(all(5), &[wish(&busy, 1, 9), wish(&quiet, 1, 2)]),
            [3, 2],
            "what one cannot use the other gets"
        );
        assert_eq!(share_out(all(5), &[wish(&busy, 1, 9), wish(&quiet, 1, 9)]), [0, 5]);
        let (light, heavy) = (used(4_000_000, 1), used(4_000_000, 1));
        assert_eq!(share_out(all(8), &[wish(&light, 1, 9), wish(&heavy, 3, 9)]), [2, 6]);
        assert_eq!(share_out(all(8), &[]), [0; 0]);
    }

    #[test]
    fn the_last_slots_go_to_tenants_that_hold_few() {
        let (busy, quiet) = (used(0, 0), used(4_000_000, 9));
        (0..492).for_each(|_| busy.begin());
        let free = |all| Free { all, kept: 8 };
        assert_eq!(share_out(free(8), &[wish(&busy, 1, 99)]), [0]);
        assert_eq!(share_out(free(10), &[wish(&busy, 1, 99)]), [2]);
        assert_eq!(share_out(free(8), &[wish(&quiet, 1, 99)]), [2], "no more than few");
        assert_eq!(share_out(free(1), &[wish(&quiet, 1, 99)]), [1]);
        assert_eq!(share_out(free(8), &[wish(&busy, 1, 99), wish(&quiet, 1, 99)]), [0, 2]);
        assert_eq!(share_out(free(0), &[wish(&quiet, 1, 99), wish(&busy, 1, 99)]), [0, 0]);
        (0..2).for_each(|_| quiet.begin());
        assert_eq!(share_out(free(6), &[wish(&busy, 1, 99), wish(&quiet, 1, 99)]), [0, 0]);
    }

    #[test]
    fn an_attempt_costs_what_it_uses_most_of() {
        let cost = |fuel, ms| {
            let usage = TenantUse::default();
            usage.charge(fuel, Duration::from_millis(ms), 0.125);
            usage.virtual_time(1) / SCALE
        };
        assert_eq!(cost(0, 0), i128::from(LEAST_NS));
        assert_eq!(cost(400_000_000, 8), i128::from(LEAST_NS) + 100_000_000);
        assert_eq!(cost(0, 8), 1_000_000, "a slot for 8 ms is an eighth of a thread for as long");
    }

    #[test]
    fn what_runs_counts_before_it_ends() {
        let usage = used(4_000_000, 1);
        let before = usage.virtual_time(1);
        usage.begin();
        assert_eq!((usage.virtual_time(1), usage.so_far(1)), (before * 2, before));
        usage.end(None);
        assert_eq!(usage.virtual_time(1), before);
        let second = Duration::from_secs(1);
        usage.running.lock().epoch -= second;
        let started = Instant::now() - second;
        usage.begin();
        usage.start(started, 0.5);
        let half = SCALE * 500_000_000;
        assert!(usage.so_far(1) >= before + half && usage.virtual_time(1) >= before + half);
        usage.end(Some(started));
        assert_eq!(usage.virtual_time(1), before);
    }
}
