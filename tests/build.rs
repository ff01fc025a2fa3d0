//! Builds every guest from source, so that `cargo test` needs nothing built before.
//!
//! One path constant a guest goes into `guests.rs`. The guests have a target folder of their own: the outer cargo holds
//! the lock of the usual one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "handler";
/// Package and the constant that names it.
const GUESTS: [(&str, &str); 12] = [
    ("echo", "ECHO"),
    ("resize-image", "RESIZE_IMAGE"),
    ("order-timeout", "ORDER_TIMEOUT"),
    ("simulate", "SIMULATE"),
    ("webhook", "WEBHOOK"),
    ("puppet", "PUPPET"),
    ("caller", "CALLER"),
    ("keeper", "KEEPER"),
    ("bucket", "BUCKET"),
    ("program", "PROGRAM"),
    ("http-component", "HTTP_COMPONENT"),
    ("wasi-client", "WASI_CLIENT"),
];

fn main() {
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("..").canonicalize().unwrap();
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    for watched in ["guest-sdk", "handlers", "wit", "tests/guests", "Cargo.lock"] {
        watch(&workspace.join(watched));
    }

    // Beside the profile's folder, so that debug and release tests share it: .../target/<profile>/build/<package>/out.
    let target_dir = out.ancestors().nth(4).unwrap().join("guests");
    let mut cargo = Command::new(env::var("CARGO").unwrap());
    cargo
        .current_dir(&workspace)
        .args(["build", "--target", TARGET, "--profile", PROFILE, "--target-dir"])
        .arg(&target_dir);
    for (package, _) in GUESTS {
        cargo.args(["-p", package]);
    }
    // What the outer cargo sets for this build script is not meant for the guests.
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_") && name != "CARGO_HOME") {
        cargo.env_remove(name);
    }
    cargo.env_remove("RUSTFLAGS").env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("RUSTC_WRAPPER");
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "building the guests failed; is the target there? rustup target add {TARGET}");

    let folder = target_dir.join(TARGET).join(PROFILE);
    let constants = GUESTS.map(|(package, constant)| {
        let file = folder.join(package.replace('-', "_")).with_extension("wasm");
        format!("/// The component of `{package}`.\npub const {constant}: &str = {file:?};\n")
    });
    fs::write(out.join("guests.rs"), constants.concat()).unwrap();
}

/// Cargo watches a folder's files only by the folder's own time: name every file.
fn watch(path: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            watch(&entry.unwrap().path());
        }
    } else if path.extension().is_none_or(|extension| extension != "wasm") {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}
