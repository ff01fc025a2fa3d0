//! A body in which bytes are replaced as they pass.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use super::super::bindings::http::HttpError;
use super::super::replace::Replacer;

/// A body without trailers. Nothing of it waits for later but what may be the begin of something that is replaced.
#[derive(Debug)]
pub(in super::super) struct ReplacedBody<B> {
    body: B,
    /// None: all passes as it is.
    replacer: Option<Replacer>,
    too_large: HttpError,
    is_over: bool,
}

impl<B> ReplacedBody<B> {
    /// `too_large` is how it ends if more bytes come out than may.
    pub(super) fn new(body: B, replacer: Option<Replacer>, too_large: HttpError) -> Self {
        Self { body, replacer, too_large, is_over: false }
    }
}

impl<B: Body<Data = Bytes, Error = HttpError> + Unpin> Body for ReplacedBody<B> {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let Self { body, replacer, too_large, is_over } = self.get_mut();
        let Some(replacer) = replacer else { return Pin::new(body).poll_frame(context) };
        while !*is_over {
            let bytes = match ready!(Pin::new(&mut *body).poll_frame(context)).map(|frame| frame.map(Frame::into_data))
            {
                Some(Ok(Ok(bytes))) => replacer.push(bytes),
                Some(Ok(Err(_trailers))) => continue,
                Some(Err(error)) => {
                    *is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    *is_over = true;
                    replacer.finish()
                }
            };
            match bytes {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(_) => {
                    *is_over = true;
                    return Poll::Ready(Some(Err(too_large.clone())));
                }
            }
        }
        Poll::Ready(None)
    }
}
