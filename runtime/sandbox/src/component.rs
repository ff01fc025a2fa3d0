//! A loaded component: what it is called, what it needs, and how to enter it.

use std::fmt;
use std::sync::Arc;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{self, ComponentExportIndex, ComponentNamedList, InstancePre, Lift, Linker, Lower};
use wasmtime::{Engine, ResourcesRequired};

use super::attempt::Version;
use super::bindings::types::{Failure, Job, Outcome};
use super::error::LoadError;
use super::host::allowed_imports;
use super::instance_pool::IdleInstances;
use super::state::State;
use super::validate::{Kind, Shape};
use gristmill_core::topic::Capability;

const HANDLER: &str = "gristmill:job/handler@0.1.0";
const SELF_TEST: &str = "gristmill:job/self-test@0.1.0";

/// A component that passed every check and can be run. Cheap to clone; the code is unmapped with the last clone.
#[derive(Clone)]
pub struct Component(pub(super) Arc<Loaded>);

pub(super) struct Loaded {
    kind: Kind,
    pub(super) is_composed: bool,
    pub(super) version: Version,
    /// The key of its artifact, which stays in the cache as long as this lives.
    _artifact: Arc<str>,
    pub(super) pre: InstancePre<State>,
    /// Type-checked when the component was loaded.
    pub(super) handle: ComponentExportIndex,
    pub(super) self_test: Option<ComponentExportIndex>,
    /// Where its sandbox keeps instances.
    pub(super) idle: Arc<IdleInstances>,
    imports: Vec<String>,
    exports: Vec<String>,
    capabilities: Vec<Capability>,
    resources: Option<ResourcesRequired>,
}

/// What an instance takes from the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Linear memories.
    pub memories: u32,
    /// Bytes of the largest memory when it begins.
    pub memory_bytes: u64,
    /// Tables.
    pub tables: u32,
}

impl Component {
    /// Checks imports and exports by type; runs nothing of the guest.
    pub(super) fn link(
        Shape { kind, is_composed }: Shape,
        version: Version,
        artifact: Arc<str>,
        component: &component::Component,
        linker: &Linker<State>,
        idle: &Arc<IdleInstances>,
    ) -> Result<Self, LoadError> {
        let pre = linker
            .instantiate_pre(component)
            .map_err(|error| LoadError::Imports { problem: format!("{error:#}"), allowed: allowed_imports() })?;
        let handle = export::<(Job<'_>,), (Result<Outcome, Failure>,)>(&pre, HANDLER, "handle")?
            .ok_or_else(|| LoadError::Exports { problem: format!("the component does not export `{HANDLER}`") })?;
        let self_test = export::<(), (Result<(), String>,)>(&pre, SELF_TEST, "check")?;
        let imports = import_names(component, linker.engine());
        let exports = component.component_type().exports(linker.engine()).map(|(name, _)| name.to_owned()).collect();
        let capabilities = Capability::needed(&imports);
        let resources = component.resources_required();
        let idle = Arc::clone(idle);
        Ok(Self(Arc::new(Loaded {
            kind,
            is_composed,
            version,
            _artifact: artifact,
            pre,
            handle,
            self_test,
            idle,
            imports,
            exports,
            capabilities,
            resources,
        })))
    }

    /// What its file is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// SHA-256 of the file's bytes.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// The interfaces it imports, such as `wasi:cli/stdout@0.2.6`: all that it could ever ask of the host.
    pub fn imports(&self) -> &[String] {
        &self.0.imports
    }

    /// The interfaces it exports.
    pub fn exports(&self) -> &[String] {
        &self.0.exports
    }

    /// What a topic must grant before this runs there.
    pub fn capabilities(&self) -> &[Capability] {
        &self.0.capabilities
    }

    /// None if the component brings in core modules from outside, which no handler can.
    pub fn needs(&self) -> Option<Needs> {
        const PAGE_BYTES: u64 = 64 << 10;
        self.0.resources.as_ref().map(|resources| Needs {
            memories: resources.num_memories,
            memory_bytes: resources.max_initial_memory_size.unwrap_or(0).saturating_mul(PAGE_BYTES),
            tables: resources.num_tables,
        })
    }

    /// Whether it exports a self-test.
    pub fn has_self_test(&self) -> bool {
        self.0.self_test.is_some()
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Component").field(&self.0.version).finish()
    }
}

/// The function of an exported interface; none if the interface is not exported, an error if its type is another.
fn export<P, R>(
    pre: &InstancePre<State>,
    interface: &str,
    function: &str,
) -> Result<Option<ComponentExportIndex>, LoadError>
where
    P: ComponentNamedList + Lower,
    R: ComponentNamedList + Lift,
{
    let component = pre.component();
    let Some((_, instance)) = component.get_export(None, interface) else { return Ok(None) };
    let wrong = |problem: String| LoadError::Exports { problem: format!("`{interface}` {problem}") };
    match component.get_export(Some(&instance), function) {
        Some((ComponentItem::ComponentFunc(found), index)) => {
            found
                .typecheck::<P, R>(&pre.instance_type())
                .map_err(|error| wrong(format!("has a `{function}` of another type: {error:#}")))?;
            Ok(Some(index))
        }
        _ => Err(wrong(format!("has no function `{function}`"))),
    }
}

fn import_names(component: &component::Component, engine: &Engine) -> Vec<String> {
    component.component_type().imports(engine).map(|(name, _)| name.to_owned()).collect()
}
