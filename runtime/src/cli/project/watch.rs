//! Waits until sources of projects have changed, and says whose they are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file;
use super::sources::{Filter, Sources};
use gristmill_config::Manifest;
use gristmill_runner::handlers::Hints;

/// Saves within this time are one change: an editor writes a file in several steps, and several files one after the other.
const GATHER: Duration = Duration::from_millis(15);

/// Watches the sources below a folder, and the manifest.
#[derive(Debug)]
pub(in crate::cli) struct Watch {
    sources: Sources,
    hints: Hints,
    /// Some file systems give no hints.
    rescan: Duration,
}

/// What has changed.
#[derive(Debug)]
pub(in crate::cli) struct Changes {
    pub(in crate::cli) paths: BTreeSet<PathBuf>,
    /// When the first of them was noticed.
    pub(in crate::cli) noticed: Instant,
}

impl Watch {
    /// From now on.
    pub(in crate::cli) fn start(folder: &Path, manifest: &Manifest) -> Self {
        let filter = Filter::new(manifest);
        let hints = Hints::new({
            let filter = filter.clone();
            move |path| filter.takes(path)
        });
        let mut watch = Self {
            sources: Sources::new(folder, manifest.file.as_deref(), filter),
            hints,
            rescan: manifest.handlers.rescan,
        };
        watch.refresh();
        watch
    }

    /// The folders of the projects, in order.
    pub(in crate::cli) fn projects(&self) -> Vec<PathBuf> {
        let files = self.sources.files().filter(|path| path.ends_with(file::FILE));
        files.filter_map(Path::parent).map(Path::to_owned).collect()
    }

    /// The manifest's file, if there is one.
    pub(in crate::cli) fn manifest(&self) -> Option<&Path> {
        self.sources.manifest.as_deref()
    }

    /// Waits until sources are not as they were when this was called last; what changed meanwhile is found at once. Cancel-safe.
    pub(in crate::cli) async fn changed(&mut self) -> Changes {
        let mut noticed = Instant::now();
        loop {
            self.hints.clear();
            let paths = self.refresh();
            if !paths.is_empty() {
                return Changes { paths, noticed };
            }
            tokio::select! {
                () = self.hints.next() => {
                    noticed = Instant::now();
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(self.rescan) => noticed = Instant::now(),
            }
        }
    }

    fn refresh(&mut self) -> BTreeSet<PathBuf> {
        let mut changed = BTreeSet::new();
        loop {
            let found = self.sources.refresh();
            changed.extend(found.changed);
            // A file may come before its folder is watched: another look follows.
            if !self.hints.follow(self.sources.folders()) {
                return changed;
            }
        }
    }
}

/// The projects that a change concerns: the one whose folder has the file, the innermost of several. The manifest, and files outside
/// of every project, concern all.
pub(in crate::cli) fn concerned<'a>(projects: &'a [PathBuf], manifest: Option<&Path>, changed: &Path) -> Vec<&'a Path> {
    let owner = projects
        .iter()
        .filter(|project| changed.starts_with(project))
        .max_by_key(|project| project.components().count());
    match owner {
        Some(owner) if manifest != Some(changed) => vec![owner],
        _ => projects.iter().map(PathBuf::as_path).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_concerns_the_innermost_project_around_it() {
        let root = PathBuf::from("/p");
        let [outer, inner, other] = ["outer", "outer/inner", "outer-2"].map(|path| root.join(path));
        let projects = [outer.clone(), inner.clone(), other.clone()];
        let manifest = root.join("outer/gristmill.toml");
        let of = |path: &str| concerned(&projects, Some(&manifest), &root.join(path));
        assert_eq!(of("outer/src/lib.rs"), [&outer]);
        assert_eq!(of("outer/inner/src/lib.rs"), [&inner]);
        assert_eq!(of("outer-2/handler.c"), [&other]);
        let all = [&outer, &inner, &other];
        assert_eq!(of("shared/common.h"), all);
        assert_eq!(of("outer/gristmill.toml"), all);
    }

    #[tokio::test]
    async fn what_changes_before_the_wait_is_found_at_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file::FILE), "").unwrap();
        let mut watch = Watch::start(folder.path(), &Manifest::default_at(folder.path()));
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(watch.projects(), std::slice::from_ref(&root));
        std::fs::create_dir(root.join("src")).unwrap();
        std::fs::write(root.join("src/a.c"), "1").unwrap();
        std::fs::write(root.join("src/b.c"), "1").unwrap();
        assert_eq!(watch.changed().await.paths, BTreeSet::from(["src/a.c", "src/b.c"].map(|path| root.join(path))));
        // In a folder that came later.
        let save = async { std::fs::write(root.join("src/a.c"), "22").unwrap() };
        let (changes, ()) = tokio::join!(watch.changed(), save);
        assert_eq!(changes.paths, BTreeSet::from([root.join("src/a.c")]));
    }
}
