//! Smoke-test dispatch of the compiler's child process; the command line replaces it.

use std::process::ExitCode;

use gristmill::wasm::{COMPILE_SUBCOMMAND, ChildLimits, compile_child};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(COMPILE_SUBCOMMAND) {
        return ExitCode::FAILURE;
    }
    let mut number = || arguments.next().and_then(|text| text.parse().ok());
    match (number(), number()) {
        (Some(memory_bytes), Some(cpu_seconds)) => compile_child(ChildLimits { memory_bytes, cpu_seconds }),
        _ => ExitCode::FAILURE,
    }
}
