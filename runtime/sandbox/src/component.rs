//! A component that passed every check: what it is called, what it needs, and where its code is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::attempt::Version;
use super::code::{Code, CodeSlot};
use super::facts::{Facts, Needs};
use super::guest_instance::IdleInstances;
use super::loader::Loader;
use super::validate::{Kind, Shape};
use gristmill_core::outcome::Outcome;
use gristmill_core::topic::Demands;

/// A component that passed every check and can be run. Cheap to clone. Its code is mapped when it first runs, and unmapped with the
/// last clone, or when that of many others is needed.
#[derive(Clone)]
pub struct Component(pub(super) Arc<ComponentInner>);

/// What the clones of a component share.
pub(super) struct ComponentInner {
    version: Version,
    facts: Facts,
    passed_trials: AtomicBool,
    demands: Demands,
    /// The key of its artifact, which stays in the cache as long as this lives.
    artifact: Arc<str>,
    slot: Arc<CodeSlot>,
    /// Maps its artifact; none if its code is always mapped.
    loader: Option<Arc<Loader>>,
    /// Where its sandbox keeps instances.
    pub(super) idle: Arc<IdleInstances>,
}

impl Component {
    /// One whose artifact is in the loader's cache. Nothing is mapped yet.
    pub(super) fn cached(version: Version, artifact: Arc<str>, facts: Facts, loader: &Arc<Loader>) -> Self {
        let idle = Arc::clone(&loader.idle);
        Self::new(version, artifact, facts, CodeSlot::default(), Some(Arc::clone(loader)), idle)
    }

    /// One that has no artifact: its code stays mapped for as long as it lives.
    pub(super) fn pinned(code: Code, facts: Facts) -> Self {
        let (version, idle) = (code.version, Arc::clone(&code.idle));
        Self::new(version, "".into(), facts, CodeSlot::pinned(code), None, idle)
    }

    fn new(
        version: Version,
        artifact: Arc<str>,
        facts: Facts,
        slot: CodeSlot,
        loader: Option<Arc<Loader>>,
        idle: Arc<IdleInstances>,
    ) -> Self {
        let demands = Demands::of(&facts.imports, &facts.exports);
        let (slot, passed_trials) = (Arc::new(slot), AtomicBool::new(facts.passed_trials));
        Self(Arc::new(ComponentInner { version, facts, passed_trials, demands, artifact, slot, loader, idle }))
    }

    /// What its file is.
    pub fn kind(&self) -> Kind {
        self.0.facts.shape.kind
    }

    /// SHA-256 of the file's bytes.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// The interfaces it imports, such as `wasi:cli/stdout@0.2.6`: all that it could ever ask of the host.
    pub fn imports(&self) -> &[String] {
        &self.0.facts.imports
    }

    /// The interfaces it exports.
    pub fn exports(&self) -> &[String] {
        &self.0.facts.exports
    }

    /// What it asks of a topic.
    pub fn demands(&self) -> &Demands {
        &self.0.demands
    }

    /// None if the component brings in core modules from outside, which no handler can.
    pub fn needs(&self) -> Option<Needs> {
        self.0.facts.needs
    }

    /// Whether it exports a self-test.
    pub fn has_self_test(&self) -> bool {
        self.0.facts.has_self_test
    }

    /// Whether [`Self::try_out`] passed, now or when the component was first taken in.
    pub fn passed_trials(&self) -> bool {
        self.0.passed_trials.load(Ordering::Relaxed)
    }

    pub(super) fn note_passed(&self) {
        self.0.passed_trials.store(true, Ordering::Relaxed);
    }

    /// The facts as they are now.
    pub(super) fn facts(&self) -> Facts {
        Facts { passed_trials: self.passed_trials(), ..self.0.facts.clone() }
    }

    pub(super) fn artifact(&self) -> &Arc<str> {
        &self.0.artifact
    }

    /// Takes its code, which was just mapped.
    pub(super) fn put_code(&self, code: Code) -> Arc<Code> {
        let code = Arc::new(code);
        if let Some(loader) = &self.0.loader {
            loader.mapped.put(&self.0.slot, Arc::clone(&code));
        }
        code
    }

    /// Lets go of its code, which comes back when it is needed.
    pub(super) fn unmap(&self) {
        self.0.slot.clear();
    }

    /// What its file is, as [`super::validate::validate`] found it.
    pub(super) fn shape(&self) -> Shape {
        self.0.facts.shape
    }

    /// Its code. The first caller maps it, which takes milliseconds, on a thread for such work; others wait meanwhile.
    /// Cancel-safe. Needs a tokio runtime.
    ///
    /// # Errors
    /// The artifact is gone or damaged, or the process has no more files or mappings: that is no fault of the job.
    pub(super) async fn code(&self) -> Result<Arc<Code>, Outcome> {
        let ComponentInner { slot, loader, .. } = &*self.0;
        let Some(loader) = loader else {
            return slot.get().ok_or_else(|| Outcome::HostFault("its code is not mapped".to_owned()));
        };
        match loader.mapped.get(slot) {
            Some(code) => Ok(code),
            // In a box: the usual attempt does not carry it around.
            None => Box::pin(self.map(loader)).await,
        }
    }

    async fn map(&self, loader: &Arc<Loader>) -> Result<Arc<Code>, Outcome> {
        let slot = &self.0.slot;
        let _alone = slot.mapping.lock().await;
        // Another caller may have mapped it meanwhile.
        if let Some(code) = loader.mapped.get(slot) {
            return Ok(code);
        }
        loader.map(self).await
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Component").field(&self.0.version).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::SemaphorePermit;

    use crate::code::Code;

    impl crate::Component {
        /// Its code, if that is mapped. Not a use of it.
        pub(crate) fn code_if_mapped(&self) -> Option<Arc<Code>> {
            self.0.slot.get()
        }

        /// Keeps its sandbox from mapping anything.
        pub(crate) async fn all_turns(&self) -> SemaphorePermit<'_> {
            let turns = &self.0.loader.as_ref().unwrap().mapped.turns;
            turns.acquire_many(u32::try_from(turns.available_permits()).unwrap()).await.unwrap()
        }
    }
}
