//! The code of a component, ready to be entered, and how it is mapped.
//!
//! An artifact is mapped when the first job needs it, and keeps its file open for as long. So only so many are mapped at a
//! time: the code that was not used for longest goes when more is needed, and comes back with the next job.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use rustix::process::{Resource, getrlimit};
use tokio::sync::Semaphore;
use wasmtime::component::{self, ComponentExportIndex, InstancePre, Linker};

use super::adapters::{EntryPoints, export};
use super::attempt::Version;
use super::direct::{self, Direct};
use super::error::LoadError;
use super::facts::{Facts, Needs};
use super::guest_instance::IdleInstances;
use super::host::allowed_imports;
use super::source_lines::SourceLines;
use super::state::State;
use super::validate::Shape;

const SELF_TEST: &str = "gristmill:job/self-test@0.1.0";

/// Artifacts mapped at once, at most, where the process may open enough files. Each takes some three of the 65,530 mappings
/// that Linux gives to a process.
const MAPPED_MAX: usize = 1024;

/// Mapped code, linked with the host's interfaces.
pub(super) struct Code {
    pub(super) version: Version,
    pub(super) is_composed: bool,
    pub(super) pre: InstancePre<State>,
    /// Type-checked when the component was linked.
    pub(super) entry_points: EntryPoints,
    pub(super) self_test: Option<ComponentExportIndex>,
    /// None if nothing is known of them, or if frames of the glue between composed components would be taken for others.
    pub(super) lines: Option<SourceLines>,
    /// Where its sandbox keeps instances.
    pub(super) idle: Arc<IdleInstances>,
    pub(super) direct: Direct,
}

impl Code {
    /// Checks imports and exports by type; runs nothing of the guest. `artifact` is where the code comes from, if from a file.
    pub(super) fn link(
        shape: Shape,
        version: Version,
        compiled: &component::Component,
        linker: &Linker<State>,
        idle: &Arc<IdleInstances>,
        artifact: Option<&Path>,
    ) -> Result<(Self, Facts), LoadError> {
        const PAGE_BYTES: u64 = 64 << 10;
        let pre = linker
            .instantiate_pre(compiled)
            .map_err(|error| LoadError::Imports { problem: format!("{error:#}"), allowed: allowed_imports() })?;
        let entry_points = EntryPoints::find(&pre)?;
        let self_test = export::<(), (Result<(), String>,)>(&pre, SELF_TEST, "check")?;
        let ty = compiled.component_type();
        let facts = Facts {
            shape,
            imports: ty.imports(linker.engine()).map(|(name, _)| name.to_owned()).collect(),
            exports: ty
                .exports(linker.engine())
                .map(|(name, _)| name.to_owned())
                .filter(|name| name != direct::MAIN)
                .collect(),
            needs: compiled.resources_required().map(|resources| Needs {
                memories: resources.num_memories,
                memory_bytes: resources.max_initial_memory_size.unwrap_or(0).saturating_mul(PAGE_BYTES),
                tables: resources.num_tables,
            }),
            has_self_test: self_test.is_some(),
            passed_trials: false,
        };
        let lines = artifact.filter(|_| !shape.is_composed).map(SourceLines::of);
        let (is_composed, idle) = (shape.is_composed, Arc::clone(idle));
        Ok((Self { version, is_composed, pre, entry_points, self_test, lines, idle, direct: Direct::default() }, facts))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Code").field(&self.version).finish()
    }
}

/// Where the code of one component is while it is mapped.
#[derive(Debug, Default)]
pub(super) struct CodeSlot {
    code: RwLock<Option<Arc<Code>>>,
    /// What the clock of [`MappedCode`] showed when it was used last.
    used: AtomicU64,
    /// Held by the one caller that maps the artifact.
    pub(super) mapping: tokio::sync::Mutex<()>,
}

impl CodeSlot {
    /// A slot whose code stays for as long as the slot.
    pub(super) fn pinned(code: Code) -> Self {
        Self { code: RwLock::new(Some(Arc::new(code))), ..Self::default() }
    }

    /// The code, if it is mapped.
    pub(super) fn get(&self) -> Option<Arc<Code>> {
        self.code.read().clone()
    }

    /// Lets go of the code. Attempts that run keep it.
    pub(super) fn clear(&self) {
        // Unmapped without the lock.
        let code = self.code.write().take();
        drop(code);
    }
}

/// The slots of a sandbox whose code is mapped: at most so many.
#[derive(Debug)]
pub(super) struct MappedCode {
    most: usize,
    /// Goes on by two with each artifact that is mapped, so that a use in between is later than one and earlier than the next.
    clock: AtomicU64,
    slots: Mutex<Vec<Weak<CodeSlot>>>,
    /// For those who map an artifact: more at once than there are processors gain nothing.
    pub(super) turns: Semaphore,
}

impl MappedCode {
    pub(super) fn new(most: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { most, clock: AtomicU64::new(0), slots: Mutex::default(), turns: Semaphore::new(processors) }
    }

    /// An eighth of the files that this process may open, and no more than [`MAPPED_MAX`]: connections and stores need files, too.
    pub(super) fn most() -> usize {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        files.map_or(MAPPED_MAX, |files| (files / 8).clamp(16, MAPPED_MAX))
    }

    /// How many are mapped.
    pub(super) fn len(&self) -> usize {
        self.slots.lock().iter().filter(|slot| slot.upgrade().is_some_and(|slot| slot.code.read().is_some())).count()
    }

    /// The slot's code, if it is mapped. It counts as used now.
    pub(super) fn get(&self, slot: &CodeSlot) -> Option<Arc<Code>> {
        let code = slot.get()?;
        let now = self.clock.load(Ordering::Relaxed) + 1;
        if slot.used.load(Ordering::Relaxed) != now {
            slot.used.store(now, Ordering::Relaxed);
        }
        Some(code)
    }

    /// Puts code into its slot. Code of other slots goes if there is then too much, which takes time; attempts that run keep theirs.
    pub(super) fn put(&self, slot: &Arc<CodeSlot>, code: Arc<Code>) {
        slot.used.store(self.clock.fetch_add(2, Ordering::Relaxed) + 2, Ordering::Relaxed);
        *slot.code.write() = Some(code);
        self.shrink(self.most, Some(slot));
    }

    /// Lets go of the half that was not used for longest, because the process runs out of files or mappings.
    pub(super) fn halve(&self) {
        self.shrink(self.len() / 2, None);
    }

    fn shrink(&self, most: usize, new: Option<&Arc<CodeSlot>>) {
        let mut slots = self.slots.lock();
        let with_code = slots.iter().filter_map(Weak::upgrade).filter(|slot| slot.code.read().is_some());
        let mut mapped: Vec<Arc<CodeSlot>> = with_code.collect();
        if let Some(new) = new.filter(|new| !mapped.iter().any(|slot| Arc::ptr_eq(slot, new))) {
            mapped.push(Arc::clone(new));
        }
        mapped.sort_by_key(|slot| std::cmp::Reverse(slot.used.load(Ordering::Relaxed)));
        let surplus = mapped.split_off(most.min(mapped.len()));
        *slots = mapped.iter().map(Arc::downgrade).collect();
        drop(slots);
        surplus.iter().for_each(|slot| slot.clear());
    }
}
