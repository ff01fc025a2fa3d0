//! Answers without the secrets that came back in them.

use hyper::Response;
use hyper::header::HeaderValue;

use super::super::bindings::http::HttpError;
use super::super::replace::Replacements;

/// Replaces secrets in the values of headers. A header whose name has one is left out.
pub(super) fn clean_head<B>(response: &mut Response<B>, secrets: &Replacements) {
    let headers = response.headers_mut();
    for value in headers.values_mut() {
        if let Ok(Some(clean)) = secrets.apply(value.as_bytes(), usize::MAX) {
            *value = HeaderValue::from_bytes(&clean).unwrap_or(HeaderValue::from_static(""));
        }
    }
    let named: Vec<_> = headers.keys().filter(|name| secrets.are_in(name.as_str().as_bytes())).cloned().collect();
    for name in named {
        headers.remove(name);
    }
}

/// The same for what an error says.
pub(super) fn clean_error(error: HttpError, secrets: &Replacements) -> HttpError {
    match error {
        HttpError::Denied(text) => HttpError::Denied(secrets.text(text)),
        HttpError::Invalid(text) => HttpError::Invalid(secrets.text(text)),
        HttpError::Unreachable(text) => HttpError::Unreachable(secrets.text(text)),
        HttpError::Timeout | HttpError::TooLarge(_) | HttpError::TooMany(_) => error,
    }
}
