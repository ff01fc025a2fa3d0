//! A server of a test's own, for handlers that send requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::wait::{SOON, until};

/// What is said to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A status such as `200 OK`, headers with a line end after each, and a body.
    Now(&'static str, &'static str, String),
    /// `200 OK`, once [`Server::release`] was called.
    Held,
    /// None: the connection ends.
    Lost,
    /// `200 OK` and the beginning of a body, whose end comes once [`Server::release`] was called.
    Begun,
}

/// Listens on 127.0.0.1 until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    requests: Mutex<Vec<String>>,
    /// Requests that wait for their answer now, and at most.
    held: AtomicUsize,
    held_at_most: AtomicUsize,
    /// Connections that the other side ended while it was to wait.
    given_up: AtomicUsize,
    released: watch::Sender<bool>,
}

impl Answer {
    pub fn ok(body: &str) -> Self {
        Self::Now("200 OK", "", body.into())
    }
}

impl Server {
    /// `answer` gets each request's head and body as text.
    pub async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            held: AtomicUsize::new(0),
            held_at_most: AtomicUsize::new(0),
            given_up: AtomicUsize::new(0),
            released: watch::Sender::new(false),
        });
        let (all, answer) = (Arc::clone(&shared), Arc::new(answer));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (shared, answer) = (Arc::clone(&all), Arc::clone(&answer));
                tokio::spawn(async move { shared.serve(stream, &*answer).await });
            }
        });
        Self { address, shared, _task: AbortOnDropHandle::new(task) }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// As they came, with their bodies.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().clone()
    }

    /// Waits until so many requests wait for their answer.
    pub async fn until_held(&self, count: usize) {
        let held = || self.shared.held.load(Ordering::Relaxed);
        until(format!("{count} requests"), SOON, async || (held() >= count).then_some(())).await;
    }

    /// The most requests that have waited at once.
    pub fn held_at_most(&self) -> usize {
        self.shared.held_at_most.load(Ordering::Relaxed)
    }

    /// Waits until the other side has hung up on so many answers.
    pub async fn until_given_up(&self, count: usize) {
        let given_up = || self.shared.given_up.load(Ordering::Relaxed);
        until(format!("{count} to hang up"), SOON, async || (given_up() >= count).then_some(())).await;
    }

    /// Answers what is held, and what will come.
    pub fn release(&self) {
        self.shared.released.send_replace(true);
    }
}

impl Shared {
    /// None: the other side hung up.
    async fn serve(&self, mut stream: TcpStream, answer: &(impl Fn(&str) -> Answer + Sync)) -> Option<()> {
        loop {
            let request = read(&mut stream).await?;
            let answer = answer(&request);
            self.requests.lock().push(request);
            let text = match answer {
                Answer::Now(status, headers, body) => written(status, headers, &body),
                Answer::Held => {
                    self.hold(&mut stream).await?;
                    written("200 OK", "", "at last")
                }
                Answer::Lost => return None,
                Answer::Begun => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nat ").await.ok()?;
                    self.hold(&mut stream).await?;
                    "long last".to_owned()
                }
            };
            stream.write_all(text.as_bytes()).await.ok()?;
        }
    }

    /// None: the other side hung up.
    async fn hold(&self, stream: &mut TcpStream) -> Option<()> {
        let held = self.held.fetch_add(1, Ordering::Relaxed) + 1;
        self.held_at_most.fetch_max(held, Ordering::Relaxed);
        let mut released = self.released.subscribe();
        let waited = tokio::select! {
            released = released.wait_for(|released| *released) => released.ok().map(drop),
            _ = stream.read_u8() => None,
        };
        self.held.fetch_sub(1, Ordering::Relaxed);
        if waited.is_none() {
            self.given_up.fetch_add(1, Ordering::Relaxed);
        }
        waited
    }
}

fn written(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// One request with its body; only the head of one whose body is in chunks and whose path is `/early`.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]);
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            let is_chunked =
                head.lines().any(|line| line == "transfer-encoding: chunked") && !head.contains(" /early ");
            if bytes.len() >= end + 4 + length && (!is_chunked || bytes.ends_with(b"\r\n0\r\n\r\n")) {
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        match stream.read_buf(&mut bytes).await.ok()? {
            0 => return None,
            _ => continue,
        }
    }
}
