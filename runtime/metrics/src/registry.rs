//! The registry of every number, and the tables of what it shows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::calls::{CallResult, Calls};
use super::event::Event;
use super::events::Events;
use super::exposition::MetricType::{Counter, Gauge, Histogram, Info};
use super::exposition::{Exposition, Measured, Metric, MetricType, metric};
use super::handlers::{Handlers, Reload};
use super::process::{self, Process};
use super::requests::Requests;
use super::topic::TopicMeter;
use super::topics::Topics;
use super::versions::{RecentByVersion, RecentOfVersion};
use gristmill_core::job::{Name, TopicId};

/// The numbers and events of one process, shared by all its parts.
#[derive(Debug)]
pub struct Metrics {
    topics: Topics,
    calls: Calls,
    handlers: Handlers,
    requests: Requests,
    readings: RwLock<Vec<Reading>>,
    events: Events,
}

/// A number that is counted elsewhere.
struct Reading {
    name: &'static str,
    metric_type: MetricType,
    help: &'static str,
    read: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        process::begin();
        Self {
            topics: Topics::default(),
            calls: Calls::default(),
            handlers: Handlers::default(),
            requests: Requests::default(),
            readings: RwLock::default(),
            events: Events::default(),
        }
    }
}

impl Metrics {
    /// The meter of a topic. Callers keep it: it is found by name.
    pub fn topic(&self, id: &TopicId) -> Arc<TopicMeter> {
        self.topics.of(id)
    }

    /// What the attempts of a topic's last minute came to, by the version of its handler. `None`: none has ended yet, or it is counted with other
    /// topics.
    pub fn recent(&self, id: &TopicId) -> Option<RecentByVersion> {
        self.topics.own(id)?.recent()
    }

    /// Tenants for which something was counted, in order.
    pub fn tenants(&self) -> Vec<Name> {
        self.topics.tenants()
    }

    /// The numbers of the HTTP server.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The events, to send and to receive.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Emits an event. It is only made if a stream is open.
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        self.events.emit(event);
    }

    /// Counts a call of the store. `operation`: the method, which becomes the label.
    pub fn call(&self, operation: &'static str, result: CallResult, took: Duration) {
        self.calls.observe(operation, result, took);
    }

    /// Counts what became of a handler's file. `load`: how long it took to compile and link, if it was.
    pub fn reload(&self, handler: &Name, reload: Reload, load: Option<Duration>) {
        self.handlers.count(handler, reload, load);
    }

    /// Shows a number that is counted elsewhere: `read` is called for each exposition. A later one of the same name replaces it.
    pub fn register(
        &self,
        name: &'static str,
        metric_type: MetricType,
        help: &'static str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        let mut readings = self.readings.write();
        readings.retain(|known| known.name != name);
        readings.push(Reading { name, metric_type, help, read: Box::new(read) });
    }

    /// Writes what concerns the process as a whole, and no tenant's jobs.
    pub fn write_process(&self, exposition: &mut Exposition) {
        exposition.write(METRICS, std::iter::once(self));
        for Reading { name, metric_type, help, read } in &*self.readings.read() {
            exposition.family(name, *metric_type, help).sample(&[], read());
        }
        exposition.write(process::METRICS, std::iter::once(&Process::read()));
    }

    /// Writes what this process did for the topics of a tenant, or of all.
    pub fn write_topics(&self, exposition: &mut Exposition, tenant: Option<&Name>) {
        let meters = self.topics.all(tenant);
        exposition.write(TOPIC_METRICS, meters.iter().map(Arc::as_ref));
    }
}

impl Measured for Metrics {}

/// What this process counts about itself.
const METRICS: &[Metric<Metrics>] = &[
    metric("gristmill_build_info", Info, "The version that runs.", |_, family| {
        family.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    }),
    metric("gristmill_node_event_streams", Gauge, "Streams of events that are open.", |metrics, family| {
        family.sample(&[], metrics.events.streams() as u64);
    }),
    metric("gristmill_node_events_missed_total", Counter, EVENTS_MISSED, |metrics, family| {
        family.sample(&[], metrics.events.missed());
    }),
    metric("gristmill_node_handler_reloads_total", Counter, HANDLER_RELOADS, |metrics, family| {
        for (name, handler) in metrics.handlers.all() {
            for (result, count) in handler.reloads() {
                family.sample_if_any(&[("handler", name.as_str()), ("result", result)], count);
            }
        }
    }),
    metric("gristmill_node_handler_load_seconds", Gauge, HANDLER_LOAD, |metrics, family| {
        for (name, handler) in metrics.handlers.all() {
            let load = handler.load.into_iter();
            load.for_each(|load| family.float(&[("handler", name.as_str())], load.as_secs_f64()));
        }
    }),
    metric("gristmill_node_store_call_duration_seconds", Histogram, STORE_CALLS, |metrics, family| {
        metrics.calls.for_each(|operation, result, histogram| {
            family.histogram(&[("operation", operation), ("result", result)], histogram);
        });
    }),
    metric("gristmill_node_http_requests_total", Counter, HTTP_REQUESTS, |metrics, family| {
        for (route, name, method) in metrics.requests.all() {
            for (status, count) in method.counts() {
                family.sample_if_any(&[("route", &route), ("method", name), ("status", &status)], count);
            }
        }
    }),
    metric("gristmill_node_http_request_duration_seconds", Histogram, HTTP_DURATION, |metrics, family| {
        for (route, name, method) in metrics.requests.all() {
            family.histogram(&[("route", &route), ("method", name)], &method.duration);
        }
    }),
    metric("gristmill_node_http_connections", Gauge, "Connections that are open.", |metrics, family| {
        family.sample(&[], metrics.requests.connections().0);
    }),
    metric("gristmill_node_http_accepted_total", Counter, "Connections that were accepted.", |metrics, family| {
        family.sample(&[], metrics.requests.connections().1);
    }),
];

const EVENTS_MISSED: &str = "Events that streams have missed because their readers were too slow.";
const HANDLER_RELOADS: &str = "What became of the files in the handlers' folder.";
const HANDLER_LOAD: &str = "How long it took to compile and link the version that was loaded last.";
const STORE_CALLS: &str = "How long the store took to answer this process.";
const HTTP_REQUESTS: &str = "Requests that were answered or given up.";
const HTTP_DURATION: &str = "How long requests took until their answer began.";

/// What this process counts for each topic.
const TOPIC_METRICS: &[Metric<TopicMeter>] = &[
    metric("gristmill_node_attempts_total", Counter, ATTEMPTS, |topic, family| {
        for (outcome, count) in topic.outcomes() {
            family.sample_if_any(&[("outcome", outcome)], count);
        }
    }),
    metric("gristmill_node_jobs_total", Counter, JOBS, |topic, family| {
        for ((event, reason), count) in topic.events() {
            family.sample_if_any(&[("event", event), ("reason", reason)], count);
        }
    }),
    metric("gristmill_node_recent_attempts", Gauge, RECENT, |topic, family| {
        let Some(RecentByVersion { serving, before }) = topic.recent() else { return };
        for (version, of) in [("serving", Some(serving)), ("before", before)] {
            let Some(RecentOfVersion { attempts, failed, .. }) = of else { continue };
            family.sample(&[("version", version), ("result", "done")], attempts - failed);
            family.sample(&[("version", version), ("result", "failed")], failed);
        }
    }),
    metric("gristmill_node_fuel_total", Counter, "Fuel that guests used in this process.", |topic, family| {
        family.sample_if_any(&[], topic.fuel.sum());
    }),
    metric("gristmill_node_wait_seconds", Histogram, WAIT, |topic, family| family.histogram(&[], &topic.wait)),
    metric("gristmill_node_attempt_duration_seconds", Histogram, "How long attempts ran.", |topic, family| {
        family.histogram(&[], &topic.duration);
    }),
    metric("gristmill_node_latency_seconds", Histogram, LATENCY, |topic, family| family.histogram(&[], &topic.latency)),
    metric("gristmill_node_attempt_fuel", Histogram, "Fuel that an attempt used.", |topic, family| {
        family.histogram(&[], &topic.fuel);
    }),
    metric("gristmill_node_attempt_memory_peak_bytes", Histogram, MEMORY_PEAK, |topic, family| {
        family.histogram(&[], &topic.memory);
    }),
];

const ATTEMPTS: &str = "Attempts that this process made or took back, by how they ended.";
const RECENT: &str =
    "Attempts of the last minute, of the version that serves and of the last minute of the one before it.";
const JOBS: &str = "Attempts that were settled by way of this process, by what became of the job.";
const WAIT: &str = "From due to the start of a job's first attempt.";
const LATENCY: &str = "From due to the end of jobs that were done or died here.";
const MEMORY_PEAK: &str = "The most memory that an attempt had.";

#[cfg(test)]
mod tests {
    use super::super::exposition::Format;
    use super::super::topic::{Attempt, Usage};
    use super::*;
    use gristmill_core::outcome::{OutcomeKind, Settled, Verdict};

    #[test]
    fn every_counted_number_is_in_the_exposition() {
        let metrics = Metrics::default();
        let meter = metrics.topic(&"acme/a".parse().unwrap());
        let usage = Usage { duration: Duration::from_millis(2), fuel: 500, memory_peak_bytes: 1 << 16 };
        let time = Some(Duration::from_millis(3));
        meter.attempt(&Attempt {
            outcome: OutcomeKind::Complete,
            verdict: &Verdict::Ack(None),
            settled: Some(Settled::Done),
            ran: Some((Some([7; 32]), std::time::Instant::now())),
            waited: time,
            usage: Some(usage),
            latency: time,
        });
        metrics.register("gristmill_node_guests", Gauge, "Attempts in flight.", || 7);
        metrics.register("gristmill_node_guests", Gauge, "Attempts in flight.", || 3);
        metrics.call("push", CallResult::Unavailable, Duration::from_millis(1));
        let mut exposition = Exposition::new(Format::Text);
        metrics.write_process(&mut exposition);
        metrics.write_topics(&mut exposition, None);
        let text = exposition.end();
        for line in [
            r#"gristmill_node_attempts_total{tenant="acme",topic="a",outcome="complete"} 1"#,
            r#"gristmill_node_jobs_total{tenant="acme",topic="a",event="acked",reason=""} 1"#,
            r#"gristmill_node_fuel_total{tenant="acme",topic="a"} 500"#,
            r#"gristmill_node_recent_attempts{tenant="acme",topic="a",version="serving",result="done"} 1"#,
            r#"gristmill_node_recent_attempts{tenant="acme",topic="a",version="serving",result="failed"} 0"#,
            r#"gristmill_node_wait_seconds_sum{tenant="acme",topic="a"} 0.003"#,
            r#"gristmill_node_attempt_memory_peak_bytes_count{tenant="acme",topic="a"} 1"#,
            r#"gristmill_node_store_call_duration_seconds_count{operation="push",result="unavailable"} 1"#,
            "gristmill_node_guests 3",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
    }

    #[test]
    fn a_tenants_exposition_shows_nothing_of_another_tenant() {
        let metrics = Metrics::default();
        for topic in ["acme/a", "mill/b"] {
            metrics.topic(&topic.parse().unwrap()).pushed(1);
        }
        let mut exposition = Exposition::new(Format::Text);
        metrics.write_topics(&mut exposition, Some(&"mill".parse().unwrap()));
        let text = exposition.end();
        assert!(text.contains("mill") && !text.contains("acme"), "{text}");
    }
}
