//! Who does a topic's jobs, as far as this process knows.

use super::idle::{Idle, IdleReason};
use crate::handlers::{HandlerRegistry, TopicHandler};
use gristmill_config::Manifest;
use gristmill_core::admission::makes_none;
use gristmill_core::job::{DEFAULT_TENANT, Name, TopicId};
use gristmill_core::topic::Capability;

/// Who does a topic's jobs, as far as this process knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// Nothing is known yet: the handlers are being read.
    Starting,
    /// Neither the manifest nor a component makes it a topic.
    Unknown {
        /// The topic whose section names the component of its name.
        used_by: Option<TopicId>,
    },
    /// Pull workers, which claim its jobs when they like.
    PullWorkers,
    /// A handler, with at most so many jobs at once in one runner.
    Handler {
        /// So many.
        concurrency: u32,
    },
    /// There is no component of this name.
    Missing(Name),
    /// The component waits to be compiled, or is being compiled.
    Uncompiled(Name),
    /// The component was refused, and there is no version before it.
    Refused {
        /// Its name.
        handler: Name,
        /// Why.
        reason: String,
    },
    /// The component imports what the topic does not grant, and there is no version before it.
    LacksGrants {
        /// Its name.
        handler: Name,
        /// What is not granted.
        lacking: Vec<Capability>,
    },
}

impl Serving {
    /// What the registry says of a topic; `None` for a registry that is not made yet.
    pub fn of(registry: Option<&HandlerRegistry>, topic: &TopicId) -> Self {
        let Some(registry) = registry else { return Self::Starting };
        let unknown = || Self::Unknown { used_by: registry.known_topics().used_by(topic).cloned() };
        registry.get(topic).map_or_else(unknown, |entry| Self::by(registry, entry))
    }

    fn by(registry: &HandlerRegistry, entry: &TopicHandler) -> Self {
        let handler = || entry.topic.handler.clone();
        if entry.topic.external {
            return Self::PullWorkers;
        }
        if entry.handler.is_some() {
            return Self::Handler { concurrency: entry.topic.concurrency };
        }
        if !entry.lacking.is_empty() {
            return Self::LacksGrants { handler: handler(), lacking: entry.lacking.clone() };
        }
        match registry.refused_for(entry) {
            Some(reason) => Self::Refused { handler: handler(), reason: reason.to_owned() },
            None if registry.is_uncompiled(&entry.topic.handler) => Self::Uncompiled(handler()),
            None => Self::Missing(handler()),
        }
    }

    /// Why no handler or pull worker does the topic's jobs; `None` if one does.
    pub(super) fn idle(&self, topic: &TopicId) -> Option<Idle> {
        Some(match self {
            Self::PullWorkers | Self::Handler { .. } => return None,
            Self::Starting => Idle::new(IdleReason::Starting, "the handlers are being read"),
            Self::Unknown { used_by: Some(used_by) } => {
                Idle::new(IdleReason::NoHandler, makes_none(&topic.topic, used_by))
            }
            Self::Unknown { used_by: None } => {
                let file = match topic.tenant.as_str() {
                    DEFAULT_TENANT => format!("put {}.wasm into the handlers folder, or ", topic.topic),
                    _ => String::new(),
                };
                let detail = format!(
                    "neither the manifest nor a component makes this a topic: {file}name its `handler` in {}",
                    Manifest::section_of(topic)
                );
                Idle::new(IdleReason::NoHandler, detail)
            }
            Self::Missing(name) => {
                Idle::new(IdleReason::NoHandler, format!("there is no {name}.wasm in the handlers folder"))
            }
            Self::Uncompiled(name) => {
                Idle::new(IdleReason::Compiling, format!("{name}.wasm is being compiled, or waits for it"))
            }
            Self::Refused { handler, reason } => {
                Idle::new(IdleReason::Refused, format!("{handler}.wasm was refused: {reason}"))
            }
            Self::LacksGrants { handler, lacking } => {
                let names = lacking.iter().map(|lacking| format!("`{lacking}`")).collect::<Vec<_>>().join(", ");
                let lines = Manifest::grant_in_words(topic, lacking);
                let detail = if lacking.iter().all(|lacking| lacking.called_by().is_some()) {
                    format!("the topic cannot call `{handler}`: {lines}")
                } else {
                    format!("`{handler}` needs what the topic does not grant: {names}; if it may have that, {lines}")
                };
                Idle::new(IdleReason::LacksGrants, detail)
            }
        })
    }
}
