//! The bulk actions of a server.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::work::{Step, Work};
use crate::auth::identity::Identity;
use crate::problem::{Code, Problem};
use crate::wire::bulk::{Bulk, BulkState, NewBulk, SAMPLES};
use gristmill_core::job::{JobId, Name};
use gristmill_core::time::Timestamp;
use gristmill_core::units::counted;
use gristmill_metrics::{BulkFacts, Event, EventKind};

/// How many of a tenant are kept, and of all; the oldest that looks at no jobs makes room for a new one.
const KEPT: usize = 100;
const KEPT_IN_ALL: usize = 2000;
/// How many of a tenant look at jobs at a time, and of all.
const ACTIVE: usize = 4;
const ACTIVE_IN_ALL: usize = 16;
/// Why those are aborted that are at work then.
pub(super) const SERVER_ENDED: &str = "the server ended";

/// The bulk actions of all tenants, and those that wait to be carried out.
#[derive(Debug, Default)]
pub(crate) struct BulkActions {
    runs: Mutex<Runs>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct Runs {
    /// The oldest first.
    all: VecDeque<Arc<BulkRun>>,
    /// What was made or started, and has not been taken by the engine.
    queue: VecDeque<Arc<BulkRun>>,
    /// The server ends.
    is_closed: bool,
}

/// One of them.
#[derive(Debug)]
pub(super) struct BulkRun {
    pub(super) work: Work,
    pub(super) abort: CancellationToken,
    /// The client that made it, and then the one that started it: it ends with that one's token.
    by: Mutex<Identity>,
    shown: Mutex<Bulk>,
}

impl BulkActions {
    /// Makes one, whose dry run begins.
    ///
    /// # Errors
    /// [`Code::Busy`]: too many look at jobs, or the server ends.
    pub(crate) fn make(&self, work: Work, new: NewBulk, by: &Identity) -> Result<Bulk, Problem> {
        let NewBulk { q, action, due, priority } = new;
        let shown = Bulk {
            id: JobId::generate().to_string(),
            action,
            q,
            due,
            priority,
            actor: by.actor(),
            state: BulkState::Counting,
            created_at: work.since(),
            started_at: None,
            ended_at: None,
            looked_at: 0,
            matched: 0,
            samples: Vec::new(),
            changed: 0,
            skipped: Default::default(),
            error: None,
        };
        let (abort, by) = (CancellationToken::new(), Mutex::new(by.clone()));
        let run = Arc::new(BulkRun { work, abort, by, shown: Mutex::new(shown.clone()) });
        let mut runs = self.runs.lock();
        runs.check_room(&run.work.tenant)?;
        runs.make_room(&run.work.tenant);
        runs.all.push_back(run.clone());
        runs.queue.push_back(run);
        self.woken.notify_one();
        Ok(shown)
    }

    /// Those of a tenant, the latest first.
    pub(crate) fn list(&self, tenant: &Name) -> Vec<Bulk> {
        self.runs.lock().of(tenant).rev().map(|run| run.shown()).collect()
    }

    /// # Errors
    /// [`Code::BulkUnknown`]
    pub(crate) fn get(&self, tenant: &Name, id: &str) -> Result<Bulk, Problem> {
        Ok(self.runs.lock().find(tenant, id)?.shown())
    }

    /// Starts one that was counted, if `expect` is what it counted.
    ///
    /// # Errors
    /// [`Code::BulkUnknown`]; [`Code::BulkRefused`]: it counts, was started, or counted another number; [`Code::Busy`].
    pub(crate) fn start(&self, tenant: &Name, id: &str, expect: u64, by: &Identity) -> Result<Bulk, Problem> {
        let mut runs = self.runs.lock();
        let run = runs.find(tenant, id)?;
        run.check_counted(expect)?;
        runs.check_room(tenant)?;
        run.by.lock().clone_from(by);
        let shown = run.change(|shown| {
            shown.state = BulkState::Running;
            shown.started_at = Some(Timestamp::now());
            shown.looked_at = 0;
        });
        runs.queue.push_back(run);
        self.woken.notify_one();
        Ok(shown)
    }

    /// Aborts one: at once, or after its current step.
    ///
    /// # Errors
    /// [`Code::BulkUnknown`]; [`Code::TooLate`]: it has ended.
    pub(crate) fn abort(&self, tenant: &Name, id: &str) -> Result<Bulk, Problem> {
        let runs = self.runs.lock();
        let run = runs.find(tenant, id)?;
        let mut shown = run.shown.lock();
        if shown.state.is_over() {
            let detail = format!("bulk action {id} is {}: there is nothing to abort", shown.state.as_str());
            return Err(Problem::new(Code::TooLate, detail));
        }
        // Under the lock: the end of the dry run sees it, or is over.
        run.abort.cancel();
        if !shown.state.is_active() {
            end(&mut shown, BulkState::Aborted, None);
        }
        Ok(shown.clone())
    }

    /// The server ends: those that look at jobs are aborted, and no more are taken. Returns those of them that were started.
    pub(super) fn close(&self) -> Vec<Arc<BulkRun>> {
        let mut runs = self.runs.lock();
        runs.is_closed = true;
        runs.queue.clear();
        let was_running = |run: &&Arc<BulkRun>| {
            let mut shown = run.shown.lock();
            let state = shown.state;
            state.is_active()
                && end(&mut shown, BulkState::Aborted, Some(SERVER_ENDED.into()))
                && state == BulkState::Running
        };
        runs.all.iter().filter(was_running).cloned().collect()
    }

    /// The next one to carry out. Cancel-safe.
    pub(super) async fn next(&self) -> Arc<BulkRun> {
        loop {
            let woken = self.woken.notified();
            if let Some(run) = self.runs.lock().queue.pop_front() {
                return run;
            }
            woken.await;
        }
    }
}

impl Runs {
    fn of(&self, tenant: &Name) -> impl DoubleEndedIterator<Item = &Arc<BulkRun>> {
        self.all.iter().filter(move |run| run.work.tenant == *tenant)
    }

    fn find(&self, tenant: &Name, id: &str) -> Result<Arc<BulkRun>, Problem> {
        let found = self.of(tenant).find(|run| run.shown.lock().id == id);
        let unknown = || {
            let detail =
                format!("there is no bulk action {id} here: a server forgets the oldest, and all when it ends");
            Problem::new(Code::BulkUnknown, detail)
        };
        found.cloned().ok_or_else(unknown)
    }

    fn check_room(&self, tenant: &Name) -> Result<(), Problem> {
        if self.is_closed {
            return Err(Problem::new(Code::Busy, "the server is ending: ask again once it has started"));
        }
        let active = |run: &&Arc<BulkRun>| run.shown.lock().state.is_active();
        if self.of(tenant).filter(active).count() < ACTIVE && self.all.iter().filter(active).count() < ACTIVE_IN_ALL {
            return Ok(());
        }
        let detail = format!(
            "too many bulk actions are at work, {ACTIVE} of the tenant or {ACTIVE_IN_ALL} in all: wait for the end of one, or abort one"
        );
        Err(Problem::new(Code::Busy, detail))
    }

    /// Forgets the oldest that looks at no jobs, of the tenant or of all, if there are as many as are kept. Only some of these can be active.
    fn make_room(&mut self, tenant: &Name) {
        let is_idle = |run: &Arc<BulkRun>| !run.shown.lock().state.is_active();
        let of_tenant = |run: &Arc<BulkRun>| is_idle(run) && run.work.tenant == *tenant;
        let oldest = if self.of(tenant).count() >= KEPT {
            self.all.iter().position(of_tenant)
        } else if self.all.len() >= KEPT_IN_ALL {
            self.all.iter().position(is_idle)
        } else {
            None
        };
        if let Some(index) = oldest {
            self.all.remove(index);
        }
    }
}

impl BulkRun {
    /// The client with whose token it ends.
    pub(super) fn by(&self) -> Identity {
        self.by.lock().clone()
    }

    pub(super) fn shown(&self) -> Bulk {
        self.shown.lock().clone()
    }

    fn change(&self, change: impl FnOnce(&mut Bulk)) -> Bulk {
        let mut shown = self.shown.lock();
        change(&mut shown);
        shown.clone()
    }

    fn check_counted(&self, expect: u64) -> Result<(), Problem> {
        let Bulk { id, state, matched, .. } = self.shown();
        let detail = match state {
            BulkState::Counted if matched == expect => return Ok(()),
            BulkState::Counted => {
                let jobs = counted(matched, "job", "jobs");
                format!("bulk action {id} has counted {jobs}, not {expect}: look at it again")
            }
            BulkState::Counting => format!("bulk action {id} is counting: start it once its state is `counted`"),
            _ => format!("bulk action {id} was confirmed or aborted before, it is {}: make another", state.as_str()),
        };
        Err(Problem::new(Code::BulkRefused, detail))
    }

    /// Notes what a step did, in the dry run or in earnest.
    pub(super) fn note(&self, step: Step, is_dry: bool) {
        let Step { looked_at, matched, samples, changed, skipped, erased: _ } = step;
        self.change(|shown| {
            shown.looked_at += looked_at as u64;
            if is_dry {
                shown.matched += matched as u64;
                let room = SAMPLES - shown.samples.len();
                shown.samples.extend(samples.into_iter().take(room));
            }
            shown.changed += changed as u64;
            for (reason, count) in skipped {
                *shown.skipped.entry(reason.into()).or_default() += count as u64;
            }
        });
    }

    /// The dry run is over. Returns whether this ended the bulk action: an abort came before.
    pub(super) fn counted(&self) -> bool {
        let mut shown = self.shown.lock();
        if self.abort.is_cancelled() {
            return end(&mut shown, BulkState::Aborted, None);
        }
        if shown.state == BulkState::Counting {
            shown.state = BulkState::Counted;
        }
        false
    }

    /// Every job that fits has had its turn. Returns `false` if it had ended before, and changes nothing then.
    pub(super) fn done(&self) -> bool {
        let mut shown = self.shown.lock();
        let missing = shown.matched.saturating_sub(shown.changed + shown.skipped_in_all());
        let is_first = end(&mut shown, BulkState::Done, None);
        if is_first && missing > 0 {
            shown.skipped.insert("no-longer-fits".into(), missing);
        }
        is_first
    }

    /// Returns `false` if it had ended before, and changes nothing then.
    pub(super) fn end(&self, state: BulkState, error: Option<String>) -> bool {
        end(&mut self.shown.lock(), state, error)
    }

    pub(super) fn event(&self, kind: EventKind) -> Event {
        let shown = self.shown();
        let skipped = shown.skipped_in_all();
        let Bulk { id, action, q, actor, state, matched, changed, .. } = shown;
        let facts =
            BulkFacts { id, action: action.as_str(), q, actor, state: state.as_str(), matched, changed, skipped };
        Event { tenant: Some(self.work.tenant.clone()), bulk: Some(facts), ..Event::new(kind) }
    }
}

/// Returns `false` if it had ended before, and changes nothing then.
fn end(shown: &mut Bulk, state: BulkState, error: Option<String>) -> bool {
    let is_first = !shown.state.is_over();
    if is_first {
        shown.state = state;
        shown.ended_at = Some(Timestamp::now());
        shown.error = error;
    }
    is_first
}
