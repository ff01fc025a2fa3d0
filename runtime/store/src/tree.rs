//! Cancelling a job with all that is in vain without it: the jobs that wait for it, and the members of batches.

use std::collections::HashSet;

use super::error::StoreError;
use super::inspect::{Cancelled, Control, Query};
use super::workflows::Workflows;
use gristmill_core::job::{JobId, MEMBERS, Name};

/// Jobs that one call cancels, and the last members of their batches.
const STEP: usize = 1000;

/// Jobs that one call looks at once it has found one to cancel, and until then: the end of a long chain comes first.
const LOOK_AT: usize = 10_000;
const LOOK_FOR_ONE: usize = 100_000;

/// What [`cancel_tree`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeCancelled {
    /// Jobs that waited, and are gone.
    pub gone: u64,
    /// Jobs that run, and are marked.
    pub stopping: u64,
    /// No job of the tree remains to be cancelled. If not, the same call goes on.
    pub complete: bool,
}

/// Cancels, or kills, a job and its tree: the jobs that wait for any of the tree, and the members of its batches. About 1000 in one call.
///
/// A job is cancelled before those that it waits for, so none starts because these are cancelled; a batch in one step with the last of its
/// members. Each is found from the first job until it is cancelled, so a call that was interrupted can be repeated.
///
/// # Errors
/// The store is unavailable or refuses; some jobs may have been cancelled.
pub async fn cancel_tree<S: Workflows + Query + Control + ?Sized>(
    store: &S,
    tenant: &Name,
    id: &JobId,
    kill: bool,
) -> Result<TreeCancelled, StoreError> {
    let (ids, complete) = Walk::default().from(store, tenant, id).await?;
    let ended = if kill { store.kill(tenant, &ids).await? } else { store.cancel(tenant, &ids).await? };
    let count = |wanted| ended.iter().filter(|ended| **ended == wanted).count() as u64;
    Ok(TreeCancelled { gone: count(Cancelled::Gone), stopping: count(Cancelled::Stopping), complete })
}

/// A job on the way from the first one, with what is to be cancelled before it.
#[derive(Debug)]
struct Step {
    id: JobId,
    waiters: Vec<JobId>,
    members: Vec<JobId>,
    /// The last member so far, with its own last member: they are cancelled after the batch, which neither starts before nor is forgotten.
    held: Vec<JobId>,
    is_member: bool,
}

/// A walk through a tree, depth first: a job comes after all that wait for it.
#[derive(Debug, Default)]
struct Walk {
    seen: HashSet<JobId>,
    way: Vec<Step>,
    found: Vec<JobId>,
}

impl Walk {
    /// The first jobs to cancel, in order, and whether these are all.
    async fn from<S: Workflows + Query + ?Sized>(
        mut self,
        store: &S,
        tenant: &Name,
        id: &JobId,
    ) -> Result<(Vec<JobId>, bool), StoreError> {
        self.enter(store, tenant, id.clone(), false).await?;
        while self.found.len() < STEP && self.may_look() {
            let Some(step) = self.way.last_mut() else { return Ok((self.found, true)) };
            let unseen = |id: &JobId| !self.seen.contains(id);
            let waiter = std::iter::from_fn(|| step.waiters.pop()).find(unseen);
            let next = waiter.map(|waiter| (waiter, false));
            let next = next.or_else(|| Some((std::iter::from_fn(|| step.members.pop()).find(unseen)?, true)));
            match next {
                Some((next, is_member)) => {
                    if is_member {
                        self.found.append(&mut step.held);
                    }
                    self.enter(store, tenant, next, is_member).await?;
                }
                None => self.leave(),
            }
        }
        let complete = self.way.is_empty();
        Ok((self.found, complete))
    }

    fn may_look(&self) -> bool {
        self.seen.len() <= if self.found.is_empty() { LOOK_FOR_ONE } else { LOOK_AT }
    }

    async fn enter<S: Workflows + Query + ?Sized>(
        &mut self,
        store: &S,
        tenant: &Name,
        id: JobId,
        is_member: bool,
    ) -> Result<(), StoreError> {
        let waiters = store.waiters(tenant, &id).await?;
        let members = members_of(store, tenant, &id).await?;
        self.seen.insert(id.clone());
        self.way.push(Step { id, waiters, members, held: Vec::new(), is_member });
        Ok(())
    }

    fn leave(&mut self) {
        let Some(Step { id, held, is_member, .. }) = self.way.pop() else { return };
        let batch = self.way.last_mut().filter(|_| is_member);
        let found = batch.map_or(&mut self.found, |batch| &mut batch.held);
        found.push(id);
        found.extend(held);
    }
}

/// The members of a batch that have not ended: the jobs that it waits for, and that its producer did not name.
async fn members_of<S: Workflows + Query + ?Sized>(
    store: &S,
    tenant: &Name,
    id: &JobId,
) -> Result<Vec<JobId>, StoreError> {
    let waits_for = store.waits_for(tenant, id, MEMBERS).await?.filter(|waits_for| waits_for.ended < waits_for.total);
    let Some(waits_for) = waits_for else { return Ok(Vec::new()) };
    let Some(job) = store.job(tenant, id).await?.and_then(|view| view.job) else { return Ok(Vec::new()) };
    let named: HashSet<&JobId> = job.spec.options.after.iter().collect();
    let open = waits_for.jobs.into_iter().filter(|job| job.ended.is_none()).map(|job| job.id);
    Ok(open.filter(|id| !named.contains(id)).collect())
}
