//! The components that lie in the handlers folder, for commands that look at them once.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::exit::Usage;
use gristmill_config::{HandlerSettings, KnownTopics, Manifest};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::{Demands, EXTERNAL, RESERVED, Topic};
use gristmill_runner::handlers::file_at;
use gristmill_sandbox::{Version, declared_demands};

/// A file of the folder whose name ends in `.wasm`.
#[derive(Debug)]
pub(super) struct ComponentFile {
    pub(super) path: PathBuf,
    /// The handler's name; an error text if the file's name is none, or what bears it is no file.
    pub(super) name: Result<Name, String>,
    pub(super) bytes: u64,
}

/// Whatever bears the name of a component in the folder, by name. A folder that is not there is empty.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn scan(settings: &HandlerSettings) -> anyhow::Result<Vec<ComponentFile>> {
    let folder = &settings.folder;
    let context = || format!("failed to read the handlers folder {}", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(context)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(context)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden || path.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        found.push(match file_at(&path) {
            Ok(metadata) => ComponentFile { name: name_of(&path), bytes: metadata.len(), path },
            Err(problem) => ComponentFile { name: Err(problem), bytes: 0, path },
        });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Files that are named one by one.
///
/// # Errors
/// One of them is not there, or no file.
pub(super) fn named(paths: Vec<PathBuf>) -> anyhow::Result<Vec<ComponentFile>> {
    let look = |path: PathBuf| {
        let metadata = std::fs::metadata(&path).with_context(|| format!("failed to look at {}", path.display()))?;
        anyhow::ensure!(metadata.is_file(), "{} is no file", path.display());
        Ok(ComponentFile { name: name_of(&path), bytes: metadata.len(), path })
    };
    paths.into_iter().map(look).collect()
}

/// The topic whose limits and grants hold for a component that is tried alone: the one that is named, or the file's
/// namesake. As the manifest has it; with `[defaults]` if it does not.
///
/// # Errors
/// No topic is named, and the file's name is none.
pub(super) fn topic_of(manifest: &Manifest, named: Option<&TopicId>, component: &Path) -> Result<Topic, Usage> {
    let id = match named {
        Some(id) => id.clone(),
        None => {
            let name = name_of(component).map_err(|error| Usage(format!("{error}; or name a topic with --topic")))?;
            manifest.auto_topic(&name).id
        }
    };
    let declared = manifest.topics.get(&id).cloned();
    Ok(declared.unwrap_or_else(|| Topic { id: id.clone(), ..manifest.auto_topic(&id.topic) }))
}

/// The rules for new jobs, by the manifest and by the names of the folder's files. A folder that cannot be read is the
/// runner's problem: any topic may be a component's then.
pub(super) fn known_topics(manifest: &Manifest) -> KnownTopics {
    let found = scan(&manifest.handlers).ok();
    let names = found.map(|found| found.into_iter().filter_map(|found| found.name.ok()));
    let names: Option<Vec<Name>> = names.map(|names| names.filter(|name| manifest.makes_topic(name)).collect());
    KnownTopics::new(manifest, names.as_ref())
}

fn name_of(path: &Path) -> Result<Name, String> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if stem == EXTERNAL {
        return Err(RESERVED.into());
    }
    stem.parse().map_err(|error: gristmill_core::job::BadName| error.to_string())
}

impl ComponentFile {
    /// The file's bytes. One over the limit is refused unread.
    pub(super) fn read(&self, limit: u64) -> anyhow::Result<Vec<u8>> {
        if let Err(problem) = &self.name {
            // It may be a pipe, which would be waited for.
            anyhow::bail!("{problem}");
        }
        if self.bytes > limit {
            let show = |bytes| gristmill_config::units::SIZE.about(bytes);
            anyhow::bail!("the file has {}, over the `component-limit` of {}", show(self.bytes), show(limit));
        }
        std::fs::read(&self.path).with_context(|| format!("failed to read {}", self.path.display()))
    }

    /// What the sandbox would call this version, and what its file asks of a topic.
    pub(super) fn version(&self, limit: u64) -> anyhow::Result<(Version, Demands)> {
        let wasm = self.read(limit)?;
        Ok((Version::of(&wasm), declared_demands(&wasm)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_visible_and_ends_in_wasm_is_a_component_or_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let settings = HandlerSettings { folder: folder.path().into(), ..Manifest::default_at(Path::new("")).handlers };
        for name in ["b.wasm", "a.wasm", ".tmp.wasm", "c.txt", "no name.wasm"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(folder.path().join("d.wasm")).unwrap();
        std::os::unix::fs::symlink("missing", folder.path().join("e.wasm")).unwrap();
        let found = scan(&settings).unwrap();
        let names: Vec<_> = found.iter().map(|found| found.name.clone().ok()).collect();
        let name = |text: &str| text.parse().ok();
        assert_eq!(names, [name("a"), name("b"), None, None, None]);
        for (found, says) in found.iter().skip(2).zip(["it is a folder", "it is a link to missing", "is no name"]) {
            assert!(found.name.as_ref().is_err_and(|problem| problem.contains(says)), "{found:?}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_empty() {
        let settings =
            HandlerSettings { folder: "/no/such/folder".into(), ..Manifest::default_at(Path::new("")).handlers };
        assert!(scan(&settings).unwrap().is_empty());
    }
}
