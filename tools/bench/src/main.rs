//! The program `gristmill-bench`: everything is in [`gristmill_bench::cli`].

/// As in the real one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    gristmill_bench::cli::main()
}
