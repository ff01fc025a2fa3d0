//! The files of a new project: those of `examples/welcome-*`, with another name in them, and the language's package of `guest-sdk/`.

use std::collections::BTreeMap;
use std::io::{self, Read};

use flate2::read::GzDecoder;

use super::language::Language;

/// The name that the examples have. It stands in these files as the handler's name and nothing else; all others are
/// copied as they are.
const EXAMPLE: &str = "welcome";
const NAMED: [&str; 8] = [
    "handler.toml",
    "gristmill.toml",
    "README.md",
    "Cargo.toml",
    "package.json",
    "go.mod",
    "requirements.txt",
    ".gitignore",
];

/// The folder of the SDK in a project.
const SDK: &str = "gristmill-guest";

/// Whether the registries of the languages have the packages of this version: the one switch between a copy in each project and a
/// dependency by version. C and Zig have no registry and always take the copy.
const ARE_PUBLISHED: bool = false;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the crate takes from this repository's workspace.
const LINTS: &str = "[lints]\nworkspace = true\n\n";

/// The file of the contract below that folder; in each package there is a link to it.
const CONTRACT: &str = "wit/job.wit";

/// The files of `templates/files.txt`, as the build script packs them: paths and texts, each with a zero byte behind it.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/templates.gz"));

/// Texts by their paths below `templates/`.
#[derive(Debug)]
struct Texts(BTreeMap<String, String>);

impl Texts {
    fn unpack() -> io::Result<Self> {
        let mut all = String::new();
        GzDecoder::new(PACKED).read_to_string(&mut all)?;
        let mut parts = all.split('\0').map(str::to_owned);
        let mut texts = BTreeMap::new();
        while let (Some(path), Some(text)) = (parts.next(), parts.next()) {
            texts.insert(path, text);
        }
        Ok(Self(texts))
    }

    /// Those of a folder, by their paths below it.
    fn of<'t>(&'t self, folder: &'t str) -> impl Iterator<Item = (&'t str, &'t str)> {
        let below = move |path: &'t str| path.strip_prefix(folder)?.strip_prefix('/');
        self.0.iter().filter_map(move |(path, text)| Some((below(path)?, text.as_str())))
    }
}

/// Every file of a project, by its path.
///
/// # Errors
/// What the build script packed is damaged.
pub(super) fn files(language: Language, name: &str) -> io::Result<Vec<(String, String)>> {
    of(&[example(language)], language, name, ARE_PUBLISHED)
}

/// The same with a handler of some lines.
///
/// # Errors
/// What the build script packed is damaged.
pub(super) fn minimal_files(language: Language, name: &str) -> io::Result<Vec<(String, String)>> {
    of(&[example(language), minimal(language)], language, name, ARE_PUBLISHED)
}

/// What a handler does not change: what connects its language to the contract.
pub(super) fn is_sdk(path: &str) -> bool {
    path.starts_with(SDK)
}

/// What the language's package has beside the contract.
pub(super) fn is_package(path: &str) -> bool {
    path.strip_prefix(SDK).is_some_and(|path| !path.ends_with(CONTRACT))
}

/// What says how the handler is built, beside what its author adds.
pub(super) fn is_build_setting(path: &str) -> bool {
    path.ends_with(".toml") && path != "gristmill.toml"
        || path.ends_with(".json")
        || ["go.mod", "requirements.txt"].contains(&path)
}

/// What the folders have, where a later one replaces files of an earlier one, and the language's package.
fn of(folders: &[String], language: Language, name: &str, are_published: bool) -> io::Result<Vec<(String, String)>> {
    let (texts, package) = (Texts::unpack()?, sdk(language));
    let by_version = if are_published { by_version(language) } else { None };
    let mut files = BTreeMap::new();
    for (file, text) in folders.iter().flat_map(|folder| texts.of(folder)) {
        let is_named = NAMED.contains(&file);
        let text = if is_named { rendered(text, name, &package, by_version) } else { text.to_owned() };
        files.insert(file.to_owned(), text);
    }
    if folders.len() > 1 {
        files.remove("src/tests.rs"); // of the larger example
    }
    if by_version.is_none() {
        files.extend(texts.of(&package).map(|(file, text)| (format!("{SDK}/{file}"), text.replace(LINTS, ""))));
    }
    let contract = texts.0.get(CONTRACT).ok_or_else(|| io::Error::other(format!("{CONTRACT} was not packed")))?;
    files.insert(format!("{SDK}/{CONTRACT}"), contract.clone());
    Ok(files.into_iter().collect())
}

/// `package`: where this repository has the SDK.
fn rendered(text: &str, name: &str, package: &str, by_version: Option<Replaced>) -> String {
    let text = text.replace(EXAMPLE, name);
    let replaced = by_version.into_iter().flatten();
    let text =
        replaced.fold(text, |text, (copy, published)| text.replace(copy, &published.replace("VERSION", VERSION)));
    text.replace(&format!("../../{package}"), SDK)
}

/// What takes the copy, and what takes the package in its place.
type Replaced = &'static [(&'static str, &'static str)];

fn by_version(language: Language) -> Option<Replaced> {
    match language {
        Language::Rust => Some(&[("{ path = \"../../guest-sdk/rust\" }", "\"VERSION\"")]),
        Language::JavaScript | Language::TypeScript => Some(&[("file:../../guest-sdk/javascript", "VERSION")]),
        Language::AssemblyScript => Some(&[("file:../../guest-sdk/assemblyscript", "VERSION")]),
        Language::Python => Some(&[
            ("--editable ./../../guest-sdk/python", "gristmill-guest==VERSION"),
            (" && test .venv/installed -nt ../../guest-sdk/python/pyproject.toml", ""),
            (" --python-path ../../guest-sdk/python", ""),
        ]),
        Language::Go => {
            Some(&[("\nreplace github.com/gristmill/gristmill/guest-sdk/go => ./../../guest-sdk/go\n", "")])
        }
        Language::C | Language::Zig => None,
    }
}

/// The folder of the language's package.
fn sdk(language: Language) -> String {
    match language {
        Language::TypeScript => sdk(Language::JavaScript),
        language => format!("guest-sdk/{}", folder_name(language)),
    }
}

fn example(language: Language) -> String {
    format!("examples/welcome-{}", folder_name(language))
}

/// What replaces the example's files in a minimal project.
fn minimal(language: Language) -> String {
    format!("examples/minimal-{}", folder_name(language))
}

fn folder_name(language: Language) -> String {
    language.to_string().to_lowercase()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn a_published_package_takes_the_place_of_its_copy() {
        for language in Language::value_variants().iter().copied() {
            let files = of(&[example(language)], language, "thumbnail", true).unwrap();
            let copied: Vec<_> = files.iter().filter(|(path, _)| is_package(path)).collect();
            let texts: String = files.iter().filter(|(path, _)| !is_sdk(path)).map(|(_, text)| text.as_str()).collect();
            assert!(!texts.contains("../guest-sdk"), "{language} names a folder of this repository");
            if matches!(language, Language::C | Language::Zig) {
                assert!(!copied.is_empty(), "{language} has no registry");
                continue;
            }
            assert!(copied.is_empty(), "{language}: {copied:?}");
            let names_version = texts.lines().any(|line| {
                let is_dependency = line.contains("gristmill-guest") || line.contains("guest-sdk/go");
                is_dependency && line.contains(VERSION)
            });
            assert!(names_version, "{language} names no version");
        }
    }
}
