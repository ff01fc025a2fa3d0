//! A client without a server, for tests.

use std::collections::HashMap;
use std::fmt;
use std::io::Cursor;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::client::Client;
use crate::http::{Asked, Reader, Transport};
use crate::types::{Ending, Error, Event, Filter, Job, Output, Work};
use crate::worker::settlement;

/// A [`Client`] that keeps jobs in memory. Time stands still: jobs wait until [`Self::work`], whatever their delays.
#[derive(Debug)]
pub struct Fake {
    client: Client,
    server: Arc<Server>,
}

impl Deref for Fake {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Default for Fake {
    fn default() -> Self {
        let server = Arc::<Server>::default();
        Self { client: Client::of(server.clone()), server }
    }
}

impl Fake {
    /// What was pushed to the topic, as the documents of the API, each with its `topic`.
    pub fn pushed(&self, topic: &str) -> Vec<Value> {
        self.server.state().jobs.iter().map(|job| job["document"].clone()).filter(|job| job["topic"] == topic).collect()
    }

    /// From now on the function does each job of the topic when it is pushed.
    pub fn inline<O: Into<Output>>(
        &self,
        topic: &str,
        run: impl Fn(&Job) -> Result<O, Ending> + Send + Sync + 'static,
    ) {
        self.server.state().inline.insert(topic.into(), Arc::new(move |job| settlement(job, &run)));
    }

    /// Does what waits in the topic, and returns.
    pub fn work<O: Into<Output>>(&self, topic: &str, _: &Work<'_>, run: impl Fn(&Job) -> Result<O, Ending>) {
        let waiting: Vec<usize> = self.server.state().waiting(topic).collect();
        waiting.into_iter().for_each(|index| self.server.run(index, |job| settlement(job, &run)));
    }

    /// What has happened so far.
    pub fn events(&self, filter: Filter<'_>) -> Vec<Event> {
        let fits = |event: &&Event| {
            filter.topic.is_none_or(|topic| event.data["topic"] == topic)
                && filter.job.is_none_or(|job| event.data["job"] == job)
                && (filter.kinds.is_empty() || filter.kinds.contains(&event.kind.as_str()))
        };
        self.server.state().events.iter().filter(fits).cloned().collect()
    }
}

type Inline = Arc<dyn Fn(&Job) -> Value + Send + Sync>;

/// Jobs are as the API shows them, each with the `document` that was pushed.
#[derive(Default)]
struct State {
    jobs: Vec<Value>,
    inline: HashMap<String, Inline>,
    events: Vec<Event>,
}

impl State {
    fn waiting(&self, topic: &str) -> impl Iterator<Item = usize> {
        (0..self.jobs.len()).filter(move |&index| {
            self.jobs[index]["document"]["topic"] == topic && self.jobs[index]["state"] == "ready"
        })
    }

    fn change(&mut self, index: usize, kind: &str, state: &str, result: Value, failure: Value) {
        let job = &mut self.jobs[index];
        (job["state"], job["result"], job["last_failure"]) = (state.into(), result, failure);
        let data = json!({ "kind": kind, "topic": job["document"]["topic"], "job": job["id"] });
        self.events.push(Event { kind: kind.into(), data });
    }
}

/// In place of a server.
#[derive(Default)]
struct Server(Mutex<State>);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, topic: &str, document: &Value) -> Value {
        let mut state = self.state();
        let is_same = |&index: &usize| {
            !document["unique"].is_null() && state.jobs[index]["document"]["unique"] == document["unique"]
        };
        if let Some(index) = state.waiting(topic).find(is_same) {
            return json!({ "id": state.jobs[index]["id"], "status": "duplicate" });
        }
        let (index, mut document) = (state.jobs.len(), document.clone());
        document["topic"] = topic.into();
        let id = document["id"].as_str().map_or_else(|| format!("fake-{index}"), str::to_owned);
        state.jobs.push(json!({ "id": id, "document": document }));
        state.change(index, "job-pushed", "ready", Value::Null, Value::Null);
        let inline = state.inline.get(topic).cloned();
        drop(state);
        if let Some(attempt) = inline {
            self.run(index, &*attempt);
        }
        json!({ "id": id, "status": "stored" })
    }

    /// One attempt, and further ones at once as long as the option `attempts` allows them.
    fn run(&self, index: usize, attempt: impl Fn(&Job) -> Value) {
        let job = self.state().jobs[index].clone();
        let most = job["document"]["attempts_max"].as_u64().unwrap_or(1);
        for number in 1..=most {
            let mut end = attempt(&Job::read(&claim(&job, number, most)));
            let mut state = self.state();
            if !end["ack"].is_null() {
                let result = json!({ "outcome": "complete", "output": end["ack"]["result"] });
                return state.change(index, "job-completed", "finished", result, Value::Null);
            } else if !end["snooze_ms"].is_null() {
                return state.change(index, "job-snoozed", "ready", Value::Null, Value::Null);
            } else if !end["bury"].is_null() || number == most {
                let (reason, kind) = if end["bury"].is_null() { ("failed", "retry") } else { ("rejected", "bury") };
                let mut failure = end[kind]["error"].take();
                failure["reason"] = reason.into();
                return state.change(index, "job-dead", "dead", Value::Null, failure);
            }
        }
    }

    fn answer(&self, asked: &Asked<'_>) -> Result<Value, Error> {
        let name = asked.path.split(['/', '?']).nth(5).unwrap_or_default();
        if let Some(document) = asked.document {
            let Some(jobs) = document["jobs"].as_array() else { return Ok(self.push(name, document)) };
            return Ok(json!({ "jobs": jobs.iter().map(|job| self.push(name, job)).collect::<Vec<_>>() }));
        }
        let mut state = self.state();
        let Some(index) = state.jobs.iter().position(|job| job["id"] == name) else {
            return Err(Error::of("job-unknown", "Not Found", format!("job {name} was not pushed"), 404));
        };
        if asked.method == "GET" {
            return Ok(state.jobs[index].clone());
        } else if state.jobs[index]["state"] != "ready" {
            return Err(Error::of("too-late", "Conflict", format!("job {name} is over"), 409));
        }
        state.change(index, "job-cancelled", "finished", json!({ "outcome": "cancelled" }), Value::Null);
        Ok(json!({ "status": "gone" }))
    }
}

impl Transport for Server {
    fn send(&self, asked: &Asked<'_>) -> Result<Reader, Error> {
        Ok(Box::new(Cursor::new(self.answer(asked)?.to_string())))
    }
}

/// What a worker would get for the job.
fn claim(job: &Value, attempt: u64, most: u64) -> Value {
    let document = &job["document"];
    let body = match &document["body_base64"] {
        Value::Null => json!({ "text": document["body"].to_string(), "content_type": "application/json" }),
        text => json!({ "base64": text }),
    };
    let metadata: Vec<_> = document["metadata"].as_object().into_iter().flatten().collect();
    let spec = json!({ "id": job["id"], "topic": document["topic"], "key": document["key"], "body": body, "metadata": metadata });
    json!({ "attempt": attempt, "attempts_max": most, "traceparent": document["metadata"]["traceparent"], "job": { "spec": spec } })
}
