//! Writes the files of the page as browsers get them: as they are, and compressed as far as gzip allows, for which a start would have no time.

#[path = "src/page/files.rs"]
mod files;
#[path = "src/page/names.rs"]
mod names;
#[path = "src/page/script.rs"]
mod script;

use std::env::var_os;
use std::fs::{create_dir_all, write};
use std::io::{Error, Result};
use std::path::PathBuf;

use zopfli::{Format, Options};

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=page");
    println!("cargo::rerun-if-changed=src/page");
    let variable = |name: &str| var_os(name).map(PathBuf::from).ok_or_else(|| Error::other(format!("no {name}")));
    let to = variable("OUT_DIR")?.join("page");
    create_dir_all(&to)?;
    for (name, text) in files::served(&variable("CARGO_MANIFEST_DIR")?.join("page"))? {
        let mut compressed = Vec::new();
        zopfli::compress(Options::default(), Format::Gzip, text.as_bytes(), &mut compressed)?;
        write(to.join(name), text)?;
        write(to.join(format!("{name}.gz")), compressed)?;
    }
    Ok(())
}
