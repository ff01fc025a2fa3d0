//! The writer's memory of a topic's running jobs: who holds which, by which delivery, and where its row is.
//!
//! A claim writes one row of `batches` for each line that it took jobs from, and none of the jobs. Rows between a batch's first and
//! last are the jobs of it that still run: a claim takes what is next in line, and a job that is put back gets a new place.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::{Connection, params};

use crate::embedded::fault::Done;
use crate::embedded::file::statements::Statements;
use crate::embedded::keys::slot::held_key;
use crate::embedded::place::{JobLine, same_line, topic_of};
use crate::embedded::row::{at, attempts, ms, unique_until_done, whole};
use gristmill_core::job::{JobId, WorkerId};
use gristmill_core::time::Timestamp;

/// Running jobs of which the batches are among these numbers. A row that was claimed has the counts of before.
const LOAD: &str =
    "SELECT first, last, claim, worker, coalesce(job_rows.lease_until, batches.lease_until) AS lease_until, job_rows.number AS number,
         id, attempts + 1 AS attempts, deliveries + 1 AS deliveries, cancelled, unique_value, unique_window_ms, large,
         key, slot
     FROM batches CROSS JOIN job_rows ON job_rows.number BETWEEN first AND last
     WHERE first BETWEEN ?1 AND ?2";

/// Writes down what a claim took from a line.
const ADD: &str = "INSERT INTO batches (first, last, claim, worker, lease_until) VALUES (?1, ?2, ?3, ?4, ?5)";

/// Forgets a batch whose jobs have all ended.
const REMOVE: &str = "DELETE FROM batches WHERE first = ?1";

/// A running job.
#[derive(Debug, Clone)]
pub(in crate::embedded) struct RunningJob {
    /// Its row.
    pub(in crate::embedded) number: i64,
    /// With this one.
    pub(in crate::embedded) attempts: u32,
    pub(in crate::embedded) deliveries: u64,
    pub(in crate::embedded) lease_until: Timestamp,
    pub(in crate::embedded) cancelled: bool,
    /// The value that its end sets free.
    pub(in crate::embedded) unique: Option<String>,
    /// The key of which it holds a slot.
    pub(in crate::embedded) key: Option<String>,
    /// Its row in `bodies`.
    pub(in crate::embedded) large: Option<i64>,
}

/// What a claim took from one line.
#[derive(Debug)]
struct Batch {
    last: i64,
    claim: i64,
    worker: WorkerId,
    /// How many of its jobs still run.
    running: usize,
}

/// A claim, as it is written down.
#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) struct Claiming<'a> {
    pub(in crate::embedded) worker: &'a WorkerId,
    pub(in crate::embedded) claim: i64,
    pub(in crate::embedded) lease_until: Timestamp,
}

#[derive(Debug, Default)]
pub(in crate::embedded) struct Running {
    jobs: HashMap<JobId, RunningJob>,
    numbers: BTreeSet<i64>,
    /// By the number of the first.
    batches: BTreeMap<i64, Batch>,
}

impl Running {
    /// Reads the running jobs of all topics, by the topics' numbers.
    pub(in crate::embedded) fn load(connection: &Connection) -> Done<HashMap<i64, Self>> {
        Self::load_between(connection, 0, i64::MAX)
    }

    /// Reads the running jobs of a topic.
    pub(in crate::embedded) fn load_of(connection: &Connection, topic: i64) -> Done<Self> {
        let [(first, _), .., (_, last)] = JobLine::ALL.map(|line| line.bounds(topic));
        Ok(Self::load_between(connection, first, last)?.remove(&topic).unwrap_or_default())
    }

    fn load_between(connection: &Connection, first: i64, last: i64) -> Done<HashMap<i64, Self>> {
        let mut all: HashMap<i64, Self> = HashMap::new();
        let mut select = connection.prepare_cached(LOAD)?;
        let mut rows = select.query([first, last])?;
        while let Some(row) = rows.next()? {
            let number = row.get("number")?;
            let running = all.entry(topic_of(number)).or_default();
            let worker = row.get::<_, String>("worker")?;
            let batch = running.batches.entry(row.get("first")?);
            let (last, claim) = (row.get("last")?, row.get("claim")?);
            batch.or_insert_with(|| Batch { last, claim, worker: WorkerId::new(&worker), running: 0 }).running += 1;
            running.numbers.insert(number);
            // No lease names an id that is none.
            let Ok(id) = row.get::<_, String>("id")?.parse() else { continue };
            let job = RunningJob {
                number,
                attempts: attempts(row.get("attempts")?),
                deliveries: whole(row.get("deliveries")?),
                lease_until: at(row.get("lease_until")?),
                cancelled: row.get("cancelled")?,
                unique: unique_until_done(row),
                key: held_key(row)?,
                large: row.get("large")?,
            };
            running.jobs.insert(id, job);
        }
        Ok(all)
    }

    /// The job, if it runs.
    pub(in crate::embedded) fn get(&self, job: &JobId) -> Option<&RunningJob> {
        self.jobs.get(job)
    }

    pub(in crate::embedded) fn get_mut(&mut self, job: &JobId) -> Option<&mut RunningJob> {
        self.jobs.get_mut(job)
    }

    /// Who holds the job in this row, and by which claim.
    pub(in crate::embedded) fn holder(&self, number: i64) -> Option<(&WorkerId, u64)> {
        let (_, batch) = self.batches.range(..=number).next_back()?;
        (number <= batch.last).then_some((&batch.worker, whole(batch.claim)))
    }

    /// Writes down that jobs were claimed, which stand one behind the other in one line.
    pub(in crate::embedded) fn add(
        &mut self,
        statements: &mut Statements<'_>,
        by: Claiming<'_>,
        jobs: Vec<(JobId, RunningJob)>,
    ) -> Done<()> {
        let (Some((_, first)), Some((_, last))) = (jobs.first(), jobs.last()) else { return Ok(()) };
        let (first, last) = (first.number, last.number);
        statements.get(ADD)?.execute(params![first, last, by.claim, by.worker.as_str(), ms(by.lease_until)])?;
        let batch = Batch { last, claim: by.claim, worker: by.worker.clone(), running: jobs.len() };
        self.batches.insert(first, batch);
        self.numbers.extend(jobs.iter().map(|(_, job)| job.number));
        self.jobs.extend(jobs);
        Ok(())
    }

    /// Forgets a job that runs no longer, and its batch if it was the last of it. Its row is still there.
    pub(in crate::embedded) fn remove(
        &mut self,
        statements: &mut Statements<'_>,
        job: &JobId,
    ) -> Done<Option<RunningJob>> {
        let Some(removed) = self.jobs.remove(job) else { return Ok(None) };
        self.numbers.remove(&removed.number);
        if let Some((first, batch)) = self.batches.range_mut(..=removed.number).next_back() {
            batch.running = batch.running.saturating_sub(1);
            if batch.running == 0 {
                let first = *first;
                self.batches.remove(&first);
                statements.get(REMOVE)?.execute([first])?;
            }
        }
        Ok(Some(removed))
    }

    /// Whether no row between these two of removed jobs belongs to a job that runs still or is ready.
    pub(in crate::embedded) fn is_one_run(&self, a: i64, b: i64) -> bool {
        same_line(a, b) && self.numbers.range(a..b).next().is_none()
    }
}
