//! A connection that loses what is sent over it, without an end that either side could see.

use std::io;

use gristmill_tests::proxy::Proxy;
use gristmill_tests::redis::Redis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

/// What gets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    All,
    OnlyRequests,
    OnlyReplies,
    Nothing,
    /// There is no connection: each one ends at once.
    Closed,
}

impl Passes {
    fn has_requests(self) -> bool {
        matches!(self, Self::All | Self::OnlyRequests)
    }

    fn has_replies(self) -> bool {
        matches!(self, Self::All | Self::OnlyReplies)
    }
}

/// A proxy that passes everything on, until it is to pass less.
#[derive(Debug)]
pub(super) struct Wire {
    proxy: Proxy,
    passes: watch::Sender<Passes>,
}

impl Wire {
    pub(super) async fn start(redis: &Redis) -> Self {
        let passes = watch::Sender::new(Passes::All);
        let subscribed = passes.clone();
        let proxy = Proxy::start(redis, move |client, server| pass(client, server, subscribed.subscribe())).await;
        Self { proxy, passes }
    }

    pub(super) fn url(&self) -> String {
        self.proxy.url()
    }

    pub(super) fn set(&self, passes: Passes) {
        self.passes.send_replace(passes);
    }
}

/// Ends when either side does, or where there is to be no connection.
async fn pass(client: TcpStream, server: UnixStream, mut passes: watch::Receiver<Passes>) -> io::Result<()> {
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (requests, replies) = (passes.clone(), passes.clone());
    tokio::select! {
        ended = pump(from_client, to_server, requests, Passes::has_requests) => ended,
        ended = pump(from_server, to_client, replies, Passes::has_replies) => ended,
        _ = passes.wait_for(|passes| *passes == Passes::Closed) => Ok(()),
    }
}

/// Passes on what comes. A connection that was there in an outage is dead afterwards, too, as if the other side had
/// forgotten it.
async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut passes: watch::Receiver<Passes>,
    has: fn(Passes) -> bool,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    let mut is_dead = false;
    loop {
        is_dead |= !has(*passes.borrow_and_update());
        tokio::select! {
            biased;
            changed = passes.changed() => changed.map_err(io::Error::other)?,
            read = from.read(&mut bytes) => match read? {
                0 => return Ok(()),
                _ if is_dead => {}
                read => to.write_all(&bytes[..read]).await?,
            },
        }
    }
}
