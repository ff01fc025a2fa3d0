//! Ends requests that wait, and streams, with the token that they came with.

use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};

use super::Auth;
use super::identity::{Identity, unknown};
use crate::polled_body::{PolledBody, next_frame};

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
        let mut ended = Box::pin(async move { auth.ended(&identity).await });
        let until_ended = move |body: &mut Body, context: &mut Context<'_>| {
            if ended.as_mut().poll(context).is_ready() { Poll::Ready(None) } else { next_frame(body, context) }
        };
        response.map(|body| Body::new(PolledBody::new(body, until_ended)))
    }
}
