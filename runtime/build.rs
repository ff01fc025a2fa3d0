//! Packs the files of new projects, which only `gristmill new` and `update` read: as texts they would be 0.8 MB of the program.
//! `templates/files.txt` lists them.

use std::env::var_os;
use std::fs::{File, read_to_string};
use std::io::{Error, Result, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<()> {
    let variable = |name: &str| var_os(name).map(PathBuf::from).ok_or_else(|| Error::other(format!("no {name}")));
    let templates = variable("CARGO_MANIFEST_DIR")?.join("templates");
    let packed = File::create(variable("OUT_DIR")?.join("templates.gz"))?;
    let mut packed = GzEncoder::new(packed, Compression::best());
    let list = templates.join("files.txt");
    println!("cargo::rerun-if-changed={}", list.display());
    for path in read_to_string(list)?.lines() {
        let from = templates.join(in_package(path));
        println!("cargo::rerun-if-changed={}", from.display());
        let text = read_to_string(&from).map_err(|error| Error::other(format!("{}: {error}", from.display())))?;
        // None of these texts has a zero byte.
        write!(packed, "{path}\0{text}\0")?;
    }
    packed.finish().map(drop)
}

/// A folder with a `Cargo.toml` would be a crate of its own, and would be left out of the package; git reads no link of the name
/// `.gitignore`.
fn in_package(path: &str) -> String {
    path.replace("/Cargo.toml", "/manifest.toml").replace("welcome-rust/.gitignore", "welcome-rust/gitignore")
}
