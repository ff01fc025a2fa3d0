//! Takes connections and serves them, in bounded number: who only sits there never keeps another one out.
//!
//! A connection is *busy* from the end of a request's head to the end of its answer, and *idle* otherwise: before its first
//! request, between two, and for as long as it takes to send a head. If there are too many, the one that has been idle for
//! the longest is closed. Busy ones are never closed for another's sake; they are bounded by their time and by
//! [`HttpLimits::waits`].

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::limits::HttpLimits;
use crate::serve::connections::{Connection, ConnectionLimiter};
use crate::serve::delivery_tracker::{ClientStream, TrackedStream};
use crate::serve::tls::Tls;
use gristmill_metrics::Metrics;

/// Bytes of a request's head after which no more is read. What came with them is still taken, so that a head of up to 64 KiB
/// may pass; longer ones are answered 431.
const HEAD_BYTES: usize = 32 << 10;
/// Header lines of a request. More are answered 431.
const HEADERS: usize = 100;
/// How long to leave the system alone that has no connection to give, or no file for it.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Serves until `stop`, and then until the requests that have begun are answered. Dropped, it cuts them off.
pub(crate) async fn run(
    listener: TcpListener,
    router: Router,
    limits: HttpLimits,
    tls: Option<Arc<Tls>>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let limiter = ConnectionLimiter::new(limits.connections);
    let mut connections = JoinSet::new();
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &limiter) => accepted,
        };
        let connection = tokio::select! {
            () = stop.cancelled() => break,
            connection = limiter.connection() => connection,
        };
        let counted = metrics.requests().connect();
        let connection = serve(stream, peer, router.clone(), limits, tls.clone(), connection, stop.clone());
        connections.spawn(async move {
            connection.await;
            drop(counted);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
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
                limiter.close_one();
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// One connection, from its beginning to its end. Whatever is to be spoken below HTTP is spoken here first.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: HttpLimits,
    tls: Option<Arc<Tls>>,
    connection: Arc<Connection>,
    stop: CancellationToken,
) {
    // Answers are written whole; to hold back their ends helps nobody. Best effort.
    stream.set_nodelay(true).ok();
    let Some(tls) = tls else { return speak_http(stream, peer, router, limits, connection, stop).await };
    let spoken = tokio::select! {
        spoken = tls.accept(stream) => spoken,
        () = stop.cancelled() => return,
        () = connection.asked_to_leave() => return,
    };
    match spoken {
        Ok(stream) => speak_http(stream, peer, router, limits, connection, stop).await,
        Err(error) => tracing::debug!(%peer, %error, "no TLS"),
    }
}

async fn speak_http<S>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    limits: HttpLimits,
    client: Arc<Connection>,
    stop: CancellationToken,
) where
    S: ClientStream,
{
    let (stream, delivery_tracker) = TrackedStream::new(stream);
    let (router, at) = (TowerToHyperService::new(router), Arc::clone(&client));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = Connection::begin(&at);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(delivery_tracker.clone());
        let answer = router.call(request);
        async move { Ok::<_, Infallible>(answer.await?.map(|body| busy.until_sent(body))) }
    });
    let mut settings = http1::Builder::new();
    settings.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
    settings.max_buf_size(HEAD_BYTES).max_headers(HEADERS);
    let mut connection = pin!(settings.serve_connection(TokioIo::new(stream), service));
    // How it ended is the client's business.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
        () = client.asked_to_leave() => {}
    }
    if client.is_busy() {
        connection.as_mut().graceful_shutdown();
        drop(connection.await);
    }
}
