//! Translates the adapter of core modules, so that what reads its text is not in the program.

use std::env::var_os;
use std::error::Error;
use std::fs::write;
use std::path::PathBuf;

const ADAPTER: &str = "src/core_module/preview1.wat";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ADAPTER}");
    let folder = var_os("OUT_DIR").map(PathBuf::from).ok_or("no OUT_DIR")?;
    Ok(write(folder.join("preview1.wasm"), wat::parse_file(ADAPTER)?)?)
}
