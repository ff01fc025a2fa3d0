//! How a file of the folder becomes a component, step by step.

use std::path::Path;
use std::sync::Arc;

use gristmill_core::job::Name;
use gristmill_core::topic::{EXTERNAL, RESERVED};
use gristmill_sandbox::{Component, LoadError, Prepared, Sandbox, Version};

/// The component that a file holds.
#[derive(Debug)]
pub(super) enum LoadedComponent {
    New(Component),
    /// It is the version that serves already.
    Same,
    /// It was never compiled, and nothing is known against it.
    Uncompiled,
}

/// Why a file gives no handler.
#[derive(Debug)]
pub(super) struct NotTaken {
    pub(super) reason: String,
    pub(super) again: Again,
}

/// Whether the same file may be taken another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Its bytes are all there: reading it again would change nothing.
    Never,
    /// It may still be being written.
    Soon,
    /// The machine had no time to compile it.
    Later,
}

/// Reads a file and loads it: compiles it if `compile`, and otherwise only finds what was compiled before.
pub(super) async fn load_file(
    name: &Name,
    path: &Path,
    bytes: u64,
    current: Option<Version>,
    compile: bool,
    sandbox: &Sandbox,
) -> Result<LoadedComponent, NotTaken> {
    // Read once: what is hashed, checked and compiled are the same bytes.
    let wasm = read(path, bytes, sandbox).await?;
    let loaded = if compile {
        load(name, &wasm, current, sandbox).await?
    } else {
        check_name(name)?;
        let Some(prepared) = sandbox.find(&wasm).await.map_err(not_loaded)? else {
            return Ok(LoadedComponent::Uncompiled);
        };
        tested(prepared, current).await?
    };
    Ok(match loaded {
        Some(prepared) => LoadedComponent::New(prepared.keep().await),
        None => LoadedComponent::Same,
    })
}

/// What is in the file. A disk image that strayed into the folder is refused by its size, and never in memory.
async fn read(path: &Path, bytes: u64, sandbox: &Sandbox) -> Result<Arc<[u8]>, NotTaken> {
    sandbox.check_size(bytes).map_err(|error| NotTaken { reason: error.to_string(), again: Again::Never })?;
    let failed = |error| NotTaken { reason: format!("failed to read it: {error}"), again: Again::Soon };
    Ok(tokio::fs::read(path).await.map_err(failed)?.into())
}

/// A handler, or nothing if it is the version that serves already, or why not. Its artifact is not kept yet.
pub(super) async fn load(
    name: &Name,
    bytes: &[u8],
    current: Option<Version>,
    sandbox: &Sandbox,
) -> Result<Option<Prepared>, NotTaken> {
    check_name(name)?;
    tested(sandbox.prepare(bytes).await.map_err(not_loaded)?, current).await
}

fn check_name(name: &Name) -> Result<(), NotTaken> {
    let is_reserved = name.as_str() == EXTERNAL;
    if is_reserved { Err(NotTaken { reason: RESERVED.into(), again: Again::Never }) } else { Ok(()) }
}

fn not_loaded(error: LoadError) -> NotTaken {
    let again = if matches!(error, LoadError::CompileTimeout { .. }) { Again::Later } else { Again::Soon };
    NotTaken { reason: format!("{:#}", anyhow::Error::from(error)), again }
}

/// The component, unless it serves already. It starts and its self-test passes, now or when the component was first taken in.
async fn tested(prepared: Prepared, current: Option<Version>) -> Result<Option<Prepared>, NotTaken> {
    let component = prepared.component();
    if current == Some(component.version()) {
        return Ok(None);
    }
    if !component.passed_trials() {
        component.try_out().await.map_err(|reason| NotTaken { reason, again: Again::Never })?;
    }
    Ok(Some(prepared))
}
