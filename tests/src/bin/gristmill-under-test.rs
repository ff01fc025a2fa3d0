//! The real binary, built with this crate so that its tests find it.

fn main() -> std::process::ExitCode {
    gristmill::cli::main()
}
