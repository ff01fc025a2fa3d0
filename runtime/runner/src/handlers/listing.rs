//! Which files of the folder are components, by their names.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gristmill_core::job::Name;

/// What is in a folder.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<(Name, PathBuf)>,
    /// With what is wrong with their names.
    pub(super) misnamed: BTreeMap<PathBuf, String>,
}

/// The components in the folder by handler name, and apart from them those whose name is no handler's name, with what is wrong with it. Hidden
/// files are left out: editors and copy tools drop all sorts of temporary ones.
pub(super) fn list(folder: &Path) -> io::Result<Listing> {
    let Listing { mut files, mut misnamed } = Listing::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if stem.starts_with('.') || path.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        match stem.parse::<Name>() {
            Ok(name) => files.push((name, path)),
            Err(bad) => drop(misnamed.insert(path.clone(), bad.to_string())),
        }
    }
    // If a folder was renamed meanwhile, no file was found: that removes no handler.
    fs::metadata(folder)?;
    files.sort();
    Ok(Listing { files, misnamed })
}
