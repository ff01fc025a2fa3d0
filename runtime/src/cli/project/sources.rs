//! The files below a folder that people write, and which of them have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::open::Layout;
use gristmill_config::Manifest;

/// Folders that tools fill. Those whose names begin with a dot are not looked at either.
const MADE: [&str; 7] = ["target", "node_modules", "build", "dist", "__pycache__", "zig-out", "zig-cache"];
/// Files that tools or editors leave behind.
const LEFTOVERS: [&str; 6] = ["wasm", "log", "swp", "swx", "tmp", "pyc"];
/// Of larger files only the size and the time are compared.
const READ_MAX: u64 = 4 << 20;

/// What distinguishes a source from another file.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    /// Files that the runner writes, or whose names these begin, such as the log of a database.
    written: Vec<PathBuf>,
    /// Where this process's own output goes, by device and number.
    output: Vec<(u64, u64)>,
}

impl Filter {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let layout = Layout::of(manifest);
        let logs = [&manifest.journal, &manifest.audit].into_iter().flatten().map(|log| log.path.as_path());
        let output = [rustix::fs::fstat(std::io::stdout().as_fd()), rustix::fs::fstat(std::io::stderr().as_fd())];
        Self {
            written: layout.files().chain(logs).map(whole).collect(),
            output: output.into_iter().flatten().map(|file| (file.st_dev, file.st_ino)).collect(),
        }
    }

    /// Whether a file of this name may be a source.
    pub(super) fn takes(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_leftover =
            path.extension().is_some_and(|extension| LEFTOVERS.iter().any(|leftover| extension == *leftover));
        let bytes = path.as_os_str().as_encoded_bytes();
        let is_written = self.written.iter().any(|written| bytes.starts_with(written.as_os_str().as_encoded_bytes()));
        !(name.starts_with('.') || name.ends_with('~') || is_leftover || is_written)
    }

    fn is_output(&self, file: &Metadata) -> bool {
        self.output.contains(&(file.dev(), file.ino()))
    }
}

/// The path from the root, without the steps that lead nowhere.
fn whole(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
    }
}

/// The sources below a folder, as they were when they were looked at last.
#[derive(Debug)]
pub(super) struct Sources {
    root: PathBuf,
    /// A file that counts as a source wherever it is.
    pub(super) manifest: Option<PathBuf>,
    filter: Filter,
    files: BTreeMap<PathBuf, Stamp>,
    folders: BTreeSet<PathBuf>,
}

/// What a file was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    /// A program that writes a file may set `modified`, but not this one.
    changed: (i64, i64),
    bytes: u64,
    content: u64,
}

/// What a refresh has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SourceChanges {
    /// Files that came, went, or have another content.
    pub(super) changed: BTreeSet<PathBuf>,
}

impl Sources {
    /// Those below `root`, and the manifest. Knows no file yet: the first refresh finds each of them.
    pub(super) fn new(root: &Path, manifest: Option<&Path>, filter: Filter) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let manifest = manifest.map(whole);
        Self { root, manifest, filter, files: BTreeMap::new(), folders: BTreeSet::new() }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// Those that have them, as they were found by the last refresh.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path)
    }

    /// Compares what is there with what was there. A file that was written with the same content has not changed: so a build that
    /// writes a source anew asks for no other. What cannot be read is not there.
    pub(super) fn refresh(&mut self) -> SourceChanges {
        let (mut files, mut folders) = (BTreeMap::new(), BTreeSet::new());
        self.walk(&self.root, &mut files, &mut folders);
        if let Some(manifest) = &self.manifest {
            self.add(manifest, &mut files);
            folders.extend(manifest.parent().map(Path::to_owned));
        }
        let is_new =
            |(path, stamp): &(&PathBuf, &Stamp)| self.files.get(*path).map(|old| old.content) != Some(stamp.content);
        let changed = files.iter().filter(is_new).map(|(path, _)| path);
        let gone = self.files.keys().filter(|path| !files.contains_key(*path));
        let found = SourceChanges { changed: changed.chain(gone).cloned().collect() };
        (self.files, self.folders) = (files, folders);
        found
    }

    fn walk(&self, folder: &Path, files: &mut BTreeMap<PathBuf, Stamp>, folders: &mut BTreeSet<PathBuf>) {
        folders.insert(folder.to_owned());
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            // A link to a folder is not followed: it may lead back.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !is_hidden && !MADE.iter().any(|made| name == *made) {
                    self.walk(&path, files, folders);
                }
            } else if self.filter.takes(&path) {
                self.add(&path, files);
            }
        }
    }

    fn add(&self, path: &Path, files: &mut BTreeMap<PathBuf, Stamp>) {
        if let Ok(file) = std::fs::metadata(path)
            && file.is_file()
            && !self.filter.is_output(&file)
            && let Some(stamp) = self.stamp(path, &file)
        {
            files.insert(path.to_owned(), stamp);
        }
    }

    /// Reads a file only if its times or its size are not what they were.
    fn stamp(&self, path: &Path, file: &Metadata) -> Option<Stamp> {
        let (modified, changed, bytes) = (file.modified().ok(), (file.ctime(), file.ctime_nsec()), file.len());
        let is_same = |old: &&Stamp| old.modified == modified && old.changed == changed && old.bytes == bytes;
        let known = self.files.get(path).filter(is_same);
        if let Some(known) = known {
            return Some(*known);
        }
        let mut hasher = DefaultHasher::new();
        if bytes > READ_MAX {
            (modified, changed, bytes).hash(&mut hasher);
        } else {
            std::fs::read(path).ok()?.hash(&mut hasher);
        }
        Some(Stamp { modified, changed, bytes, content: hasher.finish() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &SourceChanges, root: &Path) -> Vec<String> {
        let root = root.canonicalize().unwrap();
        found.changed.iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn a_source_changes_when_its_content_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |path: &str, text: &str| {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), text).unwrap();
        };
        let manifest = Manifest::default_at(root);
        let mut sources = Sources::new(root, None, Filter::new(&manifest));
        for path in [
            "a/handler.toml",
            "a/src/lib.rs",
            "gristmill.db",
            "gristmill.db-wal",
            "gristmill.toml",
            "a/target/x.rs",
            "a/node_modules/m/x.js",
            "a/build/x.c",
            ".git/HEAD",
            "handlers/a.wasm",
            "a/lib.rs~",
            "a/.lib.rs.swp",
        ] {
            write(path, "1");
        }
        assert_eq!(names(&sources.refresh(), root), ["a/handler.toml", "a/src/lib.rs", "gristmill.toml"]);
        assert_eq!(sources.refresh(), SourceChanges::default());

        write("a/src/lib.rs", "22");
        write("a/handler.toml", "1");
        write("b/new.c", "1");
        let found = sources.refresh();
        assert_eq!(names(&found, root), ["a/src/lib.rs", "b/new.c"]);
        assert!(sources.folders().any(|folder| folder.ends_with("b")));
        std::fs::remove_dir_all(root.join("b")).unwrap();
        assert_eq!(names(&sources.refresh(), root), ["b/new.c"]);
    }
}
