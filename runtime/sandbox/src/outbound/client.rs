//! One topic's requests, from the first to the last redirect.

use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::http::{StatusCode, Uri};
use hyper::{Request, Response};
use tokio::runtime::Handle;
use url::{Position, Url};

use super::super::bindings::http::{HttpError, Response as Answer};
use super::super::idle::{IdleItems, IdleLimits};
use super::super::request_trace::RequestTrace;
use super::Sent;
use super::answer_body::{AnswerBody, Times};
use super::connect::{Connection, Connector, Origin, broken};
use super::hops::Hops;
use super::outgoing::{Outgoing, invalid};
use super::redirect;
use super::request_body::{RequestBody, Rest};
use super::resolve::Resolver;
use super::roots::TrustedRoots;
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::job::TopicId;

/// Connections that one topic keeps open, over all origins. Most servers close them later.
const IDLE: IdleLimits = IdleLimits { items: 32, bytes: u64::MAX, idle: Duration::from_secs(30) };

/// Sends what one topic may send. No other topic uses its connections.
#[derive(Debug)]
pub(super) struct Client {
    topic: TopicId,
    grant: Arc<HttpGrant>,
    connector: Connector,
    idle: Arc<IdleItems<Origin, Connection>>,
}

impl Client {
    pub(super) fn new(topic: TopicId, grant: Arc<HttpGrant>, resolver: Resolver, trust: TrustedRoots) -> Self {
        let connector = Connector::new(topic.clone(), Arc::clone(&grant), resolver, trust);
        Self { topic, grant, connector, idle: Arc::new(IdleItems::new(IDLE)) }
    }

    pub(super) fn has_grant(&self, grant: &Arc<HttpGrant>) -> bool {
        Arc::ptr_eq(&self.grant, grant) || self.grant == *grant
    }

    /// Whether no request is running and no connection is open, so that it can be dropped.
    pub(super) fn is_idle_and_empty(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && self.idle.kept().0 == 0
    }

    /// Sends, follows redirects, reads the answer; at most `left` requests, and no longer than the request's timeout.
    pub(super) async fn send(&self, outgoing: Outgoing, left: u32, trace: Option<RequestTrace>) -> Sent {
        let mut hops = Hops::new(trace);
        let (timeout, host) = (outgoing.timeout, outgoing.url.host_str().unwrap_or_default().to_owned());
        let whole = async {
            let (url, answered) = self.follow(outgoing, None, left, &mut hops, Times::default()).await?;
            read(&url, answered).await
        };
        let answer = self.in_time(timeout, &host, whole).await;
        hops.end(answer.as_ref().err());
        Sent { answer, requests: hops.count }
    }

    /// Sends one request, and waits for the head of its answer no longer than the request's timeout. The whole takes no longer than the grant's.
    pub(super) async fn open(
        &self,
        outgoing: Outgoing,
        rest: Option<Rest>,
        between: Option<Duration>,
        trace: Option<RequestTrace>,
    ) -> Result<Response<AnswerBody>, HttpError> {
        let mut hops = Hops::new(trace);
        let times = Times::new(tokio::time::Instant::now() + self.grant.timeout, between);
        let (timeout, host) = (outgoing.timeout, outgoing.url.host_str().unwrap_or_default().to_owned());
        let answered = self.in_time(timeout, &host, self.follow(outgoing, rest, 1, &mut hops, times)).await;
        hops.end(answered.as_ref().err());
        answered.map(|(_, answered)| answered)
    }

    async fn in_time<T>(
        &self,
        timeout: Duration,
        host: &str,
        answer: impl Future<Output = Result<T, HttpError>>,
    ) -> Result<T, HttpError> {
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
            tracing::debug!(topic = %self.topic, host, ?timeout, "request timed out");
            Err(HttpError::Timeout)
        })
    }

    /// The last answer, and the URL that it is from. `rest` goes with the first request, and there is no redirect then.
    async fn follow(
        &self,
        mut outgoing: Outgoing,
        mut rest: Option<Rest>,
        left: u32,
        hops: &mut Hops,
        times: Times,
    ) -> Result<(Url, Response<AnswerBody>), HttpError> {
        loop {
            let origin = self.granted(&outgoing.url)?;
            if hops.count >= left {
                return Err(HttpError::TooMany(self.grant.requests));
            }
            hops.begin(&mut outgoing);
            let started = Instant::now();
            let is_streamed = rest.is_some();
            let exchanged = self.exchange(&outgoing, rest.take(), &origin).await;
            let status = exchanged.as_ref().map(|(response, _)| response.status());
            self.trace(&outgoing, &origin, status, started);
            status.into_iter().for_each(|status| hops.answered(status));
            let (response, connection) = exchanged?;
            match redirect::next(&outgoing, &response) {
                // The redirect's body is of no use, and its connection goes with it.
                Some(next) => outgoing = next?,
                None => {
                    let answered = self.bounded(origin, response, connection, times, is_streamed)?;
                    return Ok((outgoing.url, answered));
                }
            }
        }
    }

    fn granted(&self, url: &Url) -> Result<Origin, HttpError> {
        let origin = Origin::of(url).ok_or_else(|| invalid("the URL has no host"))?;
        if self.grant.allows(url) {
            return Ok(origin);
        }
        let place = &url[..Position::AfterPort];
        Err(HttpError::Denied(format!(
            "`{place}` is not among the hosts that `allow` names; if the topic may ask it, add \"{place}\" to `allow` in its `http`"
        )))
    }

    /// Sends one request; on a connection that was kept if there is one.
    async fn exchange(
        &self,
        outgoing: &Outgoing,
        rest: Option<Rest>,
        origin: &Origin,
    ) -> Result<(Response<Incoming>, Connection), HttpError> {
        let mut request = message(outgoing, rest)?;
        let open = iter::from_fn(|| self.idle.take(origin)).find(Connection::is_open);
        if let Some(mut kept) = open {
            match kept.send(request).await {
                Ok(response) => return checked(origin, response, kept),
                // It was closed while it waited, and nothing was sent: no harm in a new one.
                Err((_, Some(unsent))) => request = unsent,
                Err((error, None)) => return Err(broken(origin, &error)),
            }
        }
        let mut connection = self.connector.connect(origin).await?;
        match connection.send(request).await {
            Ok(response) => checked(origin, response, connection),
            Err((error, _)) => Err(broken(origin, &error)),
        }
    }

    /// The answer with a body that is held to its limit, unless it is known to be longer.
    fn bounded(
        &self,
        origin: Origin,
        response: Response<Incoming>,
        connection: Connection,
        times: Times,
        is_streamed: bool,
    ) -> Result<Response<AnswerBody>, HttpError> {
        let limit = self.grant.response_bytes;
        if response.body().size_hint().lower() > limit {
            return Err(HttpError::TooLarge(limit));
        }
        let (idle, runtime) = (Arc::clone(&self.idle), Handle::current());
        let connection = Some(connection);
        Ok(response.map(|incoming| AnswerBody {
            incoming,
            limit,
            left: limit,
            times,
            origin,
            connection,
            // The guest may still be writing.
            is_kept: !is_streamed,
            idle,
            runtime,
        }))
    }

    /// Neither path nor query nor headers: they carry secrets.
    fn trace(&self, outgoing: &Outgoing, origin: &Origin, status: Result<StatusCode, &HttpError>, started: Instant) {
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (topic, method, host, port) = (&self.topic, &outgoing.method, &origin.host, origin.port);
        match status {
            Ok(status) => tracing::debug!(%topic, %method, %host, port, status = status.as_u16(), ms, "request"),
            Err(error) => tracing::debug!(%topic, %method, %host, port, ?error, ms, "request failed"),
        }
    }
}

/// Reads the body to its end.
async fn read(url: &Url, answered: Response<AnswerBody>) -> Result<Answer, HttpError> {
    let (head, body) = answered.into_parts();
    let body = body.collect().await?.to_bytes();
    let headers = text_of(&head.headers);
    Ok(Answer { status: head.status.as_u16(), headers, body: body.into(), url: url.to_string() })
}

fn message(outgoing: &Outgoing, rest: Option<Rest>) -> Result<Request<RequestBody>, HttpError> {
    let url = &outgoing.url;
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let target: Uri = target.parse().map_err(|_| invalid("the URL's path has characters that no path may have"))?;
    let host = &url[Position::BeforeHost..Position::AfterPort];
    let host =
        HeaderValue::from_str(host).map_err(|_| invalid("the URL's host has characters that no host may have"))?;
    let mut request = Request::new(RequestBody::new(outgoing.body.clone(), rest));
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = target;
    *request.headers_mut() = outgoing.headers.clone();
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

/// Refuses answers that two readers may cut at different places, and those that are the beginning of something else.
fn checked(
    origin: &Origin,
    response: Response<Incoming>,
    connection: Connection,
) -> Result<(Response<Incoming>, Connection), HttpError> {
    let refused = |why: &str| Err(HttpError::Unreachable(format!("`{}`: {why}", origin.host)));
    let headers = response.headers();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        refused("it switched to another protocol, without being asked to")
    } else if headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH) {
        refused("its answer has both a `content-length` and a `transfer-encoding`")
    } else {
        Ok((response, connection))
    }
}

fn text_of(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}
