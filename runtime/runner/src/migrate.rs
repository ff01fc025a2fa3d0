//! Moves due jobs to ready at the moment they are due.

use std::collections::HashMap;
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
    let mut timers: HashMap<Name, Instant> = HashMap::new();
    loop {
        let next = timers.iter().min_by_key(|(_, at)| **at).map(|(tenant, at)| (tenant.clone(), *at));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(news) = news.recv() => note(&mut timers, news),
            tenant = wait_until(&timer, next) => {
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
                note(&mut timers, NextDue { tenant, due_in, exact: true });
            }
        }
    }
}

fn note(timers: &mut HashMap<Name, Instant>, NextDue { tenant, due_in, exact }: NextDue) {
    match due_in.map(|due_in| Instant::now() + due_in) {
        None if exact => drop(timers.remove(&tenant)),
        None => {}
        Some(at) => {
            let earlier = timers.get(&tenant).is_none_or(|known| at < *known);
            if exact || earlier {
                timers.insert(tenant, at);
            }
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
