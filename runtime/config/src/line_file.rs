//! `[journal]` and `[audit]`: files to which lines are written.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::diagnostic::{Diagnostic, Span};
use super::manifest::{Manifest, ManifestError};
use super::paths::resolved;
use super::ranges;
use super::read::Section;
use super::store::StoreAddress;

/// What a SQLite file has beside it, by the ends of the names.
const OF_STORE: [&str; 5] = ["", "-wal", "-shm", "-journal", ".owner"];

/// `[journal]` or `[audit]`: the file, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFileSettings {
    /// The file that lines are appended to.
    pub path: PathBuf,
    /// Bytes from which on the file is put aside and a new one begun.
    pub rotate_bytes: u64,
    /// Files put aside that are kept, `path.1` the latest. 1 to 1,000.
    pub keep: u32,
}

impl LineFileSettings {
    /// The file at `path`, and what is usual otherwise: at most 1.1 GiB on the disk.
    pub fn at(path: PathBuf) -> Self {
        Self { path, rotate_bytes: 64 << 20, keep: 16 }
    }
}

/// Returns `None` without such a section: then nothing is written down. With the place of the path. Paths are relative to `folder`, the manifest's.
pub(super) fn line_file(root: &mut Section<'_>, name: &'static str, folder: &Path) -> Option<(LineFileSettings, Span)> {
    let place = root.value(name)?.span();
    let mut section = root.section(name)?;
    let mut settings = LineFileSettings::at(PathBuf::new());
    section.quantity(&ranges::ROTATE_AT, &mut settings.rotate_bytes);
    section.quantity(&ranges::KEEP, &mut settings.keep);
    let problems = section.problems();
    let path = match section.value("path") {
        Some(value) => section.path("path").map(|path| (path, value.span())),
        None => {
            let help = format!("write path = \"{name}.jsonl\", or leave [{name}] out");
            problems.report(place, format!("[{name}] does not say to which file: it needs a `path`"), help);
            None
        }
    };
    section.finish();
    path.map(|(path, place)| (LineFileSettings { path: folder.join(path), ..settings }, place))
}

impl Manifest {
    /// The same with its jobs elsewhere.
    ///
    /// # Errors
    /// A log would be written into that store: [`ManifestError::Invalid`].
    pub fn with_store(mut self, address: StoreAddress) -> Result<Self, ManifestError> {
        self.store.address = address;
        let problems = self.misplaced_logs();
        if problems.is_empty() { Ok(self) } else { Err(ManifestError::Invalid { problems }) }
    }

    /// The logs whose file is also something else. A full log is renamed and later deleted, whatever is in it.
    pub(super) fn misplaced_logs(&self) -> Vec<Diagnostic> {
        let logs: Vec<_> = self.logs().map(|(name, _, settings, at)| (name, resolved(&settings.path), at)).collect();
        let mut problems = Vec::new();
        for (index, (name, log, at)) in logs.iter().enumerate() {
            let mut others = logs.iter().skip(index + 1).map(|(_, other, _)| other);
            let what = if others.any(|other| renames(log, other) || renames(other, log)) {
                "the file of the other log".to_owned()
            } else if let Some(what) = self.what_is_renamed(log) {
                what
            } else {
                continue;
            };
            let help = format!(
                "a full log is renamed and later deleted: give it a file of its own, as in path = \"{name}.jsonl\""
            );
            problems.push(self.source.complain(at.clone(), format!("`path` in [{name}] is {what}")).help(help));
        }
        problems
    }

    /// What else than a log is renamed with this one.
    fn what_is_renamed(&self, log: &Path) -> Option<String> {
        for store in std::iter::once(&self.store).chain(self.stores.values()) {
            let StoreAddress::File(path) = &store.address else { continue };
            let store = resolved(path);
            if OF_STORE.iter().any(|end| renames(log, &beside(&store, end))) {
                return Some(format!("a file of the store {}", path.display()));
            }
        }
        if renames(log, &resolved(&self.path)) {
            return Some("the manifest itself".to_owned());
        }
        let is_component = log.parent().is_some_and(|folder| folder == resolved(&self.handlers.folder))
            && log.extension().is_some_and(|extension| extension == "wasm");
        is_component.then(|| "a component of the handlers folder".to_owned())
    }

    /// The logs that a runner could not open, as far as that shows without making the file.
    pub fn unwritable_logs(&self) -> Vec<Diagnostic> {
        let refused = self.logs().filter_map(|(name, called, settings, at)| {
            let error = writable(&settings.path).err()?;
            let title = format!("failed to open the {called} {}: {error}", settings.path.display());
            let help = format!("`path` in [{name}] must name a file that can be written, in a folder that is there");
            Some(self.source.complain(at, title).help(help))
        });
        refused.collect()
    }

    /// Section, what people call the file, settings, and where the section names the path.
    fn logs(&self) -> impl Iterator<Item = (&'static str, &'static str, &LineFileSettings, Option<Span>)> {
        let [journal, audit] = &self.log_places;
        let logs = [("journal", "journal", &self.journal, journal), ("audit", "audit log", &self.audit, audit)];
        logs.into_iter().filter_map(|(name, called, settings, at)| Some((name, called, settings.as_ref()?, at.clone())))
    }
}

/// Whether the other file is the log, or has the name of one that was put aside (`log.1`).
fn renames(log: &Path, other: &Path) -> bool {
    let name = log.as_os_str().as_encoded_bytes();
    match other.as_os_str().as_encoded_bytes().strip_prefix(name) {
        Some([]) => true,
        Some([b'.', number @ ..]) => !number.is_empty() && number.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn beside(store: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(store);
    name.push(end);
    name.into()
}

fn writable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(Errno::ISDIR.into()),
        Ok(found) if !found.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
            Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(folder: &Path, text: &str) -> Result<Manifest, String> {
        Manifest::parse(text, &folder.join("gristmill.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_log_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::create_dir(folder.join("handlers")).unwrap();
        std::os::unix::fs::symlink("handlers", folder.join("link")).unwrap();
        for (path, what) in [
            ("gristmill.db", "a file of the store"),
            ("link/../gristmill.db-wal", "a file of the store"),
            ("gristmill.db-shm", "a file of the store"),
            ("./gristmill.db.owner", "a file of the store"),
            ("archive.db", "a file of the store"),
            // The store would take the place of a log that was put aside.
            ("archive", "a file of the store"),
            ("handlers/../gristmill.toml", "the manifest itself"),
            ("link/echo.wasm", "a component"),
        ] {
            for log in ["journal", "audit"] {
                let text = format!(
                    "[stores.b]\nurl = \"sqlite:archive.1\"\n[stores.c]\nurl = \"sqlite:archive.db\"\n[{log}]\npath = \"{path}\""
                );
                let problem = read(folder, &text).unwrap_err();
                let title = format!("`path` in [{log}] is {what}");
                assert!(problem.contains(&title) && problem.contains("gristmill.toml:6:8"), "{path}: {problem}");
                assert!(problem.contains("give it a file of its own"), "{problem}");
            }
        }
        let both = |audit: &str| read(folder, &format!("[journal]\npath = \"a.log\"\n[audit]\npath = \"{audit}\""));
        for audit in ["a.log", "./a.log", "a.log.7"] {
            assert!(both(audit).unwrap_err().contains("the file of the other log"), "{audit}");
        }
        for audit in ["b.log", "a.log.old", "handlers/a.log"] {
            assert!(both(audit).is_ok(), "{audit}");
        }
        let moved = |file: &str| both("b.log").unwrap().with_store(StoreAddress::File(folder.join(file)));
        assert!(moved("other.db").is_ok() && moved("b.log").is_err());
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_named_before_a_runner_begins() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("logs")).unwrap();
        let problems = |path: &str| {
            let text = format!("[journal]\npath = \"{path}\"");
            read(folder.path(), &text).unwrap().unwritable_logs().iter().map(ToString::to_string).collect::<String>()
        };
        assert_eq!((problems("a.jsonl"), problems("logs/a.jsonl")), (String::new(), String::new()));
        for (path, says) in [("missing/a.jsonl", "No such file"), ("logs", "Is a directory")] {
            let said = problems(path);
            assert!(said.contains(says) && said.contains("failed to open the journal"), "{said}");
            assert!(said.contains("`path` in [journal] must name a file"), "{said}");
        }
        assert!(!folder.path().join("a.jsonl").exists(), "nothing is made");
    }
}
