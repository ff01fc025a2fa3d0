//! `dev --native`: a project in Python, whose jobs CPython does as it is here, with no component.

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

/// With a python that is there already, and a build that would fail.
const PROJECT: &str = r#"
name = "mill"
language = "python"
native = "PYTHONPATH=gristmill-guest python3 -B -m gristmill_guest.native handler"
build = ["false"]
component = "build/mill.wasm"
"#;

const HANDLER: &str = r#"
import logging, os, sys, threading
from gristmill_guest import *

SERVES = "first"
done = 0


@handler
def mill(job):
    global done
    done += 1
    match job.json():
        case "version":
            log.info("grinding", flour=config.get("flour"))
            return SERVES
        case "speak":
            print("printed")
            print("half", end="")
            print("to stderr", file=sys.stderr)
            logging.getLogger("wheel").warning("logged")
            os.system("echo shouted")
            progress(0.5, "half way")
            threading.Thread(target=print, args=["by a thread"]).start()
            return job.meta("colour")
        case "count":
            state.set_json(state.json(0) + 1)
            return state.get()
        case "resume":
            if job.checkpoint is None:
                checkpoint(b"half")
                raise Retry("later", "after half of it")
            return job.checkpoint + str(job.attempt).encode()
        case "follow":
            return [enqueue("mill", json="version", priority="high", after_jobs=[job.id]), job.deadline - now() <= 30_000]
        case "nowhere":
            enqueue("nowhere")
        case "crash":
            return wheat
        case "flour":
            enqueue("mill", 7)
        case "exit":
            os._exit(3)
        case "loop":
            while not is_cancelled():
                pass
        case "pid":
            return [os.getpid(), done]
        case "no":
            raise Reject("no", "not here \ud800")
"#;

struct PythonProject(TestProject);

impl PythonProject {
    async fn new() -> Self {
        crate::languages::require(&["python3"]);
        let mill = Self(TestProject::new(MANIFEST, &[]).await);
        let new = ["new", "mill", "--lang", "python", "--minimal", "--path"];
        let made = std::process::Command::new(program()).args(new).arg(mill.path("")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        mill.write("handler.toml", PROJECT);
        mill.write("handler.py", HANDLER);
        mill
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.manifest().with_file_name("mill").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn start(&self) -> Log {
        Log::of(&self.0.manifest(), &["dev", "--native"])
    }

    fn push(&self, topic: &str, body: &str, options: &[&str]) -> Said {
        self.0.pipe(format!("{body:?}").as_bytes(), &[&["push", topic, "--wait"], options].concat())
    }

    fn done(&self, body: &str) -> String {
        self.push("mill", body, &[]).done()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_serves_without_a_build_and_what_does_not_load_leaves_the_version_before() {
    let mill = PythonProject::new().await;
    mill.write("jobs/version.json", "\"version\"");
    let mut log = mill.start();
    let first = log.up_to("waiting for changes").await;
    for text in [
        "warning: `mill` runs natively",
        "no sandbox holds",
        "`gristmill build` makes the component",
        "`mill` serves natively: start ",
        "run of jobs/version.json in `mill`",
        "result   first",
        "INFO     grinding  flour=rye",
    ] {
        assert!(first.contains(text), "no {text:?} in\n{first}");
    }
    assert!(!first.contains("fuel    ") && !mill.0.handlers().join("mill.wasm").exists(), "{first}");
    assert_eq!(mill.done("version"), "first");

    mill.write("handler.py", &HANDLER.replace("\"first\"", "\"second\""));
    let second = log.up_to("waiting for changes").await;
    for text in ["`mill` serves natively, ", " after the save: start ", "result  - first", "result  + second"] {
        assert!(second.contains(text), "no {text:?} in\n{second}");
    }
    assert_eq!(mill.done("version"), "second");

    mill.write("handler.py", &HANDLER.replace("done = 0", "done = "));
    let broken = log.up_to("waiting for changes").await;
    for text in [
        "/handler.py\", line 6",
        "SyntaxError",
        "error: the handler cannot be imported",
        "the version before goes on serving",
    ] {
        assert!(broken.contains(text), "no {text:?} in\n{broken}");
    }
    assert!(!broken.contains("run of"), "{broken}");
    assert_eq!(mill.done("version"), "second");

    mill.write("handler.py", &HANDLER.replace("@handler", ""));
    let none = log.up_to("waiting for changes").await;
    assert!(none.contains("handler.py has no handler: write @handler"), "{none}");
    mill.write("handler.py", HANDLER);
    log.up_to("result  + first").await;
    assert_eq!(mill.done("version"), "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_has_all_that_a_component_has() {
    let mill = PythonProject::new().await;
    let mut log = mill.start();
    log.up_to("waiting for changes").await;
    assert_eq!(mill.push("mill", "speak", &["--meta", "colour=brown"]).done(), "brown");
    for text in ["printed", "to stderr", "logged", "half way", "half"] {
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
        let missing = mill.0.run(&["job", "show", id]);
        (missing.code != 0 || missing.text().contains("finished")).then_some(())
    })
    .await;
    let failures = [
        ("no", "rejected (no): not here ?"),
        ("count", "(no-key): "),
        ("nowhere", "(enqueue-failed): the tenant has no topic"),
        ("crash", "NameError: name 'wheat' is not defined (handler.py:"),
        ("flour", "a dict, a list, or Json(value) (handler.py:"),
        ("exit", "(process-ended): the handler's process: it ended with exit status: 3"),
    ];
    for (body, message) in failures {
        let said = mill.push("mill", body, &[]);
        assert!(said.ended(4).err.contains(message), "no {message:?} in\n{}", said.err);
    }
    assert!(log.process.log().contains("uncaught exception"), "{}", log.process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_ends_with_its_process_and_all_of_them_with_dev() {
    let mill = PythonProject::new().await;
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
    mill.write("handler.toml", &PROJECT.replace("native = ", "#"));
    let said = mill.0.run(&["dev", "--native", mill.path("").to_str().unwrap()]);
    assert!(said.ended(2).err.contains("no handler.toml here has the key `native`"), "{}", said.err);
}
