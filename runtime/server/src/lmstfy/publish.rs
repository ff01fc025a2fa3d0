//! Publish, publish many, publish anew.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::ack;
use super::api::Api;
use super::id;
use super::names::Queue;
use super::query::Query;
use super::refusal::Refusal;
use super::request::RequestContext;
use super::throttle::{Action, Counted};
use crate::extract::aside;
use crate::limits::requests::{NoPermit, Permit};
use crate::new_jobs::{Admitted, JobLabel};
use gristmill_core::admission::{ATTEMPTS, LONGEST};
use gristmill_core::job::{Due, JobId, JobOptions, JobSpec, NewJob, Payload};
use gristmill_core::json::at_most::{self, TOO_LONG};
use gristmill_core::token::Scope;
use gristmill_store::Pushed;

/// The most bytes of a job's body.
const JOB_BYTES: usize = 1 << 20;
/// The most jobs in one request, and the most bytes of them all.
const JOBS: usize = 64;
const JOBS_BYTES: usize = JOBS * JOB_BYTES + (1 << 16);
/// The server reads a longer body up to here before it refuses it, because a client that is still sending does not read the answer.
const READ_BYTES: usize = JOBS_BYTES + (16 << 20);

/// The most attributes of a job, and the bytes that their names and values are cut to.
const ATTRIBUTES: usize = 16;
const ATTRIBUTE_NAME: usize = 32;
const ATTRIBUTE_VALUE: usize = 128;
const ATTRIBUTE_HEADER: &str = "job-attr-";

/// lmstfy's default, in seconds.
const TTL: u32 = 86_400;

type PublishAnswer = Result<(StatusCode, Json<Value>), Refusal>;

/// What a request says about all of its jobs.
#[derive(Debug, Clone)]
struct Terms {
    delay: u32,
    ttl: Option<Duration>,
    /// Whether `ttl` is from the request, not lmstfy's default.
    own_ttl: bool,
    tries: u16,
    /// Whether its jobs may have attributes.
    versioned: bool,
    attributes: Vec<(String, String)>,
}

/// A request whose client may publish. Its body was not read yet.
struct Publication {
    context: RequestContext,
    none: NoPermit,
    headers: HeaderMap,
    body: Body,
}

/// What a publication says, and the memory that its body takes.
struct Read {
    context: RequestContext,
    terms: Terms,
    body: Vec<u8>,
    _held: Permit,
}

pub(super) async fn publish(State(api): State<Api>, request: Request) -> PublishAnswer {
    let publication = Publication::open(&api, request).await?;
    let counted = publication.count(&api)?;
    let answer = publication.read(&api, JOB_BYTES).await?.push_one(&api).await?;
    counted.succeed();
    Ok(answer)
}

/// Publishes a job in place of another one. Checks everything first, stores the new job, and then ends the old one.
pub(super) async fn republish(State(api): State<Api>, request: Request) -> PublishAnswer {
    let publication = Publication::open(&api, request).await?;
    publication.context.client.may(Scope::Work)?;
    ack::may_end(&api, &publication.context).await?;
    let read = publication.read(&api, JOB_BYTES).await?;
    let context = read.context.clone();
    let answer = read.push_one(&api).await?;
    ack::end(&api, &context).await?;
    Ok(answer)
}

/// Publishes all jobs of an array or none, in one batch.
pub(super) async fn publish_many(State(api): State<Api>, request: Request) -> PublishAnswer {
    let publication = Publication::open(&api, request).await?;
    let counted = publication.count(&api)?;
    let Read { context, terms, body, _held } = publication.read(&api, JOBS_BYTES).await?;
    let jobs = aside(body.len() as u64, async move { elements(&body) }).await??;
    let ids = push(&api, &context.queue, &terms, jobs).await?;
    counted.succeed();
    Ok((StatusCode::CREATED, Json(json!({ "msg": "published", "job_ids": ids }))))
}

impl Publication {
    async fn open(api: &Api, request: Request) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let (context, none) = RequestContext::identify(&mut parts, api).await?;
        context.client.may(Scope::Push)?;
        Ok(Self { context, none, headers: parts.headers, body })
    }

    /// Counts the publish against the limits of the token.
    fn count(&self, api: &Api) -> Result<Counted, Refusal> {
        api.throttles.count(self.context.client.throttles(), Action::Produce, Instant::now())
    }

    /// Reads the parameters and a body of at most this many bytes, and then waits for a permit: a client that sends slowly
    /// holds none.
    async fn read(self, api: &Api, most: usize) -> Result<Read, Refusal> {
        let Self { context, none, headers, body } = self;
        let terms = Terms::read(&context.query, &headers)?;
        let known = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = known.map_or(most, |bytes| bytes.min(most));
        let _held = api.state.request_limiter.hold_body(context.client.tenant(), bytes)?;
        let read = timeout(api.state.request_limiter.time(), read(body, most)).await;
        let late = Refusal::Because(StatusCode::REQUEST_TIMEOUT, "the body did not come in time".into());
        let body = read.map_err(|_| late)??.ok_or(Refusal::too_large("body too large"))?;
        let terms = terms.with_attributes(&headers)?;
        Ok(Read { context: context.permitted(none, api).await, terms, body, _held })
    }
}

impl Read {
    async fn push_one(self, api: &Api) -> PublishAnswer {
        let ids = push(api, &self.context.queue, &self.terms, vec![self.body]).await?;
        Ok((StatusCode::CREATED, Json(json!({ "msg": "published", "job_id": ids.first() }))))
    }
}

/// The jobs of an array: the text of each element, unchanged.
fn elements(body: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    /// Ends with the first one too many.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Elements<'a>(#[serde(borrow, deserialize_with = "at_most::list::<JOBS, _, _>")] Vec<&'a RawValue>);

    let Elements(jobs) =
        serde_json::from_slice(body).map_err(|error| match error.to_string().starts_with(TOO_LONG) {
            true => Refusal::bad("too many jobs"),
            false => Refusal::bad("request body should be an array of objects"),
        })?;
    match jobs.len() {
        0 => Err(Refusal::bad("no jobs")),
        _ if jobs.iter().any(|job| job.get().len() > JOB_BYTES) => Err(Refusal::too_large("job too large")),
        _ => Ok(jobs.into_iter().map(|job| job.get().as_bytes().to_vec()).collect()),
    }
}

/// Reads a whole body. Returns `None` if it has more bytes than `most`.
async fn read(mut body: Body, most: usize) -> Result<Option<Vec<u8>>, Refusal> {
    let known = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let (mut bytes, mut length) = (Vec::with_capacity(known.unwrap_or_default().min(most)), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::bad("failed to read body"))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > READ_BYTES {
            break;
        }
        if length <= most {
            bytes.extend_from_slice(&data);
        }
    }
    Ok((length <= most).then_some(bytes))
}

/// Pushes a job for each body. Returns their ids, in order.
async fn push(api: &Api, queue: &Queue, terms: &Terms, bodies: Vec<Vec<u8>>) -> Result<Vec<JobId>, Refusal> {
    let topic_ttl = api.state.topics().known_topics().rules(&queue.topic).ttl;
    let jobs: Option<Vec<NewJob>> = bodies.into_iter().map(|body| terms.job(queue, topic_ttl, body)).collect();
    // No warning of an unknown topic: a queue needs no entry in the manifest, and its consumers get the jobs at once.
    let Admitted { jobs, .. } = api.state.admit_whole(jobs.ok_or(Refusal::Internal)?, &JobLabel::Alone).await?;
    let pushed = api.state.store.push(&jobs).await?;
    if pushed.iter().any(|pushed| *pushed != Pushed::Stored) {
        // Of 2^48 ids in each millisecond.
        tracing::error!(topic = %queue.topic, "a new job had the id of another one");
        return Err(Refusal::Internal);
    }
    Ok(jobs.into_iter().map(|job| job.spec.id).collect())
}

impl Terms {
    /// Reads everything but the attributes, which lmstfy checks last.
    fn read(query: &Query, headers: &HeaderMap) -> Result<Self, Refusal> {
        let delay: u32 = query.number("delay", 0, "invalid delay")?;
        let ttl: u32 = query.number("ttl", TTL, "invalid ttl")?;
        if ttl > 0 && ttl < delay {
            return Err(Refusal::bad("ttl is shorter than delay"));
        }
        let tries: u16 = query.number("tries", 1, "invalid tries")?;
        if tries == 0 {
            return Err(Refusal::bad("tries shouldn't be zero"));
        }
        // lmstfy counts it from the publish, a job's `ttl` counts from when the job is due.
        let remaining = Duration::from_secs(u64::from(ttl.saturating_sub(delay))).max(Duration::from_millis(1));
        let versioned =
            headers.get("enable-job-version").is_some_and(|said| said.as_bytes().eq_ignore_ascii_case(b"yes"));
        let (own_ttl, ttl) = (query.get("ttl").is_some(), (ttl > 0).then_some(remaining));
        Ok(Self { delay, ttl, own_ttl, tries, versioned, attributes: Vec::new() })
    }

    fn with_attributes(self, headers: &HeaderMap) -> Result<Self, Refusal> {
        let attributes = if self.versioned { attributes(headers) } else { Vec::new() };
        if attributes.len() > ATTRIBUTES {
            return Err(Refusal::bad("too many attributes, cannot exceed 16"));
        }
        Ok(Self { attributes, ..self })
    }

    /// A job with this body. lmstfy allows larger numbers than the rules for new jobs, so they are cut to the rules. A topic's
    /// `ttl` replaces lmstfy's default.
    fn job(&self, queue: &Queue, topic_ttl: Option<Duration>, data: Vec<u8>) -> Option<NewJob> {
        let ttl = if self.own_ttl { self.ttl } else { topic_ttl.or(self.ttl) };
        let options = JobOptions {
            max_attempts: Some(u32::from(self.tries).min(*ATTEMPTS.end())),
            ttl: ttl.map(|ttl| ttl.min(LONGEST)),
            ..JobOptions::default()
        };
        let spec = JobSpec {
            id: id::new_job(self.delay, self.versioned)?,
            topic: queue.topic.clone(),
            body: Payload { data, content_type: None },
            metadata: self.attributes.clone(),
            options,
        };
        let due =
            if self.delay == 0 { Due::Now } else { Due::After(Duration::from_secs(self.delay.into()).min(LONGEST)) };
        Some(NewJob { spec, due })
    }
}

/// The attributes, sorted by name. Header names arrive in lower case, so the names of attributes are also in lower case.
fn attributes(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut attributes: Vec<(String, String)> = Vec::new();
    for name in headers.keys() {
        let Some(attribute) = name.as_str().strip_prefix(ATTRIBUTE_HEADER) else { continue };
        let value = headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        attributes.push((cut(attribute, ATTRIBUTE_NAME), cut(&value, ATTRIBUTE_VALUE)));
    }
    attributes.sort();
    attributes.dedup_by(|(later, _), (earlier, _)| later == earlier);
    attributes
}

fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_cut_and_empty_ones_left_out() {
        let mut headers = HeaderMap::new();
        headers.insert("job-attr-b", "2".parse().unwrap());
        headers.insert("job-attr-empty", "".parse().unwrap());
        headers.insert("x-other", "3".parse().unwrap());
        let (name, value) = (format!("job-attr-{}", "n".repeat(33)), "v".repeat(129));
        headers.insert(name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap());
        assert_eq!(attributes(&headers), [("b".into(), "2".into()), ("n".repeat(32), "v".repeat(128))]);
        // Never in the midst of a character.
        assert_eq!(cut("aé", 2), "a");
    }

    #[tokio::test]
    async fn a_body_is_taken_up_to_its_last_byte_and_no_further() {
        let some = |length| Body::from(vec![7_u8; length]);
        assert_eq!(read(some(5), 5).await.unwrap(), Some(vec![7; 5]));
        assert_eq!(read(some(6), 5).await.unwrap(), None);
        assert_eq!(read(some(0), 0).await.unwrap(), Some(Vec::new()));
    }

    #[test]
    fn the_time_to_live_counts_from_the_due_time() {
        let terms = |query: &str| Terms::read(&Query::parse(query), &HeaderMap::new()).unwrap().ttl;
        assert_eq!(terms(""), Some(Duration::from_secs(86_400)));
        assert_eq!(terms("delay=10&ttl=30"), Some(Duration::from_secs(20)));
        assert_eq!(terms("delay=30&ttl=30"), Some(Duration::from_millis(1)));
        assert_eq!(terms("delay=30&ttl=0"), None);
    }

    #[test]
    fn made_up_queries_are_refused_or_become_jobs_within_the_rules() {
        let known: [&[u8]; 3] =
            [b"delay=4294967295&ttl=0&tries=65535", b"ttl=60&delay=60", b"tries=1&tries=0&delay=%2B1"];
        let queue = Queue { name: "mail".into(), topic: "acme/mail".parse().unwrap() };
        gristmill_fuzz::check("lmstfy-query", &known, |input| {
            let query = Query::parse(&String::from_utf8_lossy(input)).with_form(input);
            let terms = Terms::read(&query, &HeaderMap::new());
            let job = terms.map(|terms| terms.job(&queue, None, Vec::new()).unwrap());
            if let Ok(NewJob { spec, due: Due::After(delay) }) = &job {
                assert!(*delay <= LONGEST && spec.options.ttl.is_none_or(|ttl| ttl <= LONGEST));
            }
            job.map(|job| (job.due == Due::Now, job.spec.options.ttl.is_some()))
        });
    }
}
