//! Jobs that wait for other jobs: what a new one waits for, and what the end of a job lets start.

mod ends;
pub(super) mod remaining;

use std::collections::HashSet;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Done;
use super::file::request::Weight;
use super::keys::slot::missing_key;
use super::memory::topics::Number;
use super::results;
use super::row::{at, limit as limited, ms, priority, text, whole};
use super::store::EmbeddedStore;
use super::work::{Waiting, Work};
use crate::clock::NEVER;
use crate::{BatchSealed, Predecessor, ResultView, StoreError, WaitsFor, Workflows};
use gristmill_core::job::{Ended, JobId, JobSpec, MEMBERS, Name, NoLink, WAITERS};

/// Adds what a job waits for. A job that it names twice counts once.
const ADD: &str = "INSERT INTO links (tenant, waiter, job, ended, members) VALUES (?1, ?2, ?3, ?4, 0)
                   ON CONFLICT (tenant, waiter, job) DO UPDATE SET ended = ?4";

/// Adds a job's own row.
const BEGIN: &str = "INSERT INTO links (tenant, waiter, job, ended, members) VALUES (?1, ?2, '', ?3, ?4)";

/// Counts a member of a batch.
const JOIN: &str = "UPDATE links SET members = members + 1 WHERE tenant = ?1 AND waiter = ?2 AND job = ''";

/// Whether a job that waits is an open batch, and for how many it waits.
pub(super) const OWN: &str = "SELECT ended IS NULL, members FROM links
                              WHERE tenant = ?1 AND waiter = ?2 AND job = '' AND ended IS NOT 'f'";

/// Whether a job waits for some. Without the name of the index SQLite would look through all that it has waited for.
const WAITS: &str =
    "SELECT 1 FROM links INDEXED BY links_open WHERE tenant = ?1 AND waiter = ?2 AND ended IS NULL LIMIT 1";

/// Whether a job waits for another one.
const WAITS_FOR: &str = "SELECT 1 FROM links WHERE tenant = ?1 AND waiter = ?2 AND job = ?3 AND ended IS NULL";

/// The jobs that wait for one, or did when it died. Without the name of the index SQLite would look through all links of the tenant, here and in
/// the next ones.
pub(super) const WAITERS_OF: &str = "SELECT waiter, ended FROM links INDEXED BY links_by_job
                          WHERE tenant = ?1 AND job = ?2 AND coalesce(ended, 'd') = 'd' ORDER BY waiter LIMIT ?3";

/// Notes that a job has ended, or that a batch is sealed.
pub(super) const END: &str =
    "UPDATE links SET ended = ?4 WHERE tenant = ?1 AND waiter = ?2 AND job = ?3 AND ended IS NULL";

/// A dead job is to run again.
const REOPEN: &str = "UPDATE links INDEXED BY links_by_job SET ended = NULL
                      WHERE tenant = ?1 AND job = ?2 AND coalesce(ended, 'd') = 'd' AND ended = 'd'";

/// Whether a job is stored, and dead.
const FIND: &str = "SELECT dead_since IS NOT NULL FROM job_rows WHERE id = ?1 AND tenant = ?2";

/// A job that stands by.
const STANDS_BY: &str = "SELECT number, priority, key, slot, due_at FROM job_rows
                         WHERE id = ?1 AND tenant = ?2 AND delayed_until = ?3";

/// A job that stood by waits for its time, or is ready.
const RELEASE: &str =
    "UPDATE job_rows SET number = ?2, delayed_until = ?3, due_at = ?4, slot = coalesce(?5, slot) WHERE number = ?1";

/// How many jobs one waits for, and how they ended.
const COUNTS: &str = "SELECT ended, count(*) FROM links WHERE tenant = ?1 AND waiter = ?2 AND job <> '' GROUP BY ended";

/// The jobs that one waits for, as a list has them.
const LIST: &str = "SELECT job, ended FROM links WHERE tenant = ?1 AND waiter = ?2 AND job <> ''
                    ORDER BY ended IS NOT NULL, ended = 'c', job LIMIT ?3";

#[async_trait]
impl Workflows for EmbeddedStore {
    async fn seal(&self, tenant: &Name, id: &JobId) -> Result<BatchSealed, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write("seal a batch", Weight { jobs: 1, bytes: 0 }, move |work| work.seal(&tenant, &id)).await
    }

    async fn waits_for(&self, tenant: &Name, id: &JobId, limit: usize) -> Result<Option<WaitsFor>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read_list("look for what a job waits for", move |connection, _| waits_for(connection, &tenant, &id, limit))
            .await
    }

    async fn waiters(&self, tenant: &Name, id: &JobId) -> Result<Vec<JobId>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read_list("look for what waits for a job", move |connection, _| {
            let mut select = connection.prepare_cached(WAITERS_OF)?;
            let ids = select.query_map(params![tenant.as_str(), id.as_str(), limited(WAITERS)], |row| row.get(0))?;
            let ids = ids.collect::<Result<Vec<String>, _>>()?;
            Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
        })
        .await
    }
}

pub(super) fn waits_for(connection: &Connection, tenant: &Name, id: &JobId, limit: usize) -> Done<Option<WaitsFor>> {
    let of = [tenant.as_str(), id.as_str()];
    let Some(open) = connection.prepare_cached(OWN)?.query_row(of, |row| row.get(0)).optional()? else {
        return Ok(None);
    };
    let mut found = WaitsFor { open, ..WaitsFor::default() };
    let mut select = connection.prepare_cached(COUNTS)?;
    let mut rows = select.query(of)?;
    while let Some(row) = rows.next()? {
        let n = whole(row.get(1)?);
        let ended = read_ended(text(row, "ended")?);
        found.total += n;
        found.ended += if ended.is_some() { n } else { 0 };
        found.failed += if ended.is_some_and(|ended| ended != Ended::Complete) { n } else { 0 };
    }
    let mut select = connection.prepare_cached(LIST)?;
    let mut rows = select.query(params![tenant.as_str(), id.as_str(), limited(limit)])?;
    while let Some(row) = rows.next()? {
        let ended = read_ended(text(row, "ended")?);
        found.jobs.extend(text(row, "job")?.and_then(|id| Some(Predecessor { id: id.parse().ok()?, ended })));
    }
    Ok(Some(found))
}

/// The letter of a dead job that is gone is `D`.
fn read_ended(letter: Option<&str>) -> Option<Ended> {
    Ended::of_letter(&letter?.to_lowercase())
}

/// What a new job waits for: its batch, and each job that it names with what became of that.
#[derive(Debug, Default)]
pub(super) struct NewLinks {
    batch: Option<JobId>,
    named: Vec<(JobId, Option<Ended>)>,
}

impl Work<'_> {
    /// What a new job waits for, as its producer asks; or why it cannot. A follow-up job cannot be refused: what it cannot wait
    /// for is [`Ended::Unknown`].
    pub(super) fn find_links(&mut self, spec: &JobSpec, follows: bool) -> Done<Result<NewLinks, NoLink>> {
        let tenant = &spec.topic.tenant;
        let mut links = NewLinks::default();
        if let Some(batch) = &spec.options.batch {
            match self.no_batch(tenant, batch, follows)? {
                None => links.batch = Some(batch.clone()),
                Some(_) if follows => {}
                Some(no) => return Ok(Err(no)),
            }
        }
        let mut seen = HashSet::new();
        for job in spec.options.after.iter().filter(|job| seen.insert(*job)) {
            match self.find_predecessor(tenant, job, links.batch.as_ref())? {
                Ok(ended) => links.named.push((job.clone(), ended)),
                Err(_) if follows => links.named.push((job.clone(), Some(Ended::Unknown))),
                Err(no) => return Ok(Err(no)),
            }
        }
        Ok(Ok(links))
    }

    /// Why a job cannot become a member of a batch, if it cannot.
    fn no_batch(&mut self, tenant: &Name, batch: &JobId, follows: bool) -> Done<Option<NoLink>> {
        let own = self.statements.get(OWN)?;
        let own = own.query_row([tenant.as_str(), batch.as_str()], |row| Ok((row.get(0)?, row.get(1)?)));
        let own: Option<(bool, i64)> = own.optional()?;
        let stands_by = own.is_some() && self.stands_by(tenant, batch)?.is_some();
        match own {
            _ if !stands_by => {
                let is_stored = self.statements.get(FIND)?.exists([batch.as_str(), tenant.as_str()])?;
                Ok(Some(if is_stored { NoLink::NotOpen(batch.clone()) } else { NoLink::Unknown(batch.clone()) }))
            }
            Some((false, _)) if !follows => Ok(Some(NoLink::NotOpen(batch.clone()))),
            Some((_, members)) if members >= limited(MEMBERS) => Ok(Some(NoLink::Full(batch.clone()))),
            _ => Ok(None),
        }
    }

    /// What became of a job that a new one is to wait for.
    fn find_predecessor(
        &mut self,
        tenant: &Name,
        job: &JobId,
        batch: Option<&JobId>,
    ) -> Done<Result<Option<Ended>, NoLink>> {
        let of = [job.as_str(), tenant.as_str()];
        let dead: Option<bool> = self.statements.get(FIND)?.query_row(of, |row| row.get(0)).optional()?;
        let is_ending = self.ends.iter().any(|(ending, id, _)| ending == tenant && id == job);
        let ended = match dead {
            _ if is_ending => None,
            Some(true) => Some(Ended::Dead),
            Some(false) => None,
            None => match results::find(self.connection, tenant, job, self.now())? {
                None => return Ok(Err(NoLink::Unknown(job.clone()))),
                Some((_, result, _)) => return Ok(Ok(Some(ended_as(&result)))),
            },
        };
        if self.count_waiters(tenant, job)? >= WAITERS {
            return Ok(Err(NoLink::Crowded(job.clone())));
        }
        if let (Some(batch), None) = (batch, ended)
            && self.waits_for_some(tenant, job)?
            && !self.statements.get(WAITS_FOR)?.exists([tenant.as_str(), batch.as_str(), job.as_str()])?
        {
            return Ok(Err(NoLink::Tangled(job.clone())));
        }
        Ok(Ok(ended))
    }

    /// Notes what a new job waits for. Returns whether it has to.
    pub(super) fn add_links(&mut self, spec: &JobSpec, NewLinks { batch, named }: &NewLinks) -> Done<bool> {
        self.topics.some_links = true;
        let (tenant, id) = (spec.topic.tenant.as_str(), spec.id.as_str());
        if let Some(batch) = batch {
            self.statements.get(ADD)?.execute(params![tenant, batch.as_str(), id, None::<String>])?;
            self.statements.get(JOIN)?.execute([tenant, batch.as_str()])?;
            self.add_waiter(&spec.topic.tenant, &spec.id)?;
        }
        if !spec.options.waits() {
            return Ok(false);
        }
        let sealed = (!spec.options.open).then_some("-");
        self.statements.get(BEGIN)?.execute(params![tenant, id, sealed, limited(named.len())])?;
        for (job, ended) in named {
            let letter = ended.map(|ended| ended.letter().to_string());
            self.statements.get(ADD)?.execute(params![tenant, id, job.as_str(), letter])?;
            if matches!(ended, None | Some(Ended::Dead)) {
                self.add_waiter(&spec.topic.tenant, job)?;
            }
        }
        self.waits_for_some(&spec.topic.tenant, &spec.id)
    }

    /// The place of a job that waits for others, whatever the time.
    pub(super) fn stand_by(&mut self, topic: Number) -> Done<Waiting> {
        let number = self.place_beside(topic)?;
        let changed = self.topics.change(topic);
        changed.delayed += 1;
        changed.used = true;
        Ok(Waiting { number, until: Some(NEVER), slot: None })
    }

    pub(super) fn waits_for_some(&mut self, tenant: &Name, id: &JobId) -> Done<bool> {
        Ok(self.topics.some_links && self.statements.get(WAITS)?.exists([tenant.as_str(), id.as_str()])?)
    }

    fn stands_by(&self, tenant: &Name, id: &JobId) -> Done<Option<i64>> {
        let mut find = self.connection.prepare_cached(STANDS_BY)?;
        Ok(find.query_row(params![id.as_str(), tenant.as_str(), ms(NEVER)], |row| row.get(0)).optional()?)
    }

    /// Lets a job start that stands by and waits for no other any more: when it is due, or now. It counts as due from then on.
    pub(super) fn release(&mut self, tenant: &Name, id: &JobId) -> Done<()> {
        if self.waits_for_some(tenant, id)? {
            return Ok(());
        }
        let mut find = self.connection.prepare_cached(STANDS_BY)?;
        let row = find.query_row(params![id.as_str(), tenant.as_str(), ms(NEVER)], |row| {
            Ok((row.get::<_, i64>("number")?, priority(row), missing_key(row), row.get("due_at").map(at)?))
        });
        let Some((number, priority, key, due_at)) = row.optional()? else { return Ok(()) };
        let topic = self.topics.of_job(number, id)?;
        let due_at = due_at.max(self.now());
        let place = self.wait(topic, priority?, due_at, key?.as_deref())?;
        let mut release = self.connection.prepare_cached(RELEASE)?;
        release.execute(params![number, place.number, place.until.map(ms), ms(due_at), place.slot])?;
        let changed = self.topics.change(topic);
        changed.delayed = changed.delayed.saturating_sub(1);
        Ok(())
    }

    /// A dead job is to run again: those that still wait count it anew. Returns how many may.
    pub(super) fn reopen(&mut self, tenant: &Name, id: &JobId) -> Done<usize> {
        if !self.topics.some_links {
            return Ok(0);
        }
        let waiters = self.count_waiters(tenant, id)?;
        if waiters > 0 {
            self.statements.get(REOPEN)?.execute([tenant.as_str(), id.as_str()])?;
            self.end_is_passed_on(tenant, id, true)?;
        }
        Ok(waiters)
    }

    /// Whether a job waits for others, has waited, or is waited for.
    pub(super) fn is_linked(&mut self, tenant: &Name, id: &JobId) -> Done<bool> {
        Ok(self.topics.some_links
            && (self.statements.get(OWN)?.exists([tenant.as_str(), id.as_str()])?
                || self.count_waiters(tenant, id)? > 0))
    }

    fn seal(&mut self, tenant: &Name, id: &JobId) -> Done<BatchSealed> {
        let own = self.statements.get(OWN)?;
        let open: Option<bool> = own.query_row([tenant.as_str(), id.as_str()], |row| row.get(0)).optional()?;
        if open.is_none() || self.stands_by(tenant, id)?.is_none() {
            return Ok(BatchSealed::NotWaiting);
        }
        if open == Some(false) {
            return Ok(BatchSealed::Before);
        }
        self.statements.get(END)?.execute([tenant.as_str(), id.as_str(), "", "-"])?;
        self.release(tenant, id)?;
        Ok(BatchSealed::Sealed)
    }
}

/// How a job ended whose result is kept.
fn ended_as(result: &ResultView) -> Ended {
    match result {
        ResultView::Complete(_) => Ended::Complete,
        ResultView::Dead(_) => Ended::Dead,
        ResultView::Expired => Ended::Expired,
        ResultView::Cancelled => Ended::Cancelled,
    }
}
