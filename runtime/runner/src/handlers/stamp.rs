//! What is known of a file without reading it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What distinguishes one state of a file from another, short of reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    /// A program that writes a file may set its time of modification, but not this one.
    changed_ns: i128,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn nanos(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

/// What is known of a file without reading it.
///
/// # Errors
/// Why what bears its name cannot be read as a file.
pub fn file_at(path: &Path) -> Result<Metadata, String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(metadata),
        Ok(metadata) if metadata.is_dir() => Err("it is a folder: give it a name that does not end in .wasm".into()),
        Ok(_) => Err("it is no regular file: copy the component there".into()),
        Err(error) => match fs::read_link(path) {
            Ok(target) => Err(format!("it is a link to {}, which cannot be opened: {error}", target.display())),
            Err(_) => Err(format!("it cannot be opened: {error}")),
        },
    }
}

/// Whether the file was written to so shortly ago, whatever its time of modification was set to. Not one of a time that is yet to come: the
/// clock was set back since.
#[expect(clippy::disallowed_methods, reason = "compared with a file's time, which is this host's too")]
pub(super) fn changed_within(metadata: &Metadata, span: Duration) -> bool {
    let changed =
        Duration::new(metadata.ctime().try_into().unwrap_or(0), metadata.ctime_nsec().try_into().unwrap_or(0));
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed).is_ok_and(|age| age < span)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_file_that_is_overwritten_is_another_whatever_size_and_time_it_was_given() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("echo.wasm");
        let written = |content: &str| {
            fs::write(&path, content).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
            fs::metadata(&path).unwrap()
        };
        let first = written("first");
        assert!(changed_within(&first, Duration::from_secs(3600)));
        let begun = Instant::now();
        // Two writes within a tick of the kernel's clock look alike.
        while Stamp::of(&written("other")) == Stamp::of(&first) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it looks the same for ever");
        }
    }
}
