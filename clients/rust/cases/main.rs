//! Plays clients/cases.json against the server at $GRISTMILL_SERVER, and prints what came of each step, one a line.
//!
//!     client-cases clients/cases.json TENANT      # $GRISTMILL_FAULTY is a proxy that fails pushes

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gristmill_client::testing::Fake;
use gristmill_client::{Client, Ending, Error, Event, Filter, Job, NewJob, Output, Payload, Work};
use serde_json::{Value, json};

type Ended = Result<Output, Ending>;
type Stream = Box<dyn Iterator<Item = Result<Event, Error>>>;

struct Player {
    tenant: String,
    clients: HashMap<&'static str, Client>,
    fake: Fake,
    jobs: RefCell<Vec<(String, String)>>,
    streams: RefCell<HashMap<String, Stream>>,
}

fn ms(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap())
}

fn put(mut to: Value, name: &str, payload: Option<&Payload>) -> Value {
    match payload.map(|payload| (payload.json(), &payload.data)) {
        None => {}
        Some((Ok(value), _)) => to[name] = value,
        Some((Err(_), data)) => to["bytes"] = BASE64_STANDARD.encode(data).into(),
    }
    to
}

/// What a worker does with a job: `kind` says how it ends. Stops the worker after `until` jobs.
fn work(kind: &str, worked: &Mutex<Vec<Value>>, until: Option<u64>, client: &Client, job: &Job) -> Ended {
    let line = json!({ "attempt": job.attempt, "key": job.key, "traceparent": job.traceparent });
    worked.lock().unwrap().push(put(line, "body", Some(&job.body)));
    let number = worked.lock().unwrap().len() as u64;
    if until == Some(number) {
        client.stop();
    }
    match kind {
        "retry" if number == 1 => Err(Ending::retry("retry", "once more").after(Duration::ZERO)),
        "snooze" if number == 1 => Err(Ending::snooze(Duration::from_millis(100))),
        "reject" => Err(Ending::reject("no-address", "there is no address")),
        "fail" => Err(std::io::Error::other("broken").into()),
        "large" => Ok(json!("x".repeat(1 << 20)).into()),
        "cancelled" => {
            client.cancel(&job.id)?;
            let begun = Instant::now();
            while !job.is_cancelled() && begun.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
            Err(std::io::Error::other(if job.is_cancelled() { "cancelled" } else { "no heartbeat" }).into())
        }
        "sigterm" => {
            signal_hook::low_level::raise(signal_hook::consts::SIGTERM)?;
            Ok(job.body.clone().into())
        }
        _ => Ok(job.body.clone().into()),
    }
}

impl Player {
    fn new(tenant: &str) -> Self {
        let token = std::env::var("GRISTMILL_TOKEN").ok();
        let at = |url: &str, token: Option<String>| Client::at(url, token).tenant(tenant);
        let own = std::env::var("GRISTMILL_SERVER").unwrap();
        let clients = HashMap::from([
            ("", Client::new().tenant(tenant)),
            ("faulty", at(&std::env::var("GRISTMILL_FAULTY").unwrap(), token.clone())),
            ("moved", at(&format!("{}/moved", std::env::var("GRISTMILL_FAULTY").unwrap()), token.clone())),
            ("stranger", at(&own, Some("gm_wrong".into()))),
            ("nowhere", at("http://127.0.0.1:1", token).tries(2)),
        ]);
        Self {
            tenant: tenant.into(),
            clients,
            fake: Fake::default(),
            jobs: RefCell::default(),
            streams: RefCell::default(),
        }
    }

    fn id(&self, name: &Value) -> String {
        let name = name.as_str().unwrap();
        self.jobs.borrow().iter().find(|(known, _)| known == name).map_or_else(|| name.to_owned(), |(_, id)| id.clone())
    }

    #[expect(clippy::disallowed_methods, reason = "a client's clock")]
    fn with_options(&self, mut job: NewJob, step: &Value) -> NewJob {
        for (name, value) in step["options"].as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            job = match name.as_str() {
                "delay_ms" => job.delay(ms(value)),
                "keep_result_ms" => job.keep_result(ms(value)),
                "at_in_ms" => job.at(SystemTime::now() + ms(value)),
                "id" => job.id(text),
                "key" => job.key(text),
                "unique" => job.unique(text),
                "priority" => job.priority(text),
                "traceparent" => job.traceparent(text),
                "attempts" => job.attempts(value.as_u64().unwrap() as u32),
                "after" => {
                    let ids: Vec<String> = value.as_array().unwrap().iter().map(|name| self.id(name)).collect();
                    job.after(&ids.iter().map(String::as_str).collect::<Vec<_>>())
                }
                _ => panic!("there is no option {name}"),
            };
        }
        job
    }

    fn play(&self, step: &Value) -> Result<Value, Error> {
        let name = step["client"].as_str().unwrap_or_default();
        let is_fake = name == "fake";
        let client: &Client = if is_fake { &self.fake } else { &self.clients[name] };
        let topic = step["topic"].as_str().unwrap_or_default();
        let kind = step["function"].as_str().unwrap_or_default().to_owned();
        match step["do"].as_str().unwrap() {
            "push" => {
                let job = match step["bytes"].as_str() {
                    Some(bytes) => BASE64_STANDARD.decode(bytes).unwrap().into(),
                    None => step["body"].clone().into(),
                };
                let pushed = client.push(topic, self.with_options(job, step))?;
                let mut jobs = self.jobs.borrow_mut();
                let mut line = json!({ "status": pushed.status });
                if let Some((name, _)) = jobs.iter().find(|(_, id)| *id == pushed.id) {
                    line["is"] = name.as_str().into();
                }
                jobs.push((step["as"].as_str().unwrap().into(), pushed.id));
                Ok(line)
            }
            "push_many" => {
                let bodies = step["bodies"].as_array().unwrap().iter();
                let pushed =
                    client.push_many(topic, bodies.map(|body| self.with_options(body.clone().into(), step)))?;
                let names = (0..).map(|index| format!("{}{index}", step["as"].as_str().unwrap()));
                self.jobs.borrow_mut().extend(names.zip(pushed.iter().map(|job| job.id.clone())));
                Ok(json!({ "statuses": pushed.iter().map(|job| &job.status).collect::<Vec<_>>() }))
            }
            "wait" => {
                let timeout = step["timeout_ms"].as_u64().unwrap_or(60_000);
                let end = client.wait(&self.id(&step["job"]), Duration::from_millis(timeout))?;
                let mut line = put(json!({ "outcome": end.outcome }), "result", end.result.as_ref());
                if let Some(failure) = end.failure {
                    line["failure"] =
                        json!({ "reason": failure.reason, "code": failure.code, "message": failure.message });
                }
                Ok(line)
            }
            "cancel" => Ok(json!({ "cancelled": client.cancel(&self.id(&step["job"]))? })),
            "work" => {
                let (worked, worker) = (Mutex::default(), Client::new().tenant(&self.tenant));
                let run = |job: &Job| work(&kind, &worked, step["until"].as_u64(), &worker, job);
                if is_fake {
                    self.fake.work(topic, &Work::default(), run);
                } else {
                    let lease = Duration::from_millis(step["lease_ms"].as_u64().unwrap_or(60_000));
                    worker.work(topic, &Work { lease, ..Work::default() }, run)?;
                }
                Ok(json!({ "worked": worked.into_inner().unwrap() }))
            }
            "listen" => {
                let filter = Filter { topic: Some(topic), ..Filter::default() };
                let events: Stream = match is_fake {
                    true => Box::new(self.fake.events(filter).into_iter().map(Ok)),
                    false => Box::new(client.events(filter)?),
                };
                self.streams.borrow_mut().insert(name.into(), events);
                Ok(json!({ "listening": true }))
            }
            "hear" => {
                let (mut streams, id) = (self.streams.borrow_mut(), self.id(&step["job"]));
                let events = streams.get_mut(name).unwrap();
                let mut kinds = Vec::new();
                while kinds.len() < step["count"].as_u64().unwrap() as usize {
                    let event = events.next().unwrap()?;
                    if event.job() == id {
                        kinds.push(event.kind);
                    }
                }
                kinds.sort();
                Ok(json!({ "kinds": kinds }))
            }
            "pushed" => Ok(json!({ "pushed": self.fake.pushed(topic) })),
            "inline" => {
                let (worked, worker) = (Arc::new(Mutex::default()), Client::new());
                self.fake.inline(topic, move |job| work(&kind, &worked, None, &worker, job));
                Ok(json!({ "inline": true }))
            }
            other => panic!("there is no step {other}"),
        }
    }
}

/// Writes what the client logs to standard error, as those of the other languages do by themselves.
struct Logger;

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("gristmill_client")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("{}", record.args());
        }
    }

    fn flush(&self) {}
}

fn main() {
    log::set_logger(&Logger).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let arguments: Vec<String> = std::env::args().collect();
    let list: Value = serde_json::from_str(&std::fs::read_to_string(&arguments[1]).unwrap()).unwrap();
    let player = Player::new(&arguments[2]);
    for case in list["cases"].as_array().unwrap() {
        player.jobs.borrow_mut().clear();
        for step in case["steps"].as_array().unwrap() {
            let line = player.play(step);
            let line = line.unwrap_or_else(|error| {
                let mut line = json!({ "error": error.code, "status": error.status });
                if let Some(at) = error.detail.find("http://") {
                    let end = |at: &char| at.is_ascii_digit() || ".:".contains(*at);
                    let host: String = error.detail[at + 7..].chars().take_while(end).collect();
                    line["address"] = format!("http://{}", host.trim_end_matches(['.', ':'])).into();
                }
                line
            });
            println!("{line}");
        }
    }
}
