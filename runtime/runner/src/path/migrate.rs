//! Moves due jobs to ready at the moment they are due, and fires due schedules.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::context::Context;
use crate::precise_timer::PreciseTimer;
use gristmill_core::job::Name;
use gristmill_store::Migrated;

/// Jobs in one call: a burst of due jobs must not hold up the store for longer than a few milliseconds.
const AT_ONCE: usize = 1000;
/// A refused migration is tried again after this long.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// A runner that found nothing to move lets others go first by this long, and by more each time, up to the longest.
const FIRST_DELAY: Duration = Duration::from_millis(5);
const LONGEST_DELAY: Duration = Duration::from_secs(2);
/// Jobs that are due so soon were no other runner's to move.
const EARLY: Duration = Duration::from_millis(5);

/// When a tenant's next job is due; none: it has no delayed job.
#[derive(Debug)]
pub(crate) struct NextDue {
    pub(crate) tenant: Name,
    pub(crate) due_in: Option<Duration>,
    /// False: earlier than known before, or no news. True: this is so, whatever was known.
    pub(crate) exact: bool,
}

/// Migrates until stopped. Sends the names of the tenants whose schedules have fired.
pub(crate) async fn run(
    context: Context,
    timer: PreciseTimer,
    mut news: mpsc::Receiver<NextDue>,
    have_fired: mpsc::Sender<Name>,
) {
    let Context { store, retry, stop, .. } = context;
    let mut timers = Timers::default();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(news) = news.recv() => timers.note(news),
            tenant = wait_until(&timer, timers.first()) => {
                timers.remove(&tenant);
                let due_in = match retry.call(|| store.migrate(&tenant, AT_ONCE)).await {
                    Some(Ok(Migrated { moved, fired, next_due_in })) => {
                        tracing::debug!(target: "gristmill::runner", %tenant, moved, fired, "due jobs are ready");
                        timers.note_moved(&tenant, moved + fired, next_due_in);
                        if fired > 0 {
                            // The receiver counts at most once a second anyway.
                            have_fired.try_send(tenant.clone()).ok();
                        }
                        next_due_in
                    }
                    Some(Err(error)) => {
                        tracing::error!(%tenant, "failed to migrate due jobs: {:#}", anyhow::Error::from(error));
                        Some(AFTER_REFUSAL)
                    }
                    None => return,
                };
                timers.note(NextDue { tenant, due_in, exact: true });
            }
        }
    }
}

/// When the next job of each tenant is due that has delayed ones.
#[derive(Default)]
struct Timers {
    of_tenant: HashMap<Name, Instant>,
    /// The same, the next one first: there is news of every tenant every second.
    in_order: BTreeSet<(Instant, Name)>,
    /// By how much others go first, of tenants whose jobs another runner moves. Where they have died, this one is next.
    delays: HashMap<Name, Duration>,
}

impl Timers {
    fn first(&self) -> Option<(Name, Instant)> {
        self.in_order.first().map(|(at, tenant)| (tenant.clone(), *at))
    }

    fn remove(&mut self, tenant: &Name) {
        if let Some(known) = self.of_tenant.remove(tenant) {
            self.in_order.remove(&(known, tenant.clone()));
        }
    }

    /// Notes what a migration found.
    fn note_moved(&mut self, tenant: &Name, moved: usize, next_due_in: Option<Duration>) {
        if moved > 0 {
            self.delays.remove(tenant);
        } else if next_due_in.is_none_or(|due_in| due_in.is_zero() || due_in > EARLY) {
            let delay = self.delays.get(tenant).map_or(FIRST_DELAY, |delay| LONGEST_DELAY.min(4 * *delay));
            self.delays.insert(tenant.clone(), delay);
        }
    }

    /// Signals are for the runner that is to move the jobs, whichever did so before. All runners find what a poll finds.
    fn note(&mut self, NextDue { tenant, due_in, exact }: NextDue) {
        if !exact {
            self.delays.remove(&tenant);
        }
        let delay = self.delays.get(&tenant).copied().unwrap_or_default();
        let at = due_in.map(|due_in| Instant::now() + due_in + delay);
        let known = self.of_tenant.get(&tenant).copied();
        // Polls must not put off for ever what is due.
        let at = at.map(|at| if due_in == Some(Duration::ZERO) { known.map_or(at, |known| at.min(known)) } else { at });
        let is_earlier = at.is_some_and(|at| known.is_none_or(|known| at < known));
        if !exact && !is_earlier {
            return;
        }
        self.remove(&tenant);
        if let Some(at) = at {
            self.of_tenant.insert(tenant.clone(), at);
            self.in_order.insert((at, tenant));
        }
    }
}

async fn wait_until(timer: &PreciseTimer, next: Option<(Name, Instant)>) -> Name {
    match next {
        Some((tenant, at)) => {
            timer.wait_until(at).await;
            tenant
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenant_that_is_due_next_comes_first() {
        let mut timers = Timers::default();
        let mut note = |tenant: &str, due_s: Option<u64>, exact| {
            let due_in = due_s.map(Duration::from_secs);
            timers.note(NextDue { tenant: tenant.parse().unwrap(), due_in, exact });
            let places = (timers.of_tenant.len(), timers.in_order.len());
            (timers.first().map(|(tenant, _)| tenant.to_string()), places)
        };
        let first = |tenant: &str, count| (Some(tenant.to_owned()), (count, count));
        assert_eq!(note("a", Some(5000), true), first("a", 1));
        assert_eq!(note("b", Some(3000), false), first("b", 2));
        assert_eq!(note("b", Some(9000), false), first("b", 2), "only exact news makes it later");
        assert_eq!(note("b", None, false), first("b", 2), "that is no news");
        assert_eq!(note("b", Some(9000), true), first("a", 2));
        assert_eq!(note("b", Some(1000), false), first("b", 2));
        assert_eq!(note("b", None, true), first("a", 1));
        assert_eq!(note("a", None, true), (None, (0, 0)));
    }

    #[test]
    fn a_runner_that_moves_nothing_lets_others_go_first_until_it_does() {
        let (mut timers, tenant): (_, Name) = (Timers::default(), "a".parse().unwrap());
        let due = |timers: &mut Timers, due_in: Duration, exact| {
            timers.remove(&tenant);
            timers.note(NextDue { tenant: tenant.clone(), due_in: Some(due_in), exact });
            timers.first().unwrap().1.saturating_duration_since(Instant::now())
        };
        let (soon, hour) = (Duration::ZERO, Duration::from_secs(3600));
        for _ in 0..9 {
            timers.note_moved(&tenant, 0, Some(hour));
        }
        assert!(due(&mut timers, hour, true) > hour + LONGEST_DELAY / 2);
        timers.note(NextDue { tenant: tenant.clone(), due_in: Some(soon), exact: true });
        let first = timers.first();
        timers.note(NextDue { tenant: tenant.clone(), due_in: Some(soon), exact: true });
        assert_eq!(timers.first(), first, "polls do not put off what is due");
        timers.note_moved(&tenant, 1, Some(hour));
        assert!(due(&mut timers, hour, true) <= hour);
        timers.note_moved(&tenant, 0, None);
        assert!(due(&mut timers, hour, true) > hour - FIRST_DELAY);
        assert!(due(&mut timers, hour, false) <= hour, "a signal names the runner that is to move the jobs");
        timers.note_moved(&tenant, 0, Some(EARLY));
        assert!(timers.delays.is_empty(), "it was early");
    }
}
