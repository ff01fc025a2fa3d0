//! Receives a request before its handler runs: checks what its path asks of the token, and then reads the body.
//!
//! A client that may not send a request does not get its body read. While a slow client sends its body, the request holds a
//! part of the memory for bodies, and no permit that others wait for.

use std::error::Error;

use axum::RequestExt;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequestParts, Path, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::{Instant, timeout_at};

use crate::audit::RequestFacts;
use crate::auth::identity::{Identity, Scope};
use crate::auth::origin::media_type;
use crate::extract;
use crate::held_answer::held;
use crate::limits::requests::{NoPermit, Permit};
use crate::openapi::Requirement;
use crate::problem::{Code, Problem};
use crate::state::AppState;
use gristmill_core::admission::Rules;
use gristmill_core::job::TopicId;
use gristmill_metrics::as_actor;

/// How much more of a body may be in memory at a time, if nothing says how long it is.
const STEP_BYTES: usize = 256 << 10;

/// Some editors begin a text with it, which says nothing.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Documents of up to this many bytes are read whatever the limits of topics: their content takes as much memory again.
const DOCUMENT_BYTES: usize = 32 << 20;

/// What a document says beside a body.
const BESIDE_BODY_BYTES: usize = 1 << 20;

/// Around every route of the API, next to its handler.
pub(crate) async fn receive(
    requirement: Requirement,
    takes_permit: bool,
    takes_query: bool,
    request: Request,
    next: Next,
) -> Response {
    let extensions = request.extensions();
    RequestFacts::of(extensions).requires(requirement);
    let (Some(state), Some(identity)) = (extensions.get::<AppState>().cloned(), extensions.get::<Identity>().cloned())
    else {
        // Health, which needs no token.
        return next.run(request).await;
    };
    if let (false, Some(option)) = (takes_query, first_option(&request)) {
        let detail = format!("there is no option `{option}`: with {} this path takes no query", request.method());
        return Problem::new(Code::BadRequest, detail).into_response();
    }
    let (limiter, changes_nothing) = (&state.request_limiter, request.method() == Method::GET);
    let until = Instant::now() + limiter.time();
    let late = || Problem::new(Code::BodyTimeout, format!("the body did not come within {:?}", limiter.time()));
    let (request, _held) = match timeout_at(until, read(&state, &identity, requirement, request)).await {
        Ok(Ok(read)) => read,
        Ok(Err(problem)) => return problem.into_response(),
        Err(_) => return late().into_response(),
    };
    let answer = async {
        let _permit = match takes_permit {
            true => Some(limiter.permit(NoPermit::at_beginning(), identity.tenant()).await),
            false => None,
        };
        match requirement {
            Requirement::InTenant(Scope::Admin) | Requirement::Everywhere(Scope::Admin) => {
                as_actor(identity.actor(), next.run(request)).await
            }
            _ => next.run(request).await,
        }
    };
    let answer = match takes_permit {
        true => timeout_at(until, answer).await.unwrap_or_else(|_| limiter.late().into_response()),
        false => answer.await,
    };
    if changes_nothing { held(limiter, identity.tenant(), answer) } else { answer }
}

/// The name of the first option in the query.
fn first_option(request: &Request) -> Option<String> {
    url::form_urlencoded::parse(request.uri().query()?.as_bytes()).next().map(|(name, _)| name.into_owned())
}

/// The request with its whole body, and the permits to hold that.
async fn read(
    state: &AppState,
    identity: &Identity,
    requirement: Requirement,
    request: Request,
) -> Result<(Request, Vec<Permit>), Problem> {
    if request.body().is_end_stream() {
        return Ok((request, Vec::new()));
    }
    let (mut parts, body) = request.into_parts();
    check(identity, requirement, &mut parts).await?;
    let is_push = requirement == Requirement::InTenant(Scope::Push);
    let topic = if is_push { topic_of_body(&mut parts).await } else { None };
    if let Some(topic) = &topic {
        check_length(state, topic, body.size_hint().exact())?;
    }
    let (limiter, tenant) = (&state.request_limiter, identity.tenant());
    let length = body.size_hint().lower();
    let (parts, limited) = Request::from_parts(parts, body).with_limited_body().into_parts();
    let may_be_large = matches!(requirement, Requirement::InTenant(Scope::Push | Scope::Work));
    let limited = match &topic {
        // It may be compressed: one byte too many shows that it is too long.
        Some(topic) => Body::new(Limited::new(limited, body_bytes(state, topic).saturating_add(1))),
        None if may_be_large && is_document(&parts.headers) => Body::new(Limited::new(limited, document_bytes(state))),
        None => limited,
    };
    // Of a body that is too long, it is the limit.
    let most = limited.size_hint().upper().unwrap_or(u64::MAX);
    let collected = collect(limited, |bytes| limiter.hold_body(tenant, bytes)).await;
    let (mut bytes, held) = collected.map_err(|problem| match &topic {
        _ if problem.code != Code::TooLarge => problem,
        Some(topic) => too_long_for(state, topic, length).unwrap_or(problem),
        None => body_too_large(length, most),
    })?;
    if is_document(&parts.headers) && bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.advance(BYTE_ORDER_MARK.len());
    }
    Ok((Request::from_parts(parts, Body::from(bytes)), held))
}

/// Reads a body. Before more of it is in memory, `hold` must allow that: for all of it if its length is known, else bit by bit.
///
/// # Errors
/// The body is longer than its path takes, it breaks off, or what `hold` answers.
pub(crate) async fn collect(
    mut body: Body,
    hold: impl Fn(usize) -> Result<Permit, Problem>,
) -> Result<(Bytes, Vec<Permit>), Problem> {
    let known = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let mut held = Vec::new();
    let mut may_hold = known.unwrap_or(STEP_BYTES);
    held.push(hold(may_hold)?);
    // At once, so that a large body is not copied each time that it has grown.
    let mut bytes = BytesMut::with_capacity(known.unwrap_or_default());
    let mut in_step = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(unreadable)?.into_data() else { continue };
        while bytes.len() + data.len() > may_hold {
            held.push(hold(STEP_BYTES)?);
            may_hold += STEP_BYTES;
        }
        bytes.extend_from_slice(&data);
        in_step += data.len();
        if in_step >= STEP_BYTES {
            in_step = 0;
            // What is decompressed may all be there already, and would keep this thread from other requests.
            tokio::task::yield_now().await;
        }
    }
    Ok((bytes.freeze(), held))
}

fn unreadable(error: axum::Error) -> Problem {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return Problem::new(Code::TooLarge, error.to_string());
        }
        cause = error.source();
    }
    Problem::new(Code::BadRequest, format!("failed to read the body: {error}"))
}

fn is_document(headers: &HeaderMap) -> bool {
    media_type(headers).is_none_or(|media| extract::is_document(&media))
}

/// The longest document: a job with the largest body that a topic takes, in base64.
fn document_bytes(state: &AppState) -> usize {
    let body = usize::try_from(state.topics().known_topics().largest()).unwrap_or(usize::MAX);
    DOCUMENT_BYTES.max((body / 3).saturating_mul(4).saturating_add(BESIDE_BODY_BYTES))
}

/// The topic of a job whose body the request's is. A document is longer than the jobs in it, and whatever else a path names has no limit of its own.
async fn topic_of_body(parts: &mut Parts) -> Option<TopicId> {
    let is_document = is_document(&parts.headers);
    let topic = Path::<TopicId>::from_request_parts(parts, &()).await.ok();
    topic.filter(|_| !is_document).map(|Path(topic)| topic)
}

/// The longest body that a job of the topic may have.
fn body_bytes(state: &AppState, topic: &TopicId) -> usize {
    let Rules { payload_bytes, tenant, .. } = state.topics().known_topics().rules(topic);
    usize::try_from(payload_bytes.min(tenant.payload_bytes.unwrap_or(u64::MAX))).unwrap_or(usize::MAX)
}

/// Refuses a body that is longer than its topic takes before it is read. What is short is read first, since some clients read no answer before
/// they have sent everything.
fn check_length(state: &AppState, topic: &TopicId, bytes: Option<u64>) -> Result<(), Problem> {
    match bytes.filter(|bytes| *bytes > STEP_BYTES as u64) {
        Some(bytes) => Ok(state.topics().known_topics().check_body(topic, bytes)?),
        None => Ok(()),
    }
}

/// Refuses a body of at least `length` bytes whose path takes at most `most`.
fn body_too_large(length: u64, most: u64) -> Problem {
    let read = most.saturating_add(1).max(length);
    let detail =
        format!("the body has at least {read} bytes, but this path takes {most}: see docs/reference/http-api.md");
    Problem::new(Code::TooLarge, detail)
}

/// Says which limit a body of at least `length` bytes passes. No more of it was read than is needed to know that.
fn too_long_for(state: &AppState, topic: &TopicId, length: u64) -> Option<Problem> {
    let read = (body_bytes(state, topic) as u64).saturating_add(1).max(length);
    state.topics().known_topics().check_body(topic, read).err().map(|refused| {
        let problem = Problem::from(refused);
        Problem { detail: problem.detail.replacen("has ", "has at least ", 1), ..problem }
    })
}

/// Checks what the path says. Where the body names tenants, the handler's arguments check them, and here it is enough that
/// the token has the scope.
async fn check(identity: &Identity, requirement: Requirement, parts: &mut Parts) -> Result<(), Problem> {
    let scope = match requirement {
        Requirement::Nothing | Requirement::AnyToken => return Ok(()),
        Requirement::Everywhere(scope) => return identity.may_everywhere(scope),
        Requirement::InTenant(scope) => scope,
    };
    let path = RawPathParams::from_request_parts(parts, &()).await.ok();
    let tenant = path.iter().flatten().find(|(name, _)| *name == "tenant").and_then(|(_, tenant)| tenant.parse().ok());
    match tenant {
        Some(tenant) => identity.may(scope, &tenant),
        None => identity.may_somewhere(scope),
    }
}
