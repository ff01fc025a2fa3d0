//! One topic's requests, from the first to the last redirect.

use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::http::{Method, StatusCode};
use hyper::{Request, Response};
use tokio::runtime::Handle;
use url::{Position, Url};

use super::super::bindings::http::{HttpError, Response as WitResponse};
use super::super::idle::{IdleItems, IdleLimits};
use super::super::replace::{Replacements, Replacer};
use super::answer_body::{AnswerBody, Times};
use super::clean_answer::{clean_error, clean_head};
use super::connect::{Connection, Connector, Origin, broken};
use super::hops::Hops;
use super::message::Message;
use super::outgoing::{Outgoing, invalid};
use super::redirect;
use super::replaced_body::ReplacedBody;
use super::request_body::{RequestBody, Rest};
use super::resolve::Resolver;
use super::roots::TrustedRoots;
use super::{Egress, Sent};
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::job::TopicId;

/// Connections that one topic keeps open, over all origins. Most servers close them later.
const IDLE: IdleLimits = IdleLimits { items: 32, bytes: u64::MAX, idle: Duration::from_secs(30) };

/// The body of an answer, as the guest gets it.
type Body = ReplacedBody<AnswerBody>;

type Exchanged = Result<(Response<Incoming>, Connection), HttpError>;

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

    /// Sends, follows redirects, reads the answer; at most `remaining` requests, and no longer than the request's timeout.
    pub(super) async fn send(&self, outgoing: Outgoing, remaining: u32, egress: Egress) -> Sent {
        let mut hops = Hops::new(egress.trace.clone());
        let (timeout, host) = (outgoing.timeout, outgoing.url.host_str().unwrap_or_default().to_owned());
        let whole = async {
            let (url, answered) = self.follow(outgoing, None, &egress, remaining, &mut hops, Times::default()).await?;
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
        egress: Egress,
    ) -> Result<Response<Body>, HttpError> {
        let mut hops = Hops::new(egress.trace.clone());
        let times = Times::new(tokio::time::Instant::now() + self.grant.timeout, between);
        let (timeout, host) = (outgoing.timeout, outgoing.url.host_str().unwrap_or_default().to_owned());
        let answered = self.in_time(timeout, &host, self.follow(outgoing, rest, &egress, 1, &mut hops, times)).await;
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
        egress: &Egress,
        remaining: u32,
        hops: &mut Hops,
        times: Times,
    ) -> Result<(Url, Response<Body>), HttpError> {
        let placeholders = egress.placeholders.as_deref();
        if let Some(keys) = &egress.keys {
            keys.add_to(&mut outgoing, rest.is_none(), placeholders);
        }
        loop {
            let origin = self.granted(&outgoing.url)?;
            if hops.count >= remaining {
                return Err(HttpError::TooMany(self.grant.requests));
            }
            hops.begin(&mut outgoing);
            let started = Instant::now();
            let is_streamed = rest.is_some();
            let Message { request, in_answer } =
                Message::of(&outgoing, rest.take(), placeholders, self.grant.request_bytes)?;
            let exchanged = self.exchange(request, &origin).await;
            let exchanged = clean(exchanged, in_answer.as_deref());
            let status = exchanged.as_ref().map(|(response, _)| response.status());
            self.trace(&outgoing, &origin, status, started);
            status.into_iter().for_each(|status| hops.answered(status));
            let (response, connection) = exchanged?;
            match redirect::next(&outgoing, &response) {
                // The redirect's body is of no use, and its connection goes with it.
                Some(next) => outgoing = next?,
                None => {
                    let answered = self.bounded(origin, response, connection, times, is_streamed)?;
                    let has_body = outgoing.method != Method::HEAD;
                    return Ok((outgoing.url, self.replaced(answered, in_answer, has_body)));
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
    async fn exchange(&self, mut request: Request<RequestBody>, origin: &Origin) -> Exchanged {
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
            remaining: limit,
            times,
            origin,
            connection,
            // The guest may still be writing.
            is_kept: !is_streamed,
            idle,
            runtime,
        }))
    }

    /// The answer without secrets in its body.
    fn replaced(
        &self,
        mut response: Response<AnswerBody>,
        secrets: Option<Arc<Replacements>>,
        has_body: bool,
    ) -> Response<Body> {
        if secrets.is_some() && has_body {
            // It may be another one now.
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        let most = self.grant.response_bytes;
        let replacer = secrets.map(|secrets| Replacer::new(secrets, most));
        response.map(|body| ReplacedBody::new(body, replacer, HttpError::TooLarge(most)))
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
async fn read(url: &Url, answered: Response<Body>) -> Result<WitResponse, HttpError> {
    let (head, body) = answered.into_parts();
    let body = body.collect().await?.to_bytes();
    let headers = text_of(&head.headers);
    Ok(WitResponse { status: head.status.as_u16(), headers, body: body.into(), url: url.to_string() })
}

fn clean(mut exchanged: Exchanged, secrets: Option<&Replacements>) -> Exchanged {
    let Some(secrets) = secrets else { return exchanged };
    if let Ok((response, _)) = &mut exchanged {
        clean_head(response, secrets);
    }
    exchanged.map_err(|error| clean_error(error, secrets))
}

/// Refuses answers that two readers may cut at different places, and those that are the beginning of something else.
fn checked(origin: &Origin, response: Response<Incoming>, connection: Connection) -> Exchanged {
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
