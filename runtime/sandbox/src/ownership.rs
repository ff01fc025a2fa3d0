//! Who else may write to a folder, or put another one into its place.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::error::SandboxError;

/// A folder that anyone may write to is safe for others' entries if it has this bit, as `/tmp` has.
const STICKY: u32 = 0o1000;

/// What helps where a cache cannot be.
const ANOTHER: &str = "name another one: `cache` in [server], or the variable XDG_CACHE_HOME";

pub(super) fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this process is in the group. A volume of Kubernetes belongs to a group that the process has for it (`fsGroup`), may be written to by
/// that, and so are files in it after a restart.
fn is_our_group(group: u32) -> bool {
    [0, us(), rustix::process::getegid().as_raw()].contains(&group)
        || rustix::process::getgroups().is_ok_and(|groups| groups.iter().any(|ours| ours.as_raw() == group))
}

/// Whether users may write there who are neither this one nor in one of its groups.
pub(super) fn is_written_by_others(metadata: &Metadata) -> bool {
    let mode = metadata.mode();
    mode & 0o002 != 0 || mode & 0o020 != 0 && !is_our_group(metadata.gid())
}

pub(super) fn make_private(path: &Path, metadata: &Metadata) -> Result<(), SandboxError> {
    let refuse = |problem, remedy| Err(SandboxError::UnsafeCache { path: path.to_owned(), problem, remedy });
    if !metadata.is_dir() {
        return refuse("it is no directory".into(), ANOTHER.into());
    }
    if metadata.uid() != us() {
        return refuse(format!("it belongs to user {}", metadata.uid()), format!("{ANOTHER}, such as a folder in it"));
    }
    let mode = metadata.mode() & 0o777;
    if is_written_by_others(metadata) {
        return refuse(
            format!("others can write to it (mode {mode:03o})"),
            format!("run `chmod 700 {}`", path.display()),
        );
    }
    if mode & 0o020 != 0 {
        let failed = |source| SandboxError::OpenCache { path: path.to_owned(), source };
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)).map_err(failed)?;
    }
    Ok(())
}

/// A user who can write to a folder above can put another one into this one's place.
pub(super) fn check_ancestor(path: &Path, ancestor: &Path, metadata: &Metadata) -> Result<(), SandboxError> {
    let (shown, mode) = (ancestor.display(), metadata.mode());
    let refuse = |problem, remedy| Err(SandboxError::UnsafeCache { path: path.to_owned(), problem, remedy });
    if ![0, us()].contains(&metadata.uid()) {
        return refuse(format!("{shown} belongs to user {}", metadata.uid()), ANOTHER.into());
    }
    if is_written_by_others(metadata) && mode & STICKY == 0 {
        return refuse(
            format!("others can write to {shown} (mode {:03o})", mode & 0o777),
            format!("run `chmod go-w {shown}`, or {ANOTHER}"),
        );
    }
    Ok(())
}
