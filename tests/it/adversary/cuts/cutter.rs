//! Stands between a store and its Redis, counts commands, and ends the connection before or after one of them.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::task::AbortOnDropHandle;

/// Where a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The command does not reach Redis.
    Before(u64),
    /// Redis carries the command out, and its reply is lost.
    After(u64),
}

/// What the proxy saw since it began to count.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) commands: u64,
    /// By their hashes.
    pub(super) scripts: BTreeSet<Vec<u8>>,
    /// Whether a connection was cut.
    pub(super) was_cut: bool,
    cut: Option<Cut>,
}

/// Passes on one command at a time, with its reply, so that the place of a cut is exact.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    pub(super) async fn start(redis: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let (all, redis) = (Arc::clone(&seen), redis.to_owned());
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(pass(client, redis.clone(), Arc::clone(&all)));
            }
        });
        Self { address, seen, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Counts from zero again, and cuts one connection.
    pub(super) fn cut(&self, cut: Option<Cut>) {
        *self.seen.lock() = Seen { cut, ..Seen::default() };
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }
}

/// Ends when either side does, or at the cut.
async fn pass(client: TcpStream, redis: PathBuf, seen: Arc<Mutex<Seen>>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    let mut server = BufReader::new(UnixStream::connect(redis).await?);
    loop {
        let command = read_value(&mut client).await?;
        let (number, cut) = count(&mut seen.lock(), &command);
        if cut == Some(Cut::Before(number)) {
            seen.lock().was_cut = true;
            return Ok(());
        }
        server.write_all(&command).await?;
        let reply = read_value(&mut server).await?;
        if cut == Some(Cut::After(number)) {
            seen.lock().was_cut = true;
            return Ok(());
        }
        client.write_all(&reply).await?;
    }
}

fn count(seen: &mut Seen, command: &[u8]) -> (u64, Option<Cut>) {
    seen.commands += 1;
    let mut words = command.split(|byte| *byte == b'\n').skip(2).step_by(2);
    if words.next().is_some_and(|name| name.trim_ascii().eq_ignore_ascii_case(b"evalsha")) {
        seen.scripts.extend(words.next().map(|hash| hash.trim_ascii().to_vec()));
    }
    (seen.commands, seen.cut)
}

/// One command or one reply, as it came.
async fn read_value(from: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut values = 1_u64;
    while values > 0 {
        let begin = bytes.len();
        if from.read_until(b'\n', &mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        values -= 1;
        let line = String::from_utf8_lossy(&bytes[begin..]).into_owned();
        // Nothing is written with a length of -1.
        let length = line[1..].trim_end().parse::<u64>().unwrap_or(0);
        match line.as_bytes()[0] {
            b'*' | b'~' | b'>' => values += length,
            b'%' => values += 2 * length,
            b'$' | b'=' | b'!' if !line.starts_with("$-") => {
                let end = bytes.len() + length as usize + 2;
                let begin = bytes.len();
                bytes.resize(end, 0);
                from.read_exact(&mut bytes[begin..]).await?;
            }
            _ => {}
        }
    }
    Ok(bytes)
}
