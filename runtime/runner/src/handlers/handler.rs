//! What does jobs, and which of it does those of a topic.

use std::fmt;
use std::sync::Arc;

use super::trial::Trial;
use crate::native::NativeHandler;
use gristmill_core::admission::Targets;
use gristmill_core::deployment::{Deployment, is_in_share};
use gristmill_core::job::{JobSpec, Name};
use gristmill_core::topic::{Capability, Topic};
use gristmill_sandbox::{Component, InstancePool, Version};

/// What does jobs, and the name by which topics choose it.
#[derive(Debug, Clone)]
pub struct Handler {
    /// The name by which topics ask for it.
    pub name: Name,
    /// What runs.
    pub code: Code,
}

/// What a handler is made of.
#[derive(Debug, Clone)]
pub enum Code {
    /// A component that passed every check, from the file of the handler's name.
    Component(Component),
    /// A function of this program.
    Native(NativeHandler),
}

impl Handler {
    /// Which component this is; `None` for a native handler.
    pub fn version(&self) -> Option<Version> {
        match &self.code {
            Code::Component(component) => Some(component.version()),
            Code::Native(_) => None,
        }
    }

    pub(crate) fn is_native(&self) -> bool {
        matches!(self.code, Code::Native(_))
    }

    /// What the handler needs and `topic` does not grant. A native handler has everything that its program has.
    pub(super) fn lacks(&self, topic: &Topic) -> Vec<Capability> {
        match &self.code {
            Code::Component(component) => topic.lacks(component.demands()),
            Code::Native(_) => Vec::new(),
        }
    }
}

impl fmt::Display for Code {
    /// The component's version, or `native`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component(component) => component.version().fmt(f),
            Self::Native(_) => f.pad("native"),
        }
    }
}

/// A topic and who does its jobs.
#[derive(Debug)]
pub struct TopicHandler {
    /// The topic, with its limits and grants.
    pub topic: Topic,
    /// None: its component is missing, was never good, or is not granted what it imports: then the jobs wait. Or the topic
    /// is external.
    pub handler: Option<Handler>,
    /// What the component in the folder imports and the topic does not grant. It serves no job here; if `handler` is not
    /// none, the version before it does.
    pub lacking: Vec<Capability>,
    /// What the handler may enqueue to: the topics of its tenant.
    pub targets: Arc<Targets>,
    /// Where instances wait for the next job; none if each job gets a fresh one.
    pub instances: Option<Arc<InstancePool>>,
    /// What was decided about versions of the handler.
    pub deployment: Option<Deployment>,
    /// Another version, which does a share of the jobs.
    pub candidate: Option<Candidate>,
    /// Why the topic has no handler, although the component in the folder is good: that was rolled back, and the version before it is not here.
    pub refused: Option<String>,
    /// The version in the folder, or that which stands in for it there.
    pub folder: Option<Version>,
    /// The version in the folder, which the gated topic is to try first.
    pub untried: Option<Version>,
    /// Where attempts are noted while one version is tried beside another, and whether this is the one that is tried.
    pub(crate) trial: Option<(Arc<Trial>, bool)>,
}

/// A version that does a share of a topic's jobs.
#[derive(Debug)]
pub struct Candidate {
    /// The topic with this version.
    pub entry: Arc<TopicHandler>,
    /// Which one it is.
    pub version: Version,
    /// Of ten thousand jobs or keys, so many.
    pub share: u16,
    /// How both do.
    pub trial: Arc<Trial>,
}

impl TopicHandler {
    /// Whether jobs may be claimed that cannot begin at once. Not where a claim counts against a limit of all runners, where it is the job's only
    /// attempt, where the topic does one job after the other, or while one version is tried beside another.
    pub(crate) fn may_be_in_line(&self) -> bool {
        let Topic { concurrency, fleet, retry, .. } = &self.topic;
        let is_guest = self.handler.as_ref().is_some_and(|handler| !handler.is_native());
        is_guest && *concurrency > 1 && !fleet.is_some() && retry.attempts > 1 && self.candidate.is_none()
    }

    /// Who does this job: this, or the candidate.
    pub fn of_job<'a>(self: &'a Arc<Self>, job: &JobSpec) -> &'a Arc<Self> {
        let is_its = |candidate: &&Candidate| is_in_share(job, &candidate.version, candidate.share);
        self.candidate.as_ref().filter(is_its).map_or(self, |candidate| &candidate.entry)
    }
}
