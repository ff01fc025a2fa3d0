//! Jobs on their way to a client: back in the store, with no attempt used, unless they arrive.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

use crate::serve::delivery_tracker::DeliveryTracker;
use gristmill_store::{Settlement, Store};

/// How often to try to give jobs back to a store that is away, and how long to wait in between. After that, their leases
/// bring them back.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// What undoes some claims. Carried out when dropped, unless [`ClaimGuard::arrived`] was called.
#[derive(Debug)]
pub(crate) struct ClaimGuard {
    store: Arc<dyn Store>,
    undo: Vec<Settlement>,
}

impl ClaimGuard {
    /// `undo`: a [release](gristmill_core::outcome::Verdict::Release) of each claim.
    pub(crate) fn new(store: Arc<dyn Store>, undo: Vec<Settlement>) -> Self {
        Self { store, undo }
    }

    /// The client has them: what becomes of them is its business.
    pub(crate) fn arrived(mut self) {
        self.undo.clear();
    }

    /// A body that tells of the jobs. They go back if it is dropped unread, or if `delivery_tracker` hears that it was lost.
    pub(crate) fn with(self, told: Vec<u8>, delivery_tracker: DeliveryTracker) -> Body {
        Body::new(Told { told: Some((Bytes::from(told), self)), delivery_tracker })
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        // Without a runtime the process ends, and the leases with it.
        if let (false, Ok(runtime)) = (undo.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(give_back(Arc::clone(&self.store), undo));
        }
    }
}

/// A late one changes nothing: who has settled a job meanwhile did have it.
async fn give_back(store: Arc<dyn Store>, undo: Vec<Settlement>) {
    for _ in 0..TRIES {
        match store.settle(&undo).await {
            Ok(_) => return tracing::debug!(jobs = undo.len(), "a client went away before its jobs came: given back"),
            Err(error) if error.is_unavailable() => tokio::time::sleep(PAUSE).await,
            Err(error) => return tracing::error!("failed to give jobs back: {:#}", anyhow::Error::from(error)),
        }
    }
    tracing::warn!(
        jobs = undo.len(),
        "a client went away, and so did the store: its jobs come back when their leases end"
    );
}

struct Told {
    told: Option<(Bytes, ClaimGuard)>,
    delivery_tracker: DeliveryTracker,
}

impl hyper::body::Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some((told, claim_guard)) = self.told.take() else { return Poll::Ready(None) };
        self.delivery_tracker.expect(claim_guard);
        Poll::Ready(Some(Ok(Frame::data(told))))
    }

    fn is_end_stream(&self) -> bool {
        self.told.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.told.as_ref().map_or(0, |(told, _)| told.len() as u64))
    }
}
