//! How far attempts are: in memory, because only the process that owns the file runs its jobs, and answers for them.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::Settlement;
use gristmill_core::job::{JobId, Lease, Name, Progress};

/// Attempts of which it is known how far they are, at most.
const MOST: usize = 100_000;

/// By job, the delivery and what its handler reported last.
#[derive(Debug, Default)]
pub(in crate::embedded) struct AttemptsProgress(Mutex<HashMap<(Name, JobId), (u64, Progress)>>);

impl AttemptsProgress {
    pub(in crate::embedded) fn note(&self, progress: &[(Lease, Progress)]) {
        let mut known = self.0.lock();
        for (lease, said) in progress {
            // What is left of attempts that ended while they were noted.
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(key(lease), (lease.delivery, said.clone()));
        }
    }

    pub(in crate::embedded) fn of(&self, tenant: &Name, deliveries: &[(JobId, u64)]) -> Vec<Option<Progress>> {
        let known = self.0.lock();
        let of = |(id, delivery): &(JobId, u64)| {
            let (of, said) = known.get(&(tenant.clone(), id.clone()))?;
            (of == delivery).then(|| said.clone())
        };
        deliveries.iter().map(of).collect()
    }

    /// These attempts are over.
    pub(in crate::embedded) fn forget(&self, settlements: &[Settlement]) {
        let mut known = self.0.lock();
        if !known.is_empty() {
            for settlement in settlements {
                known.remove(&key(&settlement.lease));
            }
        }
    }
}

fn key(lease: &Lease) -> (Name, JobId) {
    (lease.topic.tenant.clone(), lease.job.clone())
}
