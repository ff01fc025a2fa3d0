//! The jobs that wait until pushes of their tenant have come back.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{Pushed, StoreError};
use gristmill_core::job::{Name, NewJob};

/// Pushes of a tenant that are on their way at once before others wait.
const AT_ONCE: usize = 2;

/// Jobs in one push.
pub(in crate::redis) const JOBS: usize = 64;

/// The tenants of which single jobs are on their way.
#[derive(Debug, Default)]
pub(in crate::redis) struct Gathering(Mutex<HashMap<Name, TenantPushes>>);

/// The pushes of single jobs of one tenant: how many are on their way, and the jobs that wait.
#[derive(Debug, Default)]
struct TenantPushes {
    on_their_way: usize,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
pub(in crate::redis) struct Waiting {
    pub(in crate::redis) job: NewJob,
    pub(in crate::redis) answer: oneshot::Sender<Result<Pushed, StoreError>>,
}

impl Gathering {
    /// Has the job wait, or counts it as on its way.
    pub(in crate::redis) fn enter(&self, job: &NewJob) -> Option<oneshot::Receiver<Result<Pushed, StoreError>>> {
        let mut tenants = self.0.lock();
        let pushes = tenants.entry(job.spec.topic.tenant.clone()).or_default();
        if pushes.on_their_way < AT_ONCE {
            pushes.on_their_way += 1;
            return None;
        }
        let (answer, answered) = oneshot::channel();
        pushes.waiting.push(Waiting { job: job.clone(), answer });
        Some(answered)
    }

    /// What goes out when a push has come back. Nothing: it is not on its way any more.
    pub(in crate::redis) fn next(&self, tenant: &Name) -> Vec<Waiting> {
        let mut tenants = self.0.lock();
        let Some(pushes) = tenants.get_mut(tenant) else { return Vec::new() };
        let next: Vec<Waiting> = pushes.waiting.drain(..pushes.waiting.len().min(JOBS)).collect();
        if next.is_empty() {
            pushes.on_their_way -= 1;
            if pushes.on_their_way == 0 {
                tenants.remove(tenant);
            }
        }
        next
    }
}
