//! Looking for damage while the file is in use: beside the writer, with a statement for each thing that must not be.
//!
//! Each statement sees one moment, so what it finds was there.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::types::Value;
use rusqlite::{Connection, ToSql};

use crate::embedded::fault::{Done, Fault};
use crate::embedded::file::open::{connect_to_read, name};
use crate::embedded::place::JobLine;
use crate::embedded::row::at;
use crate::embedded::store::EmbeddedStore;
use crate::fsck::schedule_problem;
use crate::{Check, Finding, Fsck, FsckReport, StoreError};

const DOING: &str = "check the store";

/// How many rows of jobs a statement looks at.
const ROWS: i64 = 5_000;

/// How many topics are looked at in one step.
const TOPICS: i64 = 50;

/// How many findings of a statement are read.
const FINDINGS: usize = 1000;

/// What must not be among the rows of jobs behind number ?1, up to ?2. Every statement answers with the tenant, the topic, the id of a job, the
/// place and what is wrong.
const OF_JOBS: &[(Check, &str)] = &[
    (
        Check::TopicNotListed,
        "SELECT job_rows.tenant, NULL, id, 'job_rows ' || job_rows.number,
             'its topic has the number ' || (job_rows.number >> 43) || ', which `topics` lacks or has for another tenant'
         FROM job_rows LEFT JOIN topics ON job_rows.number >> 43 = topics.number
         WHERE job_rows.number > ?1 AND job_rows.number <= ?2 AND topics.tenant IS NOT job_rows.tenant",
    ),
    (
        Check::BodyMissing,
        "SELECT tenant, NULL, id, 'job_rows ' || number, CASE WHEN body IS NULL THEN 'it has no body' ELSE 'it has two' END
         FROM job_rows WHERE number > ?1 AND number <= ?2 AND (body IS NULL) IS NOT
             (large IS NOT NULL AND EXISTS (SELECT 1 FROM bodies WHERE bodies.number = large))",
    ),
    (
        Check::JobInWrongLine,
        "SELECT tenant, NULL, id, 'job_rows ' || number, 'it is in line ' || (number >> 41 & 3) || ', and its priority is ' || priority
         FROM job_rows WHERE number > ?1 AND number <= ?2 AND (number >> 41 & 3) NOT IN
             (3, CASE priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 WHEN 'low' THEN 2 ELSE 4 END)",
    ),
    (
        Check::JobInNoPlace,
        "SELECT jobs.tenant, jobs.topic, id, 'job_rows ' || jobs.number, 'it is ready, and stands before those that were claimed last'
         FROM jobs JOIN topics ON topics.number = topic_number
         WHERE jobs.number > ?1 AND jobs.number <= ?2 AND state = 'ready' AND (jobs.number >> 41 & 3) < 3 AND jobs.number <=
             CASE jobs.number >> 41 & 3 WHEN 0 THEN claimed_high WHEN 1 THEN claimed_normal ELSE claimed_low END",
    ),
    (
        Check::JobInNoPlace,
        "SELECT tenant, NULL, id, 'job_rows ' || number, 'it is neither delayed nor dead, and waits for no key'
         FROM job_rows WHERE number > ?1 AND number <= ?2 AND (number >> 41 & 3) = 3
             AND coalesce(delayed_until, dead_since) IS NULL AND slot IS NOT 0",
    ),
    (
        Check::JobInTwoPlaces,
        "SELECT jobs.tenant, jobs.topic, id, 'job_rows ' || jobs.number, 'it is running, and stands behind those that were claimed last'
         FROM jobs JOIN topics ON topics.number = topic_number
         WHERE jobs.number > ?1 AND jobs.number <= ?2 AND state = 'running' AND jobs.number >
             CASE jobs.number >> 41 & 3 WHEN 0 THEN claimed_high WHEN 1 THEN claimed_normal ELSE claimed_low END",
    ),
    (
        Check::JobInTwoPlaces,
        "SELECT tenant, NULL, id, 'job_rows ' || number, 'it is delayed, dead, ready or waits for its key, and more than one of these'
         FROM job_rows WHERE number > ?1 AND number <= ?2
             AND (delayed_until IS NOT NULL) + (dead_since IS NOT NULL) + (slot IS 0) + ((number >> 41 & 3) < 3) > 1",
    ),
    (
        Check::JobMissesKeySlot,
        "SELECT tenant, topic, id, 'job_rows ' || number, 'its key is `' || coalesce(key, '') || '`'
         FROM jobs WHERE number > ?1 AND number <= ?2
             AND (state IN ('ready', 'running') AND (slot IS NULL) IS NOT (coalesce(key, '') = '')
                  OR slot IS NOT NULL AND coalesce(key, '') = '')",
    ),
    (
        Check::HeldBackMarkWrong,
        "SELECT tenant, topic, id, 'job_rows ' || number, 'its key is `' || coalesce(key, '') || '`'
         FROM jobs WHERE number > ?1 AND number <= ?2 AND state = 'running' AND slot = 2",
    ),
    (
        Check::ClaimMalformed,
        "SELECT tenant, topic, id, 'job_rows ' || number, attempts || ' attempts and ' || deliveries || ' deliveries'
         FROM jobs WHERE number > ?1 AND number <= ?2 AND (state = 'running' AND deliveries < 1 OR attempts > deliveries OR attempts < 0)",
    ),
    (
        Check::JobUnreadable,
        "SELECT tenant, topic, id, 'job_rows ' || number, 'its metadata or its options are no JSON' FROM jobs
         WHERE number > ?1 AND number <= ?2 AND state <> 'dead' AND NOT (json_valid(coalesce(metadata, '[]'))
             AND CASE WHEN json_valid(coalesce(options, '{}')) THEN json_type(coalesce(options, '{}')) = 'object' ELSE 0 END)",
    ),
    (
        Check::UniqueNotHeld,
        "SELECT tenant, topic, id, 'job_rows ' || number, 'its value is `' || unique_value || '`'
         FROM jobs WHERE number > ?1 AND number <= ?2 AND unique_value IS NOT NULL AND unique_window_ms IS NULL AND state <> 'dead'
             AND NOT EXISTS (SELECT 1 FROM uniques WHERE uniques.topic_number = jobs.topic_number AND value = unique_value)",
    ),
    (
        Check::WaitsForNone,
        "SELECT tenant, NULL, id, 'job_rows ' || number, 'it stands by, and all that it waits for have ended'
         FROM job_rows WHERE number > ?1 AND number <= ?2 AND delayed_until = 99999999999999 AND NOT EXISTS (
             SELECT 1 FROM links INDEXED BY links_open WHERE links.tenant = job_rows.tenant AND waiter = id AND ended IS NULL)",
    ),
];

/// What must not be in the topic with number ?1, whose rows are from ?2 to ?3.
const OF_TOPIC: &[(Check, &str)] = &[
    (
        Check::JobsMiscounted,
        "SELECT tenant, topic, NULL, 'topics ' || number,
             'ready, delayed, running, dead, waiting for their keys: there are ' ||
             concat_ws(', ', r, d, u, x, w) || ', and noted are ' || concat_ws(', ', ready, delayed, running, dead, waiting_for_key)
         FROM topics, (SELECT count(*) FILTER (WHERE state = 'ready') AS r, count(*) FILTER (WHERE state = 'delayed') AS d,
                    count(*) FILTER (WHERE state = 'running') AS u, count(*) FILTER (WHERE state = 'dead') AS x,
                    count(*) FILTER (WHERE slot = 0) AS w
             FROM jobs WHERE jobs.number BETWEEN ?2 AND ?3)
         WHERE number = ?1 AND (ready, delayed, running, dead, waiting_for_key) IS NOT (r, d, u, x, w)",
    ),
    (
        Check::WaiterWithoutHolder,
        "SELECT tenant, (SELECT topic FROM topics WHERE number = ?1), id, 'job_rows ' || number, 'no job holds a slot of the key `' || key || '`'
         FROM job_rows WHERE number >> 43 = ?1 AND slot IS NOT NULL AND number BETWEEN ?2 AND ?3 GROUP BY key HAVING max(slot) = 0",
    ),
    (
        Check::DueWrong,
        "SELECT tenant, topic, NULL, 'topics ' || number, 'the first is due at ' || coalesce(first, 'no time') || ', and noted is ' || coalesce(next_due, 'nothing')
         FROM topics, (SELECT min(delayed_until) AS first FROM job_rows WHERE number >> 43 = ?1 AND delayed_until < 99999999999999)
         WHERE number = ?1 AND next_due IS NOT first AND ?2 < ?3",
    ),
    (
        Check::TopicNotAnnounced,
        "SELECT tenant, topic, NULL, 'topics ' || number, ready || ' are ready, of which ' || waiting_for_key || ' wait for their keys'
         FROM topics WHERE number = ?1 AND ready > waiting_for_key AND NOT active AND NOT paused AND ?2 < ?3",
    ),
    (
        Check::LimitedForEver,
        "SELECT tenant, topic, NULL, 'topics ' || number, 'it waits for a running job to end'
         FROM topics WHERE number = ?1 AND limited_until = -1 AND running = 0 AND ?2 < ?3",
    ),
    (
        Check::UniqueHolderGone,
        "SELECT (SELECT tenant FROM topics WHERE number = ?1), (SELECT topic FROM topics WHERE number = ?1), holder,
             'uniques ' || value, 'its job is gone or dead, or does not have the value'
         FROM uniques WHERE topic_number = ?1 AND until IS NULL AND NOT EXISTS (
             SELECT 1 FROM job_rows WHERE id = holder AND tenant = (SELECT tenant FROM topics WHERE number = ?1)
                 AND number BETWEEN ?2 AND ?3 AND unique_value = value AND dead_since IS NULL)",
    ),
    (
        Check::CountMalformed,
        "SELECT (SELECT tenant FROM topics WHERE number = ?1), (SELECT topic FROM topics WHERE number = ?1), NULL,
             'totals ' || name, 'it is ' || n
         FROM totals WHERE topic_number = ?1 AND n < 0 AND ?2 < ?3",
    ),
];

/// What must not be in the other tables.
const OF_ALL: &[(Check, &str)] = &[
    (
        Check::DetailWithoutJob,
        "SELECT NULL, NULL, NULL, 'bodies ' || number, 'no job has this body'
         FROM bodies WHERE number NOT IN (SELECT large FROM job_rows WHERE large IS NOT NULL)",
    ),
    (
        Check::DetailWithoutJob,
        "SELECT NULL, NULL, NULL, 'ended ' || upto, 'topic ' || topic_number || ' is missing' FROM ended
         WHERE NOT EXISTS (SELECT 1 FROM topics WHERE number = topic_number)",
    ),
    (
        Check::LeaseWithoutJobs,
        "SELECT NULL, NULL, NULL, 'batches ' || first, 'it is of `' || worker || '`' FROM batches
         WHERE NOT EXISTS (SELECT 1 FROM job_rows WHERE number BETWEEN first AND last)",
    ),
    (
        Check::ClaimHoldsOther,
        "SELECT NULL, NULL, NULL, 'batches ' || first, 'it is of `' || worker || '`, and ends at ' || last || ', in another line or behind the next one'
         FROM (SELECT *, lead(first) OVER (ORDER BY first) AS next FROM batches) WHERE next <= last OR first > last OR first >> 41 <> last >> 41",
    ),
    (
        Check::CountMalformed,
        "SELECT NULL, NULL, NULL, 'totals ' || name, 'topic ' || topic_number || ' is missing' FROM totals
         WHERE NOT EXISTS (SELECT 1 FROM topics WHERE number = topic_number)",
    ),
    (
        Check::UniqueHolderGone,
        "SELECT NULL, NULL, holder, 'uniques ' || value, 'topic ' || topic_number || ' is missing' FROM uniques
         WHERE NOT EXISTS (SELECT 1 FROM topics WHERE number = topic_number)",
    ),
    (
        Check::CountMalformed,
        "SELECT tenant, NULL, NULL, 'tenant_use', 'an amount is negative' FROM tenant_use
         WHERE min(day, jobs, hour, fuel, coalesce(jobs_per_day, 0), coalesce(fuel_per_hour, 0)) < 0",
    ),
    (
        Check::LinkWaiterGone,
        "SELECT tenant, NULL, waiter, 'links ' || waiter || ' ' || job, 'no such job waits' FROM links
         WHERE NOT EXISTS (SELECT 1 FROM job_rows WHERE id = waiter AND job_rows.tenant = links.tenant)
             AND NOT EXISTS (SELECT 1 FROM links AS own WHERE own.tenant = links.tenant AND own.waiter = links.waiter AND own.job = '' AND own.ended = 'f')",
    ),
    (
        Check::LinkJobGone,
        "SELECT tenant, NULL, waiter, 'links ' || waiter || ' ' || job, 'the job that it waits for is not stored' FROM links INDEXED BY links_open
         WHERE ended IS NULL AND job <> '' AND NOT EXISTS (SELECT 1 FROM job_rows WHERE id = job AND job_rows.tenant = links.tenant)
             AND NOT EXISTS (SELECT 1 FROM awaited WHERE awaited.tenant = links.tenant AND awaited.job = links.job AND awaited.ended IS NOT NULL)",
    ),
    (
        Check::LinksMismatched,
        "SELECT own.tenant, NULL, own.waiter, 'links ' || own.waiter, own.members || ' are counted, and there are more' FROM links AS own
         WHERE own.job = '' AND own.members < (
             SELECT count(*) FROM links WHERE links.tenant = own.tenant AND links.waiter = own.waiter AND links.job <> '')",
    ),
    (
        Check::LinksMismatched,
        "SELECT tenant, NULL, job, 'awaited ' || job, waiters || ' jobs are counted that wait for it, and there are ' || n
         FROM (SELECT *, (SELECT count(*) FROM links INDEXED BY links_by_job WHERE links.tenant = awaited.tenant
                          AND links.job = awaited.job AND coalesce(links.ended, 'd') = 'd') AS n FROM awaited) WHERE n <> waiters",
    ),
    (
        Check::LinksMismatched,
        "SELECT tenant, NULL, waiter, 'links ' || waiter || ' ' || job, 'it is not counted that one waits for the job' FROM links
         WHERE job <> '' AND coalesce(ended, 'd') = 'd'
             AND NOT EXISTS (SELECT 1 FROM awaited WHERE awaited.tenant = links.tenant AND awaited.job = links.job)",
    ),
    (
        Check::KeyRateMalformed,
        "SELECT tenant, topic, NULL, 'key_rates ' || key, 'its bucket is full again at ' || full_at || ' us' FROM key_rates
         WHERE full_at NOT BETWEEN 0 AND 99999999999999000 OR key = ''",
    ),
    (
        Check::StateUnreadable,
        "SELECT tenant, topic, NULL, 'states ' || key, 'its version is ' || version FROM states
         WHERE version < 1 OR topic = '' OR topic GLOB '*[^A-Za-z0-9_.-]*'",
    ),
    (
        Check::BillMalformed,
        "SELECT tenant, topic, NULL, 'taken_bills ' || day, 'an amount is negative' FROM taken_bills
         WHERE min(day, until, attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests) < 0",
    ),
    (
        Check::PauseMisnoted,
        "SELECT tenant, topic, NULL, 'pauses ' || topic_number, 'the topic is not paused'
         FROM pauses LEFT JOIN topics ON number = topic_number WHERE paused IS NOT 1",
    ),
    (
        Check::BillMalformed,
        "SELECT tenant, topic, NULL, 'bills ' || day, 'an amount is negative' FROM bills
         WHERE min(day, until, attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests) < 0",
    ),
];

/// The number of the last row of a step that begins behind number ?1.
const NEXT_ROWS: &str =
    "SELECT max(number), count(*) FROM (SELECT number FROM job_rows WHERE number > ?1 ORDER BY number LIMIT ?2)";

/// Topics behind a number.
const NEXT_TOPICS: &str = "SELECT number FROM topics WHERE number > ?1 ORDER BY number LIMIT ?2";

const SCHEDULES: &str = "SELECT tenant, topic, name, due, record FROM schedules";

/// Where to go on.
#[derive(Debug, Clone, Copy, Default)]
enum Step {
    #[default]
    Begin,
    Jobs(i64),
    Topics(i64),
    Rest(usize),
}

#[async_trait]
impl Fsck for EmbeddedStore {
    async fn fsck(&self) -> Result<FsckReport, StoreError> {
        let (mut report, mut next) = (FsckReport::default(), Some(Step::default()));
        while let Some(step) = next {
            let looked = self.read_list(DOING, move |connection, _| look(connection, step)).await?;
            report.add(looked.0);
            next = looked.1;
        }
        Ok(report)
    }
}

/// Looks for damage in a file that may belong to another process. Changes nothing. Blocks the thread.
///
/// # Errors
/// - [`StoreError::Refused`]: it is missing, or no file of ours, or of another format than this version writes.
/// - [`StoreError::Unavailable`]: it cannot be read now.
pub fn fsck_file(path: &Path) -> Result<FsckReport, StoreError> {
    let connection = connect_to_read(path)?;
    look_at_all(&connection).map_err(|fault: Fault| fault.into_error(&name(path), DOING))
}

/// All steps, one after the other.
pub(in crate::embedded) fn look_at_all(connection: &Connection) -> Done<FsckReport> {
    let (mut report, mut next) = (FsckReport::default(), Some(Step::default()));
    while let Some(step) = next {
        let looked = look(connection, step)?;
        report.add(looked.0);
        next = looked.1;
    }
    Ok(report)
}

/// One step, and the next one.
fn look(connection: &Connection, step: Step) -> Done<(FsckReport, Option<Step>)> {
    let mut report = FsckReport::default();
    let next = match step {
        Step::Begin => Some(Step::Jobs(i64::MIN)),
        Step::Jobs(behind) => {
            let mut select = connection.prepare_cached(NEXT_ROWS)?;
            let (last, rows): (Option<i64>, i64) =
                select.query_row([behind, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?;
            report.look("jobs", usize::try_from(rows).unwrap_or_default());
            for (check, sql) in last.map_or(&[][..], |_| OF_JOBS) {
                find(connection, &mut report, (*check, sql), &[&behind, &last])?;
            }
            Some(last.map_or(Step::Topics(i64::MIN), Step::Jobs))
        }
        Step::Topics(behind) => {
            let mut select = connection.prepare_cached(NEXT_TOPICS)?;
            let numbers = select.query_map([behind, TOPICS], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
            report.look("topics", numbers.len());
            for number in &numbers {
                let [(first, _), .., (_, last)] = JobLine::ALL.map(|line| line.bounds(*number));
                for (check, sql) in OF_TOPIC {
                    find(connection, &mut report, (*check, sql), &[number, &first, &last])?;
                }
            }
            Some(numbers.last().map_or(Step::Rest(0), |last| Step::Topics(*last)))
        }
        Step::Rest(position) => match OF_ALL.get(position) {
            Some((check, sql)) => {
                find(connection, &mut report, (*check, sql), &[])?;
                Some(Step::Rest(position + 1))
            }
            None => {
                schedules(connection, &mut report)?;
                None
            }
        },
    };
    Ok((report, next))
}

fn find(connection: &Connection, report: &mut FsckReport, (check, sql): (Check, &str), of: &[&dyn ToSql]) -> Done<()> {
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query(of)?;
    for _ in 0..FINDINGS {
        let Some(row) = rows.next()? else { break };
        // What another program wrote may be of any type.
        let text = |column: usize| {
            Ok::<_, rusqlite::Error>(match row.get(column)? {
                Value::Null => None,
                Value::Text(text) => Some(text),
                Value::Integer(number) => Some(number.to_string()),
                Value::Real(number) => Some(number.to_string()),
                Value::Blob(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            })
        };
        let (place, detail) = (text(3)?.unwrap_or_default(), text(4)?.unwrap_or_default());
        report.found(Finding { tenant: text(0)?, topic: text(1)?, job: text(2)?, check, place, detail });
    }
    Ok(())
}

fn schedules(connection: &Connection, report: &mut FsckReport) -> Done<()> {
    let mut select = connection.prepare_cached(SCHEDULES)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        report.look("schedules", 1);
        let (tenant, topic, name): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (due, record): (Option<i64>, String) = (row.get(3)?, row.get(4)?);
        if let Some((check, detail)) = schedule_problem(&record, due.map(at)) {
            let place = format!("schedules {name}");
            report.found(Finding { check, tenant: Some(tenant), topic: Some(topic), job: None, place, detail });
        }
    }
    Ok(())
}
