//! `dev --native`: projects whose jobs the CPython or Node.js of this machine does, with no component.

use std::path::PathBuf;

use gristmill_tests::process::program;
use gristmill_tests::test_project::{Said, TestProject};
use gristmill_tests::wait::{SOON, until};
use rustix::process::Signal;

use super::dev::Log;

const MANIFEST: &str = r#"
[topics.mill]
state = true
attempts = 2
backoff = "1ms"

[topics.mill.config]
flour = "rye"

[topics.brief]
handler = "mill"
timeout = "200ms"
attempts = 1
"#;

struct Language {
    name: &'static str,
    needs: &'static [&'static str],
    /// In place of a new project's `handler.toml`.
    settings: Option<&'static str>,
    file: &'static str,
    handler: &'static str,
    /// What is said of `done = ;`, in parts.
    broken: &'static [&'static str],
    /// What makes a function the handler, and what is said without it.
    export: (&'static str, &'static str),
}

const PYTHON: Language = Language {
    name: "python",
    needs: &["python3"],
    // With a python that is there already, and a build that would fail.
    settings: Some(
        r#"
name = "mill"
language = "python"
native = "PYTHONPATH=gristmill-guest python3 -B -m gristmill_guest.native handler"
build = ["false"]
component = "build/mill.wasm"
"#,
    ),
    file: "handler.py",
    handler: include_str!("dev_native/mill.py"),
    broken: &["/handler.py\", line 5", "SyntaxError"],
    export: ("@handler", "handler.py has no handler: write @handler"),
};

const TYPESCRIPT: Language = Language {
    name: "typescript",
    needs: &["node", "npm"],
    settings: None,
    file: "handler.ts",
    handler: include_str!("dev_native/mill.ts"),
    broken: &["handler.ts:5:11", "ERROR"],
    export: ("export ", "`handler` in handler.ts cannot be called: write `export const handler = "),
};

/// A project of the handler `mill`.
struct NativeProject {
    project: TestProject,
    language: Language,
}

impl NativeProject {
    async fn new(language: Language) -> Self {
        crate::languages::require(language.needs);
        let mill = Self { project: TestProject::new(MANIFEST, &[]).await, language };
        let new = ["new", "mill", "--lang", mill.language.name, "--minimal", "--path"];
        let made = std::process::Command::new(program()).args(new).arg(mill.path("")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        if let Some(settings) = mill.language.settings {
            mill.write("handler.toml", settings);
        }
        mill.save("", "");
        mill
    }

    fn path(&self, path: &str) -> PathBuf {
        self.project.manifest().with_file_name("mill").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The handler, with something in it replaced.
    fn save(&self, from: &str, to: &str) {
        assert!(self.language.handler.contains(from));
        self.write(self.language.file, &self.language.handler.replacen(from, to, 1));
    }

    fn start(&self) -> Log {
        Log::of(&self.project.manifest(), &["dev", "--native"])
    }

    fn push(&self, topic: &str, body: &str, options: &[&str]) -> Said {
        self.project.pipe(format!("{body:?}").as_bytes(), &[&["push", topic, "--wait"], options].concat())
    }

    fn done(&self, body: &str) -> String {
        self.push("mill", body, &[]).done()
    }

    /// What each of these jobs fails with.
    fn fail(&self, failures: &[(&str, &str)]) {
        for (body, message) in failures {
            let said = self.push("mill", body, &[]);
            assert!(said.ended(4).err.contains(message), "no {message:?} in\n{}", said.err);
        }
    }
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

async fn serves_without_a_build(language: Language) {
    let mill = NativeProject::new(language).await;
    mill.write("jobs/version.json", "\"version\"");
    let mut log = mill.start();
    let first = log.up_to("waiting for changes").await;
    has(
        &first,
        &[
            "warning: `mill` runs natively",
            "no sandbox holds",
            "`gristmill build` makes the component",
            "`mill` serves natively: start ",
            "run of jobs/version.json in `mill`",
            "result   first",
            "INFO     grinding  flour=rye",
        ],
    );
    assert!(!first.contains("fuel    ") && !mill.project.handlers().join("mill.wasm").exists(), "{first}");
    assert_eq!(mill.done("version"), "first");

    mill.save("first", "second");
    let second = log.up_to("waiting for changes").await;
    has(&second, &["`mill` serves natively, ", " after the save: start ", "result  - first", "result  + second"]);
    assert_eq!(mill.done("version"), "second");

    mill.save("done = 0", "done = ;");
    let broken = log.up_to("waiting for changes").await;
    has(&broken, mill.language.broken);
    has(&broken, &["error: the handler cannot be imported", "the version before goes on serving"]);
    assert!(!broken.contains("run of"), "{broken}");
    assert_eq!(mill.done("version"), "second");

    let (export, said) = mill.language.export;
    mill.save(export, "");
    has(&log.up_to("waiting for changes").await, &[said]);
    mill.save("", "");
    log.up_to("result  + first").await;
    assert_eq!(mill.done("version"), "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_in_python_serves_without_a_build_and_what_does_not_load_leaves_the_version_before() {
    serves_without_a_build(PYTHON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_in_typescript_serves_without_a_build_and_what_does_not_load_leaves_the_version_before() {
    serves_without_a_build(TYPESCRIPT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_python_does_not_find_is_said_to_belong_into_requirements() {
    let mill = NativeProject::new(PYTHON).await;
    mill.write("handler.py", "import requestz\n");
    let said = mill.start().up_to("waiting for changes").await;
    has(
        &said,
        &[
            "/handler.py\", line 1",
            "there is no module `requestz`: write the package that has it into requirements.txt",
        ],
    );
    assert!(!said.contains("importlib"), "{said}");
}

async fn has_all_that_a_component_has(language: Language, spoken: &[&str], failures: &[(&str, &str)]) {
    let mill = NativeProject::new(language).await;
    let mut log = mill.start();
    log.up_to("waiting for changes").await;
    assert_eq!(mill.push("mill", "speak", &["--meta", "colour=brown"]).done(), "brown");
    for text in spoken {
        let line = log.up_to(text).await;
        let line = line.lines().last().unwrap();
        assert!(line.contains("topic=mill") && line.contains("attempt=1"), "{line}");
    }
    assert_eq!(["a", "a", "b"].map(|key| mill.push("mill", "count", &["--key", key]).done()), ["1", "2", "1"]);
    assert_eq!(mill.done("resume"), "half2");
    let follow_up = mill.done("follow");
    let id = follow_up.trim_start_matches("[\"").split('"').next().unwrap();
    assert!(follow_up.ends_with(",true]"), "{follow_up}");
    until("the follow-up to be done", SOON, async || {
        let missing = mill.project.run(&["job", "show", id]);
        (missing.code != 0 || missing.text().contains("finished")).then_some(())
    })
    .await;
    mill.fail(&[
        ("no", "rejected (no): not here "),
        ("count", "(no-key): "),
        ("nowhere", "(enqueue-failed): the tenant has no topic `nowhere`; name it under `topics` in the manifest"),
        ("exit", "(process-ended): the handler's process: it ended with exit status: 3"),
    ]);
    mill.fail(failures);
    has(&log.process.log(), &["uncaught exception"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_in_python_has_all_that_a_component_has() {
    let failures = [
        ("crash", "NameError: name 'wheat' is not defined (handler.py:"),
        ("flour", "a dict, a list, or Json(value) (handler.py:"),
    ];
    has_all_that_a_component_has(PYTHON, &["printed", "to stderr", "logged", "half way", "half"], &failures).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_in_typescript_has_all_that_a_component_has() {
    let failures = [
        ("crash", "(exception): TypeError: sand is no grain (handler.ts:9)"),
        ("forgotten", "(exception): TypeError: gravel is no grain (handler.ts:9)"),
        ("never", "(exception): the handler's promise never settled"),
        ("ask", "(http-unreachable): TypeError: fetch failed: bad port (handler.ts:"),
    ];
    has_all_that_a_component_has(TYPESCRIPT, &["printed {\"on\":\"stdout\"}", "to stderr", "half way"], &failures)
        .await;
}

async fn a_loop_ends(language: Language) {
    let mill = NativeProject::new(language).await;
    let mut log = mill.start();
    log.up_to("waiting for changes").await;
    let process = |said: String| -> (i32, u32) { serde_json::from_str(&said).unwrap() };
    let (first, jobs) = process(mill.done("pid"));
    assert_eq!((process(mill.done("pid")), jobs), ((first, 2), 1), "a process does one job after the other");
    assert!(mill.push("brief", "loop", &[]).ended(4).err.contains("timeout"));
    let (second, jobs) = process(mill.done("pid"));
    assert!(second != first && jobs == 1, "the process that looped was ended");
    log.process.signal(Signal::INT);
    let status = until("its end", SOON, async || log.process.ended()).await;
    assert_eq!(status.code(), Some(0), "{}", log.process.log());
    for pid in [first, second] {
        // Of one whose end none has asked for yet, this is empty.
        let ended = || std::fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty());
        until("its processes to end", SOON, async || ended().then_some(())).await;
    }
    let settings = std::fs::read_to_string(mill.path("handler.toml")).unwrap();
    mill.write("handler.toml", &settings.replace("native = ", "#"));
    let said = mill.project.run(&["dev", "--native", mill.path("").to_str().unwrap()]);
    assert!(said.ended(2).err.contains("no handler.toml here has the key `native`"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_in_python_ends_with_its_process_and_all_of_them_with_dev() {
    a_loop_ends(PYTHON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_in_typescript_ends_with_its_process_and_all_of_them_with_dev() {
    a_loop_ends(TYPESCRIPT).await;
}
