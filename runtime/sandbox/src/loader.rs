//! Maps artifacts of the cache when jobs need them.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::attempt::Version;
use super::cache::ArtifactCache;
use super::code::{Code, MappedCode};
use super::component::Component;
use super::guest_instance::IdleInstances;
use super::linkers::Linkers;
use gristmill_core::outcome::Outcome;

/// What it takes to make code of an artifact. The components of a sandbox share it.
pub(super) struct Loader {
    pub(super) linkers: Linkers,
    pub(super) cache: ArtifactCache,
    pub(super) idle: Arc<IdleInstances>,
    pub(super) mapped: MappedCode,
    lost: Lost,
}

/// Components whose artifacts are gone or damaged.
#[derive(Debug, Default)]
struct Lost {
    versions: Mutex<Vec<Version>>,
    added: Notify,
}

/// Why an artifact is not mapped.
struct NotMapped {
    problem: String,
    /// It has to be compiled again.
    is_lost: bool,
}

impl Loader {
    pub(super) fn new(linkers: Linkers, cache: ArtifactCache, idle: Arc<IdleInstances>, mapped: MappedCode) -> Self {
        Self { linkers, cache, idle, mapped, lost: Lost::default() }
    }

    /// Maps the artifact of a component, on a thread for such work. Code that was not used lately may be unmapped for it.
    ///
    /// # Errors
    /// A fault of the host. An artifact that is gone or damaged is reported by [`Self::lost`], too.
    pub(super) async fn map(self: &Arc<Self>, component: &Component) -> Result<Arc<Code>, Outcome> {
        // Never closed, so it never fails; if it did, mapping one more at a time would be no harm.
        let _turn = self.mapped.turns.acquire().await.ok();
        let (loader, component) = (Arc::clone(self), component.clone());
        let mapped = spawn_blocking(move || match loader.map_here(&component) {
            Ok(code) => Ok(component.put_code(code)),
            Err(not_mapped) => Err(loader.not_mapped(&component, not_mapped)),
        });
        mapped
            .await
            .unwrap_or_else(|error| Err(error.to_string()))
            .map_err(|problem| Outcome::HostFault(format!("failed to map the compiled component: {problem}")))
    }

    /// Returns the problem.
    fn not_mapped(&self, component: &Component, NotMapped { problem, is_lost }: NotMapped) -> String {
        let version = component.version();
        if is_lost {
            tracing::warn!(%version, "its compiled code has to be made again: {problem}");
            self.cache.forget(component.artifact());
            self.lost.versions.lock().push(version);
            self.lost.added.notify_one();
        } else {
            tracing::error!(%version, "failed to map its compiled code: {problem}; code that was not used lately is unmapped");
            self.mapped.halve();
        }
        problem
    }

    fn map_here(&self, component: &Component) -> Result<Code, NotMapped> {
        let not_mapped = |problem, is_lost| NotMapped { problem, is_lost };
        let path = match self.cache.check(component.artifact()) {
            Ok(Some(path)) => path,
            Ok(None) => return Err(not_mapped("its file is gone".to_owned(), true)),
            Err(error) => {
                let is_lost = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied);
                return Err(not_mapped(error.to_string(), is_lost));
            }
        };
        let (version, shape) = (component.version(), component.shape());
        let linker = self.linkers.of(shape);
        let compiled =
            self.cache.map(linker.engine(), &path).map_err(|error| not_mapped(format!("{error:#}"), false))?;
        let linked = Code::link(shape, version, &compiled, linker, &self.idle, Some(&path));
        linked.map(|(code, _)| code).map_err(|error| not_mapped(error.to_string(), false))
    }

    /// Waits for components whose artifacts are gone or damaged, and returns them once. One waiter at a time. Cancel-safe.
    pub(super) async fn lost(&self) -> Vec<Version> {
        loop {
            let lost = std::mem::take(&mut *self.lost.versions.lock());
            if !lost.is_empty() {
                return lost;
            }
            self.lost.added.notified().await;
        }
    }
}
