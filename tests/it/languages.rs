//! Every language: a new project as `gristmill new` writes it is tested, built and run, and all of them make the same of
//! the same jobs (`tests/welcome-cases.json`).

/// A test of this function in each language.
macro_rules! each_language {
    ($function:ident) => {
        each_language! { $function: rust javascript typescript python go c assemblyscript zig }
    };
    ($function:ident: $($name:ident)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            $function(crate::languages::language(stringify!($name))).await;
        }
    )+};
}

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
mod replay;
mod requests;
mod starlingmonkey;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, OnceLock};

use gristmill::config::Manifest;
use gristmill::job::{JobSpec, Payload};
use gristmill::outcome::Outcome;
use gristmill::sandbox::{Attempt, Component, LogSink};
use gristmill::topic::Topic;
use gristmill_tests::process::{Process, command, program};
use gristmill_tests::test_project::TestProject;
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

/// A language, and a handler in it that does what the tests of all languages ask for.
struct Language {
    name: &'static str,
    /// What its tools need on the path.
    programs: &'static [&'static str],
    /// Where a project has its handler.
    file: &'static str,
    /// In `tests/handlers`.
    handler: &'static str,
    component: OnceLock<Vec<u8>>,
}

static LANGUAGES: [Language; 8] = [
    Language::new("rust", &["cargo"], "src/lib.rs", "handler.rs"),
    Language::new("javascript", &["node", "npm"], "handler.js", "handler.js"),
    Language::new("typescript", &["node", "npm"], "handler.ts", "handler.js"),
    Language::new("python", &["python3"], "handler.py", "handler.py"),
    Language::new("go", &["go"], "handler.go", "handler.go"),
    Language::new("c", &["clang", "wasm-ld"], "handler.c", "handler.c"),
    Language::new("assemblyscript", &["node", "npm"], "assembly/handler.ts", "handler.as.ts"),
    Language::new("zig", &["zig"], "handler.zig", "handler.zig"),
];

/// For a topic `welcome`, to which lines may be added: what the handlers of all languages import, but for HTTP.
const GRANTS: &str = r#"
[handlers]
compile-timeout = "30m"

[topics.welcome]
clock = true
random = true
state = true
"#;

/// The language of this name, whose tools are there.
fn language(name: &str) -> &'static Language {
    let language = LANGUAGES.iter().find(|language| language.name == name).unwrap();
    require(language.programs);
    language
}

impl Language {
    const fn new(
        name: &'static str,
        programs: &'static [&'static str],
        file: &'static str,
        handler: &'static str,
    ) -> Self {
        Self { name, programs, file, handler, component: OnceLock::new() }
    }

    /// The text of the handler. That of TypeScript is JavaScript's, with types.
    fn source(&self) -> String {
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("handlers").join(self.handler);
        let text = std::fs::read_to_string(text).unwrap();
        let typed = if self.name == "typescript" { "(calls: number): number =>" } else { "(calls) =>" };
        text.replace("(calls) =>", typed)
    }

    /// The component of the handler. It is built for the first who asks: building and compiling take most of the time of all its tests.
    fn component(&self) -> &[u8] {
        self.component.get_or_init(|| {
            let folder = unbuilt_project(self.name);
            let project = folder.path().join("welcome");
            let manifest = format!("{GRANTS}[topics.welcome.http]\nallow = [\"example.org\"]\n");
            for (file, text) in [(self.file, self.source()), ("gristmill.toml", manifest)] {
                std::fs::write(project.join(file), text).unwrap();
            }
            if self.name == "python" {
                let (file, package) = ("requirements.txt", "--editable ./gristmill-guest");
                replace(&project, file, package, &format!("{package}\nrequests==2.34.2"));
            }
            build(&project, &[]);
            std::fs::read(project.join("handlers/welcome.wasm")).unwrap()
        })
    }

    /// The component, and a topic with these lines below [`GRANTS`].
    async fn with(&self, more: &str) -> (Component, Topic) {
        let topic = topic(&format!("{GRANTS}{more}"));
        (sandbox().load(self.component()).await.unwrap(), topic)
    }

    /// A running server of the component, whose topic has these lines below [`GRANTS`].
    async fn served(&self, more: &str) -> (TestProject, Process) {
        let manifest = format!("{GRANTS}{more}[topics.welcome.http]\nallow = [\"example.org\"]\n");
        let project = TestProject::new(&manifest, &[]).await;
        project.drop_in("welcome", self.component());
        let runner = project.serve().await;
        (project, runner)
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

/// The first attempt at a job with this body.
fn job(topic: &Topic, body: &str, logs: LogSink) -> Attempt {
    let spec = JobSpec::new("welcome".parse().unwrap(), Payload { data: body.into(), content_type: None });
    cases::attempt(topic, spec, logs)
}

/// What a job with this body comes to, with the lines that it logged.
async fn ended(component: &Component, topic: &Topic, body: &str) -> (Outcome, String) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let mut report = component.invoke(job(topic, body, LogSink::Collect(Arc::clone(&lines)))).await;
    cases::ends_again(component, topic, body.into(), report.recording.take()).await;
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

async fn tried(language: &Language) {
    let folder = new_project(language.name);
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
    let topic = topic(&std::fs::read_to_string(project.join("gristmill.toml")).unwrap());
    (sandbox().load(&wasm).await.unwrap(), topic)
}

/// The topic of a manifest.
fn topic(manifest: &str) -> Topic {
    let manifest = Manifest::parse(manifest, Path::new("gristmill.toml")).unwrap_or_else(|error| panic!("{error}"));
    manifest.topics.values().next().expect("its manifest has its topic").clone()
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

each_language!(tried);
