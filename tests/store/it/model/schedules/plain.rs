//! Schedules, said as plainly as can be. Times are milliseconds since 1970.

use std::collections::VecDeque;

use gristmill_core::schedule::{Missed, Overlap};
use gristmill_store::ScheduleChanged;

use super::super::operations::Ms;

/// A tick that is older was missed.
const LATE_MS: Ms = 60_000;
/// So many missed ticks are made up for, and so many ticks get their jobs at once.
const MADE_UP_FOR: usize = 1000;
const AT_ONCE: usize = 100;
/// So many firings are remembered.
const REMEMBERED: usize = 10;

/// What became of a tick; jobs are named by what stands last in their id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fired {
    Job(String),
    Overlap(String),
    Missed,
}

#[derive(Debug, Clone)]
pub(super) struct Schedule {
    pub(super) every: Ms,
    pub(super) missed: Missed,
    pub(super) overlap: Overlap,
    pub(super) paused: bool,
    /// None while it is paused.
    pub(super) next: Option<Ms>,
    pub(super) last_job: Option<String>,
    /// Each with its tick, the latest first.
    pub(super) firings: VecDeque<(Ms, Fired)>,
}

/// A name's schedule, and its jobs, which outlive it.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) schedule: Option<Schedule>,
    /// Ready jobs in the order in which they became ready, and those that run.
    pub(super) ready: VecDeque<String>,
    pub(super) running: Vec<String>,
}

fn next_after(every: Ms, now: Ms) -> Ms {
    (now / every + 1) * every
}

impl Schedule {
    fn remember(&mut self, tick: Ms, fired: Fired) {
        self.firings.push_front((tick, fired));
        self.firings.truncate(REMEMBERED);
    }
}

impl Named {
    pub(super) fn put(&mut self, now: Ms, every: Ms, missed: Missed, overlap: Overlap) -> ScheduleChanged {
        let Some(schedule) = &mut self.schedule else {
            let (next, firings) = (Some(next_after(every, now)), VecDeque::new());
            self.schedule = Some(Schedule { every, missed, overlap, paused: false, next, last_job: None, firings });
            return ScheduleChanged::Made;
        };
        if (schedule.every, schedule.missed, schedule.overlap) == (every, missed, overlap) {
            return ScheduleChanged::Unchanged;
        }
        if schedule.every != every && !schedule.paused {
            schedule.next = Some(next_after(every, now));
        }
        (schedule.every, schedule.missed, schedule.overlap) = (every, missed, overlap);
        ScheduleChanged::Changed
    }

    /// What was due before is forgotten.
    pub(super) fn pause(&mut self, now: Ms, paused: bool) -> ScheduleChanged {
        let Some(schedule) = &mut self.schedule else { return ScheduleChanged::Unknown };
        if schedule.paused == paused {
            return ScheduleChanged::Unchanged;
        }
        schedule.paused = paused;
        schedule.next = (!paused).then(|| next_after(schedule.every, now));
        ScheduleChanged::Changed
    }

    pub(super) fn run(&mut self, now: Ms, job: &str) -> ScheduleChanged {
        let Some(schedule) = &mut self.schedule else { return ScheduleChanged::Unknown };
        if schedule.last_job.as_deref() == Some(job) {
            return ScheduleChanged::Unchanged;
        }
        schedule.last_job = Some(job.to_owned());
        schedule.remember(now, Fired::Job(job.to_owned()));
        self.ready.push_back(job.to_owned());
        ScheduleChanged::Changed
    }

    pub(super) fn remove(&mut self) -> ScheduleChanged {
        self.schedule.take().map_or(ScheduleChanged::Unknown, |_| ScheduleChanged::Changed)
    }

    /// Fires until nothing is due.
    pub(super) fn migrate(&mut self, now: Ms) {
        while self.schedule.as_ref().and_then(|schedule| schedule.next).is_some_and(|next| next <= now) {
            self.fire(now);
        }
    }

    fn fire(&mut self, now: Ms) {
        let Some(schedule) = &mut self.schedule else { return };
        let Some(first) = schedule.next else { return };
        // Of many ticks the latest are looked at. The first one may be of another interval.
        let looked_at = if schedule.missed == Missed::All { MADE_UP_FOR } else { AT_ONCE };
        let (every, from) = (schedule.every, first.div_ceil(schedule.every));
        let mut ticks: VecDeque<Ms> = (from..=now / every).map(|number| number * every).collect();
        let are_all = ticks.len() <= looked_at;
        ticks.drain(..ticks.len().saturating_sub(looked_at));
        let (left_out, late, fresh) = {
            let (mut left_out, fresh): (Vec<Ms>, Vec<Ms>) = ticks.into_iter().partition(|tick| now - tick > LATE_MS);
            let made_up_for = match schedule.missed {
                Missed::Skip => 0,
                Missed::One => usize::from(fresh.is_empty()),
                Missed::All => left_out.len(),
            };
            let late = left_out.split_off(left_out.len().saturating_sub(made_up_for));
            (left_out, late, fresh)
        };
        let mut ticks: Vec<Ms> = late.into_iter().chain(fresh).collect();
        schedule.next = Some(ticks.get(AT_ONCE).copied().unwrap_or_else(|| next_after(every, now)));
        ticks.truncate(AT_ONCE);
        if let Some(missed) = left_out.last().copied().or_else(|| (!are_all).then_some(first)) {
            schedule.remember(missed, Fired::Missed);
        }
        for tick in ticks {
            let last = schedule.last_job.clone().filter(|job| self.ready.contains(job) || self.running.contains(job));
            if let (Overlap::Skip, Some(job)) = (schedule.overlap, last) {
                schedule.remember(tick, Fired::Overlap(job));
                continue;
            }
            schedule.last_job = Some(tick.to_string());
            schedule.remember(tick, Fired::Job(tick.to_string()));
            self.ready.push_back(tick.to_string());
        }
    }
}
