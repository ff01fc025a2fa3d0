//! Every language: a new project as `gristmill new` writes it is tested, built and run, and all of them make the same of
//! the same jobs (`tests/welcome-cases.json`).

mod cases;
mod fakes;
mod forgotten;
mod javascript;
mod keeper;
mod libraries;
mod linker;
mod packages;
mod programs;
mod python;
mod requests;
mod starlingmonkey;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use gristmill::config::Manifest;
use gristmill::job::{JobSpec, Payload};
use gristmill::outcome::Outcome;
use gristmill::sandbox::{Attempt, Component, LogSink};
use gristmill::topic::Topic;
use gristmill_tests::process::{Process, command, program};
use gristmill_tests::test_runner::sandbox;
use gristmill_tests::wait::{SOON, until};
use parking_lot::Mutex;
use tempfile::TempDir;

/// Fails the test unless these programs are on the path: a test that did not run has not passed.
pub(crate) fn require(programs: &[&str]) {
    let path = std::env::var_os("PATH").unwrap();
    let missing = programs.iter().find(|program| !std::env::split_paths(&path).any(|at| at.join(program).is_file()));
    if let Some(missing) = missing {
        panic!(
            "`{missing}` is missing: `scripts/setup.sh --tests` installs it (then put target/tools/bin on the PATH); \
             `scripts/test.sh --quick` leaves out the tests that need it"
        );
    }
}

/// From nothing to a component in the project's handlers folder, by the commands that a user types.
fn new_project(language: &str) -> TempDir {
    let folder = unbuilt_project(language);
    build(&folder.path().join("welcome"), &["--test"]);
    folder
}

/// The files of a new project.
fn unbuilt_project(language: &str) -> TempDir {
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    let project = folder.path().join("welcome");
    let new = std::process::Command::new(program())
        .args(["new", "welcome", "--lang", language, "--path"])
        .arg(&project)
        .output()
        .unwrap();
    assert!(new.status.success(), "{}", String::from_utf8_lossy(&new.stderr));
    let manifest = project.join("gristmill.toml");
    // CPython takes seconds to compile, minutes on a machine that is busy with other tests.
    let patient = format!("[handlers]\ncompile-timeout = \"10m\"\n\n{}", std::fs::read_to_string(&manifest).unwrap());
    std::fs::write(&manifest, patient).unwrap();
    folder
}

/// A project with this handler in a file of it, built, with what this manifest grants it.
async fn built(language: &str, file: &str, handler: &str, manifest: &str) -> (TempDir, Component, Topic) {
    adapted(language, &[(file, handler)], manifest).await
}

/// A project with these files in it, built, with what this manifest grants it.
async fn adapted(language: &str, files: &[(&str, &str)], manifest: &str) -> (TempDir, Component, Topic) {
    let folder = unbuilt_project(language);
    let project = folder.path().join("welcome");
    for (file, text) in files.iter().chain(&[("gristmill.toml", manifest)]) {
        std::fs::write(project.join(file), text).unwrap();
    }
    build(&project, &[]);
    let (component, topic) = loaded(&project).await;
    (folder, component, topic)
}

/// The first attempt at a job with this body.
fn job(topic: &Topic, body: &str, logs: LogSink) -> Attempt {
    let spec = JobSpec::new("welcome".parse().unwrap(), Payload { data: body.into(), content_type: None });
    cases::attempt(topic, spec, logs)
}

/// What a job with this body comes to, with the lines that it logged.
async fn ended(component: &Component, topic: &Topic, body: &str) -> (Outcome, String) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let report = component.invoke(job(topic, body, LogSink::Collect(Arc::clone(&lines)))).await;
    let lines = lines.lock().iter().map(|line| format!("{} {:?}\n", line.message, line.fields)).collect();
    (report.outcome, lines)
}

fn build(project: &Path, options: &[&str]) {
    let build = try_build(project, options);
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
}

fn try_build(project: &Path, options: &[&str]) -> Output {
    // In the folder that they share, cargo takes one Rust project for another: only their paths differ. So the source is written again, since
    // cargo builds what is newer than the last component; and the next line of handler.toml takes the component before another is built.
    static RUST_PROJECTS: Mutex<()> = Mutex::new(());
    let source = project.join("src/lib.rs");
    let _alone = source.exists().then(|| RUST_PROJECTS.lock());
    if let Ok(text) = std::fs::read(&source) {
        std::fs::write(&source, text).unwrap();
    }
    command(&project.join("gristmill.toml"))
        .current_dir(project)
        // Shared from run to run, and by nobody else.
        .env("CARGO_TARGET_DIR", program().with_file_name("projects"))
        .arg("build")
        .args(options)
        .output()
        .unwrap()
}

fn replace(project: &Path, file: &str, from: &str, to: &str) {
    let text = std::fs::read_to_string(project.join(file)).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(project.join(file), text.replace(from, to)).unwrap();
}

async fn tried(language: &str) {
    let folder = new_project(language);
    let project = folder.path().join("welcome");
    let (component, topic) = loaded(&project).await;
    assert_eq!(topic.lacks(component.demands()), [], "its manifest grants what it imports");
    for case in cases::all() {
        case.hold(&component, &topic).await;
    }
    served(&project).await;
}

async fn loaded(project: &Path) -> (Component, Topic) {
    let wasm = std::fs::read(project.join("handlers/welcome.wasm")).unwrap();
    let manifest = Manifest::load(&project.join("gristmill.toml")).unwrap();
    let topic = manifest.topics.values().next().expect("its manifest has its topic").clone();
    (sandbox().load(&wasm).await.unwrap(), topic)
}

/// `gristmill run` and `gristmill push --wait` in the project's folder.
async fn served(project: &Path) {
    let manifest = project.join("gristmill.toml");
    let runner = Process::run(&manifest);
    until("the runner to be ready", 4 * SOON, async || runner.log().contains("ready for jobs").then_some(())).await;
    let signup = r#"{"email": "ada@example.org", "name": "Ada"}"#;
    let push = command(&manifest).args(["push", "welcome", "--data", signup, "--wait"]).output().unwrap();
    let greeting = r#"{"email":"ada@example.org","name":"Ada","plan":"free","greeting":"Welcome, Ada!"}"#;
    assert_eq!(String::from_utf8_lossy(&push.stdout), greeting, "{}", String::from_utf8_lossy(&push.stderr));
}

/// What a new project has is what the example has, but for what is built there, and the language's SDK.
#[test]
fn a_new_project_has_every_file_of_its_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut compared = 0;
    for entry in std::fs::read_dir(root.join("examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(language) = name.strip_prefix("welcome-") else { continue };
        let mut expected = files(&root.join("examples").join(&name));
        let sdk = root.join("guest-sdk").join(if language == "typescript" { "javascript" } else { language });
        expected.extend(
            files(&sdk).iter().filter(|file| *file != "wit/README.md").map(|file| format!("gristmill-guest/{file}")),
        );
        let folder = TempDir::with_prefix("gristmill-").unwrap();
        let project = folder.path().join("welcome");
        let new = std::process::Command::new(program())
            .args(["new", "welcome", "--lang", language, "--path"])
            .arg(&project)
            .status();
        assert!(new.unwrap().success());
        assert_eq!(files(&project), expected, "{language}");
        compared += 1;
    }
    assert!(compared >= 6, "{compared} examples");
}

/// Every file below a folder that is not made by building.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    list(folder, Path::new(""), &mut found);
    found
}

fn list(root: &Path, below: &Path, found: &mut BTreeSet<String>) {
    const MADE: [&str; 8] =
        ["build", "handlers", "node_modules", "target", ".venv", "__pycache__", ".zig-cache", "Cargo.lock"];
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let path = below.join(&name);
        if MADE.contains(&name.as_str()) || name.starts_with("gristmill.db") {
            continue;
        } else if root.join(&path).is_dir() {
            list(root, &path, found);
        } else {
            found.insert(path.to_str().unwrap().to_owned());
        }
    }
}

macro_rules! languages {
    ($($name:ident: $($program:literal)+;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            require(&[$($program),+]);
            tried(stringify!($name)).await;
        }
    )*};
}

languages! {
    rust: "cargo";
    javascript: "node" "npm";
    typescript: "node" "npm";
    python: "python3";
    go: "go";
    c: "clang" "wasm-ld";
    assemblyscript: "node" "npm";
    zig: "zig";
}
