//! Takes connections and serves them, in bounded number: an idle client never keeps another one out.
//!
//! A connection is *busy* from the end of a request's head to the end of its answer, and *idle* otherwise: before its first
//! request, between two, and for as long as it takes to send a head. If there are too many, the one that has been idle for
//! the longest is closed. Busy ones are never closed for another's sake; they are bounded by their time, by
//! [`HttpLimits::waits`], and by [`HttpLimits::write_time`] if their clients do not read. An address other than loopback has
//! half of the connections at most. If all are busy, a small reserve still answers health checks.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::limits::HttpLimits;
use crate::limits::pace::{Pace, Pacer};
use crate::problem::{Code, Problem};
use crate::serve::connections::{Connection, ConnectionLimiter};
use crate::serve::delivery_tracker::{ClientStream, TrackedStream};
use crate::serve::tls::Tls;
use crate::serve::unread_body::UnreadBody;
use gristmill_metrics::Metrics;

/// Bytes of a request's head after which no more is read. What came with them is still taken, so that a head of up to 64 KiB
/// may pass; longer ones are answered 431.
const HEAD_BYTES: usize = 32 << 10;
/// Header lines of a request. More are answered 431.
const HEADERS: usize = 100;
/// How long a connection of the reserve may take, its request and its answer included.
const RESERVE_TIME: Duration = Duration::from_secs(10);
/// How long a client may be silent before the system asks whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Bytes on their way between a client and a server in one process, in each direction.
const PIPE_BYTES: usize = 64 << 10;
/// How long to leave the system alone that has no connection to give, or no file for it.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What answers on connections, and what these share.
#[derive(Clone)]
pub(crate) struct HttpService {
    router: Router,
    limits: HttpLimits,
    limiter: ConnectionLimiter,
    pacer: Pacer,
    stop: CancellationToken,
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}

impl HttpService {
    pub(crate) fn new(router: Router, limits: HttpLimits, pacer: Pacer, stop: CancellationToken) -> Self {
        Self { router, limits, limiter: ConnectionLimiter::new(limits.connections), pacer, stop }
    }

    /// Serves until `stop`, and then until the requests that have begun are answered. Dropped, it cuts them off.
    pub(crate) async fn listen(self, listener: TcpListener, tls: Option<Arc<Tls>>, metrics: Arc<Metrics>) {
        let mut connections = JoinSet::new();
        loop {
            let (stream, peer) = tokio::select! {
                () = self.stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&listener, &self.limiter) => accepted,
            };
            let connection = tokio::select! {
                () = self.stop.cancelled() => break,
                connection = self.limiter.connection(peer.ip()) => connection,
            };
            // The address has as many as it may: its client sees that the connection is closed.
            let Some(connection) = connection else { continue };
            let counted = metrics.requests().connect();
            let pace = self.pacer.connection(peer.ip());
            let peer = Peer { address: peer, pace: pace.clone() };
            let connection = serve(stream, peer, self.clone(), tls.clone(), connection);
            connections.spawn(async move {
                pace.run(connection).await;
                drop(counted);
            });
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// A connection of this process, as from loopback, without a listener.
    ///
    /// # Errors
    /// There are as many as there may be.
    pub(crate) async fn connect(&self) -> io::Result<DuplexStream> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let connection = self.limiter.connection(address.ip()).await;
        let connection = connection.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset))?;
        let (service, pace) = (self.clone(), self.pacer.connection(address.ip()));
        let (here, there) = tokio::io::duplex(PIPE_BYTES);
        let peer = Peer { address, pace: pace.clone() };
        tokio::spawn(async move { pace.run(speak_http(there, peer, service, connection)).await });
        Ok(here)
    }
}

/// The other side of a connection.
struct Peer {
    address: SocketAddr,
    pace: Pace,
}

/// The next connection. Cancel-safe.
async fn accept(listener: &TcpListener, limiter: &ConnectionLimiter) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // It was gone before it was here.
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken: closing the one that has been idle for the longest");
                limiter.close_one(None);
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }
}

/// The answer on a connection of the reserve.
fn full() -> Problem {
    Problem::new(Code::Busy, "the server has as many connections as it takes, and only answers whether it is alive")
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// One connection, from its beginning to its end. Whatever is to be spoken below HTTP is spoken here first.
async fn serve(
    stream: TcpStream,
    peer: Peer,
    service: HttpService,
    tls: Option<Arc<Tls>>,
    connection: Arc<Connection>,
) {
    // Answers are written whole; to hold back their ends is of no use. Best effort.
    stream.set_nodelay(true).ok();
    detect_dead_clients(&stream, service.limits.write_time).ok();
    let Some(tls) = tls else { return speak_http(stream, peer, service, connection).await };
    let spoken = tokio::select! {
        spoken = tls.accept(stream) => spoken,
        () = service.stop.cancelled() => return,
        () = connection.asked_to_leave() => return,
    };
    match spoken {
        Ok(stream) => speak_http(stream, peer, service, connection).await,
        Err(error) => tracing::debug!(peer = %peer.address, %error, "no TLS"),
    }
}

/// Lets the system end a connection whose client is gone without a word, and one whose client acknowledges nothing.
fn detect_dead_clients(stream: &TcpStream, write_time: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE / 4))?;
    socket.set_tcp_user_timeout(Some(write_time))
}

async fn speak_http<S: ClientStream>(stream: S, peer: Peer, service: HttpService, client: Arc<Connection>) {
    let HttpService { router, limits, stop, .. } = service;
    let (stream, delivery_tracker) = TrackedStream::new(stream, limits.write_time);
    let (router, at) = (TowerToHyperService::new(router), Arc::clone(&client));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = Connection::begin(&at);
        let is_refused = at.is_reserve() && !matches!(request.uri().path(), "/healthz" | "/readyz");
        request.extensions_mut().insert(ConnectInfo(peer.address));
        request.extensions_mut().insert(peer.pace.clone());
        request.extensions_mut().insert(delivery_tracker.clone());
        let answer = router.call(UnreadBody::of(request));
        let (closes, pace) = (at.is_reserve(), peer.pace.clone());
        async move {
            // The client may have sent a thousand requests at once: other connections have their turn between two of them.
            tokio::task::yield_now().await;
            let mut response = if is_refused { full().into_response() } else { answer.await? };
            pace.hold_refusal(response.status()).await;
            if closes {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| busy.until_sent(body)))
        }
    });
    let mut settings = http1::Builder::new();
    settings.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
    settings.max_buf_size(HEAD_BYTES).max_headers(HEADERS);
    let mut connection = pin!(settings.serve_connection(TokioIo::new(stream), service));
    let time_is_up = async {
        match client.is_reserve() {
            true => tokio::time::sleep(RESERVE_TIME).await,
            false => std::future::pending().await,
        }
    };
    // How it ended is the client's business.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
        () = client.asked_to_leave() => {}
        () = time_is_up => return,
    }
    if client.is_busy() {
        connection.as_mut().graceful_shutdown();
        drop(connection.await);
    }
}
