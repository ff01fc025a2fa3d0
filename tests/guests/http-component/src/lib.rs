//! A component of the standard world `wasi:http/proxy`. It knows nothing of Gristmill: the tests drop it into the handlers
//! folder, and the body of each request says what it does.

#![cfg(target_os = "wasi")]

use std::fmt::Write as _;
use std::io::{Read, Write};

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingRequest, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, OutgoingResponse, RequestOptions, ResponseOutparam, Scheme,
};

wasip2::http::proxy::export!(HttpComponent);

struct HttpComponent;

impl wasip2::exports::http::incoming_handler::Guest for HttpComponent {
    fn handle(request: IncomingRequest, response_out: ResponseOutparam) {
        let Some(order) = body_of(request.consume().ok()) else { return };
        let words: Vec<&str> = order.split_whitespace().collect();
        match words.as_slice() {
            ["show"] => answer(response_out, 200, &[("content-type", "text/plain")], &shown(&request)),
            ["status", status] => answer(response_out, number(status), &[], "as you wish"),
            ["status", status, retry_after] => {
                answer(response_out, number(status), &[("retry-after", retry_after)], "");
            }
            ["bytes", bytes] => answer(response_out, 200, &[], &"x".repeat(number(bytes))),
            ["get", url] => answer(response_out, 200, &[], &text_of(send(Method::Get, url, 0, None))),
            ["post", url, bytes] => {
                answer(response_out, 200, &[], &text_of(send(Method::Post, url, number(bytes), None)))
            }
            ["early", url] => answer(response_out, 200, &[], &text_of(early(url))),
            ["begin", url] => answer(response_out, 200, &[], &begun(url)),
            ["impatient", url] => answer(response_out, 200, &[], &text_of(send(Method::Get, url, 0, impatient()))),
            ["many", url, requests] => answer(response_out, 200, &[], &many(url, number(requests))),
            ["error"] => ResponseOutparam::set(response_out, Err(ErrorCode::LoopDetected)),
            ["halve"] => {
                let response = OutgoingResponse::new(Fields::new());
                let _unfinished = response.body();
                ResponseOutparam::set(response_out, Ok(response));
            }
            _ => {}
        }
    }
}

fn number<T: std::str::FromStr + Default>(text: &str) -> T {
    text.parse().unwrap_or_default()
}

fn body_of(body: Option<IncomingBody>) -> Option<String> {
    let mut text = String::new();
    body?.stream().ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The request's first line, and its headers in order.
fn shown(request: &IncomingRequest) -> String {
    let (method, path) = (request.method(), request.path_with_query().unwrap_or_default());
    let mut headers = request.headers().entries();
    headers.sort();
    let mut text = format!("{method:?} {path}\n");
    for (name, value) in headers {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(&value));
    }
    text
}

fn answer(response_out: ResponseOutparam, status: u16, headers: &[(&str, &str)], text: &str) {
    let fields = Fields::new();
    for (name, value) in headers {
        let _ = fields.append(name, value.as_bytes());
    }
    let response = OutgoingResponse::new(fields);
    let _ = response.set_status_code(status);
    let body = response.body();
    ResponseOutparam::set(response_out, Ok(response));
    if let Ok(body) = body {
        write(body, text);
    }
}

fn write(body: OutgoingBody, text: &str) {
    if let Ok(mut stream) = body.write() {
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.flush();
    }
    let _ = OutgoingBody::finish(body, None);
}

/// `200 the body`, or the error.
fn text_of(answer: Result<String, ErrorCode>) -> String {
    answer.unwrap_or_else(|error| format!("{error:?}"))
}

/// The first bytes of an answer, whose rest is not waited for.
fn begun(url: &str) -> String {
    let begin = || -> Result<String, ErrorCode> {
        let body = wait_for(open(Method::Get, url, 0, None)?)?.consume().map_err(|()| nothing())?;
        let bytes = body.stream().map_err(|()| nothing())?.blocking_read(100).map_err(|_| nothing())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    text_of(begin())
}

/// Sends all requests before it reads the first answer.
fn many(url: &str, requests: usize) -> String {
    let open: Vec<_> = (0..requests).map(|_| open(Method::Get, url, 0, None)).collect();
    let answers: Vec<_> = open.into_iter().map(|pending| wait_for(pending?)).collect();
    let texts = answers.into_iter().map(|answer| text_of(answer.map(read)));
    texts.collect::<Vec<_>>().join(",")
}

/// Waits for the next bytes of an answer no longer than a millisecond.
fn impatient() -> Option<RequestOptions> {
    let options = RequestOptions::new();
    options.set_between_bytes_timeout(Some(1_000_000)).ok()?;
    Some(options)
}

fn nothing() -> ErrorCode {
    ErrorCode::InternalError(None)
}

fn send(method: Method, url: &str, bytes: usize, options: Option<RequestOptions>) -> Result<String, ErrorCode> {
    wait_for(open(method, url, bytes, options)?).map(read)
}

fn open(
    method: Method,
    url: &str,
    bytes: usize,
    options: Option<RequestOptions>,
) -> Result<FutureIncomingResponse, ErrorCode> {
    let (request, body) = prepared(&method, url)?;
    let pending = outgoing_handler::handle(request, options)?;
    write(body, &"x".repeat(bytes));
    Ok(pending)
}

/// The answer to a request whose body is not finished.
fn early(url: &str) -> Result<String, ErrorCode> {
    let (request, body) = prepared(&Method::Post, url)?;
    let pending = outgoing_handler::handle(request, None)?;
    let mut stream = body.write().map_err(|()| nothing())?;
    stream.write_all(&[b'x'; 100_000]).map_err(|_| nothing())?;
    stream.flush().map_err(|_| nothing())?;
    let answer = wait_for(pending).map(read);
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
    answer
}

fn prepared(method: &Method, url: &str) -> Result<(OutgoingRequest, OutgoingBody), ErrorCode> {
    let (scheme, rest) = url.split_once("://").ok_or_else(nothing)?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let request = OutgoingRequest::new(Fields::new());
    request.set_method(method).map_err(|()| nothing())?;
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    request.set_scheme(Some(&scheme)).map_err(|()| nothing())?;
    request.set_authority(Some(authority)).map_err(|()| nothing())?;
    request.set_path_with_query(Some(path)).map_err(|()| nothing())?;
    let body = request.body().map_err(|()| nothing())?;
    Ok((request, body))
}

fn wait_for(pending: FutureIncomingResponse) -> Result<IncomingResponse, ErrorCode> {
    pending.subscribe().block();
    pending.get().ok_or_else(nothing)?.map_err(|()| nothing())?
}

fn read(response: IncomingResponse) -> String {
    let status = response.status();
    let text = body_of(response.consume().ok()).unwrap_or_else(|| "no body".to_owned());
    format!("{status} {text}")
}
