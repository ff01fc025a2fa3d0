//! HTTP requests of guests, and the checks that each has to pass.
//!
//! A request is checked against its topic's grant three times: [`Outgoing`] checks what the guest wrote, [`client`] at scheme,
//! host and port of every URL on the way, [`connect`] at the address that is connected to, which is the one that was
//! looked at: a name is resolved once.
//!
//! All of it runs on the runner's own runtime and not on the threads of guests: a guest that computes does not delay the
//! answers of others.
//!
//! Connections are those of `hyper`; the loop that follows redirects is ours. The client of `hyper-util` would replace only
//! the few lines that keep idle connections, and it bounds idle connections for each host instead of for a topic. A refused address would come
//! back as an opaque error, to be searched for its cause. Redirects would still be followed here, since each is checked
//! against the grant and counts as a request of the attempt.

mod answer_body;
mod clean_answer;
mod client;
mod connect;
mod hops;
mod message;
mod outgoing;
mod redirect;
mod replaced_body;
mod request_body;
mod request_keys;
mod resolve;
mod roots;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::Response as Answered;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use self::answer_body::AnswerBody;
use self::client::Client;
use self::outgoing::Outgoing;
use self::replaced_body::ReplacedBody;
pub(super) use self::request_body::{BEGIN_BYTES, Rest};
pub(super) use self::request_keys::RequestKeys;
use self::resolve::Resolver;
use self::roots::TrustedRoots;
use super::bindings::http::{HttpError, Request, Response};
use super::placeholders::Placeholders;
use super::request_trace::RequestTrace;
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::job::TopicId;

/// What sends requests. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub(super) struct Outbound(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` if requests run on the runtime of the guest.
    runtime: Option<Handle>,
    resolver: Resolver,
    trust: TrustedRoots,
    /// One for each topic that has sent anything: connections are never shared between topics, and so not between
    /// tenants.
    clients: Mutex<HashMap<TopicId, Arc<Client>>>,
}

/// What the host adds to the requests of one attempt, and takes out of the answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Egress {
    /// Where they are written down, if the attempt is traced.
    pub(super) trace: Option<RequestTrace>,
    /// What the handler writes for secrets that it does not have; none if there are no such secrets.
    pub(super) placeholders: Option<Arc<Placeholders>>,
    /// None if its topic wants no `Idempotency-Key`.
    pub(super) keys: Option<Arc<RequestKeys>>,
}

/// What came of a request, and how much of the attempt's allowance it took.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) answer: Result<Response, HttpError>,
    /// One, and one for each redirect that was followed; none if it was refused before anything went out.
    pub(super) requests: u32,
}

impl Outbound {
    /// Sends from the runtime that this is called on. Opens nothing yet.
    pub(super) fn new() -> Self {
        Self::with(Resolver::system(), TrustedRoots::of_machine())
    }

    fn with(resolver: Resolver, trust: TrustedRoots) -> Self {
        Self(Arc::new(Inner { runtime: Handle::try_current().ok(), resolver, trust, clients: Mutex::default() }))
    }

    /// Sends one request of an attempt that may still make `remaining` of them, and follows redirects if asked to.
    ///
    /// Ends within the grant's timeout. Cancel-safe: dropping the future closes the connection.
    pub(super) async fn send(
        &self,
        topic: &TopicId,
        grant: &Arc<HttpGrant>,
        request: Request,
        remaining: u32,
        egress: Egress,
    ) -> Sent {
        let outgoing = match Outgoing::read(request, grant) {
            Ok(outgoing) => outgoing,
            Err(error) => return Sent { answer: Err(error), requests: 0 },
        };
        let client = self.client(topic, grant);
        let sending = self.run(async move { client.send(outgoing, remaining, egress).await });
        sending.await.unwrap_or_else(|error| Sent { answer: Err(error), requests: 1 })
    }

    /// Sends one request, follows no redirect, and returns as soon as the head of the answer is here. `rest` is what comes after the request's
    /// body. The answer's body comes in as it is read, with
    /// pauses of at most `between` if that is given, and within the grant's timeout.
    ///
    /// Cancel-safe: dropping the future, or the body, closes the connection.
    pub(super) async fn open(
        &self,
        topic: &TopicId,
        grant: &Arc<HttpGrant>,
        request: Request,
        rest: Option<Rest>,
        between: Option<Duration>,
        egress: Egress,
    ) -> Result<Answered<ReplacedBody<AnswerBody>>, HttpError> {
        let outgoing = Outgoing::read(request, grant)?;
        let client = self.client(topic, grant);
        self.run(async move { client.open(outgoing, rest, between, egress).await }).await?
    }

    /// On the runner's runtime. Only one that is shutting down ends it early.
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, HttpError> {
        let runtime = self.0.runtime.clone().unwrap_or_else(Handle::current);
        let ended = |_| HttpError::Unreachable("the runner is shutting down".to_owned());
        AbortOnDropHandle::new(runtime.spawn(work)).await.map_err(ended)
    }

    /// The topic's client; a new one if the grant is another than before, which closes what the old one kept open.
    fn client(&self, topic: &TopicId, grant: &Arc<HttpGrant>) -> Arc<Client> {
        let mut clients = self.0.clients.lock();
        if let Some(client) = clients.get(topic).filter(|client| client.has_grant(grant)) {
            return Arc::clone(client);
        }
        clients.retain(|_, client| !client.is_idle_and_empty());
        let Inner { resolver, trust, .. } = &*self.0;
        let client = Arc::new(Client::new(topic.clone(), Arc::clone(grant), resolver.clone(), trust.clone()));
        clients.insert(topic.clone(), Arc::clone(&client));
        client
    }
}
