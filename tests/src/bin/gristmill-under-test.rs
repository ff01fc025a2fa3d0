//! The real binary, built with this crate so that its tests find it. It can play a process that uses a store, too.

/// As in the real one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    if let Some(file) = std::env::var_os(gristmill_tests::load::FILE) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(gristmill_tests::load::run(file.as_ref()))
    }
    gristmill::cli::main()
}
