//! Push jobs to a topic, one or many, as documents or as bytes.

use std::time::Duration;

use axum::Json;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::json;

use crate::api::idempotency::{Idempotency, REPLAYED};
use crate::api::jobs::PUSH_BYTES;
use crate::auth::allowed::{Allowed, scope};
use crate::auth::identity::{Identity, Scope};
use crate::auth::origin::media_type;
use crate::extract::{Document, Head, LINES, RequestOf, aside, is_document};
use crate::limits::requests::NoPermit;
use crate::new_jobs::{Admitted, JobLabel};
use crate::openapi::{AnyOf, Argument, Operation};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::stream::watch::{Watch, WatchPermit};
use crate::wire::BATCH;
use crate::wire::push::{Accepted, AcceptedAll, Answered, Bulk, Job, List, Probe, Status, Waiting};
use crate::wrong_document::{WrongDocument, read, read_any};
use gristmill_core::job::{NewJob, TopicId};
use gristmill_core::json::at_most::{self, TOO_LONG};
use gristmill_core::trace::{TRACEPARENT, TraceContext};
use gristmill_store::Pushed;

/// How much longer than the wait the end of a job is kept for a client that waits for it.
const ANSWER_GRACE: Duration = Duration::from_secs(60);

const PUSH: &str = "With `Content-Type: application/json` the body is a document: one job, or a list of jobs, by itself or in \
    `jobs`. With `application/x-ndjson` it has a job on each line. With any other the request's bytes are the job's body, and its \
    options are query parameters of the same names (`unique` is the value, `unique_window_ms` its window; no `metadata`).";

pub(crate) fn routes() -> Routes {
    Routes::of("jobs")
        .post("/tenants/{tenant}/topics/{topic}/jobs", push, "Push one job, or up to 1000")
        .description(PUSH)
        .answer("One job is answered by an `Accepted`, many by an `AcceptedAll`. 200: nothing was stored, the jobs were there.")
        .header("Location", "The job's path. For one job only.")
        .header("Idempotency-Replayed", "`true`: answered as the first time, and nothing was stored.")
        .problems(&[Code::TopicUnknown, Code::IdempotencyKeyReused, Code::TooManyJobs, Code::TooManyBytes, Code::TooManyTopics, Code::Busy, Code::Unconfirmed])
        .body_bytes(PUSH_BYTES)
}

/// What a request may bring.
type Pushing = ((Document<AnyOf<Job, AnyOf<Bulk, List>>>, JobLines), (Head<Query<Waiting>>, Idempotency));

/// The other form of many jobs.
struct JobLines;

impl Argument for JobLines {
    fn describe(operation: &mut Operation<'_>) {
        operation.body(LINES, json!({ "type": "string", "description": "A `PushJob` on each line." }));
    }
}

/// What a request wants to have pushed.
struct Order {
    jobs: Vec<NewJob>,
    label: JobLabel,
    idempotency: Option<Idempotency>,
    patience: Option<Duration>,
}

/// What became of a request's jobs.
struct PushedJobs {
    answers: Vec<Accepted>,
    warnings: Vec<String>,
    alone: bool,
    /// The request came before, with the same `Idempotency-Key`.
    replayed: bool,
    /// How long to wait for the end of the job, and what that takes.
    wait: Option<(Duration, WatchPermit)>,
}

async fn push(
    Allowed { over: topic, identity, state, .. }: Allowed<scope::Push, TopicId>,
    none: NoPermit,
    RequestOf { request, .. }: RequestOf<Pushing>,
) -> Result<(StatusCode, HeaderMap, Json<Answered>), Problem> {
    let storing = store(&state, &identity, &topic, request);
    let stored = state.request_limiter.within(none, identity.tenant(), storing).await?;
    let PushedJobs { answers, warnings, alone, replayed, wait } = stored;
    let mut headers = HeaderMap::new();
    if replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    let stored = replayed || answers.iter().any(|answer| answer.status == Status::Stored);
    let status = if stored { StatusCode::CREATED } else { StatusCode::OK };
    if !alone {
        return Ok((status, headers, Json(Answered::Many(AcceptedAll { jobs: answers, warnings }))));
    }
    let Some(mut answer) = answers.into_iter().next() else {
        return Err(Problem::new(Code::StoreRefused, "the store answered nothing to a push"));
    };
    answer.warnings = warnings;
    let path = format!("/v1/tenants/{}/jobs/{}", topic.tenant, answer.id);
    headers.extend(HeaderValue::try_from(path).map(|path| (header::LOCATION, path)));
    if let Some((patience, permit)) = wait {
        let mut watch = Watch::with(permit, &state, answer.id.clone());
        let view = watch.end_within(patience).await?;
        // What another request stored is not for a client that may not read. Another client may have sent the key first.
        let is_own = answer.status == Status::Stored && !replayed;
        let sees = is_own || identity.may(Scope::Read, &topic.tenant).is_ok();
        answer.job = view.map(|view| if sees { view } else { view.state_only() });
    }
    Ok((status, headers, Json(Answered::One(Box::new(answer)))))
}

async fn store(
    state: &AppState,
    identity: &Identity,
    topic: &TopicId,
    request: Request,
) -> Result<PushedJobs, Problem> {
    let context = context(state, request.headers().get(TRACEPARENT));
    let Order { mut jobs, label, idempotency, patience } = ordered(topic.clone(), request).await?;
    keep_context(&mut jobs, context.as_ref());
    let mut wait = None;
    if let Some(patience) = patience {
        // Before anything is stored: a client that is refused pushes again.
        wait = Some((patience, WatchPermit::take(state, identity, topic.tenant.clone()).await?));
        for job in &mut jobs {
            job.spec.options.keep_result = job.spec.options.keep_result.max(Some(patience + ANSWER_GRACE));
        }
    }
    let Admitted { jobs, warnings } = state.admit_whole(jobs, &label).await?;
    let alone = label == JobLabel::Alone;
    let pushed = state.store.push(&jobs).await?;
    let may_read = identity.may(Scope::Read, &topic.tenant).is_ok();
    let (mut answers, mut replayed) = (Vec::with_capacity(pushed.len()), false);
    for (NewJob { spec, .. }, pushed) in jobs.iter().zip(pushed) {
        let again = idempotency.as_ref().map(|it| it.was_replayed(&spec.id, &pushed, may_read)).transpose()?;
        replayed |= again == Some(true);
        let mut problem = None;
        let (id, status) = match pushed {
            // As it was answered the first time.
            Pushed::Exists | Pushed::Duplicate(_) if again.is_some() => (spec.id.clone(), Status::Stored),
            Pushed::Stored => (spec.id.clone(), Status::Stored),
            Pushed::Exists => (spec.id.clone(), Status::Exists),
            Pushed::Duplicate(of) => (of, Status::Duplicate),
            Pushed::Refused(no) if alone => return Err(bad(no.to_string())),
            Pushed::Refused(no) => {
                problem = Some(no.to_string());
                (spec.id.clone(), Status::Refused)
            }
        };
        answers.push(Accepted { id, status, problem, job: None, warnings: Vec::new() });
    }
    Ok(PushedJobs { answers, warnings, alone, replayed, wait })
}

async fn ordered(topic: TopicId, request: Request) -> Result<Order, Problem> {
    let (Parts { headers, uri, .. }, body) = request.into_parts();
    let media = media_type(&headers).ok_or_else(|| {
        Problem::new(
            Code::MediaType,
            "say in one `Content-Type` what the body is: application/json, or what the job is",
        )
    })?;
    // `receive` has read it, and checked its length.
    let body = to_bytes(body, usize::MAX).await.map_err(|error| bad(format!("failed to read the body: {error}")))?;
    aside(body.len() as u64, async move { understand(&topic, &media, &headers, &uri, body) }).await?
}

fn understand(topic: &TopicId, media: &str, headers: &HeaderMap, uri: &Uri, body: Bytes) -> Result<Order, Problem> {
    let idempotency = Idempotency::of(headers, &[media.as_bytes(), asked(uri).as_bytes(), &body])?;
    if !is_document(media) {
        let written = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or(media);
        let options = uri.query().unwrap_or_default();
        let (job, wait_ms) = Job::of_bytes(body.into(), written.into(), options).map_err(bad)?;
        let job = sign(job, topic, idempotency.as_ref(), 0).map_err(bad)?;
        return Ok(Order { jobs: vec![job], label: JobLabel::Alone, idempotency, patience: wait_ms.patience() });
    }
    let Query(Waiting { wait_ms }) = Query::try_from_uri(uri)?;
    let written = at_most::together(|| written(media, &body))?;
    let patience = wait_ms.patience();
    if patience.is_some() && written.label != JobLabel::Alone {
        return Err(bad("`wait_ms` waits for one job: push it by itself".into()));
    }
    let Written { jobs, label } = written;
    let numbered = jobs.into_iter().enumerate();
    let jobs = numbered.map(|(index, job)| {
        sign(job, topic, idempotency.as_ref(), index).map_err(|wrong| bad(format!("{}{wrong}", label.of(index))))
    });
    Ok(Order { jobs: jobs.collect::<Result<_, _>>()?, label, idempotency, patience })
}

/// Jobs as a request has them.
struct Written {
    jobs: Vec<Job>,
    label: JobLabel,
}

fn written(media: &str, body: &[u8]) -> Result<Written, Problem> {
    if media == LINES {
        return lines(body);
    }
    if body.trim_ascii_start().starts_with(b"[") {
        let List(jobs) = read_any(body).map_err(|wrong: WrongDocument| wrong.within("jobs"))?;
        return Ok(Written { jobs, label: JobLabel::Listed });
    }
    let Probe { jobs } = read(body)?;
    Ok(match jobs {
        None => Written { jobs: vec![read(body)?], label: JobLabel::Alone },
        Some(_) => Written { jobs: read::<Bulk>(body)?.jobs, label: JobLabel::Listed },
    })
}

const A_LIST: &str = "each line has one job, an object, and this is a list: put each of its jobs on a line of its own, or send the list \
    as application/json";

/// A job on each line. Empty lines count, and are no jobs.
fn lines(body: &[u8]) -> Result<Written, Problem> {
    let (mut jobs, mut numbers) = (Vec::new(), Vec::new());
    for (index, line) in body.split(|byte| *byte == b'\n').enumerate() {
        let (line, number) = (line.trim_ascii(), index + 1);
        if line.is_empty() {
            continue;
        }
        if jobs.len() == BATCH {
            return Err(Problem::new(
                Code::TooLarge,
                format!("{TOO_LONG}at most {BATCH} jobs are allowed (line {number})"),
            ));
        }
        if line.starts_with(b"[") {
            return Err(bad(format!("{A_LIST} (line {number})")));
        }
        jobs.push(read(line).map_err(|wrong| wrong.on_line(number))?);
        numbers.push(number);
    }
    Ok(Written { jobs, label: JobLabel::Lines(numbers) })
}

fn sign(job: Job, topic: &TopicId, idempotency: Option<&Idempotency>, index: usize) -> Result<NewJob, String> {
    let has_id = job.has_id();
    let mut job = job.into_new(topic.clone())?;
    if let Some(idempotency) = idempotency {
        idempotency.sign(&mut job, index, has_id)?;
    }
    Ok(job)
}

/// The trace context of a request, if its header obeys the standard and the server keeps contexts.
pub(super) fn context(state: &AppState, traceparent: Option<&HeaderValue>) -> Option<TraceContext> {
    let traceparent = traceparent.filter(|_| state.traces.is_some())?;
    TraceContext::parse(traceparent.to_str().ok()?)
}

/// Keeps the context with each job whose document names no other.
pub(super) fn keep_context(jobs: &mut [NewJob], context: Option<&TraceContext>) {
    let Some(context) = context else { return };
    for NewJob { spec, .. } in jobs {
        if spec.metadata.iter().all(|(name, _)| name != TRACEPARENT) {
            spec.metadata.push((TRACEPARENT.to_owned(), context.to_string()));
        }
    }
}

/// The query without what only says how to answer.
fn asked(uri: &Uri) -> String {
    let options = uri.query().unwrap_or_default().split('&');
    options.filter(|option| !option.starts_with("wait_ms=")).collect::<Vec<_>>().join("&")
}

fn bad(detail: String) -> Problem {
    Problem::new(Code::BadRequest, detail)
}
