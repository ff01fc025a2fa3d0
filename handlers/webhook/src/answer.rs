//! What an answer other than success means for the job.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gristmill_guest::http::Response;
use gristmill_guest::{Failure, Payload};
use serde::Serialize;

/// A server may ask for a later try, but not for one in the far future.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Enough for an error's text.
const BODY_BYTES: usize = 2 << 10;

/// Kept with the failure, as JSON.
#[derive(Serialize)]
struct Seen {
    status: u16,
    /// Its beginning.
    body: String,
}

/// Retries what may pass: overload, and faults on the other side. Everything else is there to stay.
pub(crate) fn refusal(answer: &Response, now_ms: u64) -> Failure {
    let status = answer.status;
    let failure = match status {
        408 | 425 | 429 | 500.. => {
            let failure = Failure::retry("unavailable", format!("the receiver answered {status}"));
            match answer.header("retry-after").and_then(|value| wait(value, now_ms)) {
                Some(wait) => failure.after(wait),
                None => failure,
            }
        }
        410 => Failure::reject("gone", "the receiver answered 410: it wants no more of these"),
        300..400 => Failure::reject("redirected", format!("the receiver answered {status}: name the URL it moved to")),
        _ => Failure::reject("refused", format!("the receiver answered {status}")),
    };
    let body = answer.body.get(..BODY_BYTES).unwrap_or(&answer.body);
    let seen = Seen { status, body: String::from_utf8_lossy(body).into_owned() };
    match Payload::json(&seen) {
        Ok(seen) => failure.with_context(seen),
        Err(_) => failure,
    }
}

/// `Retry-After` in seconds or as a date, RFC 9110 §10.2.3; none if it is neither.
fn wait(value: &str, now_ms: u64) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => until(httpdate::parse_http_date(value).ok()?, now_ms),
    };
    Some(wait.min(WAIT_MAX))
}

/// Zero for what is past.
fn until(date: SystemTime, now_ms: u64) -> Duration {
    let date = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    date.saturating_sub(Duration::from_millis(now_ms))
}
