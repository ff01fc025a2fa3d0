//! What the Redis store is made of.

use std::fs;
use std::path::{Path, PathBuf};

/// Every file of the store and its text, scripts among them; not those of its tests.
pub(crate) fn redis_sources() -> Vec<(PathBuf, String)> {
    fn below(folder: &Path) -> Vec<PathBuf> {
        let inside = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let inside = inside.filter(|path| path.file_name().is_some_and(|name| name != "tests"));
        inside.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
    }
    let files = below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/store/src/redis"));
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}
