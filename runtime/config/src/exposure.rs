//! Whether other users of this machine can reach a file that should be private.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

/// What only the owner and readers in its group should have: nothing for others, no writing for the group.
const OF_OTHERS: u32 = 0o027;
const WRITABLE: u32 = 0o022;
/// In such a folder users can replace only their own files.
const STICKY: u32 = 0o1000;

/// Says how other users of this machine can read or replace the file, and the command that prevents it. Returns `None` if they
/// cannot, or if the file cannot be looked at.
pub fn exposure(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let metadata = fs::metadata(&path).ok()?;
    // A folder, a device or a component is named by mistake, and who reads it says so: no command makes one of them private.
    if !metadata.is_file() || path.extension().is_some_and(|extension| extension == "wasm") {
        return None;
    }
    let mode = metadata.mode() & 0o777;
    let shown = path.display();
    if mode & OF_OTHERS != 0 {
        return Some(format!("other users can reach {shown} (mode {mode:03o}): run `chmod 600 {shown}`"));
    }
    let folder = path.parent()?;
    let mode = fs::metadata(folder).ok()?.mode() & 0o7777;
    let shown = folder.display();
    let writable = mode & WRITABLE != 0 && mode & STICKY == 0;
    writable.then(|| {
        format!("other users can write to the folder {shown} (mode {:03o}): run `chmod go-w {shown}`", mode & 0o777)
    })
}

/// Logs the [`exposure`] of a file, if it has one: once, however often the file is read.
pub fn warn_if_exposed(path: &Path) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let Some(problem) = exposure(path) else { return };
    let is_new = SAID.lock().is_ok_and(|mut said| said.insert(problem.clone()));
    if is_new {
        tracing::warn!("{problem}");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_can_read_or_replace_is_exposed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "secret").unwrap();
        let exposed = |folder_mode, mode| {
            fs::set_permissions(folder.path(), Permissions::from_mode(folder_mode)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            exposure(&path)
        };
        for (folder_mode, mode) in [(0o700, 0o600), (0o755, 0o600), (0o755, 0o400), (0o750, 0o640), (0o1777, 0o600)] {
            assert_eq!(exposed(folder_mode, mode), None, "{folder_mode:o} {mode:o}");
        }
        for (folder_mode, mode) in [(0o755, 0o644), (0o700, 0o604), (0o700, 0o660)] {
            assert!(exposed(folder_mode, mode).unwrap().contains("chmod 600"), "{folder_mode:o} {mode:o}");
        }
        for folder_mode in [0o777, 0o770] {
            assert!(exposed(folder_mode, 0o600).unwrap().contains("chmod go-w"), "{folder_mode:o}");
        }
        let component = folder.path().join("echo.wasm");
        fs::write(&component, "").unwrap();
        for path in [folder.path().join("missing"), folder.path().to_owned(), "/dev/null".into(), component] {
            assert_eq!(exposure(&path), None, "{}", path.display());
        }
    }
}
