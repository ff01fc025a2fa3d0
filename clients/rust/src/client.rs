//! Push, wait, listen, cancel.

use std::env;
use std::io::{BufRead, BufReader, Lines};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{ANSWER, Asked, Document, Http, Key, Reader, STREAM, Transport, no_answer, quoted, random};
use crate::new_job::NewJob;
use crate::types::{End, Error, Event, Events, Filter, Pushed, ms, optional, text};

/// Jobs in a request.
const BATCH: usize = 1000;
/// If the server asks for more patience, the caller gets its error.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// A client of one tenant. Threads may share it.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    tenant: String,
    tries: u32,
    pub(crate) stopped: Arc<AtomicBool>,
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
        Self::of(Arc::new(Http::new(server, token.filter(|token| !token.is_empty())))).tries(5)
    }

    /// Asks once.
    pub(crate) fn of(transport: Arc<dyn Transport>) -> Self {
        Self { transport, tenant: "default".into(), tries: 1, stopped: Arc::default() }
    }

    /// The same for this tenant.
    #[must_use]
    pub fn tenant(self, name: &str) -> Self {
        Self { tenant: quoted(name), ..self }
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
        let pushed = self.send(topic, vec![job.into().0], false)?.pop();
        pushed.ok_or_else(|| no_answer("it says nothing of the job"))
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
        let jobs: Vec<Value> = jobs.into_iter().map(|job| job.into().0).collect();
        let mut pushed = Vec::with_capacity(jobs.len());
        for some in jobs.chunks(BATCH) {
            pushed.extend(self.send(topic, some.to_vec(), true)?);
        }
        Ok(pushed)
    }

    fn send(&self, topic: &str, mut jobs: Vec<Value>, is_list: bool) -> Result<Vec<Pushed>, Error> {
        let name = format!("{:016x}{:016x}", random(), random());
        // A key and these exclude each other: then ids tell a repeated push from another one's.
        let is_named = jobs.iter().any(|job| !job["id"].is_null() || !job["unique"].is_null());
        let made = jobs.iter_mut().enumerate().filter(|(_, job)| is_named && self.tries > 1 && job["id"].is_null());
        made.for_each(|(index, job)| job["id"] = format!("{name}-{index}").into());
        let document = if is_list { json!({ "jobs": jobs }) } else { jobs.remove(0) };
        let path = format!("topics/{}/jobs", quoted(topic));
        let mut answer = self.call("POST", &path, Some(&document), (!is_named).then_some(name.as_str()))?;
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            log::warn!("{}", text(warning));
        }
        let answers = if is_list { answer["jobs"].take() } else { json!([answer]) };
        let pushed = |it: &Value| {
            let (id, mut status) = (text(&it["id"]), text(&it["status"]));
            if id.starts_with(&name) && status != "refused" {
                status = "stored".into(); // by an earlier try
            }
            Pushed { id, status, problem: optional(&it["problem"]) }
        };
        Ok(answers.as_array().into_iter().flatten().map(pushed).collect())
    }

    /// Waits for the end of a job.
    ///
    /// # Errors
    /// `wait-timeout`, or as the server says.
    pub fn wait(&self, id: &str, timeout: Duration) -> Result<End, Error> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let path = format!("jobs/{}?wait_ms={}", quoted(id), ms(left).min(30_000));
            let view = self.call("GET", &path, None, None)?;
            if view["state"] == "finished" || view["state"] == "dead" {
                return Ok(End::read(&view));
            } else if left.is_zero() {
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
        Ok(text(&self.call("DELETE", &format!("jobs/{}", quoted(id)), None, None)?["status"]))
    }

    /// Listens to what happens from now on.
    ///
    /// # Errors
    /// The server refuses that or does not answer.
    pub fn events(&self, filter: Filter<'_>) -> Result<Events, Error> {
        let kinds = Some(filter.kinds.join(",")).filter(|kinds| !kinds.is_empty());
        let asked = [("topic", filter.topic), ("job", filter.job), ("kind", kinds.as_deref())];
        let asked = asked.iter().filter_map(|(name, value)| Some(format!("{name}={}&", quoted((*value)?))));
        let path = format!("events?{}", asked.collect::<String>());
        Ok(Events { lines: self.stream(&path)?, client: self.clone(), path })
    }

    /// Ends [`Self::work`], now or as soon as it is called: no job is claimed any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn stream(&self, path: &str) -> Result<Lines<BufReader<Reader>>, Error> {
        Ok(BufReader::new(self.open("GET", path, None, None, STREAM)?).lines())
    }

    /// What the server answers to a request below the tenant's path.
    fn open(
        &self,
        method: &str,
        path: &str,
        document: Document<'_>,
        key: Key<'_>,
        time: Duration,
    ) -> Result<Reader, Error> {
        let path = format!("/v1/tenants/{}/{path}", self.tenant);
        self.transport.send(&Asked { method, path: &path, document, key, time })
    }

    pub(crate) fn once(&self, method: &str, path: &str, document: Document<'_>, key: Key<'_>) -> Result<Value, Error> {
        serde_json::from_reader(self.open(method, path, document, key, ANSWER)?).map_err(no_answer)
    }

    /// The same, asked for until it comes.
    pub(crate) fn call(&self, method: &str, path: &str, document: Document<'_>, key: Key<'_>) -> Result<Value, Error> {
        let mut tried = 1;
        loop {
            let answer = self.once(method, path, document, key);
            let Err(error) = &answer else { return answer };
            let backoff = Duration::from_millis(100) * 2_u32.pow(tried.min(9));
            let wait = backoff.mul_f64(0.5 + (random() % 1000) as f64 / 2000.0).max(error.retry_after);
            if tried >= self.tries || !error.is_temporary() || wait > MOST_WAIT {
                return answer;
            }
            thread::sleep(wait);
            tried += 1;
        }
    }
}

impl Events {
    /// The next event of the stream that is open, if it has one.
    fn read(&mut self) -> Option<Event> {
        let mut kind = String::new();
        loop {
            match self.lines.next()?.ok()?.split_once(": ") {
                Some(("event", name)) => kind = name.into(),
                Some(("data", data)) => return Some(Event { kind, data: serde_json::from_str(data).ok()? }),
                _ => {}
            }
        }
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(event) = self.read() {
            return Some(Ok(event));
        }
        loop {
            thread::sleep(Duration::from_secs(1));
            match self.client.stream(&self.path) {
                Ok(lines) => {
                    self.lines = lines;
                    return Some(Ok(Event { kind: "reconnected".into(), data: Value::Null }));
                }
                Err(error) if error.is_temporary() => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
