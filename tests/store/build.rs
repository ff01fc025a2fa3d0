//! The tests of Valkey are there where it is installed: none of them passes without it.

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(valkey)");
    // PATH is not watched: it is another one in each terminal and editor, and each would compile the tests anew.
    println!("cargo::rerun-if-changed=build.rs");
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).any(|folder| folder.join("valkey-server").is_file()) {
        println!("cargo::rustc-cfg=valkey");
    }
}
