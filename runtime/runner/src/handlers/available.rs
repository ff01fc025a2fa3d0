//! What a registry is made from besides the manifest.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::backlog::Backlog;
use super::handler::Handler;
use super::last_good::KeptVersions;
use gristmill_core::deployment::Deployment;
use gristmill_core::job::{Name, TopicId};
use gristmill_sandbox::Version;

/// What a registry is made from besides the manifest.
#[derive(Debug, Default)]
pub struct Available {
    /// What serves, by the handler's name.
    pub handlers: BTreeMap<Name, Handler>,
    /// What serves where those import more than a topic grants.
    pub last_good: BTreeMap<Name, Handler>,
    /// Why files of the folder were not taken.
    pub refused: BTreeMap<Name, String>,
    /// The files that have to be compiled.
    pub backlog: Arc<Backlog>,
    /// What was decided about versions of handlers.
    pub deployments: Arc<BTreeMap<TopicId, Deployment>>,
    /// Handlers of versions that were decided for and are not those of `handlers`.
    pub brought: BTreeMap<(Name, Version), Handler>,
    /// The versions whose files are kept.
    pub kept: KeptVersions,
    /// Whether the manifest's file cannot be used as it is.
    pub manifest_refused: bool,
}
