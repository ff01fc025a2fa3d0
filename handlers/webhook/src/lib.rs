//! Delivers the job's body to a URL.
//!
//! The job's id goes along as `idempotency-key` and `webhook-id`, because a job may run twice: the receiver can recognise the second delivery.

mod answer;
mod signature;

use gristmill_guest::{Failure, Job, Json, config, context, handler, http, log};
use serde::{Deserialize, Serialize};

use crate::signature::Key;

handler!(deliver);

/// The result, as JSON.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The status that the receiver answered.
    pub status: u16,
}

/// Sends the job's body to the URL of its topic or of the job.
pub fn deliver(job: Job) -> Result<Json<Delivery>, Failure> {
    let request = request(&job, context::now() / 1000)?;
    let answer = request.send()?;
    if answer.is_success() {
        log::info("delivered", &[("status", &answer.status)]);
        return Ok(Json(Delivery { status: answer.status }));
    }
    Err(answer::refusal(&answer, context::now()))
}

/// `timestamp` is in seconds.
fn request(job: &Job, timestamp: u64) -> Result<http::Request, Failure> {
    let content_type = job.body.content_type.as_deref().unwrap_or("application/octet-stream");
    let mut request = http::post(url(job)?)
        .header("content-type", content_type)
        .header("idempotency-key", &job.id)
        .header("webhook-id", &job.id)
        .header("webhook-timestamp", timestamp.to_string())
        .header("gristmill-attempt", job.attempt.to_string());
    if let Some(secret) = config::secret("secret") {
        let signature = Key::read(&secret)?.sign(&job.id, timestamp, job.bytes());
        request = request.header("webhook-signature", signature);
    }
    Ok(request.body(job.bytes()))
}

/// What the topic's operator says goes before what the job says.
fn url(job: &Job) -> Result<String, Failure> {
    let url = config::get("url").or_else(|| job.meta("url").map(str::to_owned));
    let no_url = || Failure::reject("no-url", "no URL is set: give the topic a setting `url`, or the job a header");
    url.ok_or_else(no_url)
}

#[cfg(test)]
mod tests;
