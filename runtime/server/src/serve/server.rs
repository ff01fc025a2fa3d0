//! The server: its listeners and its router, from its start to its end.

use std::future::ready;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::Uri;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::decompression::RequestDecompressionLayer;

use super::authenticate::authenticate;
use super::known_paths::KnownPaths;
use super::measure::measure;
use super::request_id::name_request;
use crate::api::{
    attempts, audit, bill, bulk, components, dead, deployments, health, history, job, jobs, list, me, metrics, moves,
    openapi, push, schedules, states, tenant_limits, tokens, topics, uniques, workers,
};
use crate::audit::Recorder;
use crate::auth::{Auth, origin};
use crate::limits::HttpLimits;
use crate::limits::requests::in_time;
use crate::openapi::Route;
use crate::routes::Routes;
use crate::serve::accept::HttpService;
use crate::serve::tls::Tls;
use crate::settings::HttpServerSettings;
use crate::state::AppState;
use crate::stream::{events, signals};
use crate::{RemoteStore, lmstfy, page, pull};
use gristmill_core::token::TokenText;
use gristmill_metrics::Metrics;
use gristmill_runner::{Broken, Tasks};
use gristmill_store::{ServerName, Store, StoreError, Timed};

/// The most that a request may bring, if its route does not say otherwise.
const BODY_BYTES: usize = 1 << 20;
/// The longest answer that is compressed.
const COMPRESSED_BYTES: u64 = 1 << 20;
/// How long requests that have begun may go on after the end of the server.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// A server at work. Dropped without [`HttpServer::shutdown`], it is gone at once.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    commands: SocketAddr,
    secret: TokenText,
    lmstfy_admin: Option<SocketAddr>,
    state: AppState,
    recorder: Arc<Recorder>,
    serving: Tasks,
}

/// The server does not begin.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum OpenError {
    #[error("the system has no randomness to give")]
    Randomness(#[from] getrandom::Error),
    #[error("no listener for the server")]
    Listen(#[from] io::Error),
    #[error("failed to listen on {address}: name another `admin` in [lmstfy], or end the program that listens there")]
    LmstfyAdmin {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("failed to read [http.tls]")]
    Tls(#[source] anyhow::Error),
}

impl HttpServer {
    /// Begins to answer for the store, which people know as `store_name`. Where the settings mean TLS, there is a second, plain
    /// listener on loopback for commands, which know no name that a certificate could be for.
    ///
    /// # Errors
    /// The listener does not know its own address, the system has no randomness to give, the certificate or its key cannot be
    /// used, there is no port for commands or for lmstfy's admin API, or the store is unavailable.
    pub async fn start(
        listener: TcpListener,
        store: Arc<dyn Store>,
        store_name: &str,
        settings: &HttpServerSettings,
    ) -> Result<Self, OpenError> {
        let address = listener.local_addr()?;
        let for_commands = match &settings.tls {
            Some(_) => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?),
            None => None,
        };
        let commands = for_commands.as_ref().map_or(Ok(reachable(address)), TcpListener::local_addr)?;
        let admin = match settings.lmstfy.admin {
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                Some(bound.map_err(|source| OpenError::LmstfyAdmin { address, source })?)
            }
            None => None,
        };
        let lmstfy_admin = admin.as_ref().map(TcpListener::local_addr).transpose()?;
        let tls = settings.tls.clone().map(Tls::load).transpose().map_err(OpenError::Tls)?.map(Arc::new);
        let (server, router, lmstfy) = Self::begin(address, store, store_name, settings).await?;
        let mut server = Self { commands, lmstfy_admin, ..server };
        if let Some(listener) = admin {
            let admin = lmstfy::admin(lmstfy, settings.lmstfy.accounts.clone());
            let router = admin.layer(middleware::from_fn_with_state(server.recorder.clone(), record));
            server.serve(listener, router, settings.limits.for_few(), tls.clone());
        }
        if let Some(listener) = for_commands {
            server.serve(listener, router.clone(), settings.limits.for_few(), None);
        }
        server.serve(listener, router, settings.limits, tls);
        Ok(server)
    }

    /// A server for this process alone, without a listener, and its client: for a command whose store no other process has.
    ///
    /// # Errors
    /// The system has no randomness to give, or the store is unavailable.
    pub async fn inside(
        store: Arc<dyn Store>,
        store_name: &str,
        settings: &HttpServerSettings,
    ) -> Result<(Self, RemoteStore), OpenError> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (server, router, _) = Self::begin(nowhere, store, store_name, settings).await?;
        let client = RemoteStore::inside(server.service(router, settings.limits), server.secret.clone()).await?;
        Ok((server, client))
    }

    /// What answers, before anything is listened to.
    async fn begin(
        address: SocketAddr,
        store: Arc<dyn Store>,
        store_name: &str,
        settings: &HttpServerSettings,
    ) -> Result<(Self, Router, lmstfy::Api), OpenError> {
        let (secret, mut instance) = (TokenText::generate()?, [0; 16]);
        getrandom::fill(&mut instance)?;
        let name = ServerName { store: store.store_id().await?, instance: hex::encode(instance) };
        let store = Arc::new(Timed::announcing(store, settings.metrics.clone(), settings.bill.clone()));
        let auth = Auth::new(store.clone(), secret.hash(), address.ip().is_loopback(), settings);
        let state = AppState::new(store, (store_name, name), auth, settings);
        let lmstfy = lmstfy::Api::new(state.clone(), settings.lmstfy.enabled);
        let serving = Tasks::default();
        let recorder = Recorder::new(settings.audit.clone(), state.actions.clone(), &settings.metrics);
        let router = router(state.clone(), lmstfy.clone(), &recorder);
        let mut server = Self { address, commands: address, lmstfy_admin: None, secret, state, recorder, serving };
        server.serving.spawn("token cache", server.state.auth.token_cache.clone().listen(server.state.stop.clone()));
        server.serving.spawn("bulk actions", crate::bulk::run(server.state.clone()));
        let state = server.state.clone();
        let minutes = async move { state.minutes.run(&*state.store, state.stop.clone()).await };
        server.serving.spawn("minutes", minutes);
        Ok((server, router, lmstfy))
    }

    fn serve(&mut self, listener: TcpListener, router: Router, limits: HttpLimits, tls: Option<Arc<Tls>>) {
        let (service, metrics) = (self.service(router, limits), self.state.metrics.clone());
        self.serving.spawn("accept", service.listen(listener, tls, metrics));
    }

    fn service(&self, router: Router, limits: HttpLimits) -> HttpService {
        HttpService::new(router, limits, self.state.pacer.clone(), self.state.stop.clone())
    }

    /// Where it listens, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where commands of this machine come in, by plain HTTP.
    pub fn address_for_commands(&self) -> SocketAddr {
        self.commands
    }

    /// The token for commands of this machine, which can read the file that it is written to. It ends with the server.
    pub fn secret(&self) -> &str {
        self.secret.as_str()
    }

    /// Which server this is, and of which store.
    pub fn name(&self) -> &ServerName {
        &self.state.server
    }

    /// Where lmstfy's admin API answers, if the settings want one.
    pub fn lmstfy_admin_address(&self) -> Option<SocketAddr> {
        self.lmstfy_admin
    }

    /// Waits until a task of the server has ended without being stopped, and returns which. Cancel-safe.
    pub async fn broken(&mut self) -> Broken {
        self.serving.broken().await
    }

    /// Ends: no new requests; streams end now, what else has begun within two seconds. The store is let go of.
    pub async fn shutdown(mut self) {
        self.state.stop.cancel();
        if tokio::time::timeout(LAST_REQUESTS, self.serving.end()).await.is_err() {
            tracing::warn!("some requests were still going on at the end of the server: they are cut off");
            self.serving.abort().await;
        }
    }
}

/// Where a listener on all addresses is to be found from this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if !ip.is_unspecified() => address,
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
    }
}

/// All routes of the API, with what each asks of a token. Those of lmstfy's API are not among them.
pub fn routes() -> Vec<Route> {
    api(HttpLimits::default().request_time).into_parts().1
}

fn router(state: AppState, lmstfy: lmstfy::Api, recorder: &Arc<Recorder>) -> Router {
    let (api, routes) = api(state.request_limiter.time()).into_parts();
    let paths = Arc::new(KnownPaths::of(&routes));
    let methods = Arc::clone(&paths);
    api.merge(page::routes(&state.page))
        .fallback(move |uri: Uri| ready(paths.unknown(uri.path())))
        .method_not_allowed_fallback(move |request: Request| ready(methods.not_allowed(&request)))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        // The limits are on what comes out of a compressed body.
        .layer(RequestDecompressionLayer::new().pass_through_unaccepted(true))
        .layer(CompressionLayer::new().compress_when(worth_compressing()))
        .layer(middleware::from_fn_with_state(state.clone(), admit))
        // With words, limits and waits of its own.
        .nest("/api", lmstfy::routes(lmstfy))
        .layer(middleware::from_fn_with_state((recorder.clone(), state.metrics.clone()), observe))
        .with_state(state)
}

/// Counts and records every request, also one that is refused.
///
/// Its steps are calls, and not a layer each: axum clones, for each request, everything inside each layer.
async fn observe(
    State((recorder, metrics)): State<(Arc<Recorder>, Arc<Metrics>)>,
    request: Request,
    next: Next,
) -> Response {
    recorder.record(request, async |request| measure(&metrics, request, next).await).await
}

async fn record(State(recorder): State<Arc<Recorder>>, request: Request, next: Next) -> Response {
    recorder.record(request, async |request| next.run(request).await).await
}

/// Names a request to our own API, refuses it if a page of another site may have sent it, and identifies its client.
async fn admit(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let answer = async |mut request: Request| match origin::check(&mut request) {
        Ok(()) => authenticate(state, request, next).await,
        Err(problem) => problem.into_response(),
    };
    name_request(request, answer).await
}

/// `time`: of a request that does not wait.
fn api(time: Duration) -> Routes {
    let api = me::routes()
        .merge(jobs::routes())
        .merge(list::routes())
        .merge(topics::routes())
        .merge(dead::routes())
        .merge(bulk::routes())
        .merge(schedules::routes())
        .merge(bill::routes())
        .merge(attempts::routes())
        .merge(audit::routes())
        .merge(tenant_limits::routes())
        .merge(history::routes())
        .merge(states::routes())
        .merge(uniques::routes())
        .merge(moves::routes())
        .merge(signals::routes())
        .merge(tokens::routes())
        .merge(openapi::routes())
        .merge(workers::routes())
        .merge(events::routes())
        .merge(metrics::tenant_routes())
        .merge(pull::routes())
        .merge(push::routes())
        .merge(job::routes())
        .merge(components::routes())
        .merge(deployments::routes());
    let time = time + pull::LONGEST_WAIT;
    let claims = pull::waiting_routes().layered(|router| router.layer(middleware::from_fn_with_state(time, in_time)));
    api.merge(claims).nested("/v1").merge(health::routes()).merge(metrics::routes())
}

/// Lines and events must leave one by one, and what is short is not worth it. What is long would keep a thread of the server
/// from other requests.
fn worth_compressing() -> impl Predicate {
    SizeAbove::new(1024)
        .and(SizeAtMost(COMPRESSED_BYTES))
        .and(NotForContentType::const_new("text/event-stream"))
        .and(NotForContentType::const_new("application/x-ndjson"))
}

/// Answers of at most this many bytes, and those whose size is not known.
#[derive(Debug, Clone, Copy)]
struct SizeAtMost(u64);

impl Predicate for SizeAtMost {
    fn should_compress<B: hyper::body::Body>(&self, response: &Response<B>) -> bool {
        response.body().size_hint().exact().is_none_or(|bytes| bytes <= self.0)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn long_and_short_answers_are_not_compressed() {
        for (bytes, compressed) in [(1000, false), (1100, true), (1 << 20, true), ((1 << 20) + 1, false)] {
            let answer = Response::new(Body::from(vec![b'x'; bytes]));
            assert_eq!(worth_compressing().should_compress(&answer), compressed, "{bytes}");
        }
    }
}
