//! The `gristmill` binary: everything is in [`gristmill::cli`].

/// A job makes and frees some hundred small things on several threads: another allocator than glibc's takes a sixth to a
/// fifth off its CPU (docs/internals/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    gristmill::cli::main()
}
