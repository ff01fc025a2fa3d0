//! Push, wait, cancel.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{Error, Http, Transport, quoted, unique_name};
use crate::job::{NewJob, Payload, ms};

/// Jobs in a request.
const BATCH: usize = 1000;

/// A client of one tenant. Threads may share it.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) http: Arc<dyn Transport>,
    pub(crate) tenant: String,
    pub(crate) tries: u32,
    pub(crate) stopped: Arc<AtomicBool>,
}

/// What became of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The job's id.
    pub id: String,
    /// `stored`, `exists`, `duplicate` (`id` is the other job's) or, of many, `refused`.
    pub status: String,
    /// Why it is refused.
    pub problem: Option<String>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Failure {
    pub reason: String,
    pub code: String,
    pub message: String,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// `complete`, `dead`, `expired`, `cancelled` or `deleted`.
    pub outcome: String,
    /// There if [`NewJob::keep_result`] or the topic keeps it.
    pub result: Option<Payload>,
    /// Why the last attempt failed.
    pub failure: Option<Failure>,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// Of the server at `$GRISTMILL_SERVER` or `http://127.0.0.1:7331`, with the token in `$GRISTMILL_TOKEN`, if it is set.
    pub fn new() -> Self {
        let server = env::var("GRISTMILL_SERVER").ok().filter(|url| !url.is_empty());
        Self::at(server.as_deref().unwrap_or("http://127.0.0.1:7331"), env::var("GRISTMILL_TOKEN").ok())
    }

    /// Of this server.
    pub fn at(server: &str, token: Option<String>) -> Self {
        Self::of(Arc::new(Http::new(server, token.filter(|token| !token.is_empty()))))
    }

    pub(crate) fn of(http: Arc<dyn Transport>) -> Self {
        Self { http, tenant: "/v1/tenants/default".into(), tries: 5, stopped: Arc::default() }
    }

    /// The same for this tenant.
    #[must_use]
    pub fn tenant(self, name: &str) -> Self {
        Self { tenant: format!("/v1/tenants/{}", quoted(name)), ..self }
    }

    /// The same with so many tries of each request.
    #[must_use]
    pub fn tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// Pushes a job: a value of JSON, bytes, or a [`NewJob`] with options. Tries again by itself, and then stores the job once.
    ///
    /// # Errors
    /// The server refuses the job or does not answer.
    pub fn push(&self, topic: &str, job: impl Into<NewJob>) -> Result<Pushed, Error> {
        let pushed = self.send(topic, vec![job.into()], false)?.into_iter().next();
        pushed.ok_or_else(|| Error::of("unreachable", "No answer", "the server answered nothing to a push", 0))
    }

    /// Pushes many. Each request of up to 1000 jobs is stored as a whole.
    ///
    /// # Errors
    /// As of one; jobs of earlier requests may be stored.
    pub fn push_many(
        &self,
        topic: &str,
        jobs: impl IntoIterator<Item = impl Into<NewJob>>,
    ) -> Result<Vec<Pushed>, Error> {
        let jobs: Vec<NewJob> = jobs.into_iter().map(Into::into).collect();
        let mut pushed = Vec::with_capacity(jobs.len());
        for some in jobs.chunks(BATCH) {
            pushed.extend(self.send(topic, some.to_vec(), true)?);
        }
        Ok(pushed)
    }

    fn send(&self, topic: &str, mut jobs: Vec<NewJob>, is_list: bool) -> Result<Vec<Pushed>, Error> {
        let (mut key, mut made) = (Some(unique_name()), Vec::new());
        if self.http.repeats() && jobs.iter().any(|job| job.0.contains_key("id") || job.0.contains_key("unique")) {
            key = None; // That key and these exclude each other: ids tell a repeated push from another one's.
            for job in jobs.iter_mut().filter(|job| !job.0.contains_key("id")) {
                made.push(unique_name());
                job.0.insert("id".into(), json!(made.last()));
            }
        }
        let mut documents: Vec<Value> = jobs.into_iter().map(|job| job.0.into()).collect();
        let document = if is_list { json!({ "jobs": documents }) } else { documents.remove(0) };
        let path = format!("{}/topics/{}/jobs", self.tenant, quoted(topic));
        let (answer, tried) = self.http.call("POST", &path, Some(&document), key.as_deref(), self.tries)?;
        let answers = if is_list { answer["jobs"].as_array().cloned().unwrap_or_default() } else { vec![answer] };
        Ok(answers
            .iter()
            .map(|it| {
                let id = text(&it["id"]);
                let is_stored = tried > 1 && made.contains(&id); // by an earlier try
                let status = if is_stored { "stored".into() } else { text(&it["status"]) };
                Pushed { id, status, problem: it["problem"].as_str().map(str::to_owned) }
            })
            .collect())
    }

    /// Waits for the end of a job.
    ///
    /// # Errors
    /// `wait-timeout`, or as the server says.
    pub fn wait(&self, id: &str, timeout: Duration) -> Result<End, Error> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let path = format!("{}/jobs/{}?wait_ms={}", self.tenant, quoted(id), ms(left).min(30_000));
            let (view, _) = self.http.call("GET", &path, None, None, self.tries)?;
            if view["state"] == "finished" || view["state"] == "dead" {
                let outcomes = [&view["result"]["outcome"], &view["ended"]["outcome"], &view["state"]];
                let failures = [&view["result"]["failure"], &view["last_failure"]];
                let failure = failures.into_iter().find(|it| it.is_object());
                let failure = failure.map(|it| Failure {
                    reason: text(&it["reason"]),
                    code: text(&it["code"]),
                    message: text(&it["message"]),
                });
                let outcome = outcomes.into_iter().find_map(Value::as_str).unwrap_or_default().into();
                return Ok(End { outcome, result: Payload::read(&view["result"]["output"]), failure });
            }
            if left.is_zero() {
                let detail = format!("job {id} is {} after {timeout:?}", text(&view["state"]));
                return Err(Error::of("wait-timeout", "Not over", detail, 0));
            }
        }
    }

    /// Cancels a job: `gone` if it waited, `stopping` if it runs.
    ///
    /// # Errors
    /// `too-late` if it is over.
    pub fn cancel(&self, id: &str) -> Result<String, Error> {
        let (answer, _) =
            self.http.call("DELETE", &format!("{}/jobs/{}", self.tenant, quoted(id)), None, None, self.tries)?;
        Ok(text(&answer["status"]))
    }

    /// Ends [`Self::work`], now or as soon as it is called: no job is claimed any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}
