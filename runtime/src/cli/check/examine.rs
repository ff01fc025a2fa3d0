//! What there is to say of one component.

use super::super::folder::ComponentFile;
use super::super::used;
use gristmill_config::{Diagnostic, Manifest};
use gristmill_core::topic::{Capability, Limits, Topic};
use gristmill_sandbox::{Component, Producers, Sandbox, Started};

/// A component file, and what the sandbox says of it.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) file: ComponentFile,
    /// The topics whose jobs it does.
    pub(super) topics: Vec<Topic>,
    pub(super) component: Result<Examined, String>,
}

#[derive(Debug)]
pub(super) struct Examined {
    pub(super) component: Component,
    pub(super) producers: Producers,
    pub(super) started: Started,
    /// The narrowest of the topics that it serves.
    limits: Limits,
}

impl Examined {
    /// What the start takes of the narrowest limits.
    pub(super) fn uses(&self) -> [used::Use; 2] {
        let Self { started, limits, .. } = self;
        [("fuel", started.fuel, limits.fuel), ("memory", started.memory_bytes, limits.memory_bytes)]
    }
}

impl Checked {
    pub(super) async fn examine(file: ComponentFile, manifest: &Manifest, sandbox: &Sandbox) -> Self {
        let topics = file.name.as_ref().map(|name| manifest.topics_of(name)).unwrap_or_default();
        let component = match &file.name {
            Ok(_) => examine(&file, manifest, &topics, sandbox).await,
            Err(problem) => Err(problem.clone()),
        };
        Self { file, topics, component }
    }

    /// Of each topic of it, what the topic does not grant.
    pub(super) fn missing_grants(&self, manifest: &Manifest) -> Vec<Diagnostic> {
        let lacking = self.topics.iter().map(|topic| (topic, self.lacking(topic)));
        lacking
            .filter(|(_, lacking)| !lacking.is_empty())
            .map(|(topic, lacking)| manifest.missing_grants(topic, &lacking))
            .collect()
    }

    pub(super) fn lacking(&self, topic: &Topic) -> Vec<Capability> {
        self.component.as_ref().map(|it| topic.lacks(it.component.demands())).unwrap_or_default()
    }
}

async fn examine(
    file: &ComponentFile,
    manifest: &Manifest,
    topics: &[Topic],
    sandbox: &Sandbox,
) -> Result<Examined, String> {
    let bytes = file.read(manifest.handlers.component_bytes).map_err(|error| format!("{error:#}"))?;
    let component = sandbox.load(&bytes).await.map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
    // What does not start within the narrowest limits would not do that topic's jobs.
    let limits = topics.iter().map(|topic| topic.limits).reduce(Limits::narrowest).unwrap_or_default();
    let started = component.try_start(&limits).await?;
    component.self_test(&limits).await?;
    Ok(Examined { component, producers: Producers::of(&bytes), started, limits })
}
