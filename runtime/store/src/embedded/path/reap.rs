//! Heartbeats, and the running jobs that no worker runs any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::batch::{ByteBudget, CLAIM_BYTES};
use crate::embedded::fault::Done;
use crate::embedded::file::request::Weight;
use crate::embedded::place::of_topic;
use crate::embedded::row::{
    JobHistory, at, job_columns, lease_until, limit as limited, ms, read_id, read_job, running_jobs, stored_bytes,
    text, topic, whole,
};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work::Work;
use crate::{Overdue, OverdueJobs, Settle, Settlement, StoreError, Workers};
use gristmill_core::job::{Claim, Lease, Name, WorkerId};
use gristmill_core::outcome::{Failure, Verdict};
use gristmill_core::time::Timestamp;

/// For how long a dead worker is remembered. Its jobs are taken back long before. If no runner has looked for them in
/// all that time, their leases run out and bring them back.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// How long workers that are presumed dead have been silent: longer than any worker waits for a heartbeat, and not so long
/// that they are forgotten.
const PRESUMED_SILENT: Duration = Duration::from_secs(60);

/// How many jobs one look finds at most.
const JOBS: usize = 1000;

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
            let seen = ms(work.now()).saturating_sub(crate::embedded::row::wait(PRESUMED_SILENT));
            work.connection.prepare_cached(PRESUME_DEAD)?.execute([seen])?;
            Ok(())
        })
        .await
    }
}

impl Work<'_> {
    pub(in crate::embedded) fn is_dead(&self, worker: &WorkerId, dead_after: Duration) -> Done<bool> {
        let mut seen = self.connection.prepare_cached(SEEN)?;
        let seen: Option<i64> = seen.query_row([worker.as_str()], |row| row.get(0)).optional()?;
        let (forgotten, silent) = silence(self.now(), dead_after);
        Ok(seen.is_some_and(|seen| seen > forgotten && seen <= silent))
    }

    pub(in crate::embedded) fn forget_workers(&self) -> Done<()> {
        let (forgotten, _) = silence(self.now(), FORGOTTEN_AFTER);
        self.connection.prepare_cached(FORGET)?.execute([forgotten])?;
        Ok(())
    }
}

/// Up to when a worker must have been seen last to be forgotten, and to be dead. Before the epoch: none.
fn silence(now: Timestamp, dead_after: Duration) -> (i64, i64) {
    let before = |wait: Duration| ms(now).saturating_sub(crate::embedded::row::wait(wait));
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
    let history = JobHistory::read(row)?.claimed();
    let topic = topic(row, tenant)?;
    let worker = WorkerId::new(text(row, "worker")?.unwrap_or_default());
    let lease = Lease { job: read_id(row)?, topic, worker, delivery: history.deliveries, batch: batch(row)? };
    Ok(match read_job(row, &lease.topic) {
        Ok(job) => Ok(Overdue {
            claim: Claim {
                job: Arc::new(job),
                attempt: history.attempts,
                claimed_at: now,
                lease_until: at(row.get("lease_until")?),
                previous: history.failure.map(|failure| failure.reason),
                checkpoint: history.checkpoint,
                lease,
            },
            worker_died,
        }),
        Err(problem) => Err(Broken { lease, problem }),
    })
}

/// The claim that a running job was taken with.
pub(in crate::embedded) fn batch(row: &Row<'_>) -> Done<Option<u64>> {
    Ok(Some(whole(row.get("claim")?)))
}
