//! Results and unique values that are kept for a time, to look through and to forget.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Done;
use super::request::Weight;
use super::result;
use super::row::{at, limit as limited, ms};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::batch::ByteBudget;
use crate::list::PAGE_BYTES;
use crate::weight::Weigh;
use crate::{JobView, Results, ResultsPage, StoreError, UniqueHold, Uniques};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

/// The results of a tenant behind an id, those whose time is over and that were not swept yet among them.
const LIST: &str = "SELECT id, end, attempts, payload, content_type, failure, topic FROM results
                    WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3";

const HOLD: &str = "SELECT holder, until FROM uniques JOIN topics ON topics.number = topic_number
                    WHERE tenant = ?1 AND topic = ?2 AND value = ?3 AND coalesce(until, ?4 + 1) > ?4";

const FREE: &str = "DELETE FROM uniques WHERE value = ?3 AND until > ?4
                        AND topic_number = (SELECT number FROM topics WHERE tenant = ?1 AND topic = ?2)";

const FREE_SOME: &str = "DELETE FROM uniques WHERE (topic_number, value) IN
                             (SELECT topic_number, value FROM uniques JOIN topics ON topics.number = topic_number
                              WHERE tenant = ?1 AND topic = ?2 AND until IS NOT NULL LIMIT 1000)";

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
            ids.iter().map(|id| result::forget(work.connection, &tenant, id)).collect::<Done<Vec<bool>>>()
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
        let (attempts, result, result_topic) = result::read(row, &id)?;
        let view = JobView { result: Some(result), result_topic, ..JobView::over(id, attempts, None) };
        if page.jobs.len() == limit || !room.take(view.weight()) {
            page.next = page.jobs.last().map(|last| last.id.to_string());
            break;
        }
        page.jobs.push(view);
    }
    Ok(page)
}

#[async_trait]
impl Uniques for EmbeddedStore {
    async fn unique_hold(&self, topic: &TopicId, value: &str) -> Result<Option<UniqueHold>, StoreError> {
        let (topic, value) = (topic.clone(), value.to_owned());
        let look = move |connection: &Connection, now: Timestamp| {
            let mut select = connection.prepare_cached(HOLD)?;
            let of = params![topic.tenant.as_str(), topic.topic.as_str(), value, ms(now)];
            let held =
                select.query_row(of, |row| Ok((row.get::<_, String>("holder")?, row.get::<_, Option<i64>>("until")?)));
            let Some((holder, until)) = held.optional()? else { return Ok(None) };
            Ok(holder.parse().ok().map(|holder| UniqueHold { holder, until: until.map(at) }))
        };
        self.read("look up a unique value", look).await
    }

    async fn free_unique(&self, topic: &TopicId, value: &str) -> Result<bool, StoreError> {
        let (topic, value) = (topic.clone(), value.to_owned());
        let free = move |work: &mut Work<'_>| {
            let of = params![topic.tenant.as_str(), topic.topic.as_str(), value, ms(work.now())];
            Ok(work.connection.prepare_cached(FREE)?.execute(of)? > 0)
        };
        self.write("free a unique value", Weight::default(), free).await
    }

    async fn free_windows(&self, topic: &TopicId) -> Result<u64, StoreError> {
        let topic = topic.clone();
        let free = move |work: &mut Work<'_>| {
            let of = params![topic.tenant.as_str(), topic.topic.as_str()];
            Ok(work.connection.prepare_cached(FREE_SOME)?.execute(of)? as u64)
        };
        self.write("free unique values", Weight::default(), free).await
    }
}
