//! A server that says exactly what a test prescribes, right or wrong.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// What a server does once it has read a request.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text(String),
    /// Again and again, until the other side hangs up; with a pause too short to notice.
    Endless(&'static str),
    /// Nothing more, until the other side hangs up.
    Hang,
    Close,
}

/// Listens on a port of its own until it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    /// Each request as it came, its connection's number before it.
    seen: Arc<Mutex<Vec<(usize, String)>>>,
    /// Connections that the other side has ended.
    hung_up: watch::Receiver<usize>,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    /// `answer` gets each request's head and body as text.
    pub(super) async fn start(answer: impl Fn(&str) -> Vec<Piece> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (ended, hung_up) = watch::channel(0);
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        let task = tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (log, answer, ended) = (Arc::clone(&log), Arc::clone(&answer), ended.clone());
                tokio::spawn(async move {
                    if serve(stream, number, &log, &*answer).await.is_none() {
                        ended.send_modify(|count| *count += 1);
                    }
                });
            }
        });
        Self { address, seen, hung_up, _task: AbortOnDropHandle::new(task) }
    }

    /// The same answer to everything.
    pub(super) async fn saying(text: &str) -> Self {
        let text = text.to_owned();
        Self::start(move |_| vec![Piece::Text(text.clone())]).await
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// By a name that resolves as the test likes.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://server.example:{}{path}", self.port())
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().iter().map(|(_, request)| request.clone()).collect()
    }

    /// The connection that each request came on.
    pub(super) fn connections(&self) -> Vec<usize> {
        self.seen.lock().iter().map(|(number, _)| *number).collect()
    }

    /// Waits until so many requests have come.
    pub(super) async fn until_seen(&self, count: usize) {
        let waiting = async {
            while self.requests().len() < count {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(super::PATIENCE, waiting).await.expect("no request came");
    }

    /// Waits until the other side has ended so many connections.
    pub(super) async fn until_hung_up(&mut self, count: usize) {
        let waiting = self.hung_up.wait_for(|ended| *ended >= count);
        tokio::time::timeout(super::PATIENCE, waiting).await.expect("the client closed nothing").unwrap();
    }
}

pub(super) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// None: the other side hung up.
async fn serve(
    mut stream: TcpStream,
    number: usize,
    seen: &Mutex<Vec<(usize, String)>>,
    answer: &(impl Fn(&str) -> Vec<Piece> + Sync),
) -> Option<()> {
    loop {
        let request = read(&mut stream).await?;
        seen.lock().push((number, request.clone()));
        for piece in answer(&request) {
            match piece {
                Piece::Text(text) => stream.write_all(text.as_bytes()).await.ok()?,
                Piece::Endless(text) => loop {
                    stream.write_all(text.as_bytes()).await.ok()?;
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                },
                Piece::Hang => while stream.read(&mut [0; 64]).await.ok()? > 0 {},
                Piece::Close => return Some(()),
            }
        }
    }
}

/// One request with its body.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            let is_chunked = head.contains("transfer-encoding: chunked");
            if if is_chunked { body.ends_with("0\r\n\r\n") } else { body.len() >= length } {
                return Some(text.into_owned());
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await.ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
