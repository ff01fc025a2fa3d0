//! Ends requests that wait, and streams, with the token that they came with.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Frame, SizeHint};

use super::Auth;
use super::identity::{Identity, unknown};

/// A request that is answered sooner is quick: its token is not looked for again.
const QUICK: Duration = Duration::from_millis(500);

impl Auth {
    /// Does this for as long as the identity is valid. Returns `None` if it ended first: then the work was dropped.
    pub(crate) async fn while_valid<T>(&self, identity: &Identity, work: impl Future<Output = T>) -> Option<T> {
        let ended = async {
            tokio::time::sleep(QUICK).await;
            self.ended(identity).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = ended => None,
        }
    }

    /// Answers, and ends a body that goes on when the identity ends.
    pub(crate) async fn answer_while_valid(
        &self,
        identity: Identity,
        answer: impl Future<Output = Response>,
    ) -> Response {
        let Some(response) = self.while_valid(&identity, answer).await else {
            return unknown(Some("")).into_response();
        };
        if response.body().size_hint().exact().is_some() {
            return response;
        }
        let auth = self.clone();
        let ended = Box::pin(async move { auth.ended(&identity).await });
        response.map(|body| Body::new(UntilEnded { body, ended }))
    }
}

/// A body that ends early when `ended` is ready.
struct UntilEnded {
    body: Body,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl hyper::body::Body for UntilEnded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
