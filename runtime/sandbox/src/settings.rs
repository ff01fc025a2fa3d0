//! What a sandbox is made from.

use std::path::PathBuf;
use std::time::Duration;

/// How large a sandbox is, and where it keeps what it compiled.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// Attempts at once. Address space is reserved for each; memory is not.
    pub concurrency: u32,
    /// The directory of compiled components. Made if missing, with mode 0700; refused if others can write to it.
    pub cache: PathBuf,
    pub compiler: CompilerSettings,
}

/// The compiler runs as a child process, because a component can be made to cost it any amount of time and memory.
#[derive(Debug, Clone)]
pub struct CompilerSettings {
    /// The `gristmill` binary itself, called with [`super::COMPILE_SUBCOMMAND`].
    pub program: PathBuf,
    /// Wall clock for one component; also its CPU seconds per core.
    pub timeout: Duration,
    /// The child's address space.
    pub memory_bytes: u64,
    /// The largest component that is looked at. Python components have about 20 MB.
    pub component_bytes: u64,
}

impl CompilerSettings {
    /// Room for a Python component (18 MB, 15 s on an idle machine), and an end for a hostile one.
    pub fn with_defaults(program: PathBuf) -> Self {
        Self { program, timeout: Duration::from_secs(120), memory_bytes: 4 << 30, component_bytes: 32 << 20 }
    }
}
