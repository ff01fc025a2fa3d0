//! What a sandbox is made from.

use std::path::PathBuf;
use std::time::Duration;

/// How large a sandbox is, and where it keeps what it compiled.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// Attempts at once. Address space is reserved for each; memory is not.
    pub concurrency: u32,
    /// The directory of compiled components. Created if missing, with mode 0700; refused if others can write to it.
    pub cache: PathBuf,
    /// How components are compiled.
    pub compiler: CompilerSettings,
}

/// How components are compiled. The default compiles in this process; see [`CompilerProcess`].
#[derive(Debug, Clone)]
pub struct CompilerSettings {
    /// Which process compiles.
    pub process: CompilerProcess,
    /// Wall clock for one component. For a child process also its CPU seconds per core.
    pub timeout: Duration,
    /// Bytes of the largest component that is read. Python components have about 20 MB.
    pub component_bytes: u64,
}

/// Which process compiles. A component can be made to cost the compiler any amount of time and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompilerProcess {
    /// A child process with bounded memory and CPU time, which is killed at its timeout. For components that strangers
    /// upload; the default of the `gristmill` binary.
    Child {
        /// A program that answers [`super::COMPILE_SUBCOMMAND`] with [`super::compile_child`], as `gristmill` does.
        program: PathBuf,
        /// The child's address space.
        memory_bytes: u64,
    },
    /// A thread of this process. Needs no program, and is for components that the embedding program trusts: nothing
    /// bounds the compiler's memory or CPU time. [`super::Sandbox::load`] still ends at its timeout, but the thread
    /// compiles on until it is done, and counts as one of the two components that are compiled at once.
    This,
    /// The same, and it keeps the code of each function, at most 512 MiB, so that the next version of a component compiles in a
    /// fraction of the time: Go's in a quarter. For the author of a handler.
    Incremental,
}

impl Default for CompilerSettings {
    /// In this process. A Python component (18 MB) takes 15 s on an idle machine and fits all limits.
    fn default() -> Self {
        Self { process: CompilerProcess::This, timeout: Duration::from_secs(120), component_bytes: 32 << 20 }
    }
}
