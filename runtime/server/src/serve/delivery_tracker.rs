//! Whether an answer arrived, as far as a connection can tell.
//!
//! A client that closes its end before it has read an answer makes its system refuse the answer's bytes, and that is heard
//! here within a round trip. A client that goes on speaking, or closes in peace, has read what it was sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;

use crate::lmstfy::claim_guard::ClaimGuard;

/// A refusal that comes later is about something else: boxes on the way drop connections that were quiet for a minute.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);
/// How long a client that closes at once after an answer is listened to: the refusal may be on its way.
const LINGER: Duration = Duration::from_millis(250);

/// Where a connection's answer is noted that must not be lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeliveryTracker(Arc<Mutex<Option<Expected>>>);

#[derive(Debug)]
struct Expected {
    claims: ClaimGuard,
    sent: Instant,
}

/// A stream that keeps its delivery_tracker up to date.
#[derive(Debug)]
pub(crate) struct TrackedStream<S: ClientStream> {
    stream: S,
    delivery_tracker: DeliveryTracker,
    /// The other side has closed; what else it says is waited for.
    lingering: Option<Pin<Box<Sleep>>>,
}

/// A stream that knows whether the other side refused what it was sent.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Unpin {
    fn refused(&self) -> bool;
}

impl ClientStream for TcpStream {
    fn refused(&self) -> bool {
        !matches!(self.take_error(), Ok(None))
    }
}

impl<S: ClientStream> ClientStream for TlsStream<S> {
    fn refused(&self) -> bool {
        self.get_ref().0.refused()
    }
}

impl DeliveryTracker {
    /// The answer is being written. One that was expected before has arrived: there was another request since.
    pub(crate) fn expect(&self, claims: ClaimGuard) {
        let before = self.0.lock().replace(Expected { claims, sent: Instant::now() });
        before.into_iter().for_each(|before| before.claims.arrived());
    }

    fn arrived(&self) {
        let expected = self.0.lock().take();
        expected.into_iter().for_each(|expected| expected.claims.arrived());
    }

    /// Bytes were refused.
    fn lost(&self) {
        let expected = self.0.lock().take();
        match expected {
            Some(Expected { claims, sent }) if sent.elapsed() > REFUSED_WITHIN => claims.arrived(),
            lost => drop(lost),
        }
    }

    /// Bytes are still being taken.
    fn renew(&self) {
        if let Some(expected) = &mut *self.0.lock() {
            expected.sent = Instant::now();
        }
    }

    fn is_expecting(&self) -> bool {
        self.0.lock().is_some()
    }
}

impl<S: ClientStream> TrackedStream<S> {
    pub(crate) fn new(stream: S) -> (Self, DeliveryTracker) {
        let delivery_tracker = DeliveryTracker::default();
        (Self { stream, delivery_tracker: delivery_tracker.clone(), lingering: None }, delivery_tracker)
    }

    /// The other side has closed. Ready once it is clear whether it had read everything.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.delivery_tracker.is_expecting() {
            return Poll::Ready(());
        }
        if self.stream.refused() {
            self.delivery_tracker.lost();
            return Poll::Ready(());
        }
        let lingering = self.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        ready!(lingering.as_mut().poll(context));
        if self.stream.refused() {
            self.delivery_tracker.lost()
        } else {
            self.delivery_tracker.arrived()
        }
        Poll::Ready(())
    }

    fn note<T>(&self, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &wrote {
            Poll::Ready(Ok(_)) => self.delivery_tracker.renew(),
            Poll::Ready(Err(_)) => self.delivery_tracker.lost(),
            Poll::Pending => {}
        }
        wrote
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
                    self.delivery_tracker.lost();
                    return Poll::Ready(Err(error));
                }
                Ok(()) if buffer.filled().len() > before => {
                    self.delivery_tracker.arrived();
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
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: ClientStream> Drop for TrackedStream<S> {
    /// We close ourselves: what was written is taken to arrive, unless the other side has said otherwise.
    fn drop(&mut self) {
        if self.delivery_tracker.is_expecting() {
            if self.stream.refused() { self.delivery_tracker.lost() } else { self.delivery_tracker.arrived() }
        }
    }
}
