//! `dev` and `build --watch`: from a save to the new version, with a project whose build only copies.

use std::path::{Path, PathBuf};

use gristmill_tests::guests;
use gristmill_tests::process::{Process, command};
use gristmill_tests::test_project::{FREE_PORT, TestProject};
use gristmill_tests::wait::{SOON, until};
use puppet::{End, MARKER, Script, Step};
use rustix::process::Signal;

/// What people would write: here the component itself.
const SOURCE: &str = "src/handler.bin";

/// A project of the puppet in the folder of a manifest that grants the clock.
struct Edited(TestProject);

impl Edited {
    async fn new() -> Self {
        let edited = Self(TestProject::new("[topics.puppet]\n", &[]).await);
        let lines = "test ! -e broken || { echo 'handler.c:1: no such thing' >&2; exit 1; }";
        edited.write(
            "handler.toml",
            format!(
                "name = \"puppet\"\nlanguage = \"puppetry\"\nbuild = [\"{lines}\", \"mkdir -p build && cp {SOURCE} build/puppet.wasm\"]\n\
                 component = \"build/puppet.wasm\"\n"
            ),
        );
        edited.save(1);
        edited
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.manifest().with_file_name(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Saves a version of the source, as an editor does.
    fn save(&self, version: u32) {
        let mut component = std::fs::read(guests::PUPPET).unwrap();
        let stem = &MARKER[..15];
        let at = component.windows(stem.len()).position(|window| window == stem).unwrap();
        component[at + 15..at + 25].copy_from_slice(format!("{version:010}").as_bytes());
        self.write("src/.handler.bin.new", component);
        std::fs::rename(self.path("src/.handler.bin.new"), self.path(SOURCE)).unwrap();
    }

    fn start(&self, arguments: &[&str]) -> Log {
        Log::of(&self.0.manifest(), arguments)
    }

    /// What a job says that serves: by the store that `dev` is on.
    fn served(&self) -> String {
        let said = self.0.pipe(&Script::end(End::Version).to_json(), &["push", "puppet", "--wait"]);
        said.done()
    }
}

fn version(version: u32) -> String {
    format!("{}{version:010}", std::str::from_utf8(&MARKER[..15]).unwrap())
}

/// The output of a command that goes on, read from front to back.
pub(super) struct Log {
    pub(super) process: Process,
    read: usize,
}

impl Log {
    /// Starts a command in the folder of this manifest.
    pub(super) fn of(manifest: &Path, arguments: &[&str]) -> Self {
        let mut command = command(manifest);
        command.current_dir(manifest.parent().unwrap()).args(arguments);
        Self { process: Process::start(command, manifest), read: 0 }
    }

    /// What comes next, up to the line that has this in it.
    pub(super) async fn up_to(&mut self, text: &str) -> String {
        let read = self.read;
        let process = &mut self.process;
        let lines = until(format!("a line with {text:?}"), SOON, async || {
            let ended = process.ended();
            let log = process.log();
            let found = log[read..].find(text);
            assert!(found.is_some() || ended.is_none(), "it ended: {ended:?}\n{log}");
            let end = log[read..][found?..].find('\n')?;
            Some(log[read..][..found? + end + 1].to_owned())
        })
        .await;
        self.read += lines.len();
        lines
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_serves_a_new_version_and_tries_it_and_a_failed_build_keeps_it() {
    let edited = Edited::new().await;
    let script = Script::new([Step::Log("grinding".into()), Step::End(End::Version)]);
    edited.write("jobs/version.json", script.to_json());
    let mut log = edited.start(&["dev"]);
    let first = log.up_to("waiting for changes").await;
    for text in ["jobs are kept in sqlite:", "run of jobs/version.json", &version(1), "INFO     grinding"] {
        assert!(first.contains(text), "no {text:?} in\n{first}");
    }
    assert!(!first.contains("after the save") && !first.contains("has no handler"), "{first}");
    assert_eq!(edited.served(), version(1));

    edited.save(2);
    let second = log.up_to("waiting for changes").await;
    let (old, new) = (format!("result  - {}", version(1)), format!("result  + {}", version(2)));
    for text in ["after the save: build ", "differs from the run before:", &old, &new] {
        assert!(second.contains(text), "no {text:?} in\n{second}");
    }
    assert_eq!(edited.served(), version(2));

    edited.write("broken", "");
    let failed = log.up_to("waiting for changes").await;
    for text in ["handler.c:1: no such thing", "error: a line of handler.toml failed", "goes on serving"] {
        assert!(failed.contains(text), "no {text:?} in\n{failed}");
    }
    assert!(!failed.contains("run of"), "{failed}");
    assert_eq!(edited.served(), version(2));

    std::fs::remove_file(edited.path("broken")).unwrap();
    let mended = log.up_to("waiting for changes").await;
    assert!(!mended.contains("run of"), "the version is the same: {mended}");
    edited.write("jobs/version.json", Script::end(End::Text("flour".into())).to_json());
    let other = log.up_to("waiting for changes").await;
    assert!(other.contains("log     - INFO") && other.contains("result  + flour"), "{other}");
    assert!(!other.contains("building"), "a job is no source: {other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_files_the_last_job_is_run_again_unless_no_run_is_to_be() {
    let edited = Edited::new().await;
    let mut log = edited.start(&["dev"]);
    assert!(log.up_to("waiting for changes").await.contains("no job to run: push one to `puppet`"));
    assert_eq!(edited.served(), version(1));
    edited.save(2);
    let again = log.up_to("waiting for changes").await;
    assert!(again.contains("run of the last job") && again.contains(&version(2)), "{again}");
    log.process.signal(Signal::INT);
    until("its end", SOON, async || log.process.ended()).await;

    edited.write("jobs/version.json", Script::end(End::Version).to_json());
    let mut log = edited.start(&["dev", "--no-run"]);
    log.up_to("`puppet` serves version").await;
    assert!(!log.up_to("waiting for changes").await.contains("run of"));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_grants_are_offered_as_lines_and_serve_once_they_are_there() {
    let edited = Edited::new().await;
    let manifest = format!("{FREE_PORT}[topics.puppet]\n");
    edited.0.write_manifest(&manifest);
    let mut log = edited.start(&["dev"]);
    let refused = log.up_to("waiting for changes").await;
    assert!(refused.contains("[topics.puppet]\n            clock = true"), "{refused}");
    assert!(refused.contains("no topic grants what it imports"), "{refused}");
    edited.0.write_manifest(&format!("{manifest}clock = true\n"));
    log.up_to("`puppet` serves version").await;
    assert_eq!(edited.served(), version(1));
    assert_eq!(log.process.log().matches("building `puppet`").count(), 1, "{}", log.process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn saves_during_a_build_make_one_more_and_a_signal_ends_what_is_built() {
    let edited = Edited::new().await;
    // Each build writes a line to one fifo, and waits for one from the other.
    for fifo in ["begun", "go"] {
        assert!(std::process::Command::new("mkfifo").arg(edited.path(&format!(".{fifo}"))).status().unwrap().success());
    }
    let project = std::fs::read_to_string(edited.path("handler.toml")).unwrap();
    let waits = project.replacen("build = [", "build = [\"echo begun >.begun; read go <.go\", ", 1);
    edited.write("handler.toml", waits);
    let mut log = edited.start(&["dev"]);
    begun(&edited).await;
    for version in 2..5 {
        edited.save(version);
    }
    go(&edited).await;
    log.up_to("`puppet` serves version").await;
    begun(&edited).await;
    go(&edited).await;
    log.up_to("`puppet` serves version").await;
    log.up_to("waiting for changes").await;
    assert_eq!(edited.served(), version(4));
    assert_eq!(log.process.log().matches("building `puppet`").count(), 2, "{}", log.process.log());

    edited.save(5);
    begun(&edited).await;
    log.process.signal(Signal::TERM);
    let status = until("its end", SOON, async || log.process.ended()).await;
    assert_eq!(status.code(), Some(0), "{}", log.process.log());
    assert!(log.process.log().contains("ended"), "{}", log.process.log());
    // The build would have left it: none reads the fifo any more.
    let fifo = edited.path(".go");
    let open = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    until("the build to be gone", SOON, async || {
        rustix::fs::open(&fifo, open, rustix::fs::Mode::empty()).is_err().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_saved_during_a_build_holds_up_nothing() {
    let edited = Edited::new().await;
    let project = std::fs::read_to_string(edited.path("handler.toml")).unwrap();
    let manifest = edited.0.manifest();
    let line = format!("grep -q retention {0} || echo 'result-retention = \\\"1h\\\"' >> {0}", manifest.display());
    edited.write("handler.toml", project.replacen("build = [", &format!("build = [\"{line}\", "), 1));
    let mut log = edited.start(&["dev"]);
    log.up_to("`puppet` serves version").await;
    assert_eq!(edited.served(), version(1));
}

async fn begun(edited: &Edited) {
    let fifo = edited.path(".begun");
    tokio::task::spawn_blocking(move || std::fs::read(fifo).unwrap()).await.unwrap();
}

async fn go(edited: &Edited) {
    let fifo = edited.path(".go");
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "go\n").unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn delays_and_waits_for_the_next_attempt_are_jumped_over_where_that_is_wanted() {
    let edited = Edited::new().await;
    let mut log = edited.start(&["dev", "--jump-delays", "--no-run"]);
    log.up_to("waiting for changes").await;
    let script = Script::end(End::Version).to_json();
    let said = edited.0.pipe(&script, &["push", "puppet", "--delay", "1h", "--wait"]);
    assert_eq!(said.done(), version(1));
    assert!(log.up_to("jumped over the delay of 1 job").await.contains("jumped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_others_use_is_refused_unless_it_is_meant() {
    let edited = Edited::new().await;
    let remote = "redis://:secret@127.0.0.1:1/0";
    let said = edited.0.run(&["dev", "--store", remote, edited.path("").to_str().unwrap()]);
    assert!(said.ended(2).err.contains("--remote-store") && !said.err.contains("secret"), "{}", said.err);
    let mut log = edited.start(&["dev", "--store", remote, "--remote-store"]);
    log.up_to("jobs are kept in redis://").await;
    log.process.signal(Signal::INT);
    until("its end", SOON, async || log.process.ended()).await;
    edited.write("copy/handler.toml", std::fs::read(edited.path("handler.toml")).unwrap());
    let said = edited.0.run(&["dev", edited.path("").to_str().unwrap()]);
    assert!(said.ended(2).err.contains("both make the handler `puppet`"), "{}", said.err);
    let nothing = edited.path("handlers");
    let said = edited.0.run(&["dev", nothing.to_str().unwrap()]);
    assert!(said.ended(2).err.contains("no handler.toml"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn build_watches_without_a_runner() {
    let edited = Edited::new().await;
    let mut log = edited.start(&["build", "--watch"]);
    let dropped = |path: &Path| std::fs::read(path.join("puppet.wasm")).unwrap();
    log.up_to("waiting for changes").await;
    let first = dropped(&edited.0.handlers());
    edited.save(2);
    log.up_to("waiting for changes").await;
    assert_ne!(dropped(&edited.0.handlers()), first);
    edited.write("broken", "");
    assert!(log.up_to("waiting for changes").await.contains("error: a line of handler.toml failed"));
    log.process.signal(Signal::INT);
    assert_eq!(until("its end", SOON, async || log.process.ended()).await.code(), Some(0));
}
