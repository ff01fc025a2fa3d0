//! `wasi:http/incoming-handler`: a server of HTTP. The job is a POST request, and the answer's status says what becomes of the job.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, Uri};
use tokio::sync::oneshot;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, InstancePre, Resource, ResourceTable, TypedFunc};
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::p2::types::{HostIncomingRequest, HostResponseOutparam};
use wasmtime_wasi_http::{WasiBody, WasiHttpView};

use super::super::attempt::Attempt;
use super::super::classify::Stopped;
use super::super::error::LoadError;
use super::super::state::State;
use super::export;
use gristmill_core::job::Payload;
use gristmill_core::outcome::{FailureDetail, LimitName, Outcome};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Adapter, CodeMeaning, Proxy};

pub(super) const EXPORT: &str = "wasi:http/incoming-handler@0.2.0";

/// What begins with this is the host's to set.
const OURS: &str = "gristmill-";
/// Of an answer's body, what stands for the failure's message.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

type Parameters = (Resource<HostIncomingRequest>, Resource<HostResponseOutparam>);

pub(super) type Function = TypedFunc<Parameters, ()>;

/// What the guest gives as its answer, before its body is read.
type Given = Result<Response<HyperOutgoingBody>, ErrorCode>;

pub(super) fn find(pre: &InstancePre<State>) -> Result<Option<ComponentExportIndex>, LoadError> {
    export::<Parameters, ()>(pre, EXPORT, "handle")
}

pub(super) async fn call(
    function: Function,
    store: &mut Store<State>,
    attempt: &Attempt,
    deadline: Timestamp,
) -> Result<Outcome, Stopped> {
    let Adapter::Proxy(proxy) = &attempt.adapter else {
        return Err(Stopped::Starting(wasmtime::Error::msg("its topic has another adapter")));
    };
    let (give, given) = oneshot::channel();
    let request = request(proxy, attempt, deadline).map_err(Stopped::Running)?;
    let parameters = parameters(store.data_mut(), request, give).map_err(Stopped::Running)?;
    let answer = ProxyResponse::read(given, attempt.limits.output_bytes);
    let mut answer = pin!(answer);
    let mut answered = None;
    {
        // The guest waits where its answer is not read, so that goes on beside it.
        let mut called = pin!(function.call_async(&mut *store, parameters));
        loop {
            tokio::select! {
                biased;
                ended = &mut called => break ended.map_err(Stopped::Running)?,
                read = &mut answer, if answered.is_none() => answered = Some(read),
            }
        }
    }
    // What the guest has not finished, it never will.
    store.data_mut().resources = ResourceTable::new();
    let answered = match answered {
        Some(answered) => answered,
        None => answer.await,
    };
    if let ProxyResponse::Whole { body, .. } = &answered {
        store.data_mut().charge_bytes(body.len());
    }
    Ok(answered.outcome(proxy))
}

/// The guest's handles for the job, and for its answer.
fn parameters(
    state: &mut State,
    request: Request<WasiBody>,
    give: oneshot::Sender<Given>,
) -> wasmtime::Result<Parameters> {
    let mut http = state.http();
    Ok((http.new_incoming_request(Scheme::Http, request)?, http.new_response_outparam(give)?))
}

fn request(proxy: &Proxy, attempt: &Attempt, deadline: Timestamp) -> wasmtime::Result<Request<WasiBody>> {
    let body = Full::new(Bytes::from(attempt.job.spec.body.data.clone()));
    let body = body.map_err(|never| match never {}).boxed_unsync();
    let mut request = Request::post(Uri::try_from(format!("http://gristmill{}", proxy.path))?).body(body)?;
    *request.headers_mut() = headers(attempt, deadline);
    Ok(request)
}

/// The job's metadata under its own names, and what is known of the job. What cannot be a header is left out.
fn headers(attempt: &Attempt, deadline: Timestamp) -> HeaderMap {
    let job = &attempt.job;
    let spec = &job.spec;
    let mut headers = HeaderMap::new();
    for (name, value) in &spec.metadata {
        let name = HeaderName::try_from(name).ok().filter(|name| !name.as_str().starts_with(OURS));
        if let Some((name, value)) = name.zip(HeaderValue::try_from(value).ok()) {
            headers.append(name, value);
        }
    }
    let known = [
        ("id", Some(spec.id.as_str().to_owned())),
        ("tenant", Some(spec.topic.tenant.as_str().to_owned())),
        ("topic", Some(spec.topic.topic.as_str().to_owned())),
        ("key", spec.options.key.clone()),
        ("attempt", Some(attempt.attempt.to_string())),
        ("max-attempts", Some(attempt.max_attempts.to_string())),
        ("enqueued-at", Some(job.enqueued_at.as_millis().to_string())),
        ("due-at", Some(job.due_at.as_millis().to_string())),
        ("deadline", Some(deadline.as_millis().to_string())),
    ];
    for (name, value) in known {
        let name = HeaderName::try_from(format!("{OURS}{name}")).ok();
        if let Some((name, value)) = name.zip(value.and_then(|value| HeaderValue::try_from(value).ok())) {
            headers.insert(name, value);
        }
    }
    headers.remove(CONTENT_TYPE);
    if let Some(kind) = spec.body.content_type.as_ref().and_then(|kind| HeaderValue::try_from(kind).ok()) {
        headers.insert(CONTENT_TYPE, kind);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(spec.body.data.len()));
    headers
}

/// What came of a request.
enum ProxyResponse {
    Whole {
        status: u16,
        headers: HeaderMap,
        body: Vec<u8>,
    },
    /// Its body has more than so many bytes.
    TooLarge(u64),
    /// There is none, or it broke off.
    Broken(String),
}

impl ProxyResponse {
    async fn read(given: oneshot::Receiver<Given>, body_bytes_max: u64) -> Self {
        let response = match given.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Self::Broken(format!("it answered with an error: {error:?}")),
            Err(_) => return Self::Broken("it returned without an answer".to_owned()),
        };
        let (head, body) = response.into_parts();
        let body = Limited::new(body, usize::try_from(body_bytes_max).unwrap_or(usize::MAX)).collect().await;
        match body {
            Ok(body) => {
                Self::Whole { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes().into() }
            }
            Err(error) if error.is::<LengthLimitError>() => Self::TooLarge(body_bytes_max),
            Err(error) => Self::Broken(format!("its answer broke off: {error}")),
        }
    }

    fn outcome(self, proxy: &Proxy) -> Outcome {
        let (status, headers, body) = match self {
            Self::Whole { status, headers, body } => (status, headers, body),
            Self::TooLarge(allowed) => return Outcome::LimitExceeded { limit: LimitName::Output, allowed },
            Self::Broken(message) => {
                let detail = FailureDetail { code: "no-answer".to_owned(), message, context: None };
                return Outcome::Retry { detail, after: None };
            }
        };
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let meaning = proxy.meaning(status);
        if meaning == CodeMeaning::Ack {
            let result = Payload { data: body, content_type: text(CONTENT_TYPE) };
            return Outcome::Complete((!result.data.is_empty()).then_some(result));
        }
        let detail = FailureDetail { code: format!("status-{status}"), message: message(status, &body), context: None };
        match meaning {
            CodeMeaning::Dead => Outcome::Reject(detail),
            _ => {
                let seconds = text(RETRY_AFTER).and_then(|text| text.trim().parse().ok());
                Outcome::Retry { detail, after: seconds.map(Duration::from_secs) }
            }
        }
    }
}

/// The begin of the answer's body, if it is text.
fn message(status: u16, body: &[u8]) -> String {
    let text = std::str::from_utf8(body).unwrap_or_default().trim();
    let text = text.get(..text.floor_char_boundary(MESSAGE_BYTES_MAX)).unwrap_or_default();
    if text.is_empty() { format!("answered with status {status}") } else { text.to_owned() }
}
