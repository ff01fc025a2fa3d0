//! Claims jobs, runs a function for each, and settles them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::http::quoted;
use crate::types::{Ending, Error, Job, Output, Work, ms, text};

/// How often a worker that waits for jobs looks whether it is stopped.
const WAIT_MS: u64 = 2000;

/// Runs the function, and says how the attempt ended.
pub(crate) fn settlement<O: Into<Output>>(job: &Job, run: impl Fn(&Job) -> Result<O, Ending>) -> Value {
    let end = match catch_unwind(AssertUnwindSafe(|| run(job).map(Into::into))) {
        Ok(Ok(Output(end)) | Err(Ending(end))) => end,
        Err(_) => Ending::retry("panic", "the function panicked").0,
    };
    if job.is_cancelled() && !end["retry"].is_null() { json!({ "release": {} }) } else { end }
}

/// One call of `work`. Has what runs, by lease.
struct Worker<'a> {
    client: &'a Client,
    claim: String,
    asked: Value,
    attempt: &'a (dyn Fn(&Job) -> Value + Sync),
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
        let worker = Worker {
            client: self,
            claim: format!("topics/{}/claim", quoted(topic)),
            asked: json!({ "lease_ms": ms(how.lease), "wait_ms": WAIT_MS, "worker": how.name }),
            attempt: &|job| settlement(job, &run),
            running: Mutex::default(),
        };
        let signal = signal_hook::flag::register(signal_hook::consts::SIGTERM, self.stopped.clone());
        let (working, ended) = mpsc::channel();
        let ends = thread::scope(|scope| {
            scope.spawn(|| worker.beat(how.lease, ended));
            let threads: Vec<_> = (0..how.concurrency.max(1)).map(|_| scope.spawn(|| worker.claims())).collect();
            let ends: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            drop(working);
            ends
        });
        signal.map(signal_hook::low_level::unregister).ok();
        ends.into_iter().flatten().collect()
    }
}

impl Worker<'_> {
    fn is_stopped(&self) -> bool {
        self.client.stopped.load(Ordering::Relaxed)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Arc<AtomicBool>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claims(&self) -> Result<(), Error> {
        while !self.is_stopped() {
            match self.client.once("POST", &self.claim, Some(&self.asked), None) {
                Ok(answer) => answer["claims"].as_array().into_iter().flatten().for_each(|claim| self.work_on(claim)),
                Err(error) if error.is_temporary() || error.status >= 500 => {
                    log::warn!("no claim: {error}");
                    thread::sleep(error.retry_after.max(Duration::from_secs(1)));
                }
                Err(error) => {
                    self.client.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn work_on(&self, claim: &Value) {
        let (lease, job) = (text(&claim["lease"]), Job::read(claim));
        self.running().insert(lease.clone(), job.cancelled.clone());
        let end = if self.is_stopped() { json!({ "release": {} }) } else { (self.attempt)(&job) };
        self.running().remove(&lease);
        if let Err(error) = self.settle(&lease, end) {
            log::warn!("a job is not settled: {error}");
            self.settle(&lease, Ending::retry(&error.code, error.detail).0).ok(); // such as a result that is too large
        }
    }

    fn settle(&self, lease: &str, mut end: Value) -> Result<Value, Error> {
        end["lease"] = lease.into();
        self.client.call("POST", "leases/settle", Some(&json!({ "settlements": [end] })), None)
    }

    /// Extends the leases of the jobs that run, until the other end of the channel is dropped.
    fn beat(&self, lease: Duration, ended: mpsc::Receiver<()>) {
        while ended.recv_timeout(lease / 3) == Err(RecvTimeoutError::Timeout) {
            let (leases, flags): (Vec<_>, Vec<_>) = self.running().clone().into_iter().unzip();
            if leases.is_empty() {
                continue;
            }
            let asked = json!({ "leases": leases, "lease_ms": ms(lease) });
            let answer = self.client.once("POST", "leases/extend", Some(&asked), None).unwrap_or_default();
            for (flag, word) in flags.iter().zip(answer["extended"].as_array().into_iter().flatten()) {
                flag.store(word != "extended", Ordering::Relaxed);
            }
        }
    }
}
