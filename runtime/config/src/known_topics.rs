//! Which topics there are, and what rules their new jobs keep.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::limits::TenantLimits;
use super::manifest::Manifest;
use super::server::UnknownTopics;
use gristmill_core::admission::{Refused, Rules, Targets, TenantRules, UnknownTopic};
use gristmill_core::job::{DEFAULT_TENANT, Name, NewJob, TopicId};
use gristmill_core::topic::Topic;
use gristmill_core::units::nearest;

/// Says of each topic whether it is known and what rules its new jobs keep, whichever way they come in.
#[derive(Debug, Clone, Default)]
pub struct KnownTopics {
    /// By tenant, every topic that the manifest or a component makes.
    targets: HashMap<Name, Arc<Targets>>,
    /// The tenants that the manifest names.
    tenants: BTreeSet<Name>,
    /// The rules of every other topic: those of `[defaults]`.
    others: Rules,
    limits: Arc<BTreeMap<Name, TenantLimits>>,
    unknown: UnknownTopics,
    /// The most bytes of a body, a result or a checkpoint that any topic takes.
    largest: u64,
    /// By the handler's name, the first topic whose section names it, so that its file makes none.
    named: BTreeMap<Name, TopicId>,
    /// The tenant in which any topic may turn out to be a component's, as the folder has not been read yet.
    unread: Option<Name>,
}

impl KnownTopics {
    /// The rules of the manifest's topics, and of those that `handlers` make in the default tenant; `None` if the handlers
    /// folder has not been read yet.
    pub fn new<'n>(manifest: &Manifest, handlers: Option<impl IntoIterator<Item = &'n Name>>) -> Self {
        let of_tenant = |tenant: &Name| manifest.limits.get(tenant).map(TenantLimits::rules).unwrap_or_default();
        let unread = handlers.is_none() && manifest.handlers.auto_topics;
        let made = handlers.into_iter().flatten();
        let mut targets: HashMap<Name, Targets> = HashMap::new();
        // What the manifest says comes last, and stays.
        for topic in made.map(|name| manifest.auto_topic(name)).chain(manifest.topics.values().cloned()) {
            let rules = Rules::of(&topic, of_tenant(&topic.id.tenant));
            targets.entry(topic.id.tenant).or_default().insert(topic.id.topic, rules);
        }
        // From the last to the first, which stays.
        let named = manifest.topics.values().rev().filter(|topic| !topic.external && manifest.handlers.auto_topics);
        Self {
            named: named.map(|topic| (topic.handler.clone(), topic.id.clone())).collect(),
            targets: targets.into_iter().map(|(tenant, targets)| (tenant, Arc::new(targets))).collect(),
            tenants: manifest.tenants.clone(),
            others: Rules::of(&manifest.template, TenantRules::default()),
            limits: Arc::clone(&manifest.limits),
            largest: largest(manifest),
            unknown: manifest.handlers.unknown_topics,
            unread: unread.then(|| manifest.template.id.tenant.clone()),
        }
    }

    /// The job as it is stored, and a warning if its topic is unknown.
    ///
    /// # Errors
    /// The first rule that the job breaks.
    pub fn admit(&self, job: NewJob) -> Result<(NewJob, Option<UnknownTopic>), Refused> {
        let unknown = self.admit_topic(&job.spec.topic)?;
        Ok((self.rules(&job.spec.topic).admit(job)?, unknown))
    }

    /// The same, but the warning names no similar topic: seeking one for each of many jobs takes too long.
    ///
    /// # Errors
    /// The first rule that the job breaks.
    pub fn admit_without_hint(&self, job: NewJob) -> Result<(NewJob, Option<UnknownTopic>), Refused> {
        let topic = &job.spec.topic;
        let unknown = (!self.is_known(topic)).then(|| self.without_hint(topic));
        match unknown {
            Some(unknown) if self.unknown == UnknownTopics::Refuse => Err(unknown.into()),
            unknown => Ok((self.rules(&job.spec.topic).admit(job)?, unknown)),
        }
    }

    /// The most bytes of a body, a result or a checkpoint that any topic takes.
    pub const fn largest(&self) -> u64 {
        self.largest
    }

    /// Whether a job of this topic may have a body of this many bytes, before the body is read.
    ///
    /// # Errors
    /// The first rule that such a job breaks.
    pub fn check_body(&self, topic: &TopicId, bytes: u64) -> Result<(), Refused> {
        self.admit_topic(topic)?;
        self.rules(topic).check_body(topic, bytes)
    }

    fn admit_topic(&self, topic: &TopicId) -> Result<Option<UnknownTopic>, Refused> {
        match self.unknown(topic) {
            Some(unknown) if self.unknown == UnknownTopics::Refuse => Err(unknown.into()),
            unknown => Ok(unknown),
        }
    }

    /// The rules that new jobs of the topic keep. Those of an unknown topic wait until it is set up.
    pub fn rules(&self, id: &TopicId) -> Rules {
        let known = self.targets.get(&id.tenant).and_then(|targets| targets.get(&id.topic));
        known.copied().unwrap_or_else(|| {
            let tenant = self.limits.get(&id.tenant).map(TenantLimits::rules).unwrap_or_default();
            Rules { tenant, ..self.others }
        })
    }

    /// Whether the manifest or a component makes the topic, or may, as the folder has not been read yet.
    pub fn is_known(&self, id: &TopicId) -> bool {
        self.targets.get(&id.tenant).is_some_and(|targets| targets.contains_key(&id.topic))
            || self.unread.as_ref() == Some(&id.tenant)
    }

    /// Says that the topic is unknown, and which one of its tenant was perhaps meant; `None` if it is known.
    pub fn unknown(&self, id: &TopicId) -> Option<UnknownTopic> {
        if self.is_known(id) {
            return None;
        }
        let topics = self.targets.get(&id.tenant).into_iter().flat_map(|targets| targets.keys());
        let mut topics: Vec<String> =
            topics.map(|topic| TopicId { tenant: id.tenant.clone(), topic: topic.clone() }.to_string()).collect();
        topics.sort();
        let near = nearest(&id.to_string(), topics.iter().map(String::as_str)).map(str::to_owned);
        Some(UnknownTopic { near, ..self.without_hint(id) })
    }

    fn without_hint(&self, id: &TopicId) -> UnknownTopic {
        UnknownTopic {
            topic: id.clone(),
            is_of_unknown_tenant: !self.is_known_tenant(&id.tenant),
            near: None,
            used_by: self.used_by(id).cloned(),
        }
    }

    /// Whether the manifest names the tenant. The default one needs no name.
    pub fn is_known_tenant(&self, tenant: &Name) -> bool {
        tenant.as_str() == DEFAULT_TENANT || self.tenants.contains(tenant)
    }

    /// The topic whose section names the component that would otherwise make this topic, which is unknown.
    pub fn used_by(&self, id: &TopicId) -> Option<&TopicId> {
        let is_default = id.tenant.as_str() == DEFAULT_TENANT;
        self.named.get(&id.topic).filter(|_| is_default && !self.is_known(id))
    }

    /// The topics that handlers and pull workers of the tenant may enqueue to.
    pub fn targets(&self, tenant: &Name) -> Arc<Targets> {
        self.targets.get(tenant).cloned().unwrap_or_default()
    }
}

fn largest(manifest: &Manifest) -> u64 {
    let topics = manifest.topics.values().chain([&manifest.template]);
    let of = |topic: &Topic| {
        let limits = &topic.limits;
        [limits.payload_bytes, limits.output_bytes, limits.checkpoint_bytes].into_iter().max().unwrap_or_default()
    };
    topics.map(of).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gristmill_core::job::{Due, JobSpec, Payload};

    use super::super::tests::parse;
    use super::*;

    const TEXT: &str = "[defaults]\nttl = \"1m\"\n[topics.mail]\nttl = \"forever\"\npayload-limit = 3\n\
                        [tenants.acme.limits]\npayload = 2\n[tenants.acme.topics.sms]";

    fn known_topics(text: &str, components: Option<&[&str]>) -> KnownTopics {
        let names = components.map(|names| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<Name>>());
        KnownTopics::new(&parse(text), names.as_ref())
    }

    fn job(topic: &str) -> NewJob {
        NewJob { spec: JobSpec::new(topic.parse().unwrap(), Payload::default()), due: Due::Now }
    }

    fn admit(known_topics: &KnownTopics, topic: &str, bytes: usize) -> Result<(NewJob, Option<UnknownTopic>), Refused> {
        let body = Payload { data: vec![7; bytes], content_type: None };
        known_topics.admit(NewJob { spec: JobSpec::new(topic.parse().unwrap(), body), due: Due::Now })
    }

    #[test]
    fn each_topic_has_its_own_rules_and_unknown_ones_have_the_defaults() {
        let known_topics = known_topics(TEXT, Some(&["echo"]));
        for (topic, limit, ttl, known) in [
            ("mail", 3, None, true),
            ("echo", 1 << 20, Some(60), true),
            ("acme/sms", 2, Some(60), true),
            ("acme/other", 2, Some(60), false),
            ("other", 1 << 20, Some(60), false),
        ] {
            let (job, unknown) = admit(&known_topics, topic, limit).unwrap();
            assert_eq!((job.spec.options.ttl, unknown.is_none()), (ttl.map(Duration::from_secs), known), "{topic}");
            assert!(admit(&known_topics, topic, limit + 1).is_err(), "{topic}");
        }
    }

    #[test]
    fn an_unknown_topic_is_refused_if_the_manifest_says_so_and_a_near_one_is_named() {
        let text = format!("[handlers]\nunknown-topics = \"refuse\"\n{TEXT}");
        let refused = admit(&known_topics(&text, Some(&["echo"])), "eco", 0).unwrap_err();
        assert!(refused.to_string().contains("did you mean `echo`?"), "{refused}");
        let refused = admit(&known_topics(&text, Some(&["sm"])), "acme/sm", 0).unwrap_err();
        assert!(refused.to_string().contains("did you mean `acme/sms`?"), "{refused}");
        let refused = admit(&known_topics(&text, None), "other/sms", 0).unwrap_err();
        assert!(!refused.to_string().contains("acme"), "no hint names a topic of another tenant: {refused}");
        let of_nobody = "there is no topic `other/sms`: the manifest names no tenant `other`, and its jobs wait until a section \
                         [tenants.other.topics.sms] makes it one";
        assert_eq!(refused.to_string(), of_nobody);
        let bulk = known_topics(TEXT, None).admit_without_hint(job("other/sms")).unwrap().1.unwrap();
        assert_eq!(bulk.to_string(), of_nobody);
        assert!(admit(&known_topics(&text, Some(&["echo"])), "echo", 0).is_ok());
    }

    #[test]
    fn every_topic_may_be_a_components_until_the_folder_is_read() {
        let known_topics = known_topics(TEXT, None);
        assert_eq!(known_topics.unknown(&"anything".parse().unwrap()), None);
        assert!(known_topics.unknown(&"acme/anything".parse().unwrap()).is_some());
        let off = format!("[handlers]\nauto-topics = false\n{TEXT}");
        let off = KnownTopics::new(&parse(&off), None::<&[Name]>);
        assert!(off.unknown(&"anything".parse().unwrap()).is_some());
    }
}
