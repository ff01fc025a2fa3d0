//! Writes what the SDKs of Zig, AssemblyScript and Go have of the component model's canonical ABI, from `wit/job.wit`: the types of the
//! contract, how they lie in memory, a function for each import and one that calls the handler.
//!
//! `cargo run -p gristmill-guest-abi` writes the files, and a test compares them.

mod assemblyscript;
mod call;
mod contract;
mod go;
mod language;
mod names;
mod zig;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::contract::Contract;
use crate::language::Language;

const LANGUAGES: [Language; 3] = [zig::LANGUAGE, assemblyscript::LANGUAGE, go::LANGUAGE];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Each file's path and text.
fn generated() -> Result<Vec<(PathBuf, String)>> {
    let contract = Contract::read(&root().join("wit"))?;
    let generate = |language: Language| {
        let text = language.generate(&contract).with_context(|| format!("failed to generate {}", language.file))?;
        Ok((root().join(language.file), text))
    };
    LANGUAGES.into_iter().map(generate).collect()
}

fn main() -> Result<()> {
    for (path, text) in generated()? {
        fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdks_have_the_bindings_of_the_contract() {
        for (path, text) in generated().unwrap() {
            let is_the_same = fs::read_to_string(&path).is_ok_and(|there| there == text);
            assert!(is_the_same, "{} is not of the contract: run `cargo run -p gristmill-guest-abi`", path.display());
        }
    }
}
