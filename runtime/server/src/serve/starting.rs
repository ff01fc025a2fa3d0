//! What answers at the server's address while the store is not open yet.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::accept::HttpService;
use super::tls::Tls;
use crate::limits::pace::Pacer;
use crate::problem::{Code, Problem};
use crate::settings::HttpServerSettings;
use gristmill_config::Listen;

/// Most stores are open by then, and what asks before would only hold up the start.
const AFTER: Duration = Duration::from_secs(1);
/// How long requests that have begun may hold up the start.
const LAST_REQUESTS: Duration = Duration::from_millis(500);

/// Does `work`, which opens the store. If that takes more than a second, `/healthz` says meanwhile that the process lives, and every other path
/// that it is starting. Where nothing can listen, nothing answers: [`listen`](super::listen()) says why once the store is open. The address is free again when this returns,
/// or is dropped.
pub async fn while_starting<T>(listen: Listen, settings: &HttpServerSettings, work: impl Future<Output = T>) -> T {
    while_starting_after(AFTER, listen, settings, work).await
}

async fn while_starting_after<T>(
    after: Duration,
    listen: Listen,
    settings: &HttpServerSettings,
    work: impl Future<Output = T>,
) -> T {
    // Any free port is not known to anyone yet.
    let Some(address) = listen.address().filter(|address| address.port() != 0) else { return work.await };
    let stop = CancellationToken::new();
    let answering = async {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(after) => {}
        }
        answer(address, settings, &stop).await;
    };
    let working = async {
        let done = work.await;
        stop.cancel();
        done
    };
    tokio::join!(working, answering).0
}

/// Until `stop`.
async fn answer(address: SocketAddr, settings: &HttpServerSettings, stop: &CancellationToken) {
    let Ok(tls) = settings.tls.clone().map(Tls::load).transpose() else { return };
    let Ok(listener) = TcpListener::bind(address).await else { return };
    tracing::info!("the store is not open yet: /healthz answers on {address}, and all else waits for it");
    let serving = HttpService::new(router(), settings.limits.for_few(), Pacer::new(1), stop.clone());
    let serving = serving.listen(listener, tls.map(Arc::new), settings.metrics.clone());
    let over = async {
        stop.cancelled().await;
        sleep(LAST_REQUESTS).await;
    };
    tokio::select! {
        () = serving => {}
        () = over => {}
    }
}

fn router() -> Router {
    let starting = || Problem::new(Code::Starting, "the server's store is not open yet: its log says why");
    Router::new().route("/healthz", get("ok\n")).fallback(move |_: Request| ready(starting()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    async fn ask(address: SocketAddr, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        Some(answer)
    }

    #[tokio::test]
    async fn a_server_whose_store_is_not_open_lives_and_is_starting() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let (open, opened) = oneshot::channel();
        let settings = HttpServerSettings::default();
        let started = while_starting_after(Duration::ZERO, Listen::At(address), &settings, opened);
        let asking = async {
            let lives = loop {
                match ask(address, "/healthz").await {
                    Some(answer) => break answer,
                    None => tokio::task::yield_now().await,
                }
            };
            assert!(lives.starts_with("HTTP/1.1 200") && lives.ends_with("ok\n"), "{lives}");
            for path in ["/readyz", "/v1/me", "/"] {
                let answer = ask(address, path).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("store is not open"), "{path}: {answer}");
            }
            // A client that keeps its connection does not hold up the start.
            let kept = TcpStream::connect(address).await.unwrap();
            open.send(7).unwrap();
            kept
        };
        let (started, _kept) = timeout(Duration::from_secs(60), async { tokio::join!(started, asking) }).await.unwrap();
        assert_eq!(started, Ok(7));
        TcpListener::bind(address).await.unwrap();
    }
}
