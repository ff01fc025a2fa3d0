//! How far attempts are: in memory, because only the process that owns the file runs its jobs, and answers for them.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::Settlement;
use gristmill_core::job::{JobId, Lease, Name, Progress};

/// Attempts of which it is known how far they are, at most.
const MOST: usize = 100_000;

/// By job, what the handler of its latest attempt reported last.
#[derive(Debug, Default)]
pub(in crate::embedded) struct AttemptsProgress(Mutex<HashMap<(Name, JobId), Reported>>);

#[derive(Debug)]
struct Reported {
    delivery: u64,
    /// The claim's number: a job that gets the id of one that has ended may have the same delivery.
    batch: Option<u64>,
    progress: Progress,
}

impl Reported {
    /// Whether it is of a later attempt than this.
    fn is_later(&self, than: &Lease) -> bool {
        match (self.batch, than.batch) {
            (Some(batch), Some(than)) => batch > than,
            _ => self.delivery > than.delivery,
        }
    }
}

impl AttemptsProgress {
    pub(in crate::embedded) fn note(&self, progress: &[(Lease, Progress)]) {
        let mut known = self.0.lock();
        for (lease, said) in progress {
            // What is left of attempts that ended while they were noted.
            if known.len() >= MOST {
                known.clear();
            }
            if known.get(&key(lease)).is_none_or(|reported| !reported.is_later(lease)) {
                let Lease { delivery, batch, .. } = *lease;
                known.insert(key(lease), Reported { delivery, batch, progress: said.clone() });
            }
        }
    }

    pub(in crate::embedded) fn of(&self, tenant: &Name, deliveries: &[(JobId, u64)]) -> Vec<Option<Progress>> {
        let known = self.0.lock();
        let of = |(id, delivery): &(JobId, u64)| {
            let reported = known.get(&(tenant.clone(), id.clone()))?;
            (reported.delivery == *delivery).then(|| reported.progress.clone())
        };
        deliveries.iter().map(of).collect()
    }

    /// These attempts are over.
    pub(in crate::embedded) fn forget(&self, settlements: &[Settlement]) {
        let mut known = self.0.lock();
        if !known.is_empty() {
            for Settlement { lease, .. } in settlements {
                if known.get(&key(lease)).is_some_and(|reported| !reported.is_later(lease)) {
                    known.remove(&key(lease));
                }
            }
        }
    }
}

fn key(lease: &Lease) -> (Name, JobId) {
    (lease.topic.tenant.clone(), lease.job.clone())
}
