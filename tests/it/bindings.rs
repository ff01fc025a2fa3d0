//! The bindings of the Rust SDK and of a guest of the tests are made here, and not where they are used: what makes them takes half a minute to
//! compile.

use std::path::{Path, PathBuf};

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::Opts;

const FOLDER: &str = "guest-sdk/rust/src/bindings";
const BUCKET: &str = "tests/guests/bucket";

/// A component that does not use it imports nothing of a world of its own, and need not implement what that exports.
const HTTP: &str = "package gristmill:http-only; world http-only { import gristmill:job/http@0.1.0; }";
const STATE: &str = "package gristmill:state-only; world state-only { import gristmill:job/state@0.1.0; }";
const SELF_TEST: &str =
    "package gristmill:self-test-only; world self-test-only { export gristmill:job/self-test@0.1.0; }";

/// What wit-bindgen makes of a world. `inline`: the world's own package. Else it is one of those at `path`.
fn made(path: &Path, world: &str, inline: Option<&str>, opts: Opts) -> String {
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_path(path).unwrap();
    if let Some(text) = inline {
        package = resolve.push_str("inline", text).unwrap();
    }
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut files = Files::default();
    opts.build().generate(&mut resolve, world, &mut files).unwrap();
    let (_, text) = files.iter().next().unwrap();
    String::from_utf8(text.to_owned()).unwrap()
}

/// Compares a file with what was made, or writes it anew.
fn assert_made(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    if std::env::var_os("UPDATE_BINDINGS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let is_the_same = std::fs::read_to_string(&path).is_ok_and(|there| there == text);
    assert!(is_the_same, "{file} is not of its contract: run `UPDATE_BINDINGS=1 cargo test --workspace bindings`");
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn the_rust_sdk_has_the_bindings_of_the_contract() {
    let (root, contract) = (root(), root().join("wit"));
    let of = |module: &str| Opts {
        format: true,
        additional_derive_attributes: vec!["PartialEq".to_owned()],
        // `handler!` expands in the author's crate, and finds the macro and the types there.
        default_bindings_module: Some(format!("gristmill_guest::bindings{module}")),
        pub_export_macro: true,
        ..Opts::default()
    };
    let imported = |module| Opts { generate_all: true, pub_export_macro: false, ..of(module) };
    let self_test = Opts {
        export_macro_name: Some("export_self_test".to_owned()),
        additional_derive_attributes: Vec::new(),
        ..of("::self_test")
    };
    for (file, text) in [
        ("job_handler.rs", made(&contract, "job-handler", None, of(""))),
        ("http.rs", made(&contract, "http-only", Some(HTTP), imported("::http"))),
        ("state.rs", made(&contract, "state-only", Some(STATE), imported("::state"))),
        ("self_test.rs", made(&contract, "self-test-only", Some(SELF_TEST), self_test)),
    ] {
        assert_made(&root, &format!("{FOLDER}/{file}"), &text);
    }
}

#[test]
fn a_guest_of_another_contract_has_its_bindings() {
    let root = root();
    let opts = Opts { format: true, generate_all: true, ..Opts::default() };
    let text = made(&root.join(BUCKET).join("bucket.wit"), "bucket", None, opts);
    assert_made(&root, &format!("{BUCKET}/src/bindings/bucket.rs"), &text);
}
