//! One job: what it is, what becomes of it, and an end to it.

use axum::Json;
use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use tokio::time::Instant;

use crate::api::jobs::{self, in_range, within_page};
use crate::auth::allowed::{Allowed, scope};
use crate::auth::identity::Identity;
use crate::extract::{Document, Head, names};
use crate::limits::requests::NoPermit;
use crate::openapi::{Described, EventStream};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::stream::sse::{self, Events, KEEP_ALIVE};
use crate::stream::watch::{Watch, is_over};
use crate::wire;
use crate::wire::NODES;
use crate::wire::push::Waiting;
use gristmill_core::job::{JobChange, JobId, MEMBERS, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_runner::why::{self, ProcessRole, Served, Why};
use gristmill_store::{
    BatchSealed, Cancelled, JobChanged, JobGraph, JobState, JobView, TopicCounts, TreeCancelled, Weigh, cancel_tree,
    job_graph, look_up,
};

const LOOK: &str = "The job. To `Accept: text/event-stream`: a `state` event with the job now and at each change that is \
    seen, until it is over. Of a job that holds more than 64 KiB the event leaves out body, checkpoint, failure and result.";

const TREE: &str = "With `tree=true`, about 1000 jobs in one request, those that wait for others first, so that none starts meanwhile. Until \
    the answer is `complete`, repeat the request; if it cancelled none, only running jobs remain: wait until some have ended.";

const GRAPH: &str = "What the job waits for, what these wait for, and so on; and the same of the jobs that wait for it. Of what a job waits for, \
    those come first that have not ended. If `cut` is true, there are more.";

const RECORDING: &str = "What the host answered the handler, and how the attempt ended, for `gristmill replay`. The topic's `record` says \
    of which attempts there is one. The server finds a recording until its time is over, even if the store no longer knows the job.";

const CALLS: &str = "The calls of the recording in words, in order, each with its answer in short, and the log lines between them. Of an attempt \
    there are some thousand calls at most.";

const RECORDED: &str = "Sorted by `until_ms`, the latest first. The last page has no `next`.";

/// The most topics that are searched for the recording of a job whose topic is not known.
const TOPICS: usize = 100;

/// A job, or each of its states.
type Looked = Described<(Json<JobView>, EventStream<JobView>)>;

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/jobs/{id}";
    Routes::of("jobs")
        .get(path, look, "Look at a job, wait for its end, or follow it")
        .answer(LOOK)
        .problems(&[Code::JobUnknown, Code::Busy])
        .delete(path, cancel, "Cancel a job, or kill it; with `tree`, all that is in vain without it, too")
        .description(TREE)
        .problems(&[Code::JobUnknown, Code::TooLate, Code::Busy])
        .patch(path, change, "Change when a job is due, or its priority")
        .problems(&[Code::JobUnknown, Code::TooLate, Code::Busy])
        .get(&format!("{path}/why"), why, "Say why a job is not running")
        .problems(&[Code::JobUnknown, Code::Busy])
        .get(&format!("{path}/graph"), graph, "Show the jobs that wait for each other, around a job")
        .description(GRAPH)
        .problems(&[Code::JobUnknown, Code::Busy])
        .get(&format!("{path}/recording"), recording, "Give the recording of a job's last recorded attempt")
        .description(RECORDING)
        .problems(&[Code::JobUnknown, Code::Busy])
        .get(&format!("{path}/recording/calls"), calls, "List what a job's last recorded attempt asked of the host")
        .description(CALLS)
        .problems(&[Code::JobUnknown, Code::Busy])
        .get(
            "/tenants/{tenant}/topics/{topic}/recordings",
            recorded,
            "List a topic's jobs of which a recording is kept",
        )
        .description(RECORDED)
        .problems(&[Code::Busy])
        .get(&format!("{path}/links"), links, "Say what a job waits for, and what waits for it")
        .problems(&[Code::Busy])
        .post(&format!("{path}/seal"), seal, "Seal a batch: it gets no more members, and starts once they have ended")
        .problems(&[Code::JobUnknown, Code::TooLate, Code::Busy])
}

async fn look(
    Allowed { over: (tenant, id), identity, state, .. }: Allowed<scope::Read, (Name, JobId)>,
    none: NoPermit,
    Head(Query(Waiting { wait_ms })): Head<Query<Waiting>>,
    headers: HeaderMap,
) -> Result<Looked, Problem> {
    let unknown = unknown(&tenant, &id);
    let patience = wait_ms.patience();
    let follow = names(&headers, "text/event-stream");
    if !follow && patience.is_none() {
        let look = async { look_up(&*state.store, &tenant, &id).await?.ok_or(unknown) };
        let view = state.request_limiter.within(none, identity.tenant(), look).await?;
        return Ok(Json(state.shown(&identity, &tenant, view)).into_response().into());
    }
    let mut watch = Watch::begin(&state, &identity, tenant, id).await?;
    if follow {
        let view = watch.look().await?.ok_or(unknown)?;
        let (events, answer) = sse::channel();
        tokio::spawn(emit(watch, view, events, state));
        return Ok(answer.into());
    }
    let view = watch.end_within(patience.unwrap_or_default()).await?.ok_or(unknown)?;
    Ok(Json(view).into_response().into())
}

/// By the handlers of this server and, for the forecast, by the minutes that it remembers.
async fn why(
    Allowed { over: (tenant, id), state, .. }: Allowed<scope::Read, (Name, JobId)>,
) -> Result<Json<Why>, Problem> {
    let registry = state.registry().ok();
    let served = |topic: &TopicId| Served::of(registry.as_deref(), topic);
    let pace = |counts: &TopicCounts| state.minutes.pace(counts, Timestamp::now());
    let why = why::why(&*state.store, &tenant, &id, ProcessRole::Runner, served, pace).await?;
    why.map(Json).ok_or_else(|| unknown(&tenant, &id))
}

async fn recording(
    Allowed { over: (tenant, id), identity, state, .. }: Allowed<scope::Read, (Name, JobId)>,
    Head(Query(wire::RecordingOf { topic })): Head<Query<wire::RecordingOf>>,
) -> Result<Json<wire::JobRecording>, Problem> {
    let recording = kept_recording(&state, &identity, (&tenant, &id), topic).await?;
    Ok(Json(wire::JobRecording { id, recording: recording.map(wire::Base64) }))
}

async fn recorded(
    Allowed { over: topic, state, .. }: Allowed<scope::Read, TopicId>,
    Head(Query(wire::RecordedPage { after, limit })): Head<Query<wire::RecordedPage>>,
) -> Result<Json<wire::RecordedJobs>, Problem> {
    within_page(limit)?;
    let after = after.as_ref().map(|after| &after.0);
    Ok(Json(wire::RecordedJobs::of(state.store.recorded_jobs(&topic, after, limit).await?, limit)))
}

async fn calls(
    Allowed { over: (tenant, id), identity, state, .. }: Allowed<scope::Read, (Name, JobId)>,
    Head(Query(wire::RecordingOf { topic })): Head<Query<wire::RecordingOf>>,
) -> Result<Json<wire::JobCalls>, Problem> {
    let recording = kept_recording(&state, &identity, (&tenant, &id), topic).await?;
    Ok(Json(wire::JobCalls::of(id, recording.as_deref())))
}

/// The recording of a job, for those who may see its body. Where it is not said which topic the job is of, and not known either, it is searched
/// for in up to [`TOPICS`] of the tenant's.
async fn kept_recording(
    state: &AppState,
    identity: &Identity,
    (tenant, id): (&Name, &JobId),
    topic: Option<Name>,
) -> Result<Option<Vec<u8>>, Problem> {
    state.may_see_payloads(identity, tenant)?;
    let store = &*state.store;
    if let Some(topic) = topic {
        let topic = TopicId { tenant: tenant.clone(), topic };
        return Ok(store.recording(&topic, id).await?);
    }
    let view = look_up(store, tenant, id).await?;
    if let Some(topic) = view.as_ref().and_then(JobView::topic) {
        return Ok(store.recording(topic, id).await?);
    }
    let topics = store.counts(tenant).await?;
    for TopicCounts { topic, .. } in topics.iter().take(TOPICS) {
        if let Some(recording) = store.recording(topic, id).await? {
            return Ok(Some(recording));
        }
    }
    if topics.len() > TOPICS {
        let detail = format!(
            "the topic of job {id} is not known, and the first {TOPICS} topics of tenant `{tenant}` have no recording of it: name its topic \
             with `?topic=`"
        );
        return Err(Problem::new(Code::JobUnknown, detail));
    }
    view.map(|_| None).ok_or_else(|| unknown(tenant, id))
}

async fn links(
    Allowed { over: (tenant, id), state, .. }: Allowed<scope::Read, (Name, JobId)>,
    Head(Query(wire::LinksLimit { limit })): Head<Query<wire::LinksLimit>>,
) -> Result<Json<wire::JobLinks>, Problem> {
    in_range("limit", limit, 0..=MEMBERS)?;
    let waits_for = state.store.waits_for(&tenant, &id, limit).await?;
    Ok(Json(wire::JobLinks { waits_for, waiters: state.store.waiters(&tenant, &id).await? }))
}

async fn graph(
    Allowed { over: (tenant, id), state, .. }: Allowed<scope::Read, (Name, JobId)>,
    Head(Query(wire::GraphWanted { depth, limit })): Head<Query<wire::GraphWanted>>,
) -> Result<Json<JobGraph>, Problem> {
    in_range("depth", depth, 0..=NODES)?;
    in_range("limit", limit, 1..=NODES)?;
    let graph = job_graph(&*state.store, &tenant, &id, depth, limit).await?;
    graph.map(Json).ok_or_else(|| unknown(&tenant, &id))
}

async fn seal(
    Allowed { over: (tenant, id), state, .. }: Allowed<scope::Push, (Name, JobId)>,
) -> Result<Json<wire::SealedOne>, Problem> {
    match state.store.seal(&tenant, &id).await? {
        BatchSealed::NotWaiting => {
            Err(too_late(&state, &tenant, &id, "is no batch that waits: there is nothing to seal").await)
        }
        status => Ok(Json(wire::SealedOne { id, status })),
    }
}

/// Why nothing was done to a job: it is not known, or it is too late.
async fn too_late(state: &AppState, tenant: &Name, id: &JobId, why: &str) -> Problem {
    match look_up(&*state.store, tenant, id).await {
        Ok(Some(_)) => Problem::new(Code::TooLate, format!("job {id} {why}")),
        Ok(None) => unknown(tenant, id),
        Err(error) => error.into(),
    }
}

fn unknown(tenant: &Name, id: &JobId) -> Problem {
    Problem::new(Code::JobUnknown, format!("job {id} is not known to tenant `{tenant}`"))
}

/// A job that holds more is emitted in brief. Hundreds may follow a job, and each event waits for its reader.
const EVENT_BYTES: usize = 64 << 10;

/// A `state` event now, and one for each change that is seen, until the job is over, the server stops, or the client is gone.
async fn emit(watch: Watch, first: JobView, events: Events, state: AppState) {
    tokio::select! {
        () = follow(watch, first, &events) => {}
        () = events.closed() => {}
        () = state.stop.cancelled() => {}
    }
}

async fn follow(mut watch: Watch, first: JobView, events: &Events) {
    let mut emitted: Option<JobView> = None;
    let mut next = Some(first);
    let mut sent_at = Instant::now();
    while let Some(view) = next {
        let brief = view.brief();
        if emitted.as_ref().is_none_or(|emitted| differs(emitted, &brief)) {
            events.emit("state", if view.weight() > EVENT_BYTES { &brief } else { &view }).await;
            sent_at = Instant::now();
        } else if sent_at.elapsed() >= KEEP_ALIVE {
            events.keep_alive().await;
            sent_at = Instant::now();
        }
        if is_over(&brief) {
            return;
        }
        drop(view);
        emitted = Some(brief);
        watch.may_have_changed().await;
        // While the store is unavailable, the job is as it was.
        next = match watch.look().await {
            Ok(view) => view,
            Err(_) => emitted.clone(),
        };
    }
}

/// Whether a client is to see the difference. An extended lease makes none.
fn differs(before: &JobView, now: &JobView) -> bool {
    let running = |view: &JobView| matches!(view.state, JobState::Running { .. });
    let cancelled = |view: &JobView| matches!(view.state, JobState::Running { cancelled: true, .. });
    if running(before) && running(now) {
        return before.attempts != now.attempts
            || cancelled(before) != cancelled(now)
            || before.progress != now.progress;
    }
    before.state != now.state || before.attempts != now.attempts
}

async fn cancel(
    Allowed { over: (tenant, id), state, .. }: Allowed<scope::Admin, (Name, JobId)>,
    Head(Query(wire::HowToCancel { kill, tree })): Head<Query<wire::HowToCancel>>,
) -> Result<Json<wire::CancelledJob>, Problem> {
    let (store, ids) = (&state.store, std::slice::from_ref(&id));
    let cancelled = if tree {
        let TreeCancelled { gone, stopping, complete } = cancel_tree(&**store, &tenant, &id, kill).await?;
        let tree = wire::CancelledTree { id: id.clone(), gone, stopping, complete };
        Some(wire::CancelledJob::Tree(tree)).filter(|_| !complete || gone + stopping > 0)
    } else {
        let cancelled = if kill { store.kill(&tenant, ids).await? } else { store.cancel(&tenant, ids).await? };
        let status = cancelled.into_iter().find(|cancelled| *cancelled != Cancelled::TooLate);
        status.map(|status| wire::CancelledJob::One(wire::CancelledOne { id: id.clone(), status }))
    };
    match cancelled {
        Some(cancelled) => Ok(Json(cancelled)),
        None => Err(too_late(&state, &tenant, &id, "is over: there is nothing to cancel").await),
    }
}

async fn change(
    Allowed { over: (tenant, id), state, .. }: Allowed<scope::Admin, (Name, JobId)>,
    Document(change): Document<JobChange>,
) -> Result<Json<wire::ChangedOne>, Problem> {
    let changed = state.store.change(&tenant, std::slice::from_ref(&id), &jobs::checked(change)?).await?;
    match changed.into_iter().find(|changed| *changed != JobChanged::TooLate) {
        Some(status) => Ok(Json(wire::ChangedOne { id, status })),
        None => Err(too_late(&state, &tenant, &id, "runs or is over: only jobs that wait can be changed").await),
    }
}
