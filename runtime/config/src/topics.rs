//! Topics, in layers: what is built in, `[defaults]`, the tenant's defaults, the topic itself. Each layer changes what
//! it names and leaves the rest alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::adapter::{self, adapter};
use super::bounds::{self, Bounds};
use super::diagnostic::Span;
use super::fleet_limits::fleet_limits;
use super::grants::{self, Secrets};
use super::http_grant;
use super::limits::{self, TenantLimits};
use super::ranges;
use super::read::{Problems, Section, name};
use super::schedules;
use super::stores::{self, Placement};
use gristmill_core::job::{DEFAULT_TENANT, Name, TopicId};
use gristmill_core::time::millis;
use gristmill_core::topic::{Backoff, BackoffKind, BadRecordPolicy, Capability, EXTERNAL, FleetLimits, Topic};
use gristmill_core::units::DURATION;

/// The topics of a manifest while they are read.
#[derive(Debug)]
pub(super) struct Topics {
    pub(super) topics: BTreeMap<TopicId, Topic>,
    /// Where each topic names its handler, or itself if it does not.
    pub(super) places: BTreeMap<TopicId, Span>,
    /// A topic with nothing but `[defaults]` applied. Its names mean nothing.
    pub(super) template: Topic,
    /// The default tenant, and those that have a section.
    pub(super) tenants: BTreeSet<Name>,
    /// What the tenants may ask for that have limits.
    pub(super) limits: BTreeMap<Name, TenantLimits>,
    /// The stores that tenants name, to be checked by who knows the stores.
    pub(super) placements: Vec<Placement>,
    /// The topics that are spread over partitions, which takes a Redis; to be checked by who knows the stores.
    pub(super) spread: Vec<(TopicId, Span)>,
    /// The topics whose keys have states, which takes a single store; also to be checked.
    pub(super) stateful: Vec<(TopicId, Span)>,
    /// The topics that grants name, by tenant and key, to be checked once all are known.
    targets: Vec<(Name, &'static str, Name, Span)>,
}

/// What a tenant's topics are read by.
struct Around<'t> {
    /// The manifest's.
    folder: &'t Path,
    secrets: Secrets,
    bounds: Option<Bounds>,
    /// The sections that speak for a topic which does not, the nearest first.
    defaults: Vec<Section<'t>>,
}

pub(super) fn template() -> Topic {
    let name = default_tenant();
    Topic::with_defaults(TopicId { tenant: name.clone(), topic: name.clone() }, name)
}

pub(super) fn default_tenant() -> Name {
    #[expect(
        clippy::expect_used,
        reason = "the constant keeps the rule for names; every test of a manifest comes through here"
    )]
    DEFAULT_TENANT.parse().expect("`default` is a name")
}

pub(super) fn read(root: &mut Section<'_>, folder: &Path, secrets: Secrets) -> Topics {
    let mut read = Topics {
        topics: BTreeMap::new(),
        places: BTreeMap::new(),
        template: template(),
        tenants: BTreeSet::from([default_tenant()]),
        limits: BTreeMap::new(),
        placements: Vec::new(),
        spread: Vec::new(),
        stateful: Vec::new(),
        targets: Vec::new(),
    };
    let tenant = default_tenant();
    read.limits.extend(limits::limits(root).map(|limits| (tenant.clone(), limits)));
    let defaults = root.section("defaults");
    if let Some(section) = defaults.clone() {
        read.defaults(&tenant, section);
    }
    read.template.fleet.tenant = read.limits.get(&tenant).map(|limits| limits.fleet).unwrap_or_default();
    let template = read.template.clone();
    read.topics_of(&tenant, &template, root, Around { folder, secrets, bounds: None, defaults: Vec::new() });
    for (written, span, mut section) in root.sections("tenants") {
        let problems = section.problems();
        if written == DEFAULT_TENANT {
            let title = format!("the tenant `{DEFAULT_TENANT}` has no section of its own");
            let help = "write its topics as [topics.NAME], its defaults as [defaults], its limits as [limits]";
            problems.report(span, title, help);
            continue;
        }
        let Some(tenant) = name(written, span, problems) else { continue };
        read.tenants.insert(tenant.clone());
        read.placements.extend(stores::placement(&mut section, &tenant));
        let bounds = bounds::bounds(&mut section);
        read.limits.extend(limits::limits(&mut section).map(|limits| (tenant.clone(), limits)));
        let mut template = template.clone();
        let own = section.section("defaults");
        if let Some(mut defaults) = own.clone() {
            read.layer(&tenant, &mut template, &mut defaults);
            only_for_topics(&mut defaults);
            defaults.finish();
        }
        let defaults = own.into_iter().chain(defaults.clone()).collect();
        read.topics_of(&tenant, &template, &mut section, Around { folder, secrets, bounds, defaults });
        section.finish();
    }
    read.check_targets(root.problems());
    read
}

impl Topics {
    fn defaults(&mut self, tenant: &Name, mut section: Section<'_>) {
        let mut template = self.template.clone();
        self.layer(tenant, &mut template, &mut section);
        only_for_topics(&mut section);
        section.finish();
        self.template = template;
    }

    fn topics_of(&mut self, tenant: &Name, template: &Topic, outer: &mut Section<'_>, mut around: Around<'_>) {
        for (written, span, mut section) in outer.sections("topics") {
            let Some(own) = name(written, span.clone(), section.problems()) else { continue };
            let id = TopicId { tenant: tenant.clone(), topic: own.clone() };
            let mut topic = Topic { id: id.clone(), handler: own, ..template.clone() };
            let place = section.value("handler").map_or(span, |value| value.span());
            if let Some(handler) = section.name("handler") {
                if let Some(stem) = handler.as_str().strip_suffix(".wasm") {
                    let title = format!("`{handler}` is the name of a file, and `handler` is one without `.wasm`");
                    section.problems().report(place.clone(), title, format!("write handler = \"{stem}\""));
                }
                topic.external = handler.as_str() == EXTERNAL;
                topic.handler = handler;
            }
            self.layer(tenant, &mut topic, &mut section);
            topic.adapter = adapter(&mut section);
            topic.fleet = fleet_limits(&mut section);
            if topic.grants.has(Capability::State)
                && let Some(value) = section.value(Capability::State.name())
            {
                self.stateful.push((id.clone(), value.span()));
                one_writer(&section, &topic.fleet, value.span());
            }
            topic.fleet.tenant = self.limits.get(tenant).map(|limits| limits.fleet).unwrap_or_default();
            section.quantity(&ranges::PARTITIONS, &mut topic.partitions);
            if let Some(value) = section.value(ranges::PARTITIONS.key).filter(|_| topic.partitions > 1) {
                self.spread.push((id.clone(), value.span()));
            }
            let grants = Arc::make_mut(&mut topic.grants);
            grants.config = grants::config(&mut section);
            let mut withheld = Vec::new();
            grants.env = grants::env(&mut section, around.folder, around.secrets, &mut withheld);
            grants.secrets = grants::secrets(&mut section, around.folder, around.secrets, &mut withheld);
            let http = http_grant::http(&mut section);
            grants::check_hosts(&section, &withheld, http.as_ref());
            grants.withheld = withheld.into_iter().map(|written| written.secret).collect();
            grants.http = http.as_ref().map(|http| Arc::clone(&http.grant));
            topic.schedules = Arc::new(schedules::schedules(&mut section, topic.ttl));
            if let Some(bounds) = &mut around.bounds {
                let layers: Vec<_> = std::iter::once(&section).chain(&around.defaults).collect();
                bounds.check(&layers, http.as_ref());
            }
            section.finish();
            self.places.insert(id.clone(), place);
            self.topics.insert(id, topic);
        }
    }

    /// What every layer may change.
    fn layer(&mut self, tenant: &Name, topic: &mut Topic, section: &mut Section<'_>) {
        section.quantity(&ranges::CONCURRENCY, &mut topic.concurrency);
        section.quantity(&ranges::REUSE, &mut topic.reuse);
        section.quantity(&ranges::FUEL, &mut topic.limits.fuel);
        section.quantity(&ranges::MEMORY, &mut topic.limits.memory_bytes);
        section.quantity(&ranges::TIMEOUT, &mut topic.limits.timeout);
        section.quantity(&ranges::ATTEMPTS, &mut topic.retry.attempts);
        backoff(section, &mut topic.retry.backoff);
        section.quantity(&ranges::PAYLOAD_LIMIT, &mut topic.limits.payload_bytes);
        section.quantity(&ranges::OUTPUT_LIMIT, &mut topic.limits.output_bytes);
        section.quantity(&ranges::LOG_LIMIT, &mut topic.limits.log_bytes);
        section.quantity(&ranges::HOST_CALLS, &mut topic.limits.host_calls);
        section.quantity(&ranges::FOLLOW_UPS, &mut topic.limits.follow_ups);
        section.quantity(&ranges::CHECKPOINT_LIMIT, &mut topic.limits.checkpoint_bytes);
        section.quantity(&ranges::STATE_LIMIT, &mut topic.limits.state_bytes);
        section.quantity(&ranges::STATE_TTL, &mut topic.state_ttl);
        section.quantity(&ranges::RESULT_RETENTION, &mut topic.result_retention);
        section.quantity(&ranges::ENDED_RETENTION, &mut topic.ended_retention);
        ttl(section, topic);
        section.quantity(&ranges::DEAD_LIMIT, &mut topic.dead.keep);
        section.quantity(&ranges::DEAD_RETENTION, &mut topic.dead.retention);
        section.boolean("raw-producers", &mut topic.raw_producers);
        section.boolean("park", &mut topic.park);
        section.quantity(&ranges::PAUSE_AFTER_TRAPS, &mut topic.pause_after_traps);
        section.boolean("gate", &mut topic.gate);
        section.boolean("server-log", &mut topic.server_log);
        record(section, topic);
        grants::switches(section, Arc::make_mut(&mut topic.grants));
        for key in ["enqueue", "predecessors"] {
            let Some(named) = grants::topics(section, key) else { continue };
            let names = Some(named.iter().map(|(name, _)| name.clone()).collect());
            let grants = Arc::make_mut(&mut topic.grants);
            *(if key == "enqueue" { &mut grants.enqueue } else { &mut grants.predecessors }) = names;
            self.targets.extend(named.into_iter().map(|(target, span)| (tenant.clone(), key, target, span)));
        }
    }

    fn check_targets(&self, problems: &Problems) {
        for (tenant, key, target, span) in &self.targets {
            let id = TopicId { tenant: tenant.clone(), topic: target.clone() };
            if self.topics.contains_key(&id) {
                continue;
            }
            let problem =
                problems.at(span.clone(), format!("`{key}` names the topic `{id}`, which is not in this manifest"));
            let others = self.topics.keys().filter(|id| id.tenant == *tenant).map(|id| id.topic.as_str());
            let help = || {
                let section = section_of(&id);
                format!(
                    "a topic that a file in the handlers folder makes needs a section here too, if only an empty [{section}]"
                )
            };
            problems.add(problem.suggest(target.as_str(), others, help));
        }
    }
}

pub(super) fn section_of(id: &TopicId) -> String {
    let (tenant, topic) = (key(&id.tenant), key(&id.topic));
    if id.tenant.as_str() == DEFAULT_TENANT {
        format!("topics.{topic}")
    } else {
        format!("tenants.{tenant}.topics.{topic}")
    }
}

/// A name as a key of TOML, where a dot would begin another key.
fn key(name: &Name) -> String {
    if name.as_str().contains('.') { format!("\"{name}\"") } else { name.to_string() }
}

/// The state of a key has one writer: the job of the key that runs.
fn one_writer(section: &Section<'_>, fleet: &FleetLimits, place: Span) {
    let at_once = fleet.per_key.max_running;
    if at_once > 1 {
        let title = format!("{} has `state`, and {at_once} jobs of a key may run at once", section.title());
        let help = "they would undo what each other sets: remove `max-running` from `per-key`, or `state`";
        section.problems().report(place, title, help);
    }
}

/// Keys that make no sense in defaults: they would be the same for every topic.
fn only_for_topics(section: &mut Section<'_>) {
    let keys = [
        "handler",
        "partitions",
        "rate",
        "burst",
        "max-running",
        "per-key",
        "state",
        "schedule",
        "config",
        "env",
        "secrets",
        "http",
    ];
    for key in keys.into_iter().chain(adapter::KEYS) {
        section.misplaced(key, "it belongs to one topic: write it in [topics.NAME]");
    }
}

/// `backoff = "10s"` is the same wait each time; a table names its parts.
fn backoff(section: &mut Section<'_>, backoff: &mut Backoff) {
    let Some(value) = section.value("backoff") else { return };
    if value.get_ref().is_str() || value.get_ref().is_integer() {
        if let Some(wait) = section.bounded(&ranges::BACKOFF_BASE, "backoff", value) {
            *backoff = Backoff { kind: BackoffKind::Fixed, base: wait, max: wait, jitter: 0 };
        }
        return;
    }
    let Some(table) = section.read("backoff", "a duration such as \"10s\", or a table", |value| value.as_table())
    else {
        return;
    };
    let problems = section.problems();
    let mut parts = Section::new(section.inner_name("backoff"), table, problems);
    parts.choice(
        "kind",
        &[("exponential", BackoffKind::Exponential), ("fixed", BackoffKind::Fixed)],
        &mut backoff.kind,
    );
    parts.quantity(&ranges::BACKOFF_BASE, &mut backoff.base);
    parts.quantity(&ranges::BACKOFF_MAX, &mut backoff.max);
    parts.quantity(&ranges::JITTER, &mut backoff.jitter);
    parts.finish();
    if backoff.base > backoff.max {
        let show = |wait| DURATION.show(millis(wait));
        let title =
            format!("`base` of the backoff is longer than its `max`: {} and {}", show(backoff.base), show(backoff.max));
        problems.report(value.span(), title, "no wait is longer than `max`: raise it or lower `base`");
    }
}

fn record(section: &mut Section<'_>, topic: &mut Topic) {
    let Some(value) = section.value("record") else { return };
    let Some(text) = section.string("record", value, "a text such as \"failures\"") else { return };
    match text.parse() {
        Ok(record) => topic.record = record,
        Err(error) => {
            let error: BadRecordPolicy = error;
            section.problems().report(value.span(), format!("`record` of `{text}` is not known"), error.to_string());
        }
    }
}

/// `"forever"` undoes what a layer below says.
fn ttl(section: &mut Section<'_>, topic: &mut Topic) {
    let Some(value) = section.value(ranges::TTL.key) else { return };
    if value.get_ref().as_str() == Some("forever") {
        topic.ttl = None;
    } else if let Some(ttl) = section.bounded(&ranges::TTL, ranges::TTL.key, value) {
        topic.ttl = Some(ttl);
    }
}
