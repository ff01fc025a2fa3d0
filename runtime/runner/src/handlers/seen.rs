//! The versions of handlers that this process has met.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::available::Available;
use super::handler::{Code, Handler};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::Capability;
use gristmill_sandbox::{Component, Version};

/// How many versions of a handler are remembered.
const KEPT: usize = 5;

/// A component that passed every check.
#[derive(Debug, Clone)]
pub struct SeenVersion {
    /// Which one it is.
    pub version: Version,
    /// When this process met it, by the host's clock.
    pub at: Timestamp,
    /// The interfaces that it imports, in order.
    pub imports: Vec<String>,
    /// What of them a topic must grant.
    pub demands: Vec<Capability>,
}

impl SeenVersion {
    fn of(component: &Component) -> Self {
        let mut imports = component.imports().to_vec();
        imports.sort_unstable();
        let demands = component.demands().grants.clone();
        Self { version: component.version(), at: Timestamp::now(), imports, demands }
    }
}

/// By the handler's name, the earliest first.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenVersions(BTreeMap<Name, Arc<[SeenVersion]>>);

impl SeenVersions {
    /// Those, and the ones that are there now.
    pub(super) fn and(&self, available: &Available) -> Self {
        let mut all = self.0.clone();
        // The last good one is older than what is in the folder.
        for (name, handler) in available.last_good.iter().chain(&available.handlers) {
            let Handler { code: Code::Component(component), .. } = handler else { continue };
            let seen = all.entry(name.clone()).or_default();
            if seen.iter().all(|one| one.version != component.version()) {
                let before = seen.iter().skip((seen.len() + 1).saturating_sub(KEPT)).cloned();
                *seen = before.chain([SeenVersion::of(component)]).collect();
            }
        }
        Self(all)
    }

    pub(super) fn of(&self, handler: &Name) -> &[SeenVersion] {
        self.0.get(handler).map(|seen| &**seen).unwrap_or_default()
    }
}
