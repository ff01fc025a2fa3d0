//! The files of a new project: those of `examples/welcome-*`, with another name in them, and the language's package of `guest-sdk/`.

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

/// In each package a link to it.
const CONTRACT: (&str, &str) = ("wit/job.wit", include_str!("../../../templates/wit/job.wit"));

type Files = &'static [(&'static str, &'static str)];

/// The files of an example, by their paths below it. A crate is packaged with what is below its own folder: `templates/` has links.
macro_rules! files {
    ($folder:tt: $($path:tt)*) => {
        &[$(($path, include_str!(place!($folder $path)))),*]
    };
}

/// A folder with a `Cargo.toml` would be a crate of its own, and would be left out of the package; git reads no
/// link of the name `.gitignore`.
macro_rules! place {
    ("examples/welcome-rust" ".gitignore") => {
        "../../../templates/examples/welcome-rust/gitignore"
    };
    ($folder:tt "Cargo.toml") => {
        concat!("../../../templates/", $folder, "/manifest.toml")
    };
    ($folder:tt $path:tt) => {
        concat!("../../../templates/", $folder, "/", $path)
    };
}

/// Every file of a project, by its path.
pub(super) fn files(language: Language, name: &str) -> Vec<(String, String)> {
    of(example(language), language, name, ARE_PUBLISHED)
}

/// The same with a handler of some lines.
pub(super) fn minimal_files(language: Language, name: &str) -> Vec<(String, String)> {
    let minimal = minimal(language);
    let is_replaced = |path: &str| path == "src/tests.rs" || minimal.iter().any(|(replaced, _)| *replaced == path);
    let kept = example(language).iter().filter(|(path, _)| !is_replaced(path));
    let files: Vec<_> = kept.chain(minimal).copied().collect();
    of(&files, language, name, ARE_PUBLISHED)
}

/// What a handler does not change: what connects its language to the contract.
pub(super) fn is_sdk(path: &str) -> bool {
    path.starts_with(SDK)
}

/// What the language's package has beside the contract.
pub(super) fn is_package(path: &str) -> bool {
    path.strip_prefix(SDK).is_some_and(|path| !path.ends_with(CONTRACT.0))
}

/// What says how the handler is built, beside what its author adds.
pub(super) fn is_build_setting(path: &str) -> bool {
    path.ends_with(".toml") && path != "gristmill.toml"
        || path.ends_with(".json")
        || ["go.mod", "requirements.txt"].contains(&path)
}

fn of(example: &[(&str, &str)], language: Language, name: &str, are_published: bool) -> Vec<(String, String)> {
    let (package, copy) = sdk(language);
    let by_version = if are_published { by_version(language) } else { None };
    let copy = if by_version.is_some() { &[] } else { copy };
    let own = example.iter().map(|(path, text)| {
        let text = if NAMED.contains(path) { rendered(text, name, package, by_version) } else { (*text).to_owned() };
        ((*path).to_owned(), text)
    });
    let sdk = copy.iter().chain([&CONTRACT]).map(|(path, text)| (format!("{SDK}/{path}"), text.replace(LINTS, "")));
    own.chain(sdk).collect()
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

/// The language's package, and its files.
fn sdk(language: Language) -> (&'static str, Files) {
    match language {
        Language::Rust => ("guest-sdk/rust", RUST_SDK),
        Language::JavaScript | Language::TypeScript => ("guest-sdk/javascript", JAVASCRIPT_SDK),
        Language::Python => ("guest-sdk/python", PYTHON_SDK),
        Language::Go => ("guest-sdk/go", GO_SDK),
        Language::C => ("guest-sdk/c", C_SDK),
        Language::AssemblyScript => ("guest-sdk/assemblyscript", ASSEMBLYSCRIPT_SDK),
        Language::Zig => ("guest-sdk/zig", ZIG_SDK),
    }
}

fn example(language: Language) -> Files {
    match language {
        Language::Rust => RUST,
        Language::JavaScript => JAVASCRIPT,
        Language::TypeScript => TYPESCRIPT,
        Language::Python => PYTHON,
        Language::Go => GO,
        Language::C => C,
        Language::AssemblyScript => ASSEMBLYSCRIPT,
        Language::Zig => ZIG,
    }
}

/// What replaces the example's files in a minimal project.
fn minimal(language: Language) -> Files {
    match language {
        Language::Rust => files!("examples/minimal-rust": "README.md" "gristmill.toml" "src/lib.rs"),
        Language::JavaScript => {
            files!("examples/minimal-javascript": "README.md" "gristmill.toml" "handler.js" "handler.test.js")
        }
        Language::TypeScript => {
            files!("examples/minimal-typescript": "README.md" "gristmill.toml" "handler.test.ts" "handler.ts")
        }
        Language::Python => {
            files!("examples/minimal-python": "README.md" "gristmill.toml" "handler.py" "test_handler.py")
        }
        Language::Go => files!("examples/minimal-go": "README.md" "gristmill.toml" "handler.go" "handler_test.go"),
        Language::C => files!("examples/minimal-c": "README.md" "gristmill.toml" "handler.c" "handler_test.c"),
        Language::AssemblyScript => files!("examples/minimal-assemblyscript":
            "README.md" "assembly/handler.ts" "gristmill.toml" "tests/handler.test.mjs"),
        Language::Zig => files!("examples/minimal-zig": "README.md" "gristmill.toml" "handler.zig" "handler_test.zig"),
    }
}

const RUST: Files = files!("examples/welcome-rust":
    ".cargo/config.toml" ".gitignore" "Cargo.toml" "README.md" "gristmill.toml" "handler.toml" "src/lib.rs"
    "src/tests.rs");

const RUST_SDK: Files = files!("guest-sdk/rust":
    "Cargo.toml" "README.md" "src/bindings.rs" "src/bindings/http.rs" "src/bindings/job_handler.rs" "src/bindings/self_test.rs"
    "src/bindings/state.rs" "src/config.rs" "src/context.rs" "src/export.rs" "src/failure.rs" "src/host.rs"
    "src/http.rs" "src/job.rs" "src/lib.rs" "src/log.rs" "src/outcome.rs" "src/payload.rs" "src/queue.rs" "src/state.rs" "src/testing/answer.rs" "src/testing/fake.rs"
    "src/testing/host.rs" "src/testing/job.rs" "src/testing/mod.rs" "src/testing/run.rs");

const JAVASCRIPT: Files = files!("examples/welcome-javascript":
    ".gitignore" "README.md" "gristmill.toml" "handler.js" "handler.test.js" "handler.toml" "package.json");

const TYPESCRIPT: Files = files!("examples/welcome-typescript":
    ".gitignore" "README.md" "gristmill.toml" "handler.test.ts" "handler.toml" "handler.ts" "package.json"
    "tsconfig.json");

const JAVASCRIPT_SDK: Files = files!("guest-sdk/javascript":
    "README.md" "build.js" "component.js" "host.js" "index.js" "native/host.js" "native/main.js" "native/start" "package.json"
    "testing.js" "types/index.d.ts" "types/testing.d.ts" "web/clock.js" "web/clone.js" "web/crypto.js" "web/events.js" "web/fetch.js"
    "web/globals.js" "web/loop.js" "web/quickjs.js" "web/starlingmonkey.js" "web/url.js");

const PYTHON: Files = files!("examples/welcome-python":
    ".gitignore" "README.md" "gristmill.toml" "handler.py" "handler.toml" "requirements.txt" "test_handler.py");

const PYTHON_SDK: Files = files!("guest-sdk/python":
    "README.md" "_build.py" "gristmill_guest/__init__.py" "gristmill_guest/_attempt.py"
    "gristmill_guest/_component_host.py" "gristmill_guest/_context.py" "gristmill_guest/_failure.py"
    "gristmill_guest/_host.py" "gristmill_guest/_http.py"
    "gristmill_guest/_job.py" "gristmill_guest/_native_http.py" "gristmill_guest/_payload.py"
    "gristmill_guest/_queue.py" "gristmill_guest/_sockets.py" "gristmill_guest/_state.py" "gristmill_guest/check.py"
    "gristmill_guest/component.py" "gristmill_guest/job.wit" "gristmill_guest/native.py" "gristmill_guest/py.typed"
    "gristmill_guest/testing.py" "pyproject.toml");

const GO: Files = files!("examples/welcome-go":
    ".gitignore" "README.md" "go.mod" "gristmill.toml" "handler.go" "handler.toml" "handler_test.go");

const GO_SDK: Files = files!("guest-sdk/go":
    "README.md" "attempt.go" "fake.go" "go.mod" "gristmill.go" "http.go" "log.go" "nethttp/nethttp.go" "queue.go"
    "state.go" "wasm.go");

const C: Files = files!("examples/welcome-c":
    ".gitignore" "README.md" "gristmill.toml" "handler.c" "handler.toml" "handler_test.c");

const C_SDK: Files = files!("guest-sdk/c":
    "README.md" "gristmill.c" "gristmill.h" "gristmill_fake.h" "json.c" "json.h");

const ASSEMBLYSCRIPT: Files = files!("examples/welcome-assemblyscript":
    ".gitignore" "README.md" "asconfig.json" "assembly/handler.ts" "gristmill.toml" "handler.toml" "package.json"
    "tests/handler.test.mjs");

const ASSEMBLYSCRIPT_SDK: Files = files!("guest-sdk/assemblyscript":
    "README.md" "glue.ts" "index.ts" "json.ts" "names.mjs" "package.json" "testing.mjs" "wire.ts");

const ZIG: Files = files!("examples/welcome-zig":
    ".gitignore" "README.md" "gristmill.toml" "handler.toml" "handler.zig" "handler_test.zig");

const ZIG_SDK: Files = files!("guest-sdk/zig":
    "README.md" "build.zig" "build.zig.zon" "fake.zig" "gristmill.zig" "wasm.zig");

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn a_published_package_takes_the_place_of_its_copy() {
        for language in Language::value_variants().iter().copied() {
            let files = of(example(language), language, "thumbnail", true);
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
