//! Leases and heartbeats: what keeps a running job running, and how the jobs are found that no worker runs any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Done;
use super::place::of_topic;
use super::request::Weight;
use super::row::{
    Known, at, job_columns, lease_until, limit as limited, ms, read_id, read_job, running_jobs, stored_bytes, text,
    topic, whole,
};
use super::running::Held;
use super::store::EmbeddedStore;
use super::topics::Number;
use super::work::Work;
use crate::batch::{ByteBudget, CLAIM_BYTES};
use crate::clock::wait_ms;
use crate::{Leases, Overdue, OverdueJobs, Settle, Settlement, StoreError, Workers};
use gristmill_core::job::{Claim, JobId, Lease, Name, Progress, WorkerId};
use gristmill_core::outcome::{Failure, Verdict};
use gristmill_core::time::Timestamp;

/// For how long a dead worker is remembered. Its jobs are taken back long before. If no runner has looked for them in
/// all that time, their leases run out and bring them back.
pub(super) const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// How long workers that are presumed dead have been silent: longer than any worker waits for a heartbeat, and not so long
/// that they are forgotten.
const PRESUMED_SILENT: Duration = Duration::from_secs(60);

/// How many jobs one look finds at most.
const JOBS: usize = 1000;

/// Prolongs the lease of a running job.
const EXTEND: &str = "UPDATE job_rows SET lease_until = ?2 WHERE number = ?1";

/// Saves a checkpoint of a running job.
const CHECKPOINT: &str = "UPDATE job_rows SET checkpoint = ?2 WHERE number = ?1";

/// Notes that a worker is alive.
const BEAT: &str = "INSERT INTO workers (worker, seen) VALUES (?1, ?2)
                    ON CONFLICT (worker) DO UPDATE SET seen = max(seen, ?2)";

/// Forgets a worker.
const RETIRE: &str = "DELETE FROM workers WHERE worker = ?1";

/// Forgets workers that were silent for very long.
const FORGET: &str = "DELETE FROM workers WHERE seen <= ?1";

/// Lets no worker have been seen later than this.
const PRESUME_DEAD: &str = "UPDATE workers SET seen = min(seen, ?1)";

/// When a worker was last seen.
const SEEN: &str = "SELECT seen FROM workers WHERE worker = ?1";

/// Workers that are silent, and not forgotten.
const SILENT: &str = "SELECT worker FROM workers WHERE seen > ?1 AND seen <= ?2 ORDER BY seen DESC LIMIT 1000";

/// Running jobs that a worker holds, the last claim first. The plus keeps SQLite from making an index of all batches for each look.
const HELD: &str = concat!(
    "SELECT id, topic, deliveries, claim",
    running_jobs!(),
    "+worker = ?2 ORDER BY claim DESC, job_rows.number DESC"
);

/// Running jobs that a worker holds, the first claim first.
const HELD_BY_DEAD: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", topic, worker, claim, ",
    lease_until!(),
    " AS lease_until",
    running_jobs!(),
    "+worker = ?2 ORDER BY claim, job_rows.number LIMIT ?3"
);

/// Running jobs whose lease ran out.
const RAN_OUT: &str = concat!(
    "SELECT ",
    job_columns!(),
    ", topic, worker, claim, ",
    lease_until!(),
    " AS lease_until",
    running_jobs!(),
    lease_until!(),
    " <= ?2 ORDER BY lease_until, id LIMIT ?3"
);

#[async_trait]
impl Leases for EmbeddedStore {
    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        let leases = leases.to_vec();
        let weight = Weight { jobs: leases.len(), bytes: 0 };
        self.write("extend leases", weight, move |work| {
            let until = work.now().plus(Duration::from_millis(wait_ms(lease)));
            leases.iter().map(|lease| work.extend(lease, until)).collect()
        })
        .await
    }

    async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        let (lease, state) = (lease.clone(), state.to_vec());
        let weight = Weight { jobs: 1, bytes: state.len() };
        self.write("save a checkpoint", weight, move |work| work.save_checkpoint(&lease, &state)).await
    }

    async fn note_progress(&self, progress: &[(Lease, Progress)]) -> Result<(), StoreError> {
        self.attempts_progress().note(progress);
        Ok(())
    }

    async fn claims_of(
        &self,
        tenant: &Name,
        worker: &WorkerId,
        except: &HashSet<JobId>,
    ) -> Result<Vec<Lease>, StoreError> {
        let (tenant, by) = (tenant.clone(), worker.clone());
        let held =
            self.read("look for what a worker holds", move |connection, _| held(connection, &tenant, &by)).await?;
        Ok(held.into_iter().filter(|lease| !except.contains(&lease.job)).collect())
    }
}

#[async_trait]
impl Workers for EmbeddedStore {
    async fn heartbeat(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let worker = worker.clone();
        self.write("write a heartbeat", Weight::default(), move |work| {
            work.connection.prepare_cached(BEAT)?.execute(params![worker.as_str(), ms(work.now())])?;
            Ok(())
        })
        .await
    }

    async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let worker = worker.clone();
        self.write("forget a worker", Weight::default(), move |work| {
            work.connection.prepare_cached(RETIRE)?.execute([worker.as_str()])?;
            Ok(())
        })
        .await
    }

    async fn overdue(&self, tenants: &[Name], dead_after: Duration, limit: usize) -> Result<OverdueJobs, StoreError> {
        const DOING: &str = "look for overdue jobs";
        let asked = tenants.to_vec();
        let found = self.read(DOING, move |connection, now| {
            let mut left = limit.min(JOBS);
            let find = |tenant: &Name| {
                let found = find_overdue(connection, tenant, now, dead_after, left);
                left -= found.as_ref().map_or(0, Vec::len).min(left);
                found
            };
            Ok(asked.iter().map(find).collect::<Vec<_>>())
        });
        let (mut overdue, mut unreadable) = (OverdueJobs::default(), Vec::new());
        for (tenant, found) in tenants.iter().zip(found.await?) {
            match found {
                Ok(found) => found.into_iter().for_each(|found| match found {
                    Ok(found) => overdue.jobs.push(found),
                    Err(broken) => unreadable.push(broken.settlement(dead_after)),
                }),
                Err(fault) => overdue.refused.push((tenant.clone(), self.error(fault, DOING))),
            }
        }
        if !unreadable.is_empty() {
            self.settle(&unreadable).await?;
        }
        Ok(overdue)
    }
}

impl EmbeddedStore {
    /// Counts every worker as dead, so that what it ran is taken back at once instead of after its silence. For a process that has
    /// just become the owner and runs no worker yet: the lock says that no other lives.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the disk failed or is full.
    pub async fn presume_workers_dead(&self) -> Result<(), StoreError> {
        self.write("forget the workers of an earlier owner", Weight::default(), |work| {
            let seen = ms(work.now()).saturating_sub(super::row::wait(PRESUMED_SILENT));
            work.connection.prepare_cached(PRESUME_DEAD)?.execute([seen])?;
            Ok(())
        })
        .await
    }
}

impl Work<'_> {
    /// The running job of a lease, and its topic: nothing, if that very delivery is not running on that very worker, by that very
    /// claim if the lease says by which.
    pub(super) fn running(&mut self, lease: &Lease) -> Done<Option<(Number, &mut Held)>> {
        let Some(topic) = self.topics.find(self.connection, &lease.topic)? else { return Ok(None) };
        let running = &self.topics.get(topic).held;
        let holds = |(worker, claim): (&WorkerId, u64)| {
            *worker == lease.worker && lease.batch.is_none_or(|batch| batch == claim)
        };
        let is_held = running
            .get(&lease.job)
            .is_some_and(|held| held.deliveries == lease.delivery && running.holder(held.number).is_some_and(holds));
        if !is_held {
            return Ok(None);
        }
        Ok(self.topics.held_mut(topic).get_mut(&lease.job).map(|held| (topic, held)))
    }

    fn extend(&mut self, lease: &Lease, until: Timestamp) -> Done<bool> {
        let Some((_, held)) = self.running(lease)? else { return Ok(false) };
        held.lease_until = until;
        let number = held.number;
        self.statements.get(EXTEND)?.execute([number, ms(until)])?;
        Ok(true)
    }

    fn save_checkpoint(&mut self, lease: &Lease, state: &[u8]) -> Done<bool> {
        let Some((_, held)) = self.running(lease)? else { return Ok(false) };
        let number = held.number;
        self.statements.get(CHECKPOINT)?.execute(params![number, state])?;
        Ok(true)
    }

    pub(super) fn is_dead(&self, worker: &WorkerId, dead_after: Duration) -> Done<bool> {
        let mut seen = self.connection.prepare_cached(SEEN)?;
        let seen: Option<i64> = seen.query_row([worker.as_str()], |row| row.get(0)).optional()?;
        let (forgotten, silent) = silence(self.now(), dead_after);
        Ok(seen.is_some_and(|seen| seen > forgotten && seen <= silent))
    }

    pub(super) fn forget_workers(&self) -> Done<()> {
        let (forgotten, _) = silence(self.now(), FORGOTTEN_AFTER);
        self.connection.prepare_cached(FORGET)?.execute([forgotten])?;
        Ok(())
    }
}

/// Up to when a worker must have been seen last to be forgotten, and to be dead. Before the epoch: none.
fn silence(now: Timestamp, dead_after: Duration) -> (i64, i64) {
    let before = |wait: Duration| ms(now).saturating_sub(super::row::wait(wait));
    (before(dead_after.max(FORGOTTEN_AFTER)), before(dead_after))
}

/// A running job that cannot be read.
struct Broken {
    lease: Lease,
    problem: String,
}

impl Broken {
    /// Gives it up, so that no other job waits for it and an operator can see it among the dead.
    fn settlement(self, dead_after: Duration) -> Settlement {
        let Self { lease, problem } = self;
        tracing::warn!(topic = %lease.topic, job = %lease.job, %problem, "buried a job that cannot be read");
        let failure = Failure::unreadable(problem);
        Settlement { only_if_overdue: Some(dead_after), ..Settlement::new(lease, Verdict::Bury(failure)) }
    }
}

/// Looks at every running job, twice at most where no worker is dead.
fn find_overdue(
    connection: &Connection,
    tenant: &Name,
    now: Timestamp,
    dead_after: Duration,
    limit: usize,
) -> Done<Vec<Result<Overdue, Broken>>> {
    let (forgotten, silent) = silence(now, dead_after);
    let mut select = connection.prepare_cached(SILENT)?;
    let workers = select.query_map([forgotten, silent], |row| row.get::<_, String>(0))?;
    let workers = workers.collect::<Result<Vec<_>, _>>()?;

    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut room = ByteBudget::of(CLAIM_BYTES);
    // Returns whether there is room for more.
    let mut add = |row: &Row<'_>, worker_died| -> Done<bool> {
        if seen.insert(read_id(row)?) {
            if !room.take(stored_bytes(row)?) {
                return Ok(false);
            }
            found.push(read_overdue(row, tenant, now, worker_died)?);
        }
        Ok(true)
    };
    let mut left = limit;
    for worker in workers {
        let mut select = connection.prepare_cached(HELD_BY_DEAD)?;
        let mut rows = select.query(params![tenant.as_str(), worker, limited(left)])?;
        while let Some(row) = rows.next()? {
            if !add(row, true)? {
                return Ok(found);
            }
            left = left.saturating_sub(1);
        }
    }
    let mut select = connection.prepare_cached(RAN_OUT)?;
    // Leases of dead workers also run out: as many rows as are wanted in all hold what is left, after those found already.
    let mut rows = select.query(params![tenant.as_str(), ms(now), limited(if left == 0 { 0 } else { limit })])?;
    while let Some(row) = rows.next()? {
        if !add(row, false)? {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn read_overdue(row: &Row<'_>, tenant: &Name, now: Timestamp, worker_died: bool) -> Done<Result<Overdue, Broken>> {
    let known = Known::read(row)?.claimed();
    let topic = topic(row, tenant)?;
    let worker = WorkerId::new(text(row, "worker")?.unwrap_or_default());
    let lease = Lease { job: read_id(row)?, topic, worker, delivery: known.deliveries, batch: batch(row)? };
    Ok(match read_job(row, &lease.topic) {
        Ok(job) => Ok(Overdue {
            claim: Claim {
                job: Arc::new(job),
                attempt: known.attempts,
                claimed_at: now,
                lease_until: at(row.get("lease_until")?),
                previous: known.failure.map(|failure| failure.reason),
                checkpoint: known.checkpoint,
                lease,
            },
            worker_died,
        }),
        Err(problem) => Err(Broken { lease, problem }),
    })
}

/// The claim that a running job was taken with.
fn batch(row: &Row<'_>) -> Done<Option<u64>> {
    Ok(Some(whole(row.get("claim")?)))
}

fn held(connection: &Connection, tenant: &Name, worker: &WorkerId) -> Done<Vec<Lease>> {
    let mut select = connection.prepare_cached(HELD)?;
    let mut rows = select.query([tenant.as_str(), worker.as_str()])?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next()? {
        let delivery = whole(row.get("deliveries")?) + 1;
        leases.push(Lease {
            job: read_id(row)?,
            topic: topic(row, tenant)?,
            worker: worker.clone(),
            delivery,
            batch: batch(row)?,
        });
    }
    Ok(leases)
}
