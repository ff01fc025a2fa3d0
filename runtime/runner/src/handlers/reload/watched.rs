//! Which folders are watched, and how often they are read besides.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gristmill_config::{LineFileSettings, Manifest, StoreAddress, StoreSettings};

/// How often files are looked at in a folder that is not watched.
const UNWATCHED: Duration = Duration::from_secs(1);

/// The manifest's folder, that of the handlers and the one above, in which another may take its place. Without those in which the
/// server writes all the time: each write would wake the watcher, on the processor of the thread that writes (5 % of the throughput of a
/// store in a file).
pub(super) struct Watched {
    pub(super) folders: Vec<PathBuf>,
    /// The manifest's, or more often where a folder is not watched.
    pub(super) rescan: Duration,
}

impl Watched {
    pub(super) fn of(manifest: &Manifest, handlers: &Path) -> Self {
        let folder = |file: &Path| file.parent().map(here);
        let of_manifest = manifest.file.as_deref().and_then(folder);
        let all = of_manifest.into_iter().chain(folder(handlers)).chain([handlers.to_owned()]);
        let written: Vec<PathBuf> = written(manifest).filter_map(folder).collect();
        let (unwatched, folders): (Vec<_>, Vec<_>) = all.partition(|folder| written.contains(folder));
        let rescan = manifest.handlers.rescan;
        Self { folders, rescan: if unwatched.is_empty() { rescan } else { rescan.min(UNWATCHED) } }
    }
}

/// What the server writes to while jobs run.
fn written(manifest: &Manifest) -> impl Iterator<Item = &Path> {
    let stores = std::iter::once(&manifest.store).chain(manifest.stores.values());
    let stores = stores.filter_map(|StoreSettings { address, .. }| match address {
        StoreAddress::File(file) => Some(file.as_path()),
        StoreAddress::Memory | StoreAddress::Redis(_) => None,
    });
    let lines = [&manifest.journal, &manifest.audit].into_iter().flatten();
    stores.chain(lines.map(|LineFileSettings { path, .. }| path.as_path()))
}

/// The parent of a bare file name is the empty path, which means here.
fn here(folder: &Path) -> PathBuf {
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(manifest: &str) -> (Vec<String>, u64) {
        let file = Path::new("/etc/mill/gristmill.toml");
        let mut manifest = Manifest::parse(manifest, file).unwrap();
        manifest.file = Some(file.to_owned());
        let Watched { folders, rescan } = Watched::of(&manifest, Path::new("/etc/mill/handlers"));
        (folders.into_iter().map(|folder| folder.display().to_string()).collect(), rescan.as_secs())
    }

    #[test]
    fn a_folder_in_which_the_server_writes_is_looked_at_instead() {
        let (all, handlers) = (["/etc/mill", "/etc/mill", "/etc/mill/handlers"], ["/etc/mill/handlers"]);
        let elsewhere = "[store]\nurl = \"sqlite:/var/lib/mill.db\"\n";
        assert_eq!(watched("[store]\nurl = \"sqlite::memory:\""), (all.map(str::to_owned).to_vec(), 10));
        assert_eq!(watched(elsewhere), (all.map(str::to_owned).to_vec(), 10));
        for beside in ["", "[store]\nurl = \"sqlite:jobs.db\"", &format!("{elsewhere}[journal]\npath = \"jobs.log\"")] {
            assert_eq!(watched(beside), (handlers.map(str::to_owned).to_vec(), 1), "{beside}");
        }
    }
}
