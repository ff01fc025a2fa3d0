//! `wasi:http`: requests of guests that know the standard and not Gristmill. They pass through the same [`Outbound`] as those of
//! [`super::http`], under the same grant and limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::CONTENT_LENGTH;
use hyper::http;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tracing::Level;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode, Scheme};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttp, WasiHttpView};

use super::super::attempt::LogLine;
use super::super::bindings::http::{HttpError, Request};
use super::super::guest_log::GuestLog;
use super::super::outbound::{BEGIN_BYTES, Egress, Outbound, Rest};
use super::super::recording::answers::{Fault, about_request};
use super::super::state::State;
use super::http::allowance;
use super::taped_body;
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::job::TopicId;

type Parameters = (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>);

/// Links `types` as it is, and `outgoing-handler` by hand: it has to see the topic's grant and to be charged.
pub(super) fn add_to_linker(linker: &mut Linker<State>, outbound: &Outbound) -> wasmtime::Result<()> {
    types::add_to_linker::<_, WasiHttp>(linker, &types::LinkOptions::default(), State::http)?;
    let outbound = outbound.clone();
    let mut handler = linker.instance("wasi:http/outgoing-handler@0.2.0")?;
    handler.func_wrap("handle", move |mut store: StoreContextMut<'_, State>, parameters: Parameters| {
        Ok((handle(store.data_mut(), &outbound, parameters)?,))
    })
}

/// Begins to send; the guest waits for the answer where it likes. A request that is refused at once is answered in kind, with the
/// reason in the job's log.
fn handle(
    state: &mut State,
    outbound: &Outbound,
    (request, options): Parameters,
) -> wasmtime::Result<Result<Resource<HostFutureIncomingResponse>, ErrorCode>> {
    let options = options.map(|options| state.resources.get(&options).copied()).transpose()?.unwrap_or_default();
    let request = state.resources.delete(request)?;
    let headers = request.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
    state.charge(headers)?;
    let (method, url) = (method_of(&request), url_of(&request));
    let about = about_request(method.as_deref().unwrap_or("?"), &url);
    let headers: Vec<_> = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let question = state.question("http.handle", &about, &(&method, &url, headers));
    let may_send = |state: &mut State| Ok(allowance(state).map(drop).map_err(|error| Fault::from(&error)));
    if let Err(refused) = state.ask(&question, may_send)? {
        return Ok(Err(in_kind(&state.guest_log, refused.into())));
    }
    // A replay sends nothing.
    let grant = state.attempt.grants.http.clone().unwrap_or_else(|| Arc::new(HttpGrant::of(Vec::new())));
    state.http_requests += 1;
    let sending = Sending {
        outbound: outbound.clone(),
        topic: state.topic().clone(),
        grant,
        egress: state.egress.clone(),
        number: state.http_requests,
        guest_log: Arc::clone(&state.guest_log),
        timeout: timeout(options),
        between: options.between_bytes_timeout,
        on_their_way: state.wasi_http.on_their_way(),
    };
    let pending = wasmtime_wasi::runtime::spawn(sending.send(request));
    Ok(Ok(state.resources.push(HostFutureIncomingResponse::Pending(pending))?))
}

/// Until the answer begins: connecting is no part that can be distinguished.
fn timeout(options: RequestOptions) -> Option<Duration> {
    let RequestOptions { connect_timeout, first_byte_timeout, .. } = options;
    first_byte_timeout.map(|answer| answer.saturating_add(connect_timeout.unwrap_or_default()))
}

/// A request on its way.
struct Sending {
    outbound: Outbound,
    topic: TopicId,
    grant: Arc<HttpGrant>,
    egress: Egress,
    /// Which request of the attempt, from 1.
    number: u32,
    guest_log: Arc<Mutex<GuestLog>>,
    timeout: Option<Duration>,
    /// For the next bytes of the answer.
    between: Option<Duration>,
    on_their_way: Arc<Semaphore>,
}

impl Sending {
    /// Waits for its turn and for the request's body, or for the beginning of a long one, sends it, and waits for the answer's head; its body
    /// comes in as the guest reads it. Redirects are the guest's to follow.
    async fn send(self, request: HostOutgoingRequest) -> Result<(http::Response<WasiBody>, Nothing), Error> {
        let _permit = self.on_their_way.acquire().await.map_err(|_| Error::ConnectionLimitReached)?;
        let too_large = Arc::new(AtomicBool::new(false));
        let failed = |error| {
            let most = self.grant.request_bytes;
            if too_large.load(Ordering::Relaxed) {
                warn(
                    &self.guest_log,
                    format!("request's body larger than {most} bytes: its topic's `request-limit` allows no more"),
                );
                return Error::HttpRequestBodySize(Some(most));
            }
            in_kind(&self.guest_log, error).into()
        };
        let bodies = Bodies { guest_log: &self.guest_log, limit: self.grant.request_bytes, too_large: &too_large };
        let (request, rest) = read(request, self.timeout, &bodies).await.map_err(&failed)?;
        let answer = self.open(request, rest).await.map_err(&failed)?;
        let (charged, log) = (Arc::clone(&self.guest_log), Arc::clone(&self.guest_log));
        let answer = answer.map(|body| {
            let body = body.map_frame(move |frame| {
                passed(&charged, frame.data_ref().map_or(0, Bytes::len));
                frame
            });
            body.map_err(move |error| broken_off(in_kind(&log, error)).into()).boxed_unsync()
        });
        Ok((answer, wasmtime_wasi::runtime::spawn(async {})))
    }
}

impl Sending {
    /// The answer: from the world, and written down, or as it was written down.
    async fn open(
        &self,
        request: Request,
        rest: Option<Rest>,
    ) -> Result<http::Response<UnsyncBoxBody<Bytes, HttpError>>, HttpError> {
        let recorded = self.guest_log.lock().boundary.body(self.number);
        if let Some(parts) = recorded {
            if let Some(mut rest) = rest {
                while rest.body.frame().await.is_some() {}
            }
            if parts.is_empty() {
                // The guest did not wait for it.
                return std::future::pending().await;
            }
            return taped_body::recorded(parts, &self.guest_log);
        }
        let opened =
            self.outbound.open(&self.topic, &self.grant, request, rest, self.between, self.egress.clone()).await;
        taped_body::taped(opened, &self.guest_log, self.number)
    }
}

/// Bytes for which the guest is charged at its next call.
fn passed(guest_log: &Mutex<GuestLog>, bytes: usize) {
    guest_log.lock().passed += bytes as u64;
}

/// What an error is once the answer has begun.
fn broken_off(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::DestinationUnavailable => ErrorCode::HttpResponseIncomplete,
        code => code,
    }
}

/// The work that an answer takes beside its body: connections have their own.
type Nothing = wasmtime_wasi::runtime::AbortOnDropJoinHandle<()>;

/// The guest's request as [`Outbound`] reads it, with the same suspicion as one of [`super::http`], and what comes after its body.
async fn read(
    request: HostOutgoingRequest,
    timeout: Option<Duration>,
    bodies: &Bodies<'_>,
) -> Result<(Request, Option<Rest>), HttpError> {
    let url = url_of(&request);
    let method = method_of(&request).ok_or_else(|| HttpError::Invalid("the method is no token".to_owned()))?;
    let HostOutgoingRequest { headers, body, .. } = request;
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let whole = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let (body, rest) = match body {
        Some(body) => {
            let (begin, rest) = bodies.begin(body, whole).await?;
            (Some(begin), rest)
        }
        None => (None, None),
    };
    // The length is known from the body.
    let headers = headers.iter().filter(|(name, _)| *name != CONTENT_LENGTH);
    let headers = headers.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    let request = Request {
        method,
        url,
        headers,
        body,
        timeout: timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        redirects: 0,
    };
    Ok((request, rest))
}

fn url_of(request: &HostOutgoingRequest) -> String {
    let scheme = match &request.scheme {
        None | Some(Scheme::Https) => "https",
        Some(Scheme::Http) => "http",
        Some(Scheme::Other(scheme)) => scheme,
    };
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{scheme}://{}{}", text(&request.authority), text(&request.path_with_query))
}

fn method_of(request: &HostOutgoingRequest) -> Option<String> {
    let method: http::Method = request.method.clone().try_into().ok()?;
    Some(method.as_str().to_owned())
}

/// What becomes of the bodies of requests.
struct Bodies<'a> {
    guest_log: &'a Arc<Mutex<GuestLog>>,
    limit: u64,
    /// A body was over the limit.
    too_large: &'a Arc<AtomicBool>,
}

impl Bodies<'_> {
    /// All of a short body, whose length is then known, since not every server takes one without. Of a longer one the beginning, and what the
    /// guest writes from then on; it is `whole` bytes if the guest says so.
    async fn begin(&self, body: WasiBody, whole: Option<u64>) -> Result<(Vec<u8>, Option<Rest>), HttpError> {
        let mut body = self.limited(body);
        if whole.is_some_and(|whole| whole > self.limit) {
            self.too_large.store(true, Ordering::Relaxed);
            return Err(HttpError::TooLarge(self.limit));
        }
        let mut begin = Vec::new();
        while begin.len() <= BEGIN_BYTES {
            let Some(frame) = body.frame().await else { return Ok((begin, None)) };
            begin.extend_from_slice(frame?.data_ref().map_or(&[], Bytes::as_ref));
        }
        Ok((begin, Some(Rest { body, whole })))
    }

    /// The body up to the limit; the guest is charged for what passes.
    fn limited(&self, body: WasiBody) -> UnsyncBoxBody<Bytes, HttpError> {
        let (guest_log, too_large, limit) = (Arc::clone(self.guest_log), Arc::clone(self.too_large), self.limit);
        let limited = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
        let charged = limited.map_frame(move |frame| {
            passed(&guest_log, frame.data_ref().map_or(0, Bytes::len));
            frame
        });
        let failed = move |error: Box<dyn std::error::Error + Send + Sync>| {
            if error.is::<LengthLimitError>() {
                too_large.store(true, Ordering::Relaxed);
                HttpError::TooLarge(limit)
            } else {
                HttpError::Invalid(format!("the body was not finished: {error}"))
            }
        };
        charged.map_err(failed).boxed_unsync()
    }
}

/// The standard's word for an error. What it leaves out, the job's log has.
fn in_kind(guest_log: &Mutex<GuestLog>, error: HttpError) -> ErrorCode {
    let (code, message) = match error {
        HttpError::Denied(why) => (ErrorCode::HttpRequestDenied, format!("request denied: {why}")),
        HttpError::Invalid(why) => (ErrorCode::InternalError(Some(why.clone())), format!("request not sent: {why}")),
        HttpError::TooMany(most) => {
            (ErrorCode::ConnectionLimitReached, format!("request denied: an attempt may send {most}"))
        }
        HttpError::TooLarge(most) => {
            let message = format!("answer larger than {most} bytes: its topic's `response-limit` allows no more");
            (ErrorCode::HttpResponseBodySize(Some(most)), message)
        }
        HttpError::Timeout => (ErrorCode::HttpResponseTimeout, "request timed out".to_owned()),
        HttpError::Unreachable(why) => (ErrorCode::DestinationUnavailable, format!("request failed: {why}")),
    };
    warn(guest_log, message);
    code
}

fn warn(guest_log: &Mutex<GuestLog>, message: String) {
    guest_log.lock().write(LogLine { level: Level::WARN, source: "http", message, fields: Vec::new() });
}
