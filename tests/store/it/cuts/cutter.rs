//! Counts the commands to Redis, and ends the connection before or after one of them.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use gristmill_store_tests::proxy::Proxy;
use gristmill_test_servers::redis::Redis;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};

/// Where a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The command does not reach Redis.
    Before(u64),
    /// Redis carries the command out, and its reply is lost.
    After(u64),
}

/// What was seen since the count began.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) commands: u64,
    /// The texts of the scripts that Redis was taught. The store teaches a script before it first calls it.
    pub(super) taught: BTreeSet<String>,
    /// Whether a connection was cut.
    pub(super) was_cut: bool,
    cut: Option<Cut>,
}

/// A proxy that passes on one command at a time, with its reply, so that the place of a cut is exact.
#[derive(Debug)]
pub(super) struct Cutter {
    pub(super) proxy: Proxy,
    seen: Arc<Mutex<Seen>>,
}

impl Cutter {
    pub(super) async fn start(redis: &Redis) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let all = Arc::clone(&seen);
        Self { proxy: Proxy::start(redis, move |client, server| pass(client, server, Arc::clone(&all))).await, seen }
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
async fn pass(client: TcpStream, server: UnixStream, seen: Arc<Mutex<Seen>>) -> io::Result<()> {
    let (mut client, mut server) = (BufReader::new(client), BufReader::new(server));
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
    if let Some(script) = command.strip_prefix(b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n") {
        seen.taught.insert(String::from_utf8_lossy(script).into_owned());
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
