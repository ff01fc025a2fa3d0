//! Answers to requests of `wasi:http`, written down part by part as the guest reads them, and given again in a replay.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame};
use hyper::http::{Response, StatusCode};
use parking_lot::Mutex;
use serde_bytes::ByteBuf;

use super::super::bindings::http::HttpError;
use super::super::guest_log::GuestLog;
use super::super::recording::BodyPart;
use super::super::recording::answers::Fault;

type TapedResponse = Response<UnsyncBoxBody<Bytes, HttpError>>;

/// The answer, whose parts are written down.
pub(super) fn taped<B>(
    answer: Result<Response<B>, HttpError>,
    guest_log: &Arc<Mutex<GuestLog>>,
    number: u32,
) -> Result<TapedResponse, HttpError>
where
    B: Body<Data = Bytes, Error = HttpError> + Send + Unpin + 'static,
{
    let note = |part: &dyn Fn() -> BodyPart| guest_log.lock().boundary.note_body(number, part);
    match answer {
        Ok(answer) => {
            let header = |(name, value): (&hyper::http::HeaderName, &hyper::http::HeaderValue)| {
                (name.as_str().to_owned(), ByteBuf::from(value.as_bytes()))
            };
            let headers = || answer.headers().iter().map(header).collect();
            note(&|| BodyPart::Head { status: answer.status().as_u16(), headers: headers() });
            Ok(answer.map(|body| Taped { body, guest_log: Arc::clone(guest_log), number }.boxed_unsync()))
        }
        Err(error) => {
            note(&|| BodyPart::Failed(Fault::from(&error)));
            Err(error)
        }
    }
}

struct Taped<B> {
    body: B,
    guest_log: Arc<Mutex<GuestLog>>,
    number: u32,
}

impl<B: Body<Data = Bytes, Error = HttpError> + Unpin> Body for Taped<B> {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let mut guest_log = self.guest_log.lock();
        match &frame {
            Some(Ok(frame)) => match frame.data_ref() {
                Some(bytes) => {
                    guest_log.boundary.note_body(self.number, || BodyPart::Data(ByteBuf::from(bytes.as_ref())))
                }
                None => guest_log.boundary.note_gap("an answer had trailers"),
            },
            Some(Err(error)) => guest_log.boundary.note_body(self.number, || BodyPart::Failed(Fault::from(error))),
            None => guest_log.boundary.note_body(self.number, || BodyPart::End),
        }
        drop(guest_log);
        Poll::Ready(frame)
    }
}

/// The answer that was written down.
pub(super) fn recorded(
    mut parts: VecDeque<BodyPart>,
    guest_log: &Arc<Mutex<GuestLog>>,
) -> Result<TapedResponse, HttpError> {
    match parts.pop_front() {
        Some(BodyPart::Head { status, headers }) => {
            let body = Recorded { parts, guest_log: Arc::clone(guest_log) }.boxed_unsync();
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
            for (name, value) in headers {
                if let (Ok(name), Ok(value)) = (name.parse::<hyper::http::HeaderName>(), value.as_slice().try_into()) {
                    answer.headers_mut().append(name, value);
                }
            }
            Ok(answer)
        }
        Some(BodyPart::Failed(fault)) => Err(fault.into()),
        _ => Err(beyond(guest_log)),
    }
}

fn beyond(guest_log: &Mutex<GuestLog>) -> HttpError {
    guest_log.lock().boundary.note_beyond("more of an answer to a request");
    HttpError::Unreachable("the recording has no more of the answer".to_owned())
}

struct Recorded {
    parts: VecDeque<BodyPart>,
    guest_log: Arc<Mutex<GuestLog>>,
}

impl Body for Recorded {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        Poll::Ready(match self.parts.pop_front() {
            Some(BodyPart::Data(bytes)) => Some(Ok(Frame::data(Bytes::from(bytes.into_vec())))),
            Some(BodyPart::Failed(fault)) => Some(Err(fault.into())),
            Some(BodyPart::End) => None,
            Some(BodyPart::Head { .. }) | None => Some(Err(beyond(&self.guest_log))),
        })
    }
}
