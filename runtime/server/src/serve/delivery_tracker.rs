//! Whether an answer with claimed jobs reached its client, as far as a connection shows it.
//!
//! A client that closes its connection before it has read an answer makes its system refuse the answer's bytes, and this is
//! seen here within a round trip. A client that sends more, or closes in peace, has read what it was sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;

use crate::claims::ClaimGuard;

/// A refusal that comes later is not about the answer: routers on the way drop connections that were quiet for a minute.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);
/// How long to listen to a client that closes right after an answer: the refusal may be on its way.
const LINGER: Duration = Duration::from_millis(250);

/// The answer of a connection whose jobs must not be lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeliveryTracker(Arc<Mutex<Option<Sent>>>);

/// An answer that is being written, or was.
#[derive(Debug)]
struct Sent {
    claims: ClaimGuard,
    at: Instant,
}

/// A stream that keeps its tracker up to date.
#[derive(Debug)]
pub(super) struct TrackedStream<S: ClientStream> {
    stream: S,
    tracker: DeliveryTracker,
    /// The client has closed. What else it sends is waited for.
    lingering: Option<Pin<Box<Sleep>>>,
    /// How long the client may take no byte.
    write_time: Duration,
    /// The end of that time, while the client takes none.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// A stream that knows whether the other side refused what it was sent.
pub(super) trait ClientStream: AsyncRead + AsyncWrite + Unpin {
    fn refused(&self) -> bool;
}

impl ClientStream for TcpStream {
    fn refused(&self) -> bool {
        !matches!(self.take_error(), Ok(None))
    }
}

/// Of a client in this process.
impl ClientStream for DuplexStream {
    fn refused(&self) -> bool {
        false
    }
}

impl<S: ClientStream> ClientStream for TlsStream<S> {
    fn refused(&self) -> bool {
        self.get_ref().0.refused()
    }
}

impl DeliveryTracker {
    /// Tracks an answer that is being written. The answer before it was delivered: the client has sent a request since.
    pub(crate) fn track(&self, claims: ClaimGuard) {
        self.delivered();
        if !claims.is_empty() {
            *self.0.lock() = Some(Sent { claims, at: Instant::now() });
        }
    }

    pub(crate) fn delivered(&self) {
        let sent = self.0.lock().take();
        sent.into_iter().for_each(|sent| sent.claims.delivered());
    }

    /// The client refused bytes.
    pub(crate) fn refused(&self) {
        let sent = self.0.lock().take();
        sent.into_iter().filter(|sent| sent.at.elapsed() > REFUSED_WITHIN).for_each(|sent| sent.claims.delivered());
    }

    /// The client still takes bytes.
    fn renew(&self) {
        if let Some(sent) = &mut *self.0.lock() {
            sent.at = Instant::now();
        }
    }

    fn is_tracking(&self) -> bool {
        self.0.lock().is_some()
    }
}

impl<S: ClientStream> TrackedStream<S> {
    pub(super) fn new(stream: S, write_time: Duration) -> (Self, DeliveryTracker) {
        let tracker = DeliveryTracker::default();
        (Self { stream, tracker: tracker.clone(), lingering: None, write_time, stalled: None }, tracker)
    }

    /// Decides about the answer when the connection ends.
    fn conclude(&self) {
        if self.tracker.is_tracking() {
            if self.stream.refused() { self.tracker.refused() } else { self.tracker.delivered() }
        }
    }

    /// Ready once it is clear whether a client that has closed had read everything.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.tracker.is_tracking() {
            return Poll::Ready(());
        }
        // The system reports a refusal once.
        if self.stream.refused() {
            self.tracker.refused();
            return Poll::Ready(());
        }
        let lingering = self.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        ready!(lingering.as_mut().poll(context));
        self.conclude();
        Poll::Ready(())
    }

    fn note<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        match &written {
            Poll::Ready(Ok(_)) => self.tracker.renew(),
            Poll::Ready(Err(_)) => self.tracker.refused(),
            Poll::Pending => {}
        }
        self.bound(written, context)
    }

    /// Fails what the client has not let happen for too long.
    fn bound<T>(&mut self, done: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let write_time = self.write_time;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(write_time)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: ClientStream> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.lingering.is_none() {
            match ready!(Pin::new(&mut self.stream).poll_read(context, buffer)) {
                Err(error) => {
                    self.tracker.refused();
                    return Poll::Ready(Err(error));
                }
                Ok(()) if buffer.filled().len() > before => {
                    self.tracker.delivered();
                    return Poll::Ready(Ok(()));
                }
                Ok(()) => {}
            }
        }
        self.poll_closed(context).map(Ok)
    }
}

impl<S: ClientStream> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bound(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bound(shut, context)
    }
}

impl<S: ClientStream> Drop for TrackedStream<S> {
    /// The server closes: what was written counts as delivered, unless the client has refused it.
    fn drop(&mut self) {
        self.conclude();
    }
}
