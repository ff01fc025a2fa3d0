//! `Idempotency-Key`: the same request twice is one push.
//!
//! The key and the request are both in the job's id, as hashes, and the key is the job's unique value for a day. So the
//! store itself, in the step that would store the job, says whether the key was used before; and the id of the job that
//! holds it says for which request.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::openapi::{Argument, Operation};
use crate::problem::{Code, Problem};
use gristmill_core::job::{JobId, NewJob, TopicId, Unique};
use gristmill_store::Pushed;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of answers that were given before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long a key is remembered.
const WINDOW: Duration = Duration::from_secs(24 * 3600);
/// What its unique values begin with.
const PREFIX: &str = "idempotency-key:";
/// Hexadecimal digits of the key's hash, and of the request's.
const KEY_DIGITS: usize = 32;
const REQUEST_DIGITS: usize = 16;

/// A request that names itself.
#[derive(Debug)]
pub(crate) struct Idempotency {
    key: String,
    request: String,
}

impl Argument for Idempotency {
    fn describe(operation: &mut Operation<'_>) {
        let description = "The same key with the same request within 24 hours is answered as the first time and stores \
            nothing; with another request it is refused (`idempotency-key-reused`). Not together with `id` or `unique`.";
        let schema = json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" });
        operation.in_header("Idempotency-Key", description, schema);
    }
}

impl Idempotency {
    /// `None` if the request has no key. Two requests with the same `parts` are the same request.
    ///
    /// # Errors
    /// The key is none.
    pub(crate) fn of(headers: &HeaderMap, parts: &[&[u8]]) -> Result<Option<Self>, Problem> {
        let mut keys = headers.get_all(HEADER).iter();
        let Some(key) = keys.next() else { return Ok(None) };
        let fits =
            keys.next().is_none() && (1..=255).contains(&key.len()) && key.as_bytes().iter().all(u8::is_ascii_graphic);
        let (true, Ok(key)) = (fits, key.to_str()) else {
            let rule = "a request has one `Idempotency-Key`, of 1 to 255 visible characters of ASCII";
            return Err(Problem::new(Code::BadRequest, rule));
        };
        Ok(Some(Self { key: key.into(), request: digits(parts, REQUEST_DIGITS) }))
    }

    /// Gives the job its id, and the key to hold.
    ///
    /// # Errors
    /// The job has an id or a unique value of its own.
    pub(crate) fn sign(&self, job: &mut NewJob, index: usize, has_id: bool) -> Result<(), String> {
        if has_id || job.spec.options.unique.is_some() {
            let field = if has_id { "id" } else { "unique" };
            return Err(format!("`{field}` and an `Idempotency-Key` do the same: leave one of them out"));
        }
        let held = self.held(&job.spec.topic, index);
        if let Ok(id) = format!("{held}-{}", self.request).parse() {
            job.spec.id = id;
        }
        job.spec.options.unique = Some(Unique { value: format!("{PREFIX}{held}"), window: Some(WINDOW) });
        Ok(())
    }

    /// Whether a job that was pushed with [`Self::sign`] had been pushed before.
    ///
    /// # Errors
    /// [`Code::IdempotencyKeyReused`]: by another request. Names its job to a client that may read: the id has a hash of that request.
    pub(crate) fn was_replayed(&self, id: &JobId, pushed: &Pushed, may_read: bool) -> Result<bool, Problem> {
        match pushed {
            Pushed::Stored | Pushed::Refused(_) => Ok(false),
            Pushed::Exists => Ok(true),
            Pushed::Duplicate(of) if of == id => Ok(true),
            Pushed::Duplicate(of) => {
                let job = if may_read { format!(", which became job {of}") } else { String::new() };
                let detail = format!("this `Idempotency-Key` came with another request{job}");
                Err(Problem::new(Code::IdempotencyKeyReused, detail))
            }
        }
    }

    fn held(&self, topic: &TopicId, index: usize) -> String {
        held(&self.key, topic, index)
    }
}

fn held(key: &str, TopicId { tenant, topic }: &TopicId, index: usize) -> String {
    let index = index.to_string();
    let parts = [tenant.as_str(), topic.as_str(), key, &index].map(str::as_bytes);
    digits(&parts, KEY_DIGITS)
}

/// The unique value that the first job of a request with this `Idempotency-Key` holds.
pub fn idempotency_value(topic: &TopicId, key: &str) -> String {
    format!("{PREFIX}{}", held(key, topic, 0))
}

/// The first digits of the hash of these parts. Each part's length is also hashed: the same bytes cut otherwise differ.
fn digits(parts: &[&[u8]], count: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut text = hex::encode(hash.finalize());
    text.truncate(count);
    text
}
