//! Packs the files of new projects, which only `gristmill new` and `update` read: as texts they would be 0.8 MB of the program.

#[path = "src/cli/project/template_files.rs"]
mod template_files;

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
    for folder in template_files::ALL {
        for file in folder.files {
            let from = templates.join(folder.path).join(in_package(folder.path, file));
            println!("cargo::rerun-if-changed={}", from.display());
            let text = read_to_string(&from).map_err(|error| Error::other(format!("{}: {error}", from.display())))?;
            // None of these texts has a zero byte.
            write!(packed, "{}/{file}\0{text}\0", folder.path)?;
        }
    }
    packed.finish().map(drop)
}

/// A folder with a `Cargo.toml` would be a crate of its own, and would be left out of the package; git reads no link of the name
/// `.gitignore`.
fn in_package<'a>(folder: &str, file: &'a str) -> &'a str {
    match file {
        "Cargo.toml" => "manifest.toml",
        ".gitignore" if folder == "examples/welcome-rust" => "gitignore",
        file => file,
    }
}
