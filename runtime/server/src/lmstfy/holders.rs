//! Which client has had which job, so that a late ack of one client does not end the run of another.
//!
//! lmstfy's ack names a job and no delivery. This server remembers which client claimed a job here, by token and address.
//! It cannot distinguish clients that share both, nor clients that use several servers.

use std::collections::HashMap;

use gristmill_core::job::{JobId, Name};
use parking_lot::Mutex;

/// Jobs that are remembered in each of two generations, until they are acked.
const JOBS: usize = 32_768;
/// Deliveries of one job that are remembered, the last ones.
const DELIVERIES: usize = 8;

/// The deliveries of one job: the number, and the client that got it.
type Deliveries = Vec<(u64, String)>;

#[derive(Debug, Default)]
pub(super) struct Holders(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<(Name, JobId), Deliveries>,
    old: HashMap<(Name, JobId), Deliveries>,
}

impl Holders {
    /// Remembers that `client` got this delivery of the job.
    pub(super) fn note(&self, tenant: &Name, job: &JobId, delivery: u64, client: &str) {
        let (key, mut generations) = ((tenant.clone(), job.clone()), self.0.lock());
        let mut deliveries = generations.take(&key);
        deliveries.push((delivery, client.to_owned()));
        let over = deliveries.len().saturating_sub(DELIVERIES);
        deliveries.drain(..over);
        if generations.young.len() >= JOBS {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(key, deliveries);
    }

    /// Whether `client` is known to have had a delivery of the job.
    pub(super) fn had(&self, tenant: &Name, job: &JobId, client: &str) -> bool {
        let (key, generations) = ((tenant.clone(), job.clone()), self.0.lock());
        let deliveries = generations.young.get(&key).or_else(|| generations.old.get(&key));
        deliveries.into_iter().flatten().any(|(_, holder)| holder == client)
    }

    /// Whether `client` is known to have had an earlier delivery than this one, and not this one.
    pub(super) fn is_late(&self, tenant: &Name, job: &JobId, delivery: u64, client: &str) -> bool {
        let (key, generations) = ((tenant.clone(), job.clone()), self.0.lock());
        let deliveries = generations.young.get(&key).or_else(|| generations.old.get(&key));
        let mut had = deliveries.into_iter().flatten().filter(|(_, holder)| holder == client).peekable();
        had.peek().is_some() && had.all(|(earlier, _)| *earlier < delivery)
    }

    /// The job is over.
    pub(super) fn forget(&self, tenant: &Name, job: &JobId) {
        drop(self.0.lock().take(&(tenant.clone(), job.clone())));
    }
}

impl Generations {
    fn take(&mut self, key: &(Name, JobId)) -> Deliveries {
        self.young.remove(key).or_else(|| self.old.remove(key)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: usize) -> JobId {
        format!("j{n}").parse().unwrap()
    }

    #[test]
    fn a_client_is_late_if_it_lost_the_job_to_another() {
        let (holders, tenant) = (Holders::default(), "t".parse::<Name>().unwrap());
        let (a, b) = ("a", "b");
        holders.note(&tenant, &job(1), 1, a);
        holders.note(&tenant, &job(1), 2, b);
        assert!(holders.is_late(&tenant, &job(1), 2, a));
        assert!(!holders.is_late(&tenant, &job(1), 2, b), "it has it now");
        assert!(!holders.is_late(&tenant, &job(1), 2, "c"), "nothing is known of it");
        assert!(holders.had(&tenant, &job(1), a) && !holders.had(&tenant, &job(1), "c"));
        assert!(!holders.is_late(&tenant, &job(2), 2, a), "another job");
        assert!(!holders.is_late(&"u".parse().unwrap(), &job(1), 2, a), "another tenant's");
        holders.note(&tenant, &job(1), 3, a);
        assert!(!holders.is_late(&tenant, &job(1), 3, a), "it has it again");
        assert!(holders.is_late(&tenant, &job(1), 3, b));
        holders.forget(&tenant, &job(1));
        assert!(!holders.is_late(&tenant, &job(1), 3, b));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (holders, tenant, worker) = (Holders::default(), "t".parse::<Name>().unwrap(), "w");
        for n in 0..=2 * JOBS {
            holders.note(&tenant, &job(n), 1, worker);
        }
        assert!(!holders.is_late(&tenant, &job(0), 2, worker), "the oldest generation is gone");
        assert!(holders.is_late(&tenant, &job(JOBS), 2, worker));
        assert!(holders.is_late(&tenant, &job(2 * JOBS), 2, worker));
        for delivery in 2..100 {
            holders.note(&tenant, &job(2 * JOBS), delivery, worker);
        }
        assert_eq!(holders.0.lock().take(&(tenant, job(2 * JOBS))).len(), DELIVERIES);
    }
}
