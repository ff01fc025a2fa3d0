//! The errors of setting up a sandbox and of loading a component. A job that fails is never one of these.

use std::path::PathBuf;
use std::time::Duration;

/// The sandbox cannot be set up on this host.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum SandboxError {
    #[error(
        "no room for {concurrency} sandboxes: they need {gigabytes} GiB of address space (not memory); lower \
         `concurrency`, or raise the process's address space limit (`ulimit -v`)"
    )]
    Pool {
        concurrency: u32,
        gigabytes: u64,
        #[source]
        source: wasmtime::Error,
    },
    #[error("the sandbox's interfaces cannot be linked")]
    Link(#[source] wasmtime::Error),
    #[error(
        "failed to open the artifact cache {path} (`cache` in [server], or the variable XDG_CACHE_HOME, names another place)"
    )]
    OpenCache {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A user who can write there can run native code as this process.
    #[error("the artifact cache {path} is not safe: {problem}; {remedy}")]
    UnsafeCache { path: PathBuf, problem: String, remedy: String },
}

/// A component is refused. The text is meant for its author.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum LoadError {
    #[error("the file is empty; copy the component again")]
    Empty,
    #[error("the component has {bytes} bytes, over the limit of {limit}; strip debug information, or raise the limit")]
    TooLarge { bytes: u64, limit: u64 },
    #[error(
        "this is no WebAssembly: it does not begin with `\\0asm`; give a component, such as \
         `cargo build --target wasm32-wasip2` makes"
    )]
    NotWasm,
    #[error("this is WebAssembly text; turn it into a binary with `wasm-tools parse <file> -o <name>.wasm`")]
    Text,
    #[error(
        "this is a core module that cannot be called: it neither carries a component type nor exports \
         `gristmill:job/handler@0.1.0#handle`, or `_start` as programs of WASI preview 1 do; build for wasm32-wasip2, or export one of these"
    )]
    CoreModule,
    #[error(
        "this is a precompiled artifact (.cwasm), which is never accepted; give the .wasm file that it was made from"
    )]
    Precompiled,
    /// Perhaps it is still being written: looking again later can help.
    #[error("the file ends early, after {bytes} bytes; copy it again, under another name and then renamed")]
    Truncated { bytes: u64 },
    #[error(
        "the component ends at byte {end}, and {extra} bytes follow that are none of it, such as line breaks; cut them off: `truncate -s {end} <file>`"
    )]
    Trailing { end: u64, extra: u64 },
    #[error("the component cannot be read at byte {offset}: {problem}")]
    Malformed { offset: u64, problem: String },
    #[error("the component has {count} {what}, over the limit of {limit}; split it up")]
    TooComplex { what: &'static str, count: u64, limit: u64 },
    /// The compiler refused the component; the same component will be refused again.
    #[error("the component does not compile: {problem}")]
    Compile { problem: String },
    #[error(
        "the component took longer than {limit:?} to compile; try again when the machine is less busy, make it smaller, or raise `compile-timeout` in `[handlers]`"
    )]
    CompileTimeout { limit: Duration },
    /// The compiler died, most likely of its memory or CPU limit.
    #[error(
        "the compiler died ({how}) within its limit of {memory_bytes} bytes of memory; make the component smaller, or \
         raise `compile-memory`"
    )]
    CompilerDied { how: String, memory_bytes: u64 },
    /// Nothing is known against the component.
    #[error("failed to run the compiler ({compiler})")]
    RunCompiler {
        compiler: String,
        #[source]
        source: std::io::Error,
    },
    /// Nothing is known against the component.
    #[error("the artifact cannot be kept in {path}")]
    KeepArtifact {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the compiled component does not fit this sandbox: {problem}")]
    Unfit { problem: String },
    #[error("{problem}; a handler may import {allowed}")]
    Imports { problem: String, allowed: String },
    #[error(
        "{problem}; a handler exports `gristmill:job/handler@0.1.0`, and may export `gristmill:job/self-test@0.1.0`; a program \
         exports `wasi:cli/run@0.2`, a server of HTTP `wasi:http/incoming-handler@0.2`"
    )]
    Exports { problem: String },
    /// Nothing is known against the component.
    #[error("the check of the component was cut short")]
    Interrupted(#[source] tokio::task::JoinError),
}
