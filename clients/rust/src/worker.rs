//! Claims jobs, runs a function for each, and settles them.

use std::collections::{BTreeMap, HashMap};
use std::error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, text};
use crate::http::{Error, quoted};
use crate::job::{Payload, ms};

/// How often a worker that waits for jobs looks whether it is stopped.
const WAIT_MS: u64 = 2000;

/// A claimed job.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Job {
    pub id: String,
    pub topic: String,
    pub body: Payload,
    pub key: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub attempt: u64,
    pub attempts_max: u64,
    /// Why the last attempt failed.
    pub previous: Option<String>,
    pub traceparent: Option<String>,
    cancelled: Arc<AtomicBool>,
}

impl Job {
    pub(crate) fn of(claim: &Value, cancelled: Arc<AtomicBool>) -> Self {
        let spec = &claim["job"]["spec"];
        let optional = |value: &Value| value.as_str().map(str::to_owned);
        let pairs = spec["metadata"].as_array().into_iter().flatten();
        Self {
            id: text(&spec["id"]),
            topic: text(&spec["topic"]),
            body: Payload::read(&spec["body"]).unwrap_or(Payload { data: Vec::new(), content_type: None }),
            key: optional(&spec["key"]),
            metadata: pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
            attempt: claim["attempt"].as_u64().unwrap_or(1),
            attempts_max: claim["attempts_max"].as_u64().unwrap_or(1),
            previous: optional(&claim["previous"]),
            traceparent: optional(&claim["traceparent"]),
            cancelled,
        }
    }

    /// There is no point in going on: the job was cancelled, or another worker has it.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// A result: of `()` none, a value of JSON, or bytes.
#[derive(Debug)]
pub struct Output(Option<Payload>);

impl From<()> for Output {
    fn from((): ()) -> Self {
        Self(None)
    }
}

impl From<Value> for Output {
    fn from(value: Value) -> Self {
        Self(Some(Payload { data: value.to_string().into_bytes(), content_type: Some("application/json".into()) }))
    }
}

impl From<Payload> for Output {
    fn from(payload: Payload) -> Self {
        Self(Some(payload))
    }
}

impl From<Vec<u8>> for Output {
    fn from(data: Vec<u8>) -> Self {
        Self(Some(Payload { data, content_type: Some("application/octet-stream".into()) }))
    }
}

/// How an attempt ends without a result. Any error becomes a retry, so `?` does.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Ending {
    /// Run the job again after this time, with no attempt used.
    Snooze(Duration),
    /// The attempt failed; the next one comes after this time, or by the topic's backoff.
    Retry { code: String, message: String, after: Option<Duration> },
    /// The job can never succeed: it is dead at once.
    Reject { code: String, message: String },
}

impl<E: error::Error> From<E> for Ending {
    fn from(error: E) -> Self {
        Self::Retry { code: "error".into(), message: error.to_string(), after: None }
    }
}

/// Runs the function, and says how the attempt ended.
pub(crate) fn settlement<O: Into<Output>>(job: &Job, run: impl Fn(&Job) -> Result<O, Ending>) -> Value {
    let failure = |code: &str, message: &str| json!({ "code": code, "message": message });
    match catch_unwind(AssertUnwindSafe(|| run(job).map(Into::into))) {
        Ok(Ok(Output(None))) => json!({ "ack": {} }),
        Ok(Ok(Output(Some(result)))) => json!({ "ack": { "result": result.write() } }),
        Ok(Err(Ending::Snooze(after))) => json!({ "snooze_ms": ms(after) }),
        Ok(Err(Ending::Reject { code, message })) => json!({ "bury": { "error": failure(&code, &message) } }),
        _ if job.is_cancelled() => json!({ "release": {} }),
        Ok(Err(Ending::Retry { code, message, after: Some(after) })) => {
            json!({ "retry": { "error": failure(&code, &message), "after_ms": ms(after) } })
        }
        Ok(Err(Ending::Retry { code, message, after: None })) => {
            json!({ "retry": { "error": failure(&code, &message) } })
        }
        Err(_) => json!({ "retry": { "error": failure("panic", "the function panicked") } }),
    }
}

/// How [`Client::work`] works.
#[derive(Debug, Clone)]
pub struct Work<'a> {
    /// Jobs at once.
    pub concurrency: usize,
    /// How long a job is held without a heartbeat.
    pub lease: Duration,
    /// For operators.
    pub name: &'a str,
}

impl Default for Work<'_> {
    fn default() -> Self {
        Self { concurrency: 1, lease: Duration::from_secs(60), name: "rust" }
    }
}

/// One call of `work`. Has what runs, by lease.
struct Worker<'a> {
    client: &'a Client,
    lease_ms: u64,
    running: Mutex<HashMap<String, Arc<AtomicBool>>>,
}

impl Client {
    /// Works the jobs of a topic with `handler = "external"` until [`Self::stop`] or SIGTERM; then what runs is ended and settled. The function
    /// runs on threads. SIGTERM is caught from then on.
    ///
    /// # Errors
    /// The server refuses a claim, for another reason than its load.
    pub fn work<O, F>(&self, topic: &str, how: &Work<'_>, run: F) -> Result<(), Error>
    where
        O: Into<Output>,
        F: Fn(&Job) -> Result<O, Ending> + Sync,
    {
        let worker = Worker { client: self, lease_ms: ms(how.lease), running: Mutex::default() };
        let claim = format!("{}/topics/{}/claim", self.tenant, quoted(topic));
        let asked = json!({ "lease_ms": worker.lease_ms, "wait_ms": WAIT_MS, "worker": how.name });
        let signal = signal_hook::flag::register(signal_hook::consts::SIGTERM, self.stopped.clone());
        let (running, ended) = mpsc::channel::<()>();
        let (worker, run) = (&worker, &run);
        let ends = std::thread::scope(|scope| {
            scope.spawn(move || worker.beat(&ended));
            let threads: Vec<_> =
                (0..how.concurrency.max(1)).map(|_| scope.spawn(|| worker.claims(&claim, &asked, run))).collect();
            let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            drop(running);
            ends
        });
        signal.map(signal_hook::low_level::unregister).ok();
        ends.into_iter().flatten().collect()
    }
}

impl Worker<'_> {
    fn claims<O: Into<Output>>(
        &self,
        path: &str,
        asked: &Value,
        run: impl Fn(&Job) -> Result<O, Ending>,
    ) -> Result<(), Error> {
        let Client { http, stopped, .. } = self.client;
        while !stopped.load(Ordering::Relaxed) {
            match http.once("POST", path, Some(asked), None) {
                Ok(answer) => {
                    answer["claims"].as_array().into_iter().flatten().for_each(|claim| self.work_on(claim, &run))
                }
                Err(error) if error.is_temporary() || error.status >= 500 => {
                    log::warn!("no claim: {error}");
                    std::thread::sleep(error.retry_after.max(Duration::from_secs(1)));
                }
                Err(error) => {
                    self.client.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn work_on<O: Into<Output>>(&self, claim: &Value, run: impl Fn(&Job) -> Result<O, Ending>) {
        let (lease, cancelled) = (text(&claim["lease"]), Arc::<AtomicBool>::default());
        let end = if self.client.stopped.load(Ordering::Relaxed) {
            json!({ "release": {} })
        } else {
            self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(lease.clone(), cancelled.clone());
            settlement(&Job::of(claim, cancelled), run)
        };
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&lease);
        if let Err(error) = self.settle(&lease, end) {
            log::warn!("a job is not settled: {error}");
            // Such as a result that is too large.
            self.settle(&lease, json!({ "retry": { "error": { "code": error.code, "message": error.detail } } })).ok();
        }
    }

    fn settle(&self, lease: &str, mut end: Value) -> Result<(), Error> {
        end["lease"] = lease.into();
        let (path, document) = (format!("{}/leases/settle", self.client.tenant), json!({ "settlements": [end] }));
        self.client.http.call("POST", &path, Some(&document), None, self.client.tries).map(drop)
    }

    /// Extends the leases of the jobs that run, until the other end of the channel is dropped.
    fn beat(&self, ended: &mpsc::Receiver<()>) {
        while ended.recv_timeout(Duration::from_millis(self.lease_ms / 3)) == Err(RecvTimeoutError::Timeout) {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (leases, flags): (Vec<String>, Vec<_>) = running.into_iter().unzip();
            let asked = json!({ "leases": leases, "lease_ms": self.lease_ms });
            if leases.is_empty() {
                continue;
            }
            let answer =
                self.client.http.once("POST", &format!("{}/leases/extend", self.client.tenant), Some(&asked), None);
            let words = answer.ok().and_then(|answer| answer["extended"].as_array().cloned()).unwrap_or_default();
            for (flag, _) in flags.iter().zip(words).filter(|(_, word)| word != "extended") {
                flag.store(true, Ordering::Relaxed);
            }
        }
    }
}
