//! The compiler, seen from inside the child process: confines itself, reads a component or a core module, writes an artifact.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, nice, setrlimit};
use wasmparser::Parser;
use wasmtime::error::OutOfMemory;

use super::compiled_functions::CompiledFunctions;
use super::compiler::COMPILE_SUBCOMMAND;
#[cfg(target_os = "linux")]
use super::confine::confine;
use super::{core_module, direct, engine, source_lines};

/// By how much the compiler's priority is lower than the server's.
const NICER: i32 = 10;

/// What the compiling process may use. It sets these limits on itself, before it reads a byte.
#[derive(Debug, Clone, Copy)]
pub struct ChildLimits {
    /// Address space.
    pub memory_bytes: u64,
    /// CPU time, over all threads.
    pub cpu_seconds: u64,
}

impl ChildLimits {
    /// Set if a sandbox has called this program to compile one component ([`COMPILE_SUBCOMMAND`]).
    pub fn of_arguments() -> Option<Self> {
        let mut arguments = std::env::args_os().skip(1);
        (arguments.next()? == COMPILE_SUBCOMMAND).then_some(())?;
        let mut number = || arguments.next()?.to_str()?.parse().ok();
        Some(Self { memory_bytes: number()?, cpu_seconds: number()? })
    }
}

/// Runs the hidden subcommand: compiles the component, or the core module that can be made into one, on standard input
/// and writes the artifact to standard output.
///
/// Exit code 0: standard error says which protection the system does not give, if any. Exit code 1 and one line on standard error: the
/// component is refused. Any other end means that a limit was hit.
pub fn compile_child(limits: ChildLimits) -> ExitCode {
    let compiled = limit_self(limits).and_then(|()| {
        let missing = confine();
        compile(io::stdin().lock(), io::stdout().lock()).map(|()| missing)
    });
    match compiled {
        Ok(missing) => {
            if !missing.is_empty() {
                let _ = writeln!(io::stderr(), "{}", missing.join("; "));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            let line = format!("{error:#}").replace('\n', "; ");
            // Fails only if the parent is gone.
            let _ = writeln!(io::stderr(), "{line}");
            if is_out_of_memory(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Most allocations that fail end the process; these are returned to their callers as errors, and are due to the limit as well.
fn is_out_of_memory(error: &wasmtime::Error) -> bool {
    error.is::<OutOfMemory>()
        || error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

fn limit_self(limits: ChildLimits) -> wasmtime::Result<()> {
    let limits = [
        (Resource::As, limits.memory_bytes, limits.memory_bytes),
        // Between the two there is a signal that says what it is for; at the second there is SIGKILL.
        (Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds.saturating_add(1)),
        // A core dump would hold a stranger's code, and take disk space and time.
        (Resource::Core, 0, 0),
    ];
    for (resource, current, maximum) in limits {
        setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?;
    }
    // Jobs go first where there are too few processors. Where that is refused, the limits above hold all the same.
    let _ = nice(NICER);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn confine() -> Vec<String> {
    vec!["without Landlock and seccomp, which only Linux has, it may open files and send over the network".to_owned()]
}

fn compile(mut component: impl Read, mut artifact: impl Write) -> wasmtime::Result<()> {
    let mut wasm = Vec::new();
    component.read_to_end(&mut wasm)?;
    artifact.write_all(&artifact_of(wasm, None)?)?;
    artifact.flush()?;
    Ok(())
}

/// The native code of a component, or of a core module that can be made into one, and the lines of its sources if it knows them.
pub(super) fn artifact_of(mut wasm: Vec<u8>, known: Option<Arc<CompiledFunctions>>) -> wasmtime::Result<Vec<u8>> {
    if Parser::is_core_wasm(&wasm) {
        wasm = core_module::into_component(&wasm).map_err(wasmtime::Error::msg)?;
    }
    direct::export_main(&mut wasm);
    let mut artifact = engine::compiling(known)?.precompile_component(&wasm)?;
    source_lines::append(&mut artifact, &wasm);
    Ok(artifact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_that_is_refused_is_no_fault_of_the_component() {
        let read = io::Error::from(io::ErrorKind::OutOfMemory);
        assert!(is_out_of_memory(&read.into()) && is_out_of_memory(&OutOfMemory::new(1).into()));
        assert!(!is_out_of_memory(&wasmtime::Error::msg("invalid magic number")));
        assert!(!is_out_of_memory(&io::Error::from(io::ErrorKind::UnexpectedEof).into()));
    }
}
