//! Who imports whom. Crates hold the layers apart; inside a crate, folders import each other in one direction only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module by its path from the crate's root, such as `["api", "push"]`.
type Module = Vec<String>;

/// The source of one crate: every module with its text.
struct Sources(BTreeMap<Module, (PathBuf, String)>);

impl Sources {
    fn of(src: &Path) -> Self {
        fn walk(folder: &Path, module: &[String], found: &mut BTreeMap<Module, (PathBuf, String)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
                let mut inside = module.to_vec();
                if path.is_dir() {
                    inside.push(stem);
                    walk(&path, &inside, found);
                } else if path.extension().is_some_and(|extension| extension == "rs") && stem != "tests" {
                    if !matches!(stem.as_str(), "lib" | "main" | "mod") {
                        inside.push(stem);
                    }
                    let text = fs::read_to_string(&path).unwrap();
                    // What only tests import is no part of the structure.
                    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
                    found.insert(inside, (path, text));
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(src, &[], &mut found);
        assert!(!found.is_empty(), "no sources in {}", src.display());
        Self(found)
    }

    /// The modules that a module's `use` lines name, by way of re-exports.
    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let (path, text) = &self.0[module];
        let root = is_root_of_folder(path);
        uses(text)
            .iter()
            // A folder's `mod.rs` re-exports its own files: that is a name for them and no need of them.
            .filter(|(exported, path)| !(root && *exported && path[0] != "crate"))
            .filter_map(|(_, path)| self.resolve(module, root, path))
            .filter(|found| found != module)
            .collect()
    }

    fn resolve(&self, from: &Module, from_root: bool, path: &[String]) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.clone(),
            // Of a folder's root module it is the module above the folder; of a file in it, the folder's root module.
            "super" => from[..from.len().saturating_sub(1)].to_vec(),
            // A child of the folder's root module; anything else is another crate.
            name if from_root && self.0.contains_key(&joined(from, name)) => joined(from, name),
            _ => return None,
        };
        while rest.first().is_some_and(|name| name == "super") {
            at.pop();
            rest = &rest[1..];
        }
        for name in rest {
            let inside = joined(&at, name);
            if self.0.contains_key(&inside) {
                at = inside;
            } else {
                return Some(self.exported(&at, name).unwrap_or(at));
            }
        }
        Some(at)
    }

    /// The module behind a name that `module` re-exports.
    fn exported(&self, module: &Module, name: &str) -> Option<Module> {
        let (path, text) = self.0.get(module)?;
        let found = uses(text)
            .into_iter()
            .find(|(exported, path)| *exported && path.last().is_some_and(|last| last == name))?;
        self.resolve(module, is_root_of_folder(path), &found.1)
    }
}

fn is_root_of_folder(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "mod" || stem == "lib" || stem == "main")
}

fn joined(module: &Module, name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// Each path of each `use`, with whether it is exported again; names in braces one by one.
fn uses(text: &str) -> Vec<(bool, Vec<String>)> {
    let mut found = Vec::new();
    let lines: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    for statement in lines.split(';') {
        let Some(at) = statement.rfind("use ") else { continue };
        // What is before it on its line: an attribute may stand on the line above.
        let before = statement[..at].rsplit('\n').next().unwrap_or_default().trim();
        // Words may end so, too: `pub struct Pause {`.
        if !(before.is_empty() || before == "pub" || before.starts_with("pub(") && before.ends_with(')')) {
            continue;
        }
        expand(statement[at + 4..].trim(), &[], &mut |path| found.push((before.starts_with("pub"), path)));
    }
    found
}

fn expand(text: &str, prefix: &[String], each: &mut impl FnMut(Vec<String>)) {
    let Some(open) = text.find('{') else {
        let path = text.split(" as ").next().unwrap();
        let names =
            path.split("::").map(str::trim).filter(|name| !name.is_empty() && *name != "self").map(str::to_owned);
        // `self` counts only where a path begins with it.
        let own = path.trim_start().starts_with("self::").then(|| "self".to_owned());
        return each(prefix.iter().cloned().chain(own).chain(names).collect());
    };
    let prefix: Vec<String> = prefix
        .iter()
        .cloned()
        .chain(text[..open].split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned))
        .collect();
    let inside = &text[open + 1..text.rfind('}').unwrap_or(text.len())];
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inside[begin..at].trim().is_empty() {
                    expand(inside[begin..at].trim(), &prefix, each);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// Every module that can be reached from one, itself only by a circle.
fn reachable<'g>(graph: &'g BTreeMap<Module, BTreeSet<Module>>, from: &'g Module) -> BTreeSet<&'g Module> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&Module> = graph[from].iter().collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(graph.get(module).into_iter().flatten());
        }
    }
    found
}

type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The crates below `runtime/`, each by its folder's name, with its sources and what its modules import.
fn crates() -> Vec<(String, Sources, Graph)> {
    let runtime = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime")).unwrap();
    let crates = fs::read_dir(&runtime).unwrap().map(|entry| entry.unwrap().path());
    let roots = crates.map(|path| if path.ends_with("src") { path } else { path.join("src") });
    let read = |src: PathBuf| {
        let sources = Sources::of(&src);
        let graph: Graph = sources.0.keys().map(|module| (module.clone(), sources.imports(module))).collect();
        assert!(graph.values().any(|imports| !imports.is_empty()), "no imports were read in {}", src.display());
        (src.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned(), sources, graph)
    };
    roots.filter(|src| src.is_dir()).map(read).collect()
}

/// The modules that import each other, directly or by way of others; each such circle as far as it goes.
fn circles(graph: &Graph) -> BTreeSet<Vec<&Module>> {
    let from: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reachable(graph, module))).collect();
    let circle = |module: &Module| {
        from[module].iter().copied().filter(|other| from.get(other).is_some_and(|back| back.contains(module))).collect()
    };
    graph.keys().map(circle).filter(|circle: &Vec<&Module>| circle.len() > 1).collect()
}

fn names(circle: &[&Module]) -> String {
    circle.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(", ")
}

#[test]
fn no_circle_of_imports_goes_through_two_folders() {
    let mut found = Vec::new();
    for (name, sources, graph) in crates() {
        let folder = |module: &Module| sources.0[module].0.parent().unwrap().to_owned();
        for circle in circles(&graph) {
            if circle.iter().map(|module| folder(module)).collect::<BTreeSet<_>>().len() > 1 {
                found.push(format!("{name}: {}", names(&circle)));
            }
        }
    }
    assert!(found.is_empty(), "these import each other, directly or by way of others:\n{}", found.join("\n"));
}

/// Files that import each other can only be read together: so many in one circle, and no more.
const CIRCLE: usize = 3;

#[test]
fn circles_of_files_stay_small() {
    let mut found = Vec::new();
    for (name, _, graph) in crates() {
        for circle in circles(&graph).iter().filter(|circle| circle.len() > CIRCLE) {
            found.push(format!("{name}: {} files where {CIRCLE} may be: {}", circle.len(), names(circle)));
        }
    }
    assert!(found.is_empty(), "have what they share import none of them:\n{}", found.join("\n"));
}

#[test]
fn imports_are_read_as_the_compiler_reads_them() {
    let text = "use super::{a::{B, c::D as E}, f};\n#[cfg(x)]\nuse super::i;\npub use self::g::H;\nuse std::fmt;\n";
    let read: Vec<(bool, String)> =
        uses(text).into_iter().map(|(exported, path)| (exported, path.join("::"))).collect();
    let expected = ["super::a::B", "super::a::c::D", "super::f", "super::i"].map(|path| (false, path.to_owned()));
    let rest = [(true, "self::g::H".to_owned()), (false, "std::fmt".to_owned())];
    assert_eq!(read, expected.into_iter().chain(rest).collect::<Vec<_>>());
}
