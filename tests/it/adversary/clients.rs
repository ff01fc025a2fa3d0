//! Hostile clients, with a token of one tenant or none.

use std::sync::Arc;
use std::time::Duration;

use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::target::Target;
use super::{is_chosen, length, print_heading, print_row, probe};

const MANIFEST: &str = r#"
    [tenants.honest.topics.echo]
    [tenants.evil.topics.echo]
    [tenants.evil.topics.sink]
    handler = "nobody"
    payload-limit = "1KiB"
"#;

/// What a client does, again and again, on several connections at once.
#[derive(Debug, Clone, Copy)]
enum Attack {
    /// Opens a connection and sends nothing.
    Silence,
    /// Sends a head, byte by byte, that does not end.
    SlowHead,
    /// Sends a body byte by byte, with a token that allows nothing.
    SlowBodyWithoutScope,
    /// The same with a token that may push.
    SlowBody,
    /// Sends many requests at once, with bodies, and reads no answer.
    UnreadPipeline,
    /// Sends a body that is over the topic's limit.
    OversizedBody,
    /// Sends a request and closes its sending side; then reads nothing.
    HalfClose,
    /// Opens a connection and closes it.
    ConnectAndClose,
    /// Asks with a token that does not exist.
    WrongToken,
    /// Asks with a token that allows nothing.
    NoScope,
    /// Asks with a query of sixty kilobytes.
    HugeQuery,
    /// Reads a long list a few bytes at a time.
    SlowReading,
    /// Opens a stream of events and reads nothing.
    UnreadStream,
    /// Waits for a job that does not end.
    EndlessWait,
    /// Pushes jobs as fast as they are taken.
    PushFlood,
    /// Pushes jobs to topics that do not exist yet.
    NewTopics,
    /// Reads a long list as fast as it comes.
    ListFlood,
}

/// Each with the number of its connections.
const ATTACKS: [(Attack, usize); 17] = [
    (Attack::Silence, 300),
    (Attack::SlowHead, 200),
    (Attack::SlowBodyWithoutScope, 64),
    (Attack::SlowBody, 64),
    (Attack::UnreadPipeline, 64),
    (Attack::OversizedBody, 4),
    (Attack::HalfClose, 32),
    (Attack::ConnectAndClose, 8),
    (Attack::WrongToken, 8),
    (Attack::NoScope, 8),
    (Attack::HugeQuery, 8),
    (Attack::SlowReading, 32),
    (Attack::UnreadStream, 150),
    (Attack::EndlessWait, 500),
    (Attack::PushFlood, 8),
    (Attack::NewTopics, 4),
    (Attack::ListFlood, 4),
];

/// All connections of an attack together are opened again at most so often in a second.
const ATTEMPTS: f64 = 400.0;
/// Between two reads of a few bytes.
const PAUSE: Duration = Duration::from_millis(20);

struct Clients {
    anonymous: HttpClient,
    scopeless: HttpClient,
    full: HttpClient,
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_jobs_are_done_beside_every_kind_of_hostile_client() {
    let mut target = Target::start(MANIFEST, &[("echo", guests::ECHO)]).await;
    let honest = target.client("honest", &["push", "read"]).await;
    let clients = Arc::new(Clients {
        anonymous: HttpClient::new(honest.address),
        scopeless: target.client("evil", &[]).await,
        full: target.client("evil", &["push", "work", "read", "admin"]).await,
    });
    fill(&clients.full).await;
    let alone = probe::measure(&honest, length() * 5).await;
    print_heading();
    // Attackers have machines of their own, as far as there is one: here, threads on which no honest client waits for its turn.
    let elsewhere = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (attack, connections) in ATTACKS {
        let name = format!("{connections} × {attack:?}");
        if !is_chosen(&name) {
            continue;
        }
        let mut attackers = JoinSet::new();
        for _ in 0..connections {
            let pause = Duration::from_secs_f64(connections as f64 / ATTEMPTS);
            attackers.spawn_on(repeat(attack, pause, Arc::clone(&clients)), elsewhere.handle());
        }
        let during = probe::measure(&honest, length()).await;
        attackers.shutdown().await;
        print_row(&name, alone, during);
        target.assert_unharmed();
    }
    elsewhere.shutdown_background();
}

/// Jobs that wait for ever: something to list, and something to wait for.
async fn fill(client: &HttpClient) {
    let jobs: Vec<_> = (0..1000).map(|_| json!({ "body": "x".repeat(500) })).collect();
    let pushed = client.post("/v1/tenants/evil/topics/sink/jobs", &json!({ "jobs": jobs })).await;
    assert_eq!(pushed.status, 201, "{}", pushed.text());
    let pushed = client.post("/v1/tenants/evil/topics/sink/jobs", &json!({ "id": "waits" })).await;
    assert_eq!(pushed.status, 201, "{}", pushed.text());
}

async fn repeat(attack: Attack, pause: Duration, clients: Arc<Clients>) {
    let mut tick = interval(pause);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        // A connection that the server ends is what an attacker must expect.
        drop(once(attack, &clients).await);
    }
}

async fn once(attack: Attack, clients: &Clients) -> std::io::Result<()> {
    let full = &clients.full;
    match attack {
        Attack::Silence => until_closed(connect(full).await?).await,
        Attack::SlowHead => trickle(connect(full).await?, "GET /v1 HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await,
        Attack::SlowBodyWithoutScope => trickle(connect(full).await?, &push(&clients.scopeless, 1000)).await,
        Attack::SlowBody => trickle(connect(full).await?, &push(full, 1000)).await,
        Attack::UnreadPipeline => {
            let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
            unread(full, &request.repeat(1000)).await
        }
        Attack::OversizedBody => {
            let mut stream = connect(full).await?;
            let body = vec![b'x'; 8 << 20];
            stream.write_all(push(full, body.len()).as_bytes()).await?;
            stream.write_all(&body).await
        }
        Attack::HalfClose => {
            let mut stream = connect(full).await?;
            stream.write_all(get(full, "/v1/tenants/evil/topics/sink/jobs?state=ready&limit=1000").as_bytes()).await?;
            stream.shutdown().await?;
            std::future::pending().await
        }
        Attack::ConnectAndClose => connect(full).await.map(drop),
        Attack::WrongToken => {
            let guess = format!("gm_{:043}", fastrand::u64(..));
            ask(&clients.anonymous.with_token(&guess), "/v1/tenants/honest/topics").await
        }
        Attack::NoScope => ask(&clients.scopeless, "/v1/tenants/evil/topics").await,
        Attack::HugeQuery => ask(full, &format!("/v1/tenants/evil/topics?x={}", "y".repeat(60_000))).await,
        Attack::SlowReading => {
            let mut stream = narrow(full).await?;
            stream.write_all(get(full, "/v1/tenants/evil/topics/sink/jobs?state=ready&limit=1000").as_bytes()).await?;
            let mut tick = interval(PAUSE);
            while stream.read(&mut [0; 16]).await? > 0 {
                tick.tick().await;
            }
            Ok(())
        }
        Attack::UnreadStream => unread(full, &get(full, "/v1/tenants/evil/events")).await,
        Attack::EndlessWait => ask(full, "/v1/tenants/evil/jobs/waits?wait_ms=60000").await,
        Attack::PushFlood => post_many(full, |_| "/v1/tenants/evil/topics/echo/jobs".into()).await,
        Attack::NewTopics => post_many(full, |n| format!("/v1/tenants/evil/topics/new-{n}/jobs")).await,
        Attack::ListFlood => ask(full, "/v1/tenants/evil/topics/sink/jobs?state=ready&limit=1000").await,
    }
}

async fn connect(client: &HttpClient) -> std::io::Result<TcpStream> {
    TcpStream::connect(client.address).await
}

/// A connection that takes few bytes from the server before they are read.
async fn narrow(client: &HttpClient) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(2048)?;
    socket.connect(client.address).await
}

fn head(client: &HttpClient, request: &str) -> String {
    let token = client.token.as_deref().unwrap_or_default();
    format!("{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n")
}

fn get(client: &HttpClient, path: &str) -> String {
    head(client, &format!("GET {path}")) + "\r\n"
}

/// The head of a push with a body of so many bytes.
fn push(client: &HttpClient, bytes: usize) -> String {
    let head = head(client, "POST /v1/tenants/evil/topics/sink/jobs");
    format!("{head}Content-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\r\n")
}

async fn ask(client: &HttpClient, path: &str) -> std::io::Result<()> {
    let mut stream = connect(client).await?;
    stream.write_all((head(client, &format!("GET {path}")) + "Connection: close\r\n\r\n").as_bytes()).await?;
    until_closed(stream).await
}

async fn post_many(client: &HttpClient, path: impl Fn(u64) -> String) -> std::io::Result<()> {
    let mut stream = connect(client).await?;
    let head = head(client, &format!("POST {}", path(fastrand::u64(..))));
    let body = "{\"body\": 1}";
    let rest = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(format!("{head}Connection: close\r\n{rest}").as_bytes()).await?;
    until_closed(stream).await
}

/// Reads whatever comes.
async fn until_closed(mut stream: TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 4096]).await? > 0 {}
    Ok(())
}

/// Sends the beginning, and then a byte at a time.
async fn trickle(mut stream: TcpStream, beginning: &str) -> std::io::Result<()> {
    stream.write_all(beginning.as_bytes()).await?;
    let mut tick = interval(Duration::from_millis(100));
    loop {
        tick.tick().await;
        stream.write_all(b"x").await?;
    }
}

/// Sends the request for as long as it is taken, and reads nothing.
async fn unread(client: &HttpClient, request: &str) -> std::io::Result<()> {
    let mut stream = narrow(client).await?;
    stream.write_all(request.as_bytes()).await?;
    loop {
        stream.write_all(request.as_bytes()).await?;
    }
}
