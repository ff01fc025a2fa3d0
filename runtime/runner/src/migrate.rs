//! Moves due jobs to ready at the moment they are due.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::precise_timer::PreciseTimer;
use super::start::Context;
use gristmill_core::job::Name;
use gristmill_store::Migrated;

/// Jobs in one call: a burst of due jobs must not hold up the store for longer than a few milliseconds.
const AT_ONCE: usize = 1000;
/// A refused migration is tried again after this long.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// When a tenant's next job is due; none: it has no delayed job.
#[derive(Debug)]
pub(super) struct NextDue {
    pub(super) tenant: Name,
    pub(super) due_in: Option<Duration>,
    /// False: earlier than known before, or no news. True: this is so, whatever was known.
    pub(super) exact: bool,
}

/// Migrates until stopped.
pub(super) async fn run(context: Context, timer: PreciseTimer, mut news: mpsc::Receiver<NextDue>) {
    let Context { store, retry, stop, .. } = context;
    let mut timers = Timers::default();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(news) = news.recv() => timers.note(news),
            tenant = wait_until(&timer, timers.first()) => {
                let due_in = match retry.call(|| store.migrate(&tenant, AT_ONCE)).await {
                    Some(Ok(Migrated { moved, next_due_in })) => {
                        tracing::debug!(target: "gristmill::runner", %tenant, moved, "due jobs are ready");
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
}

impl Timers {
    fn first(&self) -> Option<(Name, Instant)> {
        self.in_order.first().map(|(at, tenant)| (tenant.clone(), *at))
    }

    fn note(&mut self, NextDue { tenant, due_in, exact }: NextDue) {
        let at = due_in.map(|due_in| Instant::now() + due_in);
        let known = self.of_tenant.get(&tenant).copied();
        let is_earlier = at.is_some_and(|at| known.is_none_or(|known| at < known));
        if !exact && !is_earlier {
            return;
        }
        if let Some(known) = known {
            self.of_tenant.remove(&tenant);
            self.in_order.remove(&(known, tenant.clone()));
        }
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
}
