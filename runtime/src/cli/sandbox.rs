//! The sandbox of a command. Its compiler is a child process of this program.

use anyhow::Context;

use crate::builder::sandbox_settings;
use gristmill_config::Manifest;
use gristmill_sandbox::{CompilerProcess, Sandbox};

/// The compiler of this program's sandboxes: a child process of the same program, with bounded memory.
///
/// # Errors
/// This program's file cannot be found.
pub(super) fn compiler(manifest: &Manifest) -> anyhow::Result<CompilerProcess> {
    let program =
        std::env::current_exe().context("failed to find this program's own file, which is the compiler too")?;
    Ok(CompilerProcess::Child { program, memory_bytes: manifest.handlers.compile_memory_bytes })
}

/// A sandbox for one attempt at a time.
pub(super) fn small(manifest: &Manifest, compiler: CompilerProcess) -> anyhow::Result<Sandbox> {
    Sandbox::new(&sandbox_settings(manifest, compiler, 1)?).context("failed to set up the sandbox")
}
