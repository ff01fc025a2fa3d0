//! A request as it goes over the wire: with the secrets that its host may get in the places of their placeholders.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::Uri;
use url::{Position, Url};

use super::super::bindings::http::HttpError;
use super::super::placeholders::{InRequest, Placeholders};
use super::super::replace::{Replacements, Replacer, TooLong};
use super::outgoing::{HEADER_BYTES_MAX, Outgoing, URL_BYTES_MAX, invalid};
use super::replaced_body::ReplacedBody;
use super::request_body::{RequestBody, Rest};

/// With or without the equals signs at the end, as receivers read it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A request that can be sent.
pub(super) struct Message {
    pub(super) request: Request<RequestBody>,
    /// What is replaced in its answer.
    pub(super) in_answer: Option<Arc<Replacements>>,
}

impl Message {
    /// Of a request, and what comes after its body. The body has at most `request_bytes`, its secrets included.
    ///
    /// # Errors
    /// `invalid`: the message names the part and the secret, and nothing of what it is.
    pub(super) fn of(
        outgoing: &Outgoing,
        rest: Option<Rest>,
        placeholders: Option<&Placeholders>,
        request_bytes: u64,
    ) -> Result<Self, HttpError> {
        let url = &outgoing.url;
        let mut in_answer = placeholders.map(|placeholders| Arc::clone(placeholders.in_answers()));
        let mut target = Cow::Borrowed(&url[Position::BeforePath..Position::AfterQuery]);
        let mut headers = outgoing.headers.clone();
        let (mut body, mut rest) = (outgoing.body.clone(), rest);
        if let Some((placeholders, secrets)) = placeholders.and_then(|all| Some((all, all.in_request(url)?))) {
            target = Cow::Owned(target_with(&secrets, url)?);
            let sent = add_to_headers(&secrets, &mut headers, placeholders)?;
            in_answer = in_answer.map(|in_answer| with(in_answer, &sent));
            (body, rest) = body_with(in_body(secrets, &headers), body, rest, request_bytes)?;
        }
        let target: Uri = target.parse().map_err(|_| invalid("the URL's path has characters that no path may have"))?;
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let host =
            HeaderValue::from_str(host).map_err(|_| invalid("the URL's host has characters that no host may have"))?;
        headers.insert(HOST, host);
        let mut request = Request::new(RequestBody::new(body, rest));
        *request.method_mut() = outgoing.method.clone();
        *request.uri_mut() = target;
        *request.headers_mut() = headers;
        Ok(Self { request, in_answer })
    }
}

fn target_with(secrets: &InRequest, url: &Url) -> Result<String, HttpError> {
    let too_long = |_| invalid(format!("the URL is longer than {URL_BYTES_MAX} bytes with its secret"));
    let part = |text: &str, replacements: &Replacements| -> Result<String, HttpError> {
        let replaced = replacements.apply(text.as_bytes(), URL_BYTES_MAX).map_err(too_long)?;
        Ok(replaced.map_or_else(|| text.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let mut target = part(url.path(), &secrets.path)?;
    if let Some(query) = url.query() {
        target = format!("{target}?{}", part(query, &secrets.query)?);
    }
    if target.len() > URL_BYTES_MAX { Err(too_long(TooLong)) } else { Ok(target) }
}

/// Puts secrets into the values. Returns the parts that do not show the secret in them, each with what the guest had written there.
fn add_to_headers(
    secrets: &InRequest,
    headers: &mut HeaderMap,
    placeholders: &Placeholders,
) -> Result<Vec<(String, String)>, HttpError> {
    let too_large = |_| invalid(format!("the headers with their secrets have more than {HEADER_BYTES_MAX} bytes"));
    let (mut encoded, mut remaining) = (Vec::new(), HEADER_BYTES_MAX);
    for (name, value) in headers.iter_mut() {
        let new = match basic(name, value, &secrets.plain) {
            Some((scheme, written, credentials)) => {
                let sent = BASE64.encode(credentials.map_err(too_large)?);
                let new = format!("{scheme} {sent}").into_bytes();
                encoded.push((sent, written));
                new
            }
            None => match secrets.plain.apply(value.as_bytes(), remaining).map_err(too_large)? {
                Some(new) => new,
                None => continue,
            },
        };
        remaining = remaining.checked_sub(new.len()).ok_or(TooLong).map_err(too_large)?;
        let secret = placeholders.name_in(value.as_bytes()).unwrap_or_default();
        *value = HeaderValue::from_bytes(&new).map_err(|_| {
            invalid(format!(
                "the secret `{secret}` has a line break or a control character, which the header `{name}` cannot have: remove it from where the secret stands"
            ))
        })?;
    }
    if let Some(accepted) = headers.get_mut(ACCEPT_ENCODING) {
        // In a compressed answer no secret is found.
        *accepted = HeaderValue::from_static("identity");
    }
    Ok(encoded)
}

type Credentials = Result<Vec<u8>, TooLong>;

/// The scheme, what the guest had written after it, and the credentials with their secrets, of a header `Authorization: Basic` that has some.
fn basic(name: &HeaderName, value: &HeaderValue, secrets: &Replacements) -> Option<(String, String, Credentials)> {
    if *name != AUTHORIZATION {
        return None;
    }
    let (scheme, written) = value.to_str().ok()?.split_once(' ')?;
    let written = written.trim();
    let credentials = if scheme.eq_ignore_ascii_case("basic") { BASE64.decode(written).ok()? } else { return None };
    let credentials = secrets.apply(&credentials, HEADER_BYTES_MAX).transpose()?;
    Some((scheme.to_owned(), written.to_owned(), credentials))
}

fn with(in_answer: Arc<Replacements>, sent: &[(String, String)]) -> Arc<Replacements> {
    if sent.is_empty() {
        return in_answer;
    }
    let mut all = Replacements::clone(&in_answer);
    sent.iter().for_each(|(sent, written)| all.add(sent.as_bytes(), written.as_bytes()));
    Arc::new(all)
}

/// The secrets as the body's media type has texts.
fn in_body(secrets: InRequest, headers: &HeaderMap) -> Replacements {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-www-form-urlencoded" => secrets.query,
        kind if kind == "application/json" || kind.ends_with("+json") => secrets.json,
        _ => secrets.plain,
    }
}

/// The length of a body that is still being written is not known any more: it is sent in chunks.
fn body_with(
    secrets: Replacements,
    begin: Bytes,
    rest: Option<Rest>,
    most: u64,
) -> Result<(Bytes, Option<Rest>), HttpError> {
    let too_large = HttpError::Invalid(format!(
        "the body with its secrets has more than {most} bytes, which is the topic's `request-limit`"
    ));
    let mut replacer = Replacer::new(Arc::new(secrets), most);
    let begin = replacer.push(begin).map_err(|_| too_large.clone())?;
    let Some(rest) = rest else {
        let end = replacer.finish().map_err(|_| too_large)?;
        return Ok((if end.is_empty() { begin } else { [begin, end].concat().into() }, None));
    };
    let body = ReplacedBody::new(rest.body, Some(replacer), too_large).boxed_unsync();
    Ok((begin, Some(Rest { body, whole: None })))
}
