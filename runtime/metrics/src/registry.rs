//! Where everything is counted, and the page that shows it.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{CallResult, Calls, Operation};
use super::event::Event;
use super::events::Events;
use super::exposition::{Exposition, MetricType};
use super::handlers::{Handlers, RELOADS, Reload};
use super::histogram::Histogram;
use super::process;
use super::requests::Requests;
use super::sources::Sources;
use super::topic::TopicMeter;
use super::topics::Topics;
use gristmill_core::job::{Name, TopicId};

/// The numbers and events of one process. Shared by all its rooms.
#[derive(Debug)]
pub struct Metrics {
    topics: Topics,
    calls: Calls,
    handlers: Handlers,
    requests: Requests,
    sources: Sources,
    events: Events,
}

impl Default for Metrics {
    fn default() -> Self {
        process::begin();
        Self {
            topics: Topics::default(),
            calls: Calls::default(),
            handlers: Handlers::default(),
            requests: Requests::default(),
            sources: Sources::default(),
            events: Events::default(),
        }
    }
}

impl Metrics {
    /// Where a topic is counted: to be kept, not to be asked for again and again.
    pub fn topic(&self, id: &TopicId) -> Arc<TopicMeter> {
        self.topics.of(id)
    }

    /// Tenants of which something was counted, in order.
    pub fn tenants(&self) -> Vec<Name> {
        self.topics.tenants()
    }

    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Tells an event, if anybody listens.
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        self.events.emit(event);
    }

    /// A call of the store.
    pub fn call(&self, operation: Operation, answer: CallResult, took: Duration) {
        self.calls.observe(operation, answer, took);
    }

    /// What became of a handler's file; `load`: how long it took to make it ready, if it was.
    pub fn reload(&self, handler: &Name, reload: Reload, load: Option<Duration>) {
        self.handlers.count(handler, reload, load);
    }

    /// How many attempts may be in flight, and how to learn how many are. Once; so are the following.
    pub fn set_guests(&self, most: usize, running: impl Fn() -> usize + Send + Sync + 'static) {
        self.sources.set_guests(most as u64, Box::new(move || running() as u64));
    }

    /// How to learn how many instances wait for their next job, and how many bytes their memories have.
    pub fn set_kept(&self, instances_and_bytes: impl Fn() -> (u64, u64) + Send + Sync + 'static) {
        self.sources.set_kept(Box::new(instances_and_bytes));
    }

    /// How to learn how many attempts are missing in the journal.
    pub fn set_journal(&self, lost: impl Fn() -> u64 + Send + Sync + 'static) {
        self.sources.set_journal(Box::new(lost));
    }

    /// What concerns the process as a whole, and no tenant's jobs.
    pub fn write_process(&self, exposition: &mut Exposition) {
        let version = env!("CARGO_PKG_VERSION");
        exposition
            .family("gristmill_build_info", MetricType::Info, "The version that runs.")
            .sample(&[("version", version)], 1);
        self.write_sources(exposition);
        self.write_handlers(exposition);
        self.write_calls(exposition);
        self.write_requests(exposition);
        process::write(exposition);
    }

    /// What this process did for the topics of a tenant, or of all.
    pub fn write_topics(&self, exposition: &mut Exposition, tenant: Option<&Name>) {
        let meters = self.topics.all(tenant);
        let help = "Attempts that this process made or took back, by how they ended.";
        let mut family = exposition.family("gristmill_node_attempts_total", MetricType::Counter, help);
        for meter in &meters {
            for (outcome, count) in meter.outcomes() {
                family.sample_if_any(&labels(meter, &[("outcome", outcome)]), count);
            }
        }
        let help = "Attempts that were settled by way of this process, by what became of the job.";
        let mut family = exposition.family("gristmill_node_jobs_total", MetricType::Counter, help);
        for meter in &meters {
            for ((event, reason), count) in meter.ends() {
                family.sample_if_any(&labels(meter, &[("event", event), ("reason", reason)]), count);
            }
            family.sample_if_any(&labels(meter, &[("event", "pushed"), ("reason", "")]), meter.pushed_in_all());
        }
        let help = "Fuel that guests used in this process.";
        let mut family = exposition.family("gristmill_node_fuel_total", MetricType::Counter, help);
        for meter in &meters {
            family.sample_if_any(&labels(meter, &[]), meter.fuel().sum());
        }
        for (name, help, of) in HISTOGRAMS {
            let mut family = exposition.family(name, MetricType::Histogram, help);
            for meter in &meters {
                family.histogram(&labels(meter, &[]), of(meter));
            }
        }
    }

    fn write_sources(&self, exposition: &mut Exposition) {
        if let Some((most, running)) = self.sources.guests() {
            exposition.family("gristmill_node_guests", MetricType::Gauge, "Attempts in flight.").sample(&[], running);
            exposition
                .family("gristmill_node_guests_max", MetricType::Gauge, "Attempts that may be in flight.")
                .sample(&[], most);
        }
        if let Some((instances, bytes)) = self.sources.kept() {
            let help = "Instances that wait for their next job.";
            exposition.family("gristmill_node_kept_instances", MetricType::Gauge, help).sample(&[], instances);
            let help = "Memory of the instances that wait for their next job.";
            exposition.family("gristmill_node_kept_bytes", MetricType::Gauge, help).sample(&[], bytes);
        }
        if let Some(lost) = self.sources.journal() {
            let help = "Attempts that are missing in the journal because it did not keep up.";
            exposition.family("gristmill_node_journal_lost_total", MetricType::Counter, help).sample(&[], lost);
        }
        let help = "Streams of events that are open.";
        exposition
            .family("gristmill_node_event_streams", MetricType::Gauge, help)
            .sample(&[], self.events.streams() as u64);
        let help = "Events that streams have missed because their readers were too slow.";
        exposition
            .family("gristmill_node_events_missed_total", MetricType::Counter, help)
            .sample(&[], self.events.missed());
    }

    fn write_handlers(&self, exposition: &mut Exposition) {
        let handlers = self.handlers.all();
        let help = "What became of the files in the handlers' folder.";
        let mut family = exposition.family("gristmill_node_handler_reloads_total", MetricType::Counter, help);
        for (name, handler) in &handlers {
            for ((_, result), count) in RELOADS.into_iter().zip(handler.reloads) {
                family.sample_if_any(&[("handler", name.as_str()), ("result", result)], count);
            }
        }
        let help = "How long it took to compile and link the version that was loaded last.";
        let mut family = exposition.family("gristmill_node_handler_load_seconds", MetricType::Gauge, help);
        for (name, load) in handlers.iter().filter_map(|(name, handler)| handler.load.map(|load| (name, load))) {
            family.float(&[("handler", name.as_str())], load.as_secs_f64());
        }
    }

    fn write_calls(&self, exposition: &mut Exposition) {
        let help = "How long the store took to answer this process.";
        let mut family = exposition.family("gristmill_node_store_call_duration_seconds", MetricType::Histogram, help);
        for (operation, result, histogram) in self.calls.all() {
            family.histogram(&[("operation", operation), ("result", result)], histogram);
        }
    }

    fn write_requests(&self, exposition: &mut Exposition) {
        let help = "Requests that were answered or given up.";
        let mut family = exposition.family("gristmill_node_http_requests_total", MetricType::Counter, help);
        self.requests.counts(|route, method, status, count| {
            family.sample_if_any(&[("route", route), ("method", method), ("status", status)], count);
        });
        let help = "How long requests took until their answer began.";
        let mut family = exposition.family("gristmill_node_http_request_duration_seconds", MetricType::Histogram, help);
        self.requests.durations(|route, method, histogram| {
            family.histogram(&[("route", route), ("method", method)], histogram);
        });
        let (open, accepted) = self.requests.connections();
        exposition
            .family("gristmill_node_http_connections", MetricType::Gauge, "Connections that are open.")
            .sample(&[], open);
        let help = "Connections that were accepted.";
        exposition.family("gristmill_node_http_accepted_total", MetricType::Counter, help).sample(&[], accepted);
    }
}

type OfTopic = fn(&TopicMeter) -> &Histogram;

const HISTOGRAMS: [(&str, &str, OfTopic); 5] = [
    ("gristmill_node_wait_seconds", "From due to the start of a job's first attempt.", TopicMeter::wait),
    ("gristmill_node_attempt_duration_seconds", "How long attempts ran.", TopicMeter::duration),
    ("gristmill_node_latency_seconds", "From due to the end of jobs that were done or died here.", TopicMeter::latency),
    ("gristmill_node_attempt_fuel", "Fuel that an attempt used.", TopicMeter::fuel),
    ("gristmill_node_attempt_memory_peak_bytes", "The most memory that an attempt had.", TopicMeter::memory),
];

fn labels<'a>(meter: &'a TopicMeter, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let (tenant, topic) = meter.labels();
    [("tenant", tenant), ("topic", topic)].into_iter().chain(more.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::exposition::Format;
    use super::super::topic::{Attempt, End, Usage};
    use super::*;
    use gristmill_core::outcome::OutcomeKind;

    #[test]
    fn what_is_counted_is_on_the_page() {
        let metrics = Metrics::default();
        let meter = metrics.topic(&"acme/a".parse().unwrap());
        let usage = Usage { duration: Duration::from_millis(2), fuel: 500, memory_peak_bytes: 1 << 16 };
        let time = Some(Duration::from_millis(3));
        meter.attempt(&Attempt {
            outcome: OutcomeKind::Complete,
            end: End::Acked,
            waited: time,
            usage: Some(usage),
            latency: time,
        });
        metrics.set_guests(8, || 3);
        metrics.call(Operation::Push, CallResult::Unavailable, Duration::from_millis(1));
        let mut exposition = Exposition::new(Format::Text);
        metrics.write_process(&mut exposition);
        metrics.write_topics(&mut exposition, None);
        let text = exposition.end();
        for line in [
            r#"gristmill_node_attempts_total{tenant="acme",topic="a",outcome="complete"} 1"#,
            r#"gristmill_node_jobs_total{tenant="acme",topic="a",event="acked",reason=""} 1"#,
            r#"gristmill_node_fuel_total{tenant="acme",topic="a"} 500"#,
            r#"gristmill_node_wait_seconds_sum{tenant="acme",topic="a"} 0.003"#,
            r#"gristmill_node_attempt_memory_peak_bytes_count{tenant="acme",topic="a"} 1"#,
            r#"gristmill_node_store_call_duration_seconds_count{operation="push",result="away"} 1"#,
            "gristmill_node_guests 3",
            "gristmill_node_guests_max 8",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
    }

    #[test]
    fn of_another_tenant_nothing_is_on_a_tenants_page() {
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
