//! What became of jobs, kept for as long as the settlement asked for.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::{Done, Fault};
use super::file::request::Weight;
use super::path::finish::how::{EndOptions, How};
use super::row::{at, attempts, limit as limited, ms, read_failure, text, write_failure};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::batch::ByteBudget;
use crate::clock::wait_ms;
use crate::list::PAGE_BYTES;
use crate::weight::Weigh;
use crate::{JobView, ResultView, Results, ResultsPage, StoreError, StoredResult};
use gristmill_core::job::{JobId, Name, Payload, TopicId};
use gristmill_core::time::Timestamp;

/// Keeps a result; an older one of the same id is replaced.
const KEEP: &str = "INSERT INTO results (tenant, id, end, attempts, until, payload, content_type, failure, topic)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                    ON CONFLICT (tenant, id) DO UPDATE SET end = ?3, attempts = ?4, until = ?5, payload = ?6,
                        content_type = ?7, failure = ?8, topic = ?9";

/// Keeps a result, unless one of the same id is kept.
const IMPORT: &str = "INSERT INTO results (tenant, id, end, attempts, until, payload, content_type, failure, topic)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (tenant, id) DO NOTHING";

/// The jobs of a tenant of which a result is kept.
const JOBS: &str = "SELECT id FROM results WHERE tenant = ?1 AND until > ?2";

/// What became of a job, if that is still kept.
const FIND: &str = "SELECT end, attempts, until, payload, content_type, failure, topic FROM results
                    WHERE tenant = ?1 AND id = ?2 AND until > ?3";

/// Forgets a result.
const DROP: &str = "DELETE FROM results WHERE tenant = ?1 AND id = ?2";

/// Forgets results whose time is over, a bounded number.
const EXPIRE: &str = "DELETE FROM results WHERE number IN
                          (SELECT number FROM results WHERE until <= ?1 ORDER BY until LIMIT ?2)";

/// The results of a tenant behind an id, those whose time is over and that were not swept yet among them.
const LIST: &str = "SELECT id, end, attempts, payload, content_type, failure, topic FROM results
                    WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3";

#[async_trait]
impl Results for EmbeddedStore {
    /// By id.
    async fn results(&self, tenant: &Name, after: Option<&str>, limit: usize) -> Result<ResultsPage, StoreError> {
        let (tenant, after) = (tenant.clone(), after.unwrap_or_default().to_owned());
        self.read_list("list results", move |connection, _| list(connection, &tenant, &after, limit)).await
    }

    async fn forget_results(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let (tenant, ids) = (tenant.clone(), ids.to_vec());
        let weight = Weight { jobs: ids.len(), bytes: 0 };
        let forget = move |work: &mut Work<'_>| {
            ids.iter().map(|id| forget(work.connection, &tenant, id)).collect::<Done<Vec<bool>>>()
        };
        self.write("forget results", weight, forget).await
    }
}

fn list(connection: &Connection, tenant: &Name, after: &str, limit: usize) -> Done<ResultsPage> {
    let mut select = connection.prepare_cached(LIST)?;
    let mut rows = select.query(params![tenant.as_str(), after, limited(limit.saturating_add(1))])?;
    let (mut page, mut room) = (ResultsPage::default(), ByteBudget::of(PAGE_BYTES));
    while let Some(row) = rows.next()? {
        let Ok(id) = row.get::<_, String>("id")?.parse::<JobId>() else { continue };
        let (attempts, result, result_topic) = read(row, &id)?;
        let view = JobView { result: Some(result), result_topic, ..JobView::over(id, attempts, None) };
        if page.jobs.len() == limit || !room.take(view.weight()) {
            page.next = page.jobs.last().map(|last| last.id.to_string());
            break;
        }
        page.jobs.push(view);
    }
    Ok(page)
}

pub(super) fn keep(
    connection: &Connection,
    topic: &TopicId,
    options: &EndOptions<'_>,
    how: &How<'_>,
    until: Timestamp,
) -> Done<()> {
    let (end, payload, failure) = match how {
        How::Acked(payload) => ("complete", *payload, None),
        How::Dead(failure) => ("dead", None, Some(write_failure(failure)?)),
        How::Expired => ("expired", None, None),
        How::Cancelled => ("cancelled", None, None),
        // The result of a dead job was kept when it died.
        How::Discarded | How::Deleted => return Ok(()),
    };
    connection.prepare_cached(KEEP)?.execute(params![
        topic.tenant.as_str(),
        options.job.as_str(),
        end,
        options.attempts,
        ms(until),
        payload.map(|payload| payload.data.as_slice()),
        payload.and_then(|payload| payload.content_type.as_deref()),
        failure,
        topic.topic.as_str(),
    ])?;
    Ok(())
}

/// The attempts it took, the end, and the topic.
pub(super) fn find(
    connection: &Connection,
    tenant: &Name,
    job: &JobId,
    now: Timestamp,
) -> Done<Option<(u32, ResultView, Option<Name>)>> {
    let mut find = connection.prepare_cached(FIND)?;
    let found = find.query_row(params![tenant.as_str(), job.as_str(), ms(now)], |row| Ok(read(row, job))).optional()?;
    found.transpose()
}

impl EmbeddedStore {
    pub(super) async fn all_jobs_with_result(&self, tenant: &Name) -> Result<Vec<JobId>, StoreError> {
        let tenant = tenant.clone();
        self.read_list("look for results", move |connection, now| {
            let mut select = connection.prepare_cached(JOBS)?;
            let ids = select.query_map(params![tenant.as_str(), ms(now)], |row| row.get::<_, String>(0))?;
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
        })
        .await
    }

    pub(super) async fn stored_results(&self, tenant: &Name, jobs: &[JobId]) -> Result<Vec<StoredResult>, StoreError> {
        let (tenant, jobs) = (tenant.clone(), jobs.to_vec());
        self.read_list("read results to be copied", move |connection, now| {
            let mut find = connection.prepare_cached(FIND)?;
            let mut results = Vec::new();
            for job in &jobs {
                let stored = find.query_row(params![tenant.as_str(), job.as_str(), ms(now)], |row| {
                    Ok((read(row, job), row.get::<_, i64>("until")?))
                });
                let Some((found, until)) = stored.optional()? else { continue };
                let (attempts, end, topic) = found?;
                results.push(StoredResult { job: job.clone(), attempts, end, topic, ttl: at(until).since(now) });
            }
            Ok(results)
        })
        .await
    }

    pub(super) async fn add_results(&self, tenant: &Name, results: &[StoredResult]) -> Result<u64, StoreError> {
        let (tenant, results) = (tenant.clone(), results.to_vec());
        self.write("import results", Weight { jobs: results.len(), bytes: 0 }, move |work| {
            let mut import = work.connection.prepare_cached(IMPORT)?;
            let mut new = 0;
            for StoredResult { job, attempts, end, topic, ttl } in &results {
                let (end, payload, failure) = match end {
                    ResultView::Complete(payload) => ("complete", payload.as_ref(), None),
                    ResultView::Dead(failure) => ("dead", None, Some(write_failure(failure)?)),
                    ResultView::Expired => ("expired", None, None),
                    ResultView::Cancelled => ("cancelled", None, None),
                };
                let until = work.now().plus(Duration::from_millis(wait_ms(*ttl)));
                new += import.execute(params![
                    tenant.as_str(),
                    job.as_str(),
                    end,
                    attempts,
                    ms(until),
                    payload.map(|payload| payload.data.as_slice()),
                    payload.and_then(|payload| payload.content_type.as_deref()),
                    failure,
                    topic.as_ref().map(Name::as_str),
                ])?;
            }
            Ok(new as u64)
        })
        .await
    }
}

pub(super) fn read(row: &Row<'_>, job: &JobId) -> Done<(u32, ResultView, Option<Name>)> {
    let unreadable = |problem: &str| Fault::Unreadable { job: job.to_string(), problem: problem.into() };
    let view = match text(row, "end")?.unwrap_or_default() {
        "complete" => {
            let content_type = row.get("content_type")?;
            ResultView::Complete(row.get::<_, Option<Vec<u8>>>("payload")?.map(|data| Payload { data, content_type }))
        }
        "dead" => ResultView::Dead(
            read_failure(text(row, "failure")?).ok_or_else(|| unreadable("the failure in its result is none"))?,
        ),
        "expired" => ResultView::Expired,
        "cancelled" => ResultView::Cancelled,
        _ => return Err(unreadable("its result is of no kind that this version knows")),
    };
    let topic = text(row, "topic")?.and_then(|topic| topic.parse().ok());
    Ok((attempts(row.get("attempts")?), view, topic))
}

/// Returns whether there was one.
pub(super) fn forget(connection: &Connection, tenant: &Name, job: &JobId) -> Done<bool> {
    Ok(connection.prepare_cached(DROP)?.execute([tenant.as_str(), job.as_str()])? > 0)
}

impl Work<'_> {
    pub(super) fn expire_results(&self, limit: i64) -> Done<usize> {
        Ok(self.connection.prepare_cached(EXPIRE)?.execute([ms(self.now()), limit])?)
    }
}
