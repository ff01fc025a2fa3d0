//! Writes the files of the page as browsers get them: as they are, and compressed as far as gzip allows, for which a start would have no time.

#[path = "src/page/files.rs"]
mod files;
#[path = "src/page/script.rs"]
mod script;

use std::env::var_os;
use std::fs::{create_dir_all, write};
use std::io::{Error, Result, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=page");
    println!("cargo::rerun-if-changed=src/page");
    let variable = |name: &str| var_os(name).map(PathBuf::from).ok_or_else(|| Error::other(format!("no {name}")));
    let to = variable("OUT_DIR")?.join("page");
    create_dir_all(&to)?;
    for (name, text) in files::served(&variable("CARGO_MANIFEST_DIR")?.join("page"))? {
        let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
        compressed.write_all(text.as_bytes())?;
        write(to.join(name), text)?;
        write(to.join(format!("{name}.gz")), compressed.finish()?)?;
    }
    Ok(())
}
