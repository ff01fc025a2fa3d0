//! The snapshot that runners work by: every topic with its handler.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use super::available::Available;
use super::backlog::Backlog;
use super::deployed::Deployed;
use super::handler::{Candidate, Code, Handler, TopicHandler};
use super::last_good::KeptVersions;
use super::seen::{SeenVersion, SeenVersions};
use super::trial::Trial;
use gristmill_config::{KnownTopics, Manifest, TenantLimits};
use gristmill_core::admission::Targets;
use gristmill_core::job::{DEFAULT_TENANT, Name, TopicId};
use gristmill_core::topic::{Capability, DeadPolicy, Topic};
use gristmill_sandbox::{InstancePool, Version};

/// Every topic of the manifest, and a topic for every component that has no entry there.
#[derive(Debug, Default)]
pub struct HandlerRegistry {
    entries: HashMap<TopicId, Arc<TopicHandler>>,
    tenants: BTreeSet<Name>,
    raw_topics: HashMap<Name, Vec<Name>>,
    /// What a topic is like that only its component's file makes; none: no file makes one.
    auto: Option<Topic>,
    /// The handlers whose files make no topic, as sections name them.
    named: BTreeSet<Name>,
    known_topics: KnownTopics,
    limits: Arc<BTreeMap<Name, TenantLimits>>,
    /// Of topics that have no entry.
    dead: Option<DeadPolicy>,
    refused: BTreeMap<Name, String>,
    manifest_refused: bool,
    seen: SeenVersions,
    kept: KeptVersions,
    /// The handlers that had to be compiled when this registry was made.
    uncompiled: BTreeSet<Name>,
    backlog: Arc<Backlog>,
}

impl HandlerRegistry {
    /// The registry that takes over from `before`. A component that wants more than its topic grants does not replace one
    /// that is content: that which served `before`, or else the handler's last good one. Topics that stay as they are keep their
    /// instances.
    pub fn new(manifest: &Manifest, available: &Available, before: &Self) -> Self {
        let uncompiled = available.backlog.names();
        let native = available.handlers.values().filter(|handler| handler.is_native()).map(|handler| &handler.name);
        // Also a refused file: operators look at its topic for why its jobs wait.
        let files = available.handlers.keys().chain(&uncompiled).chain(available.refused.keys());
        let files = files.filter(|name| manifest.makes_topic(name));
        // A program that registers a native handler wants its topic, whatever files may do.
        let made: BTreeSet<&Name> = native.chain(files).collect();
        let known_topics = KnownTopics::new(manifest, Some(made.iter().copied()));
        Self::with(manifest, available, &made, before, known_topics)
    }

    fn with(
        manifest: &Manifest,
        available: &Available,
        made: &BTreeSet<&Name>,
        before: &Self,
        known_topics: KnownTopics,
    ) -> Self {
        let Available { refused, backlog, kept, .. } = available;
        let topics = topics(manifest, made);
        let entries = topics.into_values().map(|topic| {
            let targets = known_topics.targets(&topic.id.tenant);
            (topic.id.clone(), Arc::new(entry(topic, targets, available, before)))
        });
        let entries: HashMap<_, _> = entries.collect();
        let tenants = entries.keys().map(|id| id.tenant.clone()).collect();
        let mut raw_topics: HashMap<Name, Vec<Name>> = HashMap::new();
        for TopicId { tenant, topic } in
            entries.values().filter(|entry| entry.topic.raw_producers).map(|entry| &entry.topic.id)
        {
            raw_topics.entry(tenant.clone()).or_default().push(topic.clone());
        }
        let auto = default_tenant().filter(|_| manifest.handlers.auto_topics).map(|name| manifest.auto_topic(&name));
        let named = manifest.named_handlers().cloned().collect();
        let (limits, dead) = (Arc::clone(&manifest.limits), Some(manifest.dead_policy()));
        let (refused, uncompiled) = (refused.clone(), backlog.names().into_iter().collect());
        let (backlog, seen, kept) = (Arc::clone(backlog), before.seen.and(available), kept.clone());
        Self {
            entries,
            tenants,
            raw_topics,
            auto,
            named,
            known_topics,
            limits,
            dead,
            refused,
            manifest_refused: available.manifest_refused,
            seen,
            kept,
            uncompiled,
            backlog,
        }
    }

    /// What the manifest has, before any handler is read.
    pub fn planned(manifest: &Manifest) -> Self {
        let known_topics = KnownTopics::new(manifest, None::<&[Name]>);
        Self::with(manifest, &Available::default(), &BTreeSet::new(), &Self::default(), known_topics)
    }

    /// Whether the manifest's file cannot be used as it is, so that the one before is in force.
    pub const fn is_manifest_refused(&self) -> bool {
        self.manifest_refused
    }

    /// Why files do not serve, by the handler's name.
    pub fn refusals(&self) -> &BTreeMap<Name, String> {
        &self.refused
    }

    /// Why this handler's file was not taken.
    pub fn refused(&self, handler: &Name) -> Option<&str> {
        self.refused.get(handler).map(String::as_str)
    }

    /// Why no component does the jobs of this topic, or an older one.
    pub fn refused_for<'a>(&'a self, entry: &'a TopicHandler) -> Option<&'a str> {
        entry.refused.as_deref().or_else(|| self.refused(&entry.topic.handler))
    }

    /// The versions of this handler that a topic can go back to on this machine, the latest first.
    pub fn kept(&self, handler: &Name) -> Vec<Version> {
        self.kept.of(handler)
    }

    /// One of them, by the first digits of its SHA-256, at least four; and its component. `None`: there is no such version, or several.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub async fn kept_component(&self, handler: &Name, digits: &str) -> io::Result<Option<(Version, Vec<u8>)>> {
        let Some(version) = self.kept_version(handler, digits) else { return Ok(None) };
        Ok(self.kept.read(version).await?.map(|wasm| (version, wasm)))
    }

    pub(crate) fn kept_version(&self, handler: &Name, digits: &str) -> Option<Version> {
        self.kept.find(handler, digits)
    }

    /// The last versions of this handler that this process has met, the earliest first.
    pub fn seen(&self, handler: &Name) -> &[SeenVersion] {
        self.seen.of(handler)
    }

    /// How many handlers are compiled or wait for it at the moment.
    pub fn to_compile(&self) -> usize {
        self.backlog.len()
    }

    /// Whether this handler had to be compiled when the registry was made.
    pub fn is_uncompiled(&self, handler: &Name) -> bool {
        self.uncompiled.contains(handler)
    }

    /// The topic has jobs and no handler: if that only has to be compiled, it is compiled before those without jobs.
    pub(crate) fn demand(&self, entry: &TopicHandler) {
        if self.is_uncompiled(&entry.topic.handler) {
            self.backlog.demand(&entry.topic.id, &entry.topic.handler);
        }
    }

    /// The entry of a topic; `None` if nothing makes it one.
    pub fn get(&self, topic: &TopicId) -> Option<&Arc<TopicHandler>> {
        self.entries.get(topic)
    }

    /// Every topic with its handler.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<TopicHandler>> {
        self.entries.values()
    }

    /// The topic as it is, or as it will be once its component is there; none if nothing makes it a topic.
    pub fn topic(&self, id: &TopicId) -> Option<Topic> {
        let makes = |auto: &&Topic| auto.id.tenant == id.tenant && !self.named.contains(&id.topic);
        let auto = self.auto.as_ref().filter(makes);
        let made = || auto.map(|auto| Topic { id: id.clone(), handler: id.topic.clone(), ..auto.clone() });
        self.get(id).map(|entry| entry.topic.clone()).or_else(made)
    }

    /// Which of the topic's dead jobs are kept: a topic without an entry has `[defaults]`. `None` without a manifest.
    pub fn dead_policy(&self, topic: &TopicId) -> Option<DeadPolicy> {
        self.get(topic).map(|entry| entry.topic.dead).or(self.dead)
    }

    /// The rules for new jobs.
    pub fn known_topics(&self) -> &KnownTopics {
        &self.known_topics
    }

    /// The topics whose jobs this handler does, or would do if it were there.
    pub fn topics_of(&self, handler: &Name) -> Vec<Topic> {
        let named = self.entries.values().map(|entry| &entry.topic).filter(|topic| topic.handler == *handler).cloned();
        let auto = self.auto.as_ref().map(|auto| TopicId { topic: handler.clone(), ..auto.id.clone() });
        let made = auto.filter(|id| !self.entries.contains_key(id)).and_then(|id| self.topic(&id));
        named.chain(made).collect()
    }

    /// The topics that are spread over partitions, and over how many.
    pub fn spread_topics(&self) -> BTreeMap<TopicId, u32> {
        let topics = self.entries.values().map(|entry| &entry.topic).filter(|topic| topic.partitions > 1);
        topics.map(|topic| (topic.id.clone(), topic.partitions)).collect()
    }

    /// The tenant's topics that raw producers write to.
    pub fn raw_topics(&self, tenant: &Name) -> &[Name] {
        self.raw_topics.get(tenant).map_or(&[], Vec::as_slice)
    }

    /// Whether the handler of a topic learns the results of another topic's jobs that its own waited for: see
    /// [`Grants::predecessors`](gristmill_core::topic::Grants::predecessors).
    pub fn may_learn(&self, topic: &TopicId, of: &Name) -> bool {
        let grants = |topic: &TopicId| self.get(topic).map(|entry| Arc::clone(&entry.topic.grants)).unwrap_or_default();
        let ours = grants(topic);
        if let Some(named) = &ours.predecessors {
            return *of == topic.topic || named.contains(of);
        }
        let theirs = grants(&TopicId { topic: of.clone(), ..topic.clone() });
        let is_granted = |named: &Vec<Name>| named.contains(&topic.topic);
        *of == topic.topic || theirs.enqueue.as_ref().map_or(ours.enqueue.is_none(), is_granted)
    }

    /// What the tenant may ask for over HTTP.
    pub fn limits(&self, tenant: &Name) -> TenantLimits {
        self.limits.get(tenant).copied().unwrap_or_default()
    }

    /// The tenants that have topics here, in order.
    pub fn tenants(&self) -> &BTreeSet<Name> {
        &self.tenants
    }
}

fn default_tenant() -> Option<Name> {
    DEFAULT_TENANT.parse().ok()
}

/// A topic with its handler, as follows from what is there and what was decided.
fn entry(topic: Topic, targets: Arc<Targets>, available: &Available, before: &HandlerRegistry) -> TopicHandler {
    let Available { handlers, last_good, deployments, brought, .. } = available;
    let before = before.get(&topic.id);
    let served = before.and_then(|entry| entry.handler.as_ref());
    let stand_ins = served.into_iter().chain(last_good.get(&topic.handler));
    let (handler, lacking) = occupant(&topic, handlers, stand_ins);
    let deployment = deployments.get(&topic.id).cloned();
    let folder = handler.as_ref().and_then(Handler::version);
    let Deployed { main, candidate, refused, untried } = Deployed::new(&topic, handler, deployment.as_ref(), brought);
    let generation = deployment.as_ref().map_or(0, |deployment| deployment.generation);
    let tried = before.and_then(|entry| entry.candidate.as_ref());
    let trial = candidate.as_ref().map(|_| {
        let goes_on = tried.filter(|tried| tried.trial.generation == generation).map(|tried| Arc::clone(&tried.trial));
        goes_on.unwrap_or_else(|| Arc::new(Trial::new(generation)))
    });
    let of = |topic: Topic, handler: Option<Handler>, before, is_candidate| {
        let instances = handler.as_ref().and_then(|handler| instance_pool(&topic, handler, before));
        let (targets, trial) = (Arc::clone(&targets), trial.clone().map(|trial| (trial, is_candidate)));
        let (lacking, deployment, candidate, refused) = (Vec::new(), None, None, None);
        TopicHandler {
            topic,
            handler,
            lacking,
            targets,
            instances,
            deployment,
            candidate,
            refused,
            folder,
            untried: None,
            trial,
        }
    };
    let candidate = candidate.zip(trial.clone()).and_then(|((handler, share), trial)| {
        let version = handler.version()?;
        let entry = of(topic.clone(), Some(handler), tried.map(|candidate| &candidate.entry), true);
        Some(Candidate { entry: Arc::new(entry), version, share, trial })
    });
    TopicHandler { lacking, deployment, candidate, refused, untried, ..of(topic, main, before, false) }
}

/// The handler of the topic's jobs, and what the topic does not grant to the component in the folder. Then the first of `stand_ins`
/// that fits does the jobs.
fn occupant<'a>(
    topic: &Topic,
    handlers: &BTreeMap<Name, Handler>,
    mut stand_ins: impl Iterator<Item = &'a Handler>,
) -> (Option<Handler>, Vec<Capability>) {
    let candidate = handlers.get(&topic.handler).filter(|_| !topic.external);
    let Some(candidate) = candidate else { return (None, Vec::new()) };
    let lacking = candidate.lacks(topic);
    if lacking.is_empty() {
        return (Some(candidate.clone()), lacking);
    }
    let serving = stand_ins.find(|handler| handler.name == topic.handler && handler.lacks(topic).is_empty());
    (serving.cloned(), lacking)
}

/// The topics of the manifest, and those that the handlers of these names make.
fn topics(manifest: &Manifest, made: &BTreeSet<&Name>) -> BTreeMap<TopicId, Topic> {
    let mut topics = manifest.topics.clone();
    let Some(tenant) = default_tenant() else { return topics };
    for name in made {
        let id = TopicId { tenant: tenant.clone(), topic: (*name).clone() };
        topics.entry(id).or_insert_with(|| manifest.auto_topic(name));
    }
    topics
}

/// With another version, or with settings changed in any way, what is kept is of no use any more.
fn instance_pool(topic: &Topic, handler: &Handler, before: Option<&Arc<TopicHandler>>) -> Option<Arc<InstancePool>> {
    let Code::Component(component) = &handler.code else { return None };
    if topic.reuse < 2 || !topic.adapter.can_call_again() {
        return None;
    }
    let version = |entry: &TopicHandler| entry.handler.as_ref().and_then(Handler::version);
    let same = before.filter(|entry| entry.topic == *topic && version(entry) == Some(component.version()));
    let kept = same.and_then(|entry| entry.instances.clone());
    kept.or_else(|| Some(Arc::new(component.instance_pool(topic.reuse))))
}
