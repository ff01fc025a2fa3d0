//! `wasi:http`: requests of guests that know the standard and not Gristmill. They pass through the same [`Outbound`] as those of
//! [`super::http`], under the same grant and limits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
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
use super::super::outbound::Outbound;
use super::super::request_trace::RequestTrace;
use super::super::state::State;
use super::http::allowance;
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
    let grant = match allowance(state) {
        Ok((grant, _)) => grant,
        Err(error) => return Ok(Err(in_kind(&state.guest_log, error))),
    };
    state.http_requests += 1;
    let sending = Sending {
        outbound: outbound.clone(),
        topic: state.topic.clone(),
        grant,
        trace: state.requests.clone(),
        guest_log: Arc::clone(&state.guest_log),
        timeout: timeout(options),
        between: options.between_bytes_timeout,
        on_their_way: state.wasi_http.on_their_way(),
    };
    let pending = wasmtime_wasi::runtime::spawn(sending.send(request));
    Ok(Ok(state.resources.push(HostFutureIncomingResponse::Pending(pending))?))
}

/// Until the answer begins: connecting is no part that can be told apart.
fn timeout(options: RequestOptions) -> Option<Duration> {
    let RequestOptions { connect_timeout, first_byte_timeout, .. } = options;
    first_byte_timeout.map(|answer| answer.saturating_add(connect_timeout.unwrap_or_default()))
}

/// A request on its way.
struct Sending {
    outbound: Outbound,
    topic: TopicId,
    grant: Arc<HttpGrant>,
    trace: Option<RequestTrace>,
    guest_log: Arc<Mutex<GuestLog>>,
    timeout: Option<Duration>,
    /// For the next bytes of the answer.
    between: Option<Duration>,
    on_their_way: Arc<Semaphore>,
}

impl Sending {
    /// Waits for its turn and for the end of the request's body, sends all of it, and waits for the answer's head; its body comes in as the
    /// guest reads it. Redirects are the guest's to follow.
    async fn send(self, request: HostOutgoingRequest) -> Result<(http::Response<WasiBody>, Nothing), Error> {
        let _permit = self.on_their_way.acquire().await.map_err(|_| Error::ConnectionLimitReached)?;
        let request = read(request, self.timeout, self.grant.request_bytes).await.map_err(|error| {
            let code = in_kind(&self.guest_log, error);
            if let ErrorCode::HttpResponseBodySize(most) = code {
                Error::HttpRequestBodySize(most)
            } else {
                code.into()
            }
        })?;
        passed(&self.guest_log, request.body.as_ref().map_or(0, Vec::len));
        let opened = self.outbound.open(&self.topic, &self.grant, request, self.between, self.trace.clone()).await;
        let answer = opened.map_err(|error| Error::from(in_kind(&self.guest_log, error)))?;
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

/// The guest's request as [`Outbound`] reads it: with the same suspicion as one of [`super::http`].
async fn read(
    request: HostOutgoingRequest,
    timeout: Option<Duration>,
    body_bytes_max: u64,
) -> Result<Request, HttpError> {
    let HostOutgoingRequest { method, scheme, authority, path_with_query, headers, body } = request;
    let scheme = match scheme {
        None | Some(Scheme::Https) => "https".to_owned(),
        Some(Scheme::Http) => "http".to_owned(),
        Some(Scheme::Other(scheme)) => scheme,
    };
    let (authority, path) = (authority.unwrap_or_default(), path_with_query.unwrap_or_default());
    let method: http::Method =
        method.try_into().map_err(|_| HttpError::Invalid("the method is no token".to_owned()))?;
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    // The length is known from the body.
    let headers = headers.iter().filter(|(name, _)| *name != CONTENT_LENGTH);
    let headers = headers.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    Ok(Request {
        method: method.as_str().to_owned(),
        url: format!("{scheme}://{authority}{path}"),
        headers,
        body: match body {
            Some(body) => Some(collect(body, body_bytes_max).await?),
            None => None,
        },
        timeout: timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        redirects: 0,
    })
}

async fn collect(body: WasiBody, bytes_max: u64) -> Result<Vec<u8>, HttpError> {
    let limited = Limited::new(body, usize::try_from(bytes_max).unwrap_or(usize::MAX));
    let collected = limited.collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            HttpError::TooLarge(bytes_max)
        } else {
            HttpError::Invalid(format!("the body was not finished: {error}"))
        }
    })?;
    Ok(collected.to_bytes().into())
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
            (ErrorCode::HttpResponseBodySize(Some(most)), format!("request or answer larger than {most} bytes"))
        }
        HttpError::Timeout => (ErrorCode::HttpResponseTimeout, "request timed out".to_owned()),
        HttpError::Unreachable(why) => (ErrorCode::DestinationUnavailable, format!("request failed: {why}")),
    };
    guest_log.lock().write(LogLine { level: Level::WARN, source: "http", message, fields: Vec::new() });
    code
}
