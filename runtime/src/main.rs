//! The `gristmill` binary: everything is in [`gristmill::cli`].

fn main() -> std::process::ExitCode {
    gristmill::cli::main()
}
