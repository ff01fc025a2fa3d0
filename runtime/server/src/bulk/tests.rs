//! What ends a bulk action before it is done, what a repeated step does, and jobs that move.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anyhow::anyhow;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::engine::{self, carry_out};
use super::registry::{BulkRun, SERVER_ENDED};
use super::work::{self, BulkStore, Step, Work};
use crate::auth::Auth;
use crate::auth::identity::Identity;
use crate::problem::{Code, Problem};
use crate::settings::HttpServerSettings;
use crate::state::AppState;
use crate::wire::bulk::{Bulk, BulkAction, BulkState, NewBulk};
use gristmill_core::job::{Due, JobChange, JobId, JobSpec, Name, NewJob, Payload, Priority, Progress, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::token::{NewToken, Scope, TokenLimits, TokenText};
use gristmill_metrics::{EventKind, Filter, Received};
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::{
    Cancelled, Control, Cursor, DeadJobs, Heartbeat, JobChanged, JobView, ListJobs, Page, Query, StateFilter, Store,
    StoreError, TopicCounts,
};

const JOBS: u64 = 4500;

fn topic() -> TopicId {
    "acme/mail".parse().unwrap()
}

fn tenant() -> Name {
    topic().tenant
}

/// One of the customer.
fn job(topic: TopicId, due: Due) -> NewJob {
    let metadata = vec![("customer".into(), "17".into())];
    NewJob { spec: JobSpec { metadata, ..JobSpec::new(topic, Payload::default()) }, due }
}

/// A server whose engine does not run, over this many jobs of a customer.
async fn server(jobs: u64) -> AppState {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().await.unwrap());
    let jobs: Vec<_> = (0..jobs).map(|_| job(topic(), Due::Now)).collect();
    store.push(&jobs).await.unwrap();
    let settings = HttpServerSettings::default();
    let auth = Auth::new(store.clone(), TokenText::generate().unwrap().hash(), true, &settings);
    let server = gristmill_store::ServerName { store: String::from("id").into(), instance: "one".into() };
    AppState::new(store, ("sqlite::memory:", server), auth, &settings)
}

fn make(state: &AppState) -> Result<Bulk, Problem> {
    let new = new(BulkAction::Cancel, None);
    state.bulk.make(Work::new(tenant(), &new).unwrap(), new, &Identity::Anybody)
}

fn new(action: BulkAction, priority: Option<Priority>) -> NewBulk {
    NewBulk { q: "meta.customer:17".into(), action, due: None, priority }
}

/// One that was counted and started, and waits for the engine.
async fn started(state: &AppState) -> Arc<BulkRun> {
    let Bulk { id, .. } = make(state).unwrap();
    carry_out(state.clone(), state.bulk.next().await).await;
    state.bulk.start(&tenant(), &id, JOBS, &Identity::Anybody).unwrap();
    state.bulk.next().await
}

async fn remaining(state: &AppState) -> u64 {
    state.store.counts(&tenant()).await.unwrap()[0].ready
}

/// Ends it by `end` after a step that has changed jobs, and before its last one.
async fn ended_by(end: impl FnOnce(&AppState, &str)) -> Bulk {
    let state = server(JOBS).await;
    let run = started(&state).await;
    let task = tokio::spawn(carry_out(state.clone(), run.clone()));
    while run.shown().changed == 0 {
        tokio::task::yield_now().await;
    }
    end(&state, &run.shown().id);
    task.await.unwrap();
    let bulk = run.shown();
    assert!((1..JOBS).contains(&bulk.changed), "{bulk:?}");
    assert_eq!((remaining(&state).await, bulk.skipped.len()), (JOBS - bulk.changed, 0), "{bulk:?}");
    assert_eq!((bulk.state, bulk.matched, bulk.ended_at.is_some()), (BulkState::Aborted, JOBS, true));
    bulk
}

#[tokio::test]
async fn an_abort_takes_effect_after_the_step() {
    let bulk = ended_by(|state, id| {
        // It goes on until its step is over.
        assert_eq!(state.bulk.abort(&tenant(), id).unwrap().state, BulkState::Running);
    });
    assert_eq!(bulk.await.error, None);
}

#[tokio::test]
async fn the_end_of_the_server_aborts_it_and_says_so() {
    let bulk = ended_by(|state, _| state.stop.cancel()).await;
    assert_eq!(bulk.error.as_deref(), Some("the server ended"));
}

#[tokio::test]
async fn it_ends_with_the_token_of_the_client_that_started_it() {
    let state = server(JOBS).await;
    let Bulk { id, .. } = make(&state).unwrap();
    carry_out(state.clone(), state.bulk.next().await).await;
    let text = TokenText::generate().unwrap();
    let new = NewToken {
        hash: text.hash(),
        tenant: None,
        scopes: Scope::ALL.into(),
        description: String::new(),
        limits: TokenLimits::default(),
        expires_in: None,
        made_by: None,
    };
    state.store.add_token(&new).await.unwrap();
    let by = Identity::of(&state.auth, Some(text.as_str()), [127, 0, 0, 1].into()).await.unwrap().unwrap();
    state.bulk.start(&tenant(), &id, JOBS, &by).unwrap();
    assert!(state.store.revoke_token(&text.hash().id()).await.unwrap());
    let run = state.bulk.next().await;
    carry_out(state.clone(), run.clone()).await;
    let bulk = run.shown();
    assert_eq!(bulk.state, BulkState::Aborted, "{bulk:?}");
    assert!(bulk.error.as_deref().unwrap().contains("token"), "{bulk:?}");
    assert_eq!((bulk.changed, remaining(&state).await), (0, JOBS));
}

#[tokio::test]
async fn nothing_is_done_to_jobs_of_one_that_was_aborted_before_its_first_step() {
    let state = server(JOBS).await;
    let run = started(&state).await;
    state.bulk.abort(&tenant(), &run.shown().id).unwrap();
    carry_out(state.clone(), run.clone()).await;
    assert_eq!((run.shown().state, remaining(&state).await), (BulkState::Aborted, JOBS));
}

#[tokio::test]
async fn a_tenant_has_so_many_at_work_and_so_many_are_kept() {
    let state = server(1).await;
    let first = make(&state).unwrap();
    for _ in 1..4 {
        make(&state).unwrap();
    }
    assert_eq!(make(&state).unwrap_err().code, Code::Busy);
    for _ in 0..4 {
        carry_out(state.clone(), state.bulk.next().await).await;
    }
    for _ in 4..100 {
        make(&state).unwrap();
        carry_out(state.clone(), state.bulk.next().await).await;
    }
    assert_eq!((state.bulk.list(&tenant()).len(), state.bulk.get(&tenant(), &first.id).is_ok()), (100, true));
    let latest = make(&state).unwrap();
    let listed = state.bulk.list(&tenant());
    assert_eq!((listed.len(), &listed[0].id), (100, &latest.id));
    assert_eq!(state.bulk.get(&tenant(), &first.id).unwrap_err().code, Code::BulkUnknown);
    let other: Name = "other".parse().unwrap();
    assert_eq!(state.bulk.get(&other, &latest.id).unwrap_err().code, Code::BulkUnknown);
    assert!(state.bulk.list(&other).is_empty());
}

#[tokio::test]
async fn an_abort_in_the_last_step_of_the_dry_run_is_kept() {
    let state = server(1).await;
    let Bulk { id, .. } = make(&state).unwrap();
    let run = state.bulk.next().await;
    assert_eq!(state.bulk.abort(&tenant(), &id).unwrap().state, BulkState::Counting);
    // As the engine does after a last step during which the abort came.
    assert!(run.counted());
    let bulk = run.shown();
    assert_eq!((bulk.state, bulk.ended_at.is_some()), (BulkState::Aborted, true));
    assert_eq!(state.bulk.start(&tenant(), &id, 0, &Identity::Anybody).unwrap_err().code, Code::BulkRefused);
}

#[tokio::test]
async fn the_end_of_the_server_ends_what_is_at_work_at_once_and_for_good() {
    let state = server(1).await;
    let kinds = Some(vec![EventKind::BulkEnded]);
    let mut events = state.metrics.events().subscribe(Filter { kinds, ..Filter::default() });
    let mut started = Vec::new();
    for _ in 0..2 {
        let Bulk { id, .. } = make(&state).unwrap();
        carry_out(state.clone(), state.bulk.next().await).await;
        started.push(id);
    }
    for id in &started {
        state.bulk.start(&tenant(), id, 1, &Identity::Anybody).unwrap();
    }
    // In the midst of a step; the other one and a dry run wait for the engine.
    let run = state.bulk.next().await;
    make(&state).unwrap();
    state.stop.cancel();
    engine::run(state.clone()).await;
    let aborted = |bulk: Bulk| (bulk.state, bulk.error.as_deref()) == (BulkState::Aborted, Some(SERVER_ENDED));
    assert!(state.bulk.list(&tenant()).into_iter().all(aborted));
    let mut ended = Vec::new();
    while let Poll::Ready(Received::Event { event, .. }) = events.poll_next(&mut Context::from_waker(Waker::noop())) {
        ended.push(event.bulk.as_ref().unwrap().id.clone());
    }
    ended.sort();
    started.sort();
    assert_eq!(ended, started);
    // What the step did is noted, and its end is none.
    run.note(Step { changed: 1, ..Step::default() }, false);
    assert!(!run.done() && !run.counted() && !run.end(BulkState::Failed, None));
    let bulk = run.shown();
    assert_eq!(bulk.changed, 1);
    assert!(aborted(bulk));
    assert_eq!((make(&state).unwrap_err().code, remaining(&state).await), (Code::Busy, 1));
}

/// What the steps of a bulk action have noted in all: jobs changed, and skipped.
#[derive(Default)]
struct Noted(RefCell<(usize, usize)>);

impl Noted {
    fn add(&self, step: Step) {
        let mut noted = self.0.borrow_mut();
        noted.0 += step.changed;
        noted.1 += step.skipped.values().sum::<usize>();
    }
}

#[tokio::test]
async fn a_step_that_failed_or_was_dropped_goes_on_where_it_stopped() {
    let state = server(0).await;
    let jobs: Vec<NewJob> = ["acme/a", "acme/b", "acme/c"].map(|topic| job(topic.parse().unwrap(), Due::Now)).into();
    state.store.push(&jobs).await.unwrap();
    let calls = Mutex::new([Call::Answered, Call::Fails, Call::Hangs].into());
    let store = Troubled { store: state.store.clone(), calls, hangs: Notify::new(), cancelled: Mutex::default() };
    let work = Work::new(tenant(), &new(BulkAction::Cancel, None)).unwrap();
    let (mut progress, noted, mut stops) = (work::Progress::default(), Noted::default(), 0);
    let note = |step| noted.add(step);
    let kept = BulkStore { jobs: &store, states: &*state.store, results: &*state.store, recordings: &*state.store };
    loop {
        tokio::select! {
            stepped = work.step(kept, &mut progress, true, &note) => match stepped {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    assert!(error.is_unavailable(), "{error}");
                    stops += 1;
                }
            },
            () = store.hangs.notified() => stops += 1,
        }
    }
    let each: Vec<_> = jobs.into_iter().map(|job| job.spec.id).collect();
    assert_eq!((stops, noted.0.into_inner(), store.cancelled.into_inner()), (2, (3, 0), each));
}

#[tokio::test]
async fn a_job_that_moves_against_the_search_is_met_in_another_pass() {
    let state = server(1500).await;
    let late = job(topic(), Due::At(Timestamp::now().plus(std::time::Duration::from_secs(3600))));
    state.store.push(std::slice::from_ref(&late)).await.unwrap();
    let work = Work::new(tenant(), &new(BulkAction::Cancel, None)).unwrap();
    let (mut progress, noted) = (work::Progress::default(), Noted::default());
    let store = &*state.store;
    assert!(work.step(BulkStore::of(store), &mut progress, true, &|step| noted.add(step)).await.unwrap());
    // In front of the ready ones, some of which have been read.
    let now = JobChange { due: Some(Due::Now), priority: Some(Priority::High) };
    assert_eq!(store.change(&tenant(), &[late.spec.id], &now).await.unwrap(), [JobChanged::Changed]);
    while work.step(BulkStore::of(store), &mut progress, true, &|step| noted.add(step)).await.unwrap() {}
    assert_eq!((noted.0.into_inner(), remaining(&state).await), ((1501, 0), 0));
}

#[tokio::test]
async fn what_was_changed_in_one_pass_is_left_alone_in_the_next() {
    let state = server(2).await;
    let work = Work::new(tenant(), &new(BulkAction::Change, Some(Priority::High))).unwrap();
    let (mut progress, noted) = (work::Progress::default(), Noted::default());
    let store = &*state.store;
    while noted.0.borrow().0 < 2 {
        assert!(work.step(BulkStore::of(store), &mut progress, true, &|step| noted.add(step)).await.unwrap());
    }
    let page = store.jobs(&topic(), StateFilter::Ready, None, 10).await.unwrap();
    let ids: Vec<_> = page.jobs.into_iter().map(|view| view.id).collect();
    let low = JobChange { due: None, priority: Some(Priority::Low) };
    assert_eq!(store.change(&tenant(), &ids, &low).await.unwrap(), [JobChanged::Changed; 2]);
    while work.step(BulkStore::of(store), &mut progress, true, &|step| noted.add(step)).await.unwrap() {}
    assert_eq!(noted.0.into_inner(), (2, 0));
    assert_eq!(store.change(&tenant(), &ids, &low).await.unwrap(), [JobChanged::Unchanged; 2]);
}

/// How a call goes.
#[derive(Debug, Clone, Copy)]
enum Call {
    Answered,
    Fails,
    Hangs,
}

/// A store whose first calls of `cancel` go like this.
#[derive(Debug)]
struct Troubled {
    store: Arc<dyn Store>,
    calls: Mutex<VecDeque<Call>>,
    /// Notified when a call hangs.
    hangs: Notify,
    /// By calls that were answered.
    cancelled: Mutex<Vec<JobId>>,
}

#[async_trait]
impl Control for Troubled {
    async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        let call = self.calls.lock().pop_front().unwrap_or(Call::Answered);
        match call {
            Call::Answered => {
                self.cancelled.lock().extend_from_slice(ids);
                self.store.cancel(tenant, ids).await
            }
            Call::Fails => Err(StoreError::Unavailable { store: "a test".into(), source: anyhow!("it is away") }),
            Call::Hangs => {
                self.hangs.notify_one();
                std::future::pending().await
            }
        }
    }

    async fn kill(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.store.kill(tenant, ids).await
    }

    async fn change(&self, tenant: &Name, ids: &[JobId], change: &JobChange) -> Result<Vec<JobChanged>, StoreError> {
        self.store.change(tenant, ids, change).await
    }

    async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        self.store.set_paused(topic, paused).await
    }

    async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
        self.store.forget_topic(topic).await
    }
}

#[async_trait]
impl Query for Troubled {
    async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        self.store.counts(tenant).await
    }

    async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        self.store.job(tenant, id).await
    }

    async fn ended(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        self.store.ended(tenant, id).await
    }

    async fn ended_jobs(&self, topic: &TopicId, limit: usize) -> Result<Vec<JobView>, StoreError> {
        self.store.ended_jobs(topic, limit).await
    }

    async fn progress(&self, tenant: &Name, of: &[(JobId, u64)]) -> Result<Vec<Option<Progress>>, StoreError> {
        self.store.progress(tenant, of).await
    }

    async fn jobs_of_key(&self, topic: &TopicId, key: &str, limit: usize) -> Result<Option<Vec<JobId>>, StoreError> {
        self.store.jobs_of_key(topic, key, limit).await
    }

    async fn unique_holder(&self, topic: &TopicId, value: &str) -> Result<Option<JobId>, StoreError> {
        self.store.unique_holder(topic, value).await
    }

    async fn jobs_ahead(&self, topic: &TopicId, id: &JobId) -> Result<Option<u64>, StoreError> {
        self.store.jobs_ahead(topic, id).await
    }

    async fn clock_time(&self, tenant: &Name) -> Result<Timestamp, StoreError> {
        self.store.clock_time(tenant).await
    }

    async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        self.store.tenants().await
    }

    async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        self.store.heartbeats().await
    }
}

#[async_trait]
impl ListJobs for Troubled {
    async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.store.jobs(topic, place, after, limit).await
    }
}

#[async_trait]
impl DeadJobs for Troubled {
    async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.store.respawn(topic, ids).await
    }

    async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.store.delete_dead(topic, ids).await
    }
}
