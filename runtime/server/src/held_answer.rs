//! Answers count as bodies in memory until they are delivered: a client that reads nothing could otherwise keep any number of pages there.

use std::sync::Arc;
use std::task::Context;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};

use crate::limits::requests::{Permit, RequestLimiter};
use crate::polled_body::{PolledBody, next_frame};
use gristmill_core::job::Name;

/// Smaller answers are not counted: all that connections may hold of them is little.
const SMALL: u64 = 16 << 10;

/// The answer, which holds its bytes of the memory for bodies, or [`Code::Busy`](crate::problem::Code::Busy) in its place. For requests that
/// changed nothing.
pub(crate) fn held(limiter: &RequestLimiter, tenant: Option<&Name>, answer: Response) -> Response {
    let Some(size) = answer.body().size_hint().exact().filter(|size| *size > SMALL) else { return answer };
    match limiter.hold_body(tenant, usize::try_from(size).unwrap_or(usize::MAX)) {
        Ok(permit) => {
            let permit = Arc::new(permit);
            let hold = move |bytes| Bytes::from_owner(HeldBytes { bytes, _permit: Arc::clone(&permit) });
            let next = move |body: &mut Body, context: &mut Context<'_>| {
                next_frame(body, context).map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(&hold))))
            };
            answer.map(|body| Body::new(PolledBody::new(body, next)))
        }
        Err(busy) => busy.into_response(),
    }
}

/// Bytes of an answer. The connection drops them once it has sent them.
struct HeldBytes {
    bytes: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use http_body_util::BodyExt;

    use super::*;
    use crate::limits::HttpLimits;

    #[tokio::test]
    async fn an_answer_is_counted_until_its_bytes_are_gone() {
        let limiter = RequestLimiter::new(&HttpLimits { body_bytes: 800 << 10, ..HttpLimits::default() });
        let acme: Name = "acme".parse().unwrap();
        let answer = |kib: usize| held(&limiter, Some(&acme), Response::new(Body::from(vec![b'x'; kib << 10])));
        let first = answer(150);
        assert_eq!((first.status(), first.body().size_hint().exact()), (StatusCode::OK, Some(150 << 10)));
        assert_eq!(answer(150).status(), StatusCode::SERVICE_UNAVAILABLE, "a tenant has a quarter of the memory");
        assert_eq!(answer(10).status(), StatusCode::OK, "what is small is not counted");
        let bytes = first.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(answer(150).status(), StatusCode::SERVICE_UNAVAILABLE, "it is not sent yet");
        drop(bytes);
        assert_eq!(answer(150).status(), StatusCode::OK);
    }

    #[test]
    fn what_operators_do_not_read_leaves_memory_to_tenants() {
        let limiter = RequestLimiter::new(&HttpLimits { body_bytes: 800 << 10, ..HttpLimits::default() });
        let acme: Name = "acme".parse().unwrap();
        let answer = |tenant| held(&limiter, tenant, Response::new(Body::from(vec![b'x'; 150 << 10])));
        let unread = [answer(None), answer(None)];
        assert!(unread.iter().all(|answer| answer.status() == StatusCode::OK));
        assert_eq!(answer(None).status(), StatusCode::SERVICE_UNAVAILABLE, "all operators have half of the memory");
        assert_eq!(answer(Some(&acme)).status(), StatusCode::OK);
        assert!(limiter.hold_body(Some(&acme), 150 << 10).is_ok(), "a push is received beside them");
        drop(unread);
        assert_eq!(answer(None).status(), StatusCode::OK);
    }
}
