//! A job that failed in a component is done again natively, from its recording: by the CPython and Node.js of this machine, with nothing sent.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use gristmill_tests::process::command;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_project::{Said, TestProject};
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{GRANTS, Language, language, unbuilt_project};
use crate::cli::terminal::typed_in_terminal;

/// Below [`GRANTS`].
const MORE: &str = r#"
attempts = 1
[topics.welcome.config]
flour = "rye"
[topics.welcome.secrets]
key = { file = "key" }
[topics.welcome.http]
allow = ["http://127.0.0.1:*"]
networks = ["127.0.0.1"]
"#;

/// With a python that is there already.
const PYTHON: &str = r#"
name = "welcome"
language = "python"
native = "PYTHONPATH=gristmill-guest python3 -B -m gristmill_guest.native handler"
build = ["false"]
component = "build/welcome.wasm"
"#;

/// A project of a handler, and a recorded failure of its component.
struct Failed {
    project: TestProject,
    recording: String,
    sources: TempDir,
    language: &'static Language,
}

impl Failed {
    async fn new(name: &str) -> Self {
        let language = language(name);
        let project = TestProject::new(&format!("{GRANTS}{MORE}"), &[]).await;
        let beside = |file: &str| project.manifest().with_file_name(file);
        std::fs::write(beside("key"), "correct horse").unwrap();
        project.drop_in("welcome", language.component());
        let runner = project.serve().await;
        let server = Server::start(|_| Answer::ok(r#"{"name": "Ann"}"#)).await;
        let body = format!("recall {}", server.url("/book?of=ann"));
        project.pipe(body.as_bytes(), &["push", "welcome", "--key", "ann", "--id", "odd", "--wait"]).ended(4);
        let recording = beside("odd.json").to_str().unwrap().to_owned();
        let exported = async || (project.run(&["replay", "odd", "--export", &recording]).code == 0).then_some(());
        until("the recording", SOON, exported).await;
        // Who asks the world from now on is not answered.
        drop((runner, server));
        let failed = Self { project, recording, sources: unbuilt_project(name), language };
        if name == "python" {
            std::fs::write(failed.folder().join("handler.toml"), PYTHON).unwrap();
        }
        failed
    }

    fn folder(&self) -> PathBuf {
        self.sources.path().join("welcome")
    }

    /// The handler, with something in it replaced.
    fn save(&self, from: &str, to: &str) {
        let source = self.language.source();
        assert!(source.contains(from), "no {from:?}");
        // A package that this machine need not have.
        let source = source.replacen(from, to, 1).replace("\nimport requests\n", "\n\n");
        std::fs::write(self.folder().join(self.language.file), source).unwrap();
    }

    /// Replays that.
    fn replay(&self, from: &str, to: &str, options: &[&str]) -> Said {
        self.save(from, to);
        self.project.run(&[&["replay", &self.recording, &self.native()], options].concat())
    }

    fn native(&self) -> String {
        format!("--native={}", self.folder().display())
    }
}

#[track_caller]
fn says(said: &Said, code: i32, texts: &[&str]) {
    for text in texts {
        assert!(said.ended(code).err.contains(text), "no {text:?} in\n{}", said.err);
    }
}

fn ends_the_same_or_says_why_not(failed: &Failed, checkpoint: (&str, &str), end: (&str, &str)) {
    let same = failed.replay("", "", &[]);
    says(&same, 0, &["recorded as retry", "same as recorded: outcome, output and log", "asking", r#"{"name": "Ann"}"#]);
    assert!(!same.err.contains("fuel    "), "{}", same.err);
    let document = failed.replay("", "", &["--json"]).ended(0).document();
    assert_eq!((document["verdict"].as_str(), document["native"].as_bool()), (Some("same"), Some(true)), "{document}");
    assert!(document["fuel"].is_null() && document["calls"].as_array().unwrap().len() > 10, "{document}");

    let (saves, asks) = checkpoint;
    let other = failed.replay(saves, asks, &[]);
    says(&other, 1, &["it asks something else", " was context.checkpoint, and is now config.get (other)"]);
    let again = failed.replay(saves, &saves.replace("asked", "saved"), &[]);
    says(&again, 1, &["is context.checkpoint as recorded, but with other contents"]);
    let missing = failed.replay(saves, "", &[]);
    says(&missing, 1, &[" was context.checkpoint, and is now queue.enqueue-linked (welcome)"]);

    let (raises, returns) = end;
    let complete = failed.replay(raises, returns, &[]);
    says(&complete, 1, &["outcome: retry was recorded, now it is complete", "is now no line"]);
    std::fs::write(failed.project.manifest().with_file_name("key"), "another horse").unwrap();
    says(&failed.replay("", "", &[]), 1, &["config.secret (key), and the value here is another"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_in_python_ends_the_same_in_cpython_or_it_is_said_why_not() {
    let checkpoint = ("checkpoint(b\"asked\")", "config.get(\"other\")");
    let failed = Failed::new("python").await;
    failed.save("", "");
    let typed = "p seen, book\nq\n";
    let shown = typed_in_terminal(&failed.project, &["replay", &failed.recording, &failed.native()], typed);
    for text in ["the attempt ends with it", "(0, '{\"name\": \"Ann\"}')", "same as recorded"] {
        assert!(shown.contains(text), "no {text:?} in\n{shown}");
    }
    let debugged = ["replay", &failed.recording, &failed.native(), "--debug"];
    let shown = typed_in_terminal(&failed.project, &debugged, "w\nc\nw\nq\n");
    let same = "same as recorded: outcome, output and log";
    for (text, is_shown) in [
        (same, true),
        ("handler.py(", true),
        ("the attempt ends with it", true),
        ("gristmill_guest/", false),
        ("bdb.py", false),
    ] {
        assert!(shown.contains(text) == is_shown, "{text:?} in\n{shown}");
    }
    ends_the_same_or_says_why_not(&failed, checkpoint, ("raise LookupError(", "return str("));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_in_javascript_ends_the_same_in_node_or_it_is_said_why_not() {
    let checkpoint = ("checkpoint('asked')", "config.get('other')");
    let failed = Failed::new("javascript").await;
    ends_the_same_or_says_why_not(&failed, checkpoint, ("throw new RangeError(`", "return String(`"));
}

/// Nothing of the handler runs before a debugger has attached, and two steps from where it stops are in the handler's first line.
#[tokio::test(flavor = "multi_thread")]
async fn a_debugger_that_attaches_to_node_stops_before_the_handlers_first_line() {
    let failed = Failed::new("javascript").await;
    failed.save("", "");
    let debugger = concat!(env!("CARGO_MANIFEST_DIR"), "/it/languages/debugger.mjs");
    let replay = command(&failed.project.manifest());
    let mut node = Command::new("node");
    node.args(["--experimental-websocket", debugger]).arg(replay.get_program()).args(replay.get_args());
    node.args(["replay", &failed.recording, &failed.native(), "--debug"]);
    node.envs(replay.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = node.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The native form is a bundle, from which an editor finds the source by its map.
    let places = json!([
        ["replay.js", "debugger; // Step into the call: the handler's first line follows."],
        ["replay.js", "return work(job);"],
        ["native.mjs", "const body = job.text();"],
    ]);
    assert_eq!(seen["places"], places, "{seen}");
    assert_eq!((seen["job"].as_str(), seen["code"].as_i64()), (Some("odd"), Some(0)), "{seen}");
    let said = |when: &str, text: &str| seen[when].as_str().unwrap().contains(text);
    assert!(!said("before", "asking") && said("said", "asking") && said("said", "same as recorded"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_cannot_replay_a_job_natively_is_refused() {
    let failed = Failed::new("javascript").await;
    let folder = failed.folder();
    let settings = std::fs::read_to_string(folder.join("handler.toml")).unwrap();
    let with = |settings: &str| {
        std::fs::write(folder.join("handler.toml"), settings).unwrap();
        failed.replay("", "", &[])
    };
    says(&with(&settings.replace("native = ", "#")), 2, &["has no key `native`"]);
    let other = with(&settings.replace("name = \"welcome\"", "name = \"other\""));
    says(&other, 2, &["the job is one of the handler `welcome`", "makes `other`"]);
    // As an SDK of before would answer.
    let old = r#"native = "sh -c 'echo {\\\"say\\\":\\\"loaded\\\"}; cat'" #"#;
    says(&with(&settings.replace("native = ", old)), 1, &["cannot replay", "gristmill update"]);
    says(&failed.project.run(&["replay", &failed.recording, "--debug"]), 2, &["--native"]);
}
