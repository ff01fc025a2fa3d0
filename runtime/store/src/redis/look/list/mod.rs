//! Lists of jobs, page by page, and how old the oldest ready ones are.

use std::collections::BTreeSet;

use redis::RedisResult;

use crate::list::{Anchor, PAGE_BYTES, PAGE_JOBS};
use crate::redis::connection::error::unexpected;
use crate::redis::envelope;
use crate::redis::holder::{claim_fields, claimed_at, parse_claim};
use crate::redis::key_names::Keys;
use crate::redis::path::claim::batches::LISTS;
use crate::redis::path::claim::job_id;
use crate::redis::record::read_failure;
use crate::redis::script::reply::Reply;
use crate::redis::script::{Call, Script, script};
use crate::redis::store::{CALLS_AT_ONCE, Partition, SCRIPT_JOBS};
use crate::weight::Weigh;
use crate::{Cursor, JobState, JobView, Page, StateFilter, StoreError};
use gristmill_core::job::{JobId, Name, Priority, TopicId};
use gristmill_core::time::Timestamp;

const DOING: &str = "list jobs";

/// How many running jobs, of any topic, a page looks at.
const LOOK: usize = 2000;

/// A listed job, and how often it has been claimed.
struct Listed {
    view: JobView,
    deliveries: u64,
}

impl Partition {
    pub(in crate::redis) async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let after = Cursor::within_one_store(after, place);
        let after = after.map_err(|problem| self.refused(DOING, anyhow::Error::msg(problem)))?;
        let limit = limit.min(PAGE_JOBS);
        match place {
            _ if limit == 0 => Ok(Page { jobs: Vec::new(), next: after.cloned() }),
            StateFilter::Ready => self.list_ready(topic, after, limit).await,
            StateFilter::Running => self.list_running(topic, after, limit).await,
            StateFilter::Delayed | StateFilter::Dead => self.list_sorted(topic, place, after, limit).await,
        }
    }
}

impl Partition {
    /// The lines one after the other, until the page is full.
    async fn list_ready(&self, topic: &TopicId, after: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        let keys = self.keys(&topic.tenant);
        let mut page = Page::default();
        if let Some(after) = after.filter(|after| after.key.is_some()) {
            return self.list_behind(topic, page, Some(after), limit).await;
        }
        let begin = after.map_or(Priority::High, |after| after.line);
        for line in Priority::ALL.into_iter().filter(|line| *line >= begin) {
            let after = after.filter(|after| after.line == line);
            let mut call = page_call(
                script!("look/list/list.lua", "look/list/list_line.lua"),
                &keys,
                keys.ready(line, &topic.topic),
                limit - page.jobs.len(),
            );
            call.arg(format!("{}", after.map_or(0.0, |after| after.number)));
            let mut anchors = after.map_or_else(Vec::new, |after| after.jobs.clone());
            for Anchor { id, deliveries, enqueued_at } in &anchors {
                call.arg(id.as_str()).arg(*deliveries).arg(enqueued_at.as_millis().to_be_bytes().to_vec());
            }
            let mut reply = self.reply(DOING, call).await?;
            let mut read = || -> RedisResult<_> {
                let (end, more) = (reply.number()?, reply.number()? == 1);
                let (mut jobs, mut listed) = (reply.array()?, Vec::new());
                while !jobs.is_empty() {
                    listed.push(read_job(&mut jobs, topic, |_, _| Ok(JobState::Ready))?);
                }
                Ok((end, more, listed))
            };
            let (end, more, listed) = read().map_err(self.misread(DOING))?;
            if listed.is_empty() {
                // Nothing but elements that are no jobs.
                anchors.clear();
            }
            for Listed { view, deliveries } in listed {
                let enqueued_at = view.job.as_ref().map(|job| job.enqueued_at).unwrap_or_default();
                anchors.insert(0, Anchor { id: view.id.clone(), deliveries, enqueued_at });
                page.jobs.push(view);
            }
            if more {
                page.next = Some(Cursor::in_line(line, end as f64, anchors));
                return Ok(page);
            }
            if page.jobs.len() == limit && line != Priority::Low {
                page.next = Some(Cursor::in_line(line, end as f64, anchors));
                return Ok(page);
            }
        }
        self.list_behind(topic, page, None, limit).await
    }

    /// Adds the jobs that wait for others of their key, behind one of them.
    async fn list_behind(
        &self,
        topic: &TopicId,
        mut page: Page,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let keys = self.keys(&topic.tenant);
        let (mut key, mut place) =
            after.map(|after| (after.key.clone().unwrap_or_default(), after.number)).unwrap_or_default();
        let names = [keys.jobs(), keys.claims(), keys.failures(), keys.behind(), keys.slots()];
        let mut call = Call::new(script!("keys/line.lua", "look/list/list.lua", "look/list/list_behind.lua"), &names);
        call.arg(limit - page.jobs.len()).arg(PAGE_BYTES).arg(topic.topic.as_str()).arg(&key).arg(place as u64);
        call.arg(after.and_then(Cursor::last).map(JobId::as_str).unwrap_or_default());
        let mut reply = self.reply(DOING, call).await?;
        let mut read = || -> RedisResult<()> {
            let (more, mut jobs) = (reply.number()? == 1, reply.array()?);
            while !jobs.is_empty() {
                let listed = read_job(&mut jobs, topic, |jobs, _| {
                    (key, place) = (jobs.text()?, jobs.number()? as f64);
                    Ok(JobState::Ready)
                })?;
                page.jobs.push(listed.view);
            }
            let last = page.jobs.last().filter(|_| more);
            page.next = last.map(|last| Cursor::behind_key(&key, place).after_job(last.id.clone()));
            Ok(())
        };
        read().map_err(self.misread(DOING))?;
        Ok(page)
    }

    async fn list_sorted(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let keys = self.keys(&topic.tenant);
        let (key, direction) = match place {
            StateFilter::Dead => (keys.dead(&topic.topic), "down"),
            _ => (keys.delayed(&topic.topic), "up"),
        };
        let mut call = page_call(script!("look/list/list.lua", "look/list/list_sorted.lua"), &keys, key, limit);
        call.arg(direction);
        match after.and_then(|after| Some((after.number, after.last()?))) {
            Some((score, last)) => call.arg(score.to_string()).arg(last.as_str()),
            None => call.arg("").arg(""),
        };
        let mut reply = self.reply(DOING, call).await?;
        let mut read = || -> RedisResult<Page> {
            let (more, mut jobs) = (reply.number()? == 1, reply.array()?);
            let (mut page, mut score) = (Page::default(), 0.0);
            while !jobs.is_empty() {
                let listed = read_job(&mut jobs, topic, |jobs, _| {
                    score = jobs.text()?.parse().map_err(|_| unexpected("a score is no number"))?;
                    let at = Timestamp::from_millis(jobs.number()?);
                    Ok(if place == StateFilter::Dead { JobState::Dead { since: at } } else { JobState::delayed(at) })
                })?;
                page.jobs.push(listed.view);
            }
            let last = page.jobs.last().filter(|_| more);
            page.next = last.map(|last| Cursor::new(place, score, last.id.clone()));
            Ok(page)
        };
        read().map_err(self.misread(DOING))
    }

    /// Running jobs are in no order by topic: looks at the ids of all of the tenant's, in small steps, and then at as many
    /// jobs as a page may take.
    async fn list_running(&self, topic: &TopicId, after: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        let keys = self.keys(&topic.tenant);
        let (ids, mut more) = self.next_running(&keys, after.and_then(Cursor::last)).await?;
        let (mut page, mut looked) = (Page::default(), 0);
        for _ in 0..CALLS_AT_ONCE {
            if looked >= ids.len() || page.jobs.len() == limit {
                break;
            }
            let some = ids.iter().skip(looked).take(SCRIPT_JOBS.min(limit));
            let names = [keys.jobs(), keys.claims(), keys.failures(), keys.leases(), keys.extended(), keys.cancelled()];
            let mut call = Call::new(script!("look/list/list.lua", "look/list/list_running.lua"), &names);
            call.arg(limit - page.jobs.len()).arg(PAGE_BYTES);
            call.arg(some.map(JobId::as_str).collect::<Vec<_>>());
            let mut reply = self.reply(DOING, call).await?;
            let mut read = || -> RedisResult<usize> {
                let (count, mut jobs) = (reply.number()?, reply.array()?);
                while !jobs.is_empty() {
                    let listed = read_job(&mut jobs, topic, read_running)?;
                    let job = listed.view.job.as_ref();
                    if job.is_some_and(|job| job.spec.topic == *topic) {
                        page.jobs.push(listed.view);
                    }
                }
                Ok(usize::try_from(count).unwrap_or(usize::MAX))
            };
            let count = read().map_err(self.misread(DOING))?;
            looked = looked.saturating_add(count);
            if bytes(&page) >= PAGE_BYTES {
                break;
            }
        }
        more |= looked < ids.len();
        let last = looked.checked_sub(1).and_then(|last| ids.get(last)).or(ids.last()).filter(|_| more);
        page.next = last.map(|last| Cursor::new(StateFilter::Running, 0.0, last.clone()));
        Ok(page)
    }

    /// The ids of a tenant's running jobs in order, behind one of them, and whether there are more.
    async fn next_running(&self, keys: &Keys, after: Option<&JobId>) -> Result<(Vec<JobId>, bool), StoreError> {
        let (mut ids, mut more) = (BTreeSet::new(), false);
        let holders = self.holders(DOING, keys).await?;
        for some in holders.chunks(LISTS) {
            let found = self.held(DOING, keys, some.iter().map(|(holder, _)| holder.as_str())).await?;
            ids.extend(found.into_iter().flatten().filter(|id| after.is_none_or(|after| id > after)));
            while ids.len() > LOOK {
                ids.pop_last();
                more = true;
            }
        }
        Ok((ids.into_iter().collect(), more))
    }

    /// When the jobs at the heads of these topics' lines became due, the earliest of each topic.
    pub(in crate::redis) async fn find_oldest(
        &self,
        tenant: &Name,
        topics: &[&Name],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        const DOING: &str = "look for the oldest jobs";
        let keys = self.keys(tenant);
        let mut oldest = Vec::with_capacity(topics.len());
        for topics in topics.chunks(SCRIPT_JOBS / Priority::ALL.len()) {
            let mut names = vec![keys.jobs()];
            for topic in topics {
                names.extend(Priority::ALL.map(|priority| keys.ready(priority, topic)));
            }
            let mut reply = self.reply(DOING, Call::new(script!("look/list/oldest.lua"), &names)).await?;
            let mut read = || -> RedisResult<()> {
                for _ in topics {
                    let heads = [reply.text()?, reply.text()?, reply.text()?];
                    let due = heads.iter().filter_map(|due| due.parse().ok());
                    oldest.push(due.min().map(Timestamp::from_millis));
                }
                Ok(())
            };
            read().map_err(self.misread(DOING))?;
        }
        Ok(oldest)
    }
}

/// A call for a page, with what all of them begin with.
fn page_call(script: &'static Script, keys: &Keys, place: String, limit: usize) -> Call {
    let mut call = Call::new(script, &[keys.jobs(), keys.claims(), keys.failures(), place]);
    call.arg(limit).arg(PAGE_BYTES);
    call
}

/// Reads a job, and what `state` reads behind it, given its claim.
fn read_job(
    jobs: &mut Reply,
    topic: &TopicId,
    state: impl FnOnce(&mut Reply, (u64, &str)) -> RedisResult<JobState>,
) -> RedisResult<Listed> {
    let (id, stored) = (job_id(&jobs.text()?)?, jobs.bytes()?);
    let (claim, failure) = (jobs.text()?, jobs.bytes()?);
    let (deliveries, attempts, worker) = parse_claim(&claim);
    let state = state(jobs, (deliveries, worker))?;
    // Its own topic: running jobs are listed by tenant.
    let topic = envelope::topic(&topic.tenant, &stored).unwrap_or_else(|_| topic.clone());
    let job = envelope::show(&topic, id.clone(), &stored);
    let view = JobView {
        id,
        state,
        job: Some(job),
        attempts,
        last_failure: read_failure(&failure),
        result: None,
        result_topic: None,
        behind: None,
        rate_of_key: false,
        waits_for: None,
        checkpoint: None,
        claimed_at: claimed_at(claim_fields(&claim).2),
        progress: None,
        ended: None,
    };
    Ok(Listed { view, deliveries })
}

fn read_running(jobs: &mut Reply, (delivery, worker): (u64, &str)) -> RedisResult<JobState> {
    let lease_until = Timestamp::from_millis(jobs.number()?);
    Ok(JobState::Running { worker: worker.into(), delivery, lease_until, cancelled: jobs.number()? == 1 })
}

fn bytes(page: &Page) -> usize {
    page.jobs.iter().map(Weigh::weight).sum()
}
