//! The work that remains when a job has ended for which others wait, or that has waited for others: to pass its end on, and to forget what it
//! waited for. One transaction does a bounded part; the rest stays noted, and the runner that migrates goes on with it at once.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::remaining::STEP_LINKS;
use crate::Signal;
use crate::embedded::fault::Done;
use crate::embedded::links::{END, OWN, WAITERS_OF};
use crate::embedded::row::{limit as limited, whole};
use crate::embedded::work::Work;
use gristmill_core::job::{Ended, JobId, Name};

/// Counts one more job that waits for a job.
const ADD: &str = "INSERT INTO awaited (tenant, job, waiters) VALUES (?1, ?2, 1)
                   ON CONFLICT (tenant, job) DO UPDATE SET waiters = waiters + 1";

/// Counts one less.
const TAKE: &str = "UPDATE awaited SET waiters = waiters - 1 WHERE tenant = ?1 AND job = ?2";

/// How many jobs wait for a job that has not ended, or did when it died.
const COUNT: &str = "SELECT waiters FROM awaited WHERE tenant = ?1 AND job = ?2";

/// Notes that a job has ended, and that its end is still to be passed on. `d`: it is dead. `D`: it was, and is gone.
const NOTE: &str = "UPDATE awaited SET ended = ?3 WHERE tenant = ?1 AND job = ?2";

/// Its end was passed on. A dead job may be respawned, so that its waiters are found again.
const PASSED_ON_OF_DEAD: &str = "UPDATE awaited SET ended = NULL WHERE tenant = ?1 AND job = ?2";
const PASSED_ON: &str = "DELETE FROM awaited WHERE tenant = ?1 AND job = ?2";

/// The same where no job waits any more.
const PASSED_ON_TO_ALL: &str = "DELETE FROM awaited WHERE tenant = ?1 AND job = ?2 AND waiters <= 0 AND ended IS NULL";

/// Ends that are noted.
const NOTED: &str = "SELECT job, ended, waiters FROM awaited INDEXED BY awaited_ended
                     WHERE tenant = ?1 AND ended IS NOT NULL LIMIT ?2";

/// Notes that a job is gone whose links are still to be forgotten.
const NOTE_GONE: &str = "UPDATE links SET ended = 'f' WHERE tenant = ?1 AND waiter = ?2 AND job = ''";

/// Jobs of which that is noted.
const NOTED_GONE: &str = "SELECT waiter FROM links INDEXED BY links_gone
                          WHERE tenant = ?1 AND job = '' AND ended = 'f' LIMIT ?2";

/// Whether work remains to be done for a job of this id.
const IS_UNFINISHED: &str = "SELECT 1 FROM awaited WHERE tenant = ?1 AND job = ?2 AND ended IS NOT NULL
                       UNION ALL SELECT 1 FROM links WHERE tenant = ?1 AND waiter = ?2 AND job = '' AND ended = 'f'";

/// A dead job is gone: it cannot be respawned any more. In the index its links are found no longer.
const DEAD_GONE: &str = "UPDATE links INDEXED BY links_by_job SET ended = 'D'
                         WHERE tenant = ?1 AND job = ?2 AND coalesce(ended, 'd') = 'd' AND ended = 'd'";

/// What a job waited for, from the first on.
const FIRST: &str =
    "SELECT job, ended FROM links WHERE tenant = ?1 AND waiter = ?2 AND job <> '' ORDER BY job LIMIT ?3";

/// Forgets that, up to one of them.
const FORGET: &str = "DELETE FROM links WHERE tenant = ?1 AND waiter = ?2 AND job <> '' AND job <= ?3";

/// Forgets a job's own row.
const FORGET_OWN: &str = "DELETE FROM links WHERE tenant = ?1 AND waiter = ?2 AND job = ''";

impl Work<'_> {
    /// Takes room for this many links in this transaction. The first job has it, however many it has.
    fn take_room(&mut self, links: usize) -> bool {
        let has_room = self.whole || links <= self.room || self.room == STEP_LINKS;
        if has_room {
            self.room = self.room.saturating_sub(links.max(1));
        }
        has_room
    }

    pub(in crate::embedded) fn add_waiter(&mut self, tenant: &Name, job: &JobId) -> Done<()> {
        self.statements.get(ADD)?.execute([tenant.as_str(), job.as_str()])?;
        Ok(())
    }

    /// How many jobs wait for one, or did when it died.
    pub(in crate::embedded) fn count_waiters(&mut self, tenant: &Name, job: &JobId) -> Done<usize> {
        let count = self.statements.get(COUNT)?;
        let count = count.query_row([tenant.as_str(), job.as_str()], |row| row.get::<_, i64>(0)).optional()?;
        Ok(count.map_or(0, |count| usize::try_from(count).unwrap_or_default()))
    }

    /// Notes that a job has ended, for [`Work::carry_ends`].
    pub(in crate::embedded) fn note_end(&mut self, tenant: &Name, id: &JobId, ended: Ended) {
        self.ends.push((tenant.clone(), id.clone(), ended));
    }

    /// Passes the ends of the noted jobs on to those that wait for them. Comes after follow-up jobs were stored: these may also wait for
    /// them.
    pub(in crate::embedded) fn carry_ends(&mut self) -> Done<()> {
        for (tenant, id, ended) in &std::mem::take(&mut self.ends) {
            if !self.topics.some_links {
                break;
            }
            self.end_for_waiters(tenant, id, &ended.letter().to_string())?;
        }
        Ok(())
    }

    fn end_for_waiters(&mut self, tenant: &Name, id: &JobId, letter: &str) -> Done<()> {
        let waiters = self.count_waiters(tenant, id)?;
        if waiters == 0 {
            return Ok(());
        }
        if self.take_room(waiters) {
            return self.pass_on(tenant, id, letter);
        }
        self.statements.get(NOTE)?.execute([tenant.as_str(), id.as_str(), letter])?;
        self.leave_for_later(tenant);
        Ok(())
    }

    fn leave_for_later(&mut self, tenant: &Name) {
        if self.topics.unfinished.insert(tenant.clone()) {
            self.signals.push(Signal::Due { tenant: tenant.clone(), wait: Duration::ZERO });
        }
    }

    /// Passes the end of one job on to all that wait for it.
    fn pass_on(&mut self, tenant: &Name, id: &JobId, letter: &str) -> Done<()> {
        let mut select = self.connection.prepare_cached(WAITERS_OF)?;
        let waiters = select.query_map(params![tenant.as_str(), id.as_str(), -1], |row| row.get(0))?;
        for waiter in waiters.collect::<Result<Vec<String>, _>>()? {
            let was_waiting =
                self.statements.get(END)?.execute([tenant.as_str(), waiter.as_str(), id.as_str(), letter])? == 1;
            if let Some(waiter) = waiter.parse().ok().filter(|_| was_waiting) {
                self.release(tenant, &waiter)?;
            }
        }
        if letter == "D" {
            self.statements.get(DEAD_GONE)?.execute([tenant.as_str(), id.as_str()])?;
        }
        self.end_is_passed_on(tenant, id, letter == "d")
    }

    pub(in crate::embedded) fn end_is_passed_on(&mut self, tenant: &Name, id: &JobId, is_dead: bool) -> Done<()> {
        let passed_on = if is_dead { PASSED_ON_OF_DEAD } else { PASSED_ON };
        self.statements.get(passed_on)?.execute([tenant.as_str(), id.as_str()])?;
        Ok(())
    }

    /// A dead job is gone: it waits for none any more, and cannot be respawned any more.
    pub(in crate::embedded) fn forget_dead(&mut self, tenant: &Name, id: &JobId) -> Done<()> {
        if self.topics.some_links {
            self.forget_links(tenant, id)?;
            self.end_for_waiters(tenant, id, "D")?;
        }
        Ok(())
    }

    /// A job is gone: it waits for none any more.
    pub(in crate::embedded) fn forget_links(&mut self, tenant: &Name, id: &JobId) -> Done<()> {
        let of = [tenant.as_str(), id.as_str()];
        let members = self.statements.get(OWN)?.query_row(of, |row| row.get::<_, i64>("members")).optional()?;
        let Some(members) = members else { return Ok(()) };
        let members = usize::try_from(members).unwrap_or_default();
        if self.whole || members <= self.room {
            self.room = self.room.saturating_sub(members.max(1));
            return self.forget_some(tenant, id.as_str(), usize::MAX).map(drop);
        }
        self.statements.get(NOTE_GONE)?.execute(of)?;
        self.leave_for_later(tenant);
        Ok(())
    }

    /// Forgets at most this many of the links of a job that is gone. Returns how many.
    fn forget_some(&mut self, tenant: &Name, id: &str, most: usize) -> Done<usize> {
        let most = i64::try_from(most).unwrap_or(-1);
        let mut select = self.connection.prepare_cached(FIRST)?;
        let rows = select.query_map(params![tenant.as_str(), id, most], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let found = rows.collect::<Result<Vec<(String, Option<String>)>, _>>()?;
        for (job, _) in found.iter().filter(|(_, ended)| ended.as_deref().is_none_or(|ended| ended == "d")) {
            for sql in [TAKE, PASSED_ON_TO_ALL] {
                self.statements.get(sql)?.execute([tenant.as_str(), job.as_str()])?;
            }
        }
        if let Some((last, _)) = found.last() {
            self.statements.get(FORGET)?.execute([tenant.as_str(), id, last.as_str()])?;
        }
        if most < 0 || whole(most) > found.len() as u64 {
            self.statements.get(FORGET_OWN)?.execute([tenant.as_str(), id])?;
        }
        Ok(found.len().max(1))
    }

    /// Whether work remains to be done for a job that had this id: then no other job gets the id.
    pub(in crate::embedded) fn is_unfinished(&mut self, tenant: &Name, id: &JobId) -> Done<bool> {
        Ok(self.topics.unfinished.contains(tenant)
            && self.statements.get(IS_UNFINISHED)?.exists([tenant.as_str(), id.as_str()])?)
    }

    /// Goes on with the work that remains after ends of a tenant's jobs. Returns how many links were passed on or forgotten, and jobs done with.
    pub(in crate::embedded) fn go_on_with_ends(&mut self, tenant: &Name) -> Done<usize> {
        if !self.topics.unfinished.contains(tenant) {
            return Ok(0);
        }
        // A request to migrate weighs as much as that.
        self.room = STEP_LINKS;
        let mut select = self.connection.prepare_cached(NOTED)?;
        let noted = select.query_map(params![tenant.as_str(), limited(STEP_LINKS)], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?))
        })?;
        let mut is_done = true;
        for (job, letter, waiters) in noted.collect::<Result<Vec<(String, String, _)>, _>>()? {
            if !self.take_room(usize::try_from(waiters).unwrap_or_default()) {
                is_done = false;
                break;
            }
            match job.parse() {
                Ok(id) => self.pass_on(tenant, &id, &letter)?,
                Err(_) => drop(self.statements.get(PASSED_ON)?.execute([tenant.as_str(), job.as_str()])?),
            }
        }
        let mut select = self.connection.prepare_cached(NOTED_GONE)?;
        let gone = select.query_map(params![tenant.as_str(), limited(STEP_LINKS)], |row| row.get(0))?;
        for waiter in gone.collect::<Result<Vec<String>, _>>()? {
            if self.room == 0 {
                break;
            }
            let forgotten = self.forget_some(tenant, &waiter, self.room)?;
            self.room = self.room.saturating_sub(forgotten);
        }
        // What is left is found by the next one.
        if is_done && self.room > 0 {
            self.topics.unfinished.remove(tenant);
        }
        Ok(STEP_LINKS - self.room)
    }
}
