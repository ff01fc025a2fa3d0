//! `run`: what its log says to people and to programs.

use std::process::Stdio;

use gristmill_tests::guests;
use gristmill_tests::process::{Process, command, run_command};
use gristmill_tests::redis::{Redis, Settings};
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

async fn project() -> TestProject {
    let manifest = "[topics.puppet]\nattempts = 2\nbackoff = \"10ms\"";
    TestProject::new(manifest, &[("echo", guests::ECHO), ("puppet", guests::PUPPET)]).await
}

/// The first line of the log that has all of this in it.
async fn line_with(runner: &Process, texts: &[&str]) -> String {
    until(format!("a line with {texts:?}"), SOON, async || {
        runner.log().lines().find(|line| texts.iter().all(|text| line.contains(text))).map(str::to_owned)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_goes_on_when_its_terminal_is_closed() {
    let project = project().await;
    let mut runner = project.serve_with(&[]).await;
    line_with(&runner, &["handler loaded", "handler=echo"]).await;
    runner.signal(Signal::HUP);
    line_with(&runner, &["SIGHUP changes nothing"]).await;
    project.run(&["push", "echo", "--wait"]).done();
    runner.signal(Signal::TERM);
    until("the runner to end", SOON, async || runner.ended()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_handlers_folder_is_logged_once_and_stops_nothing() {
    let project = project().await;
    let runner = project.serve_with(&[]).await;
    line_with(&runner, &["handler loaded", "handler=echo"]).await;
    let folder = project.handlers();
    let elsewhere = folder.with_file_name("elsewhere");
    std::fs::rename(&folder, &elsewhere).unwrap();
    line_with(&runner, &["cannot be read"]).await;
    // What is written beside the manifest is the database: no reason to look at handlers.
    for _ in 0..20 {
        project.run(&["push", "echo", "--wait"]).done();
    }
    std::fs::rename(&elsewhere, &folder).unwrap();
    line_with(&runner, &["can be read again"]).await;
    let lines = runner.log().lines().filter(|line| line.contains("cannot be read")).count();
    assert_eq!(lines, 1, "{}", runner.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_was_emptied_is_an_error_in_the_log() {
    let project = TestProject::on_redis("", &[("echo", guests::ECHO)]).await;
    let runner = project.serve_with(&[]).await;
    line_with(&runner, &["handler loaded", "handler=echo"]).await;
    project.redis.as_ref().unwrap().ask::<String>("FLUSHALL", &[]).await.unwrap();
    line_with(&runner, &["ERROR", "was emptied"]).await;
    project.run(&["push", "echo", "--wait"]).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_takes_no_writes_at_the_start_is_waited_for() {
    let redis = Redis::start_with(Settings::default().options(&["--replicaof", "127.0.0.1", "1"])).await;
    let project = TestProject::new(&format!("[store]\nurl = \"{}\"", redis.url()), &[("echo", guests::ECHO)]).await;
    let runner = Process::run(&project.manifest());
    line_with(&runner, &["ERROR", "it is a replica", "trying again until it is there"]).await;
    redis.ask::<String>("REPLICAOF", &["NO", "ONE"]).await.unwrap();
    line_with(&runner, &["ready for jobs"]).await;
    project.run(&["push", "echo", "--wait"]).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_no_file_stops_nothing() {
    let project = project().await;
    let runner = project.serve_with(&[]).await;
    line_with(&runner, &["handler loaded", "handler=echo"]).await;
    let (manifest, aside) = (project.manifest(), project.manifest().with_file_name("aside.toml"));
    std::fs::rename(&manifest, &aside).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &manifest).unwrap();
    line_with(&runner, &["cannot be read", "no regular file"]).await;
    std::fs::rename(&aside, &manifest).unwrap();
    line_with(&runner, &["manifest reloaded"]).await;
    project.run(&["push", "echo", "--wait"]).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn verbose_shows_each_jobs_life() {
    let project = project().await;
    let runner = project.serve_with(&["-v"]).await;
    line_with(&runner, &["handler loaded", "handler=echo"]).await;
    let script = Script::new([
        Step::Log("grinding".into()),
        Step::RetryUntilAttempt { attempt: 2, after_ms: None },
        Step::End(End::Panic("on fire".into())),
    ]);
    project.pipe(&script.to_json(), &["push", "puppet", "--id", "sad", "--wait"]).ended(4);
    project.run(&["push", "echo", "--id", "glad", "--wait"]).done();

    let named = |level, message, job| [level, message, job, "tenant=default", "version="];
    line_with(&runner, &named("DEBUG", "done ", "topic=echo job=glad attempt=1")).await;
    line_with(&runner, &named("WARN", "failed: ", "topic=puppet job=sad attempt=1")).await;
    let done = line_with(&runner, &["DEBUG", "done ", "fuel=", "memory=", "duration="]).await;
    assert!(
        done.split_whitespace().any(|field| field.starts_with("memory=") && field.ends_with("iB")),
        "with a unit: {done}"
    );
    let dead = line_with(&runner, &["WARN", "dead: "]).await;
    assert!(dead.contains("on fire (panicked at ") && !dead.contains("wasm trap"), "{dead}");
    line_with(&runner, &["    (wasm trap: "]).await;
    let log = runner.log();
    assert!(log.contains("reason=trap backtrace=\n") && log.contains("\n    (wasm trap: "), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guests_line_reads_like_any_other_and_cannot_pass_for_one() {
    let project = project().await;
    let runner = project.serve_with(&["-v"]).await;
    let script = Script::new([
        Step::Log("grinding".into()),
        Step::Log("x\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2J".into()),
        Step::Stdout("plain\n\n".into()),
    ]);
    project.pipe(&script.to_json(), &["push", "puppet", "--wait"]).done();

    let line = line_with(&runner, &["grinding"]).await;
    assert!(line.contains("gristmill::guest: grinding puppet=yes tenant=default topic=puppet job="), "{line}");
    assert!(!line.contains("source="), "{line}");
    line_with(&runner, &["gristmill::guest: plain tenant=", "source=stdout"]).await;
    let log = runner.log();
    assert!(log.contains("\n    2026-01-01T00:00:00Z ERROR forged\\u{1b}[2J"), "{log}");
    assert_eq!(log.matches("source=stdout").count(), 1, "a blank line is none: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_lines_name_the_attempt_they_are_about() {
    let project = project().await;
    let runner = project.serve_with(&["-v", "--log-format", "json"]).await;
    project.run(&["push", "echo", "--id", "glad", "--wait"]).done();
    let panic = Script::new([Step::Log("grinding".into()), Step::End(End::Panic("on\nfire".into()))]);
    project.pipe(&panic.to_json(), &["push", "puppet", "--id", "sad", "--wait"]).ended(4);
    line_with(&runner, &["\"dead: "]).await;

    let log = runner.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let version = project.run(&["topics", "--json"]).documents()[0]["version"].clone();
    let done = lines.iter().find(|line| line["message"] == "done").unwrap();
    assert_eq!(done["version"], version);
    let about_attempts = lines.iter().filter(|line| !line["job"].is_null());
    for line in about_attempts {
        for field in ["level", "timestamp", "message", "tenant", "topic", "version"] {
            assert!(line[field].is_string(), "no {field}: {line}");
        }
        assert!(line["attempt"].as_u64() >= Some(1), "{line}");
    }
    let guest = lines.iter().find(|line| line["message"] == "grinding").unwrap();
    assert_eq!((&guest["fields"], &guest["source"]), (&"puppet=yes".into(), &Value::Null));
    let dead = lines.iter().find(|line| line["message"].as_str().unwrap().starts_with("dead: ")).unwrap();
    assert_eq!((&dead["reason"], &dead["level"]), (&"trap".into(), &"WARN".into()));
    assert!(dead["backtrace"].as_str().unwrap().contains("puppet"), "{dead}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_lines_name_the_trace_of_their_attempt() {
    // Nothing has to listen there.
    let manifest = "[otel]\nendpoint = \"http://127.0.0.1:9\"\nrelation = \"child\"";
    let project = TestProject::new(manifest, &[("puppet", guests::PUPPET)]).await;
    let runner = project.serve_with(&["-v", "--log-format", "json"]).await;
    let script = Script::new([Step::Log("grinding".into())]).to_json();
    let context = "traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    project.pipe(&script, &["push", "puppet", "--meta", context, "--wait"]).done();
    for said in ["grinding", "done"] {
        let line = line_with(&runner, &[&format!("\"message\":\"{said}\"")]).await;
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736", "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_with_a_mistake_stops_it_before_it_begins() {
    let project = project().await;
    project.write_manifest("[topics.echo]\ntimout = \"1s\"\n");
    let said = project.run(&["run"]);
    assert!(said.ended(2).err.contains("gristmill.toml:2:1"), "{}", said.err);
    assert!(said.err.contains("did you mean `timeout`?"), "{}", said.err);
    let said = project.run(&["run", "--log-format", "json"]);
    let line: Value = serde_json::from_str(&said.ended(2).err).unwrap();
    assert!(line["level"] == "ERROR" && line["timestamp"].is_string() && line["target"].is_string(), "{line}");
    assert!(line["message"].as_str().unwrap().contains("did you mean `timeout`?"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_dropped_in_is_refused_aloud_and_the_old_one_keeps_serving() {
    let project = project().await;
    let runner = project.serve_with(&[]).await;
    project.drop_in("echo", b"garbage");
    let line = line_with(&runner, &["ERROR", "component refused: this is no WebAssembly"]).await;
    assert!(line.contains("handler=echo") && line.contains("echo.wasm"), "{line}");
    let serving = line.split("serving=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    assert!(runner.log().contains(&format!("handler loaded handler=echo version={serving}")), "{}", runner.log());
    assert_eq!(project.run(&["push", "echo", "--data", "still here", "--wait"]).done(), "still here");
    let shown =
        || project.run(&["topics", "--json"]).documents().into_iter().find(|line| line["topic"] == "echo").unwrap();
    // The attempt is remembered a moment after it is settled.
    let topic = until("its run time", SOON, async || Some(shown()).filter(|topic| topic["run"]["attempts"] == 1)).await;
    assert_eq!((&topic["version"], &topic["serves"]), (&serving.into(), &true.into()), "not that of the file");
    assert!(topic["refused"].as_str().unwrap().contains("this is no WebAssembly"), "{topic}");
    let table = project.run(&["topics"]).done();
    assert!(table.contains(&format!("echo {serving}")) && table.contains("the file was refused: "), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_survives_the_reader_of_its_log() {
    let project = project().await;
    let mut server = tokio::process::Command::from(command(&project.manifest()));
    let mut server = server.args(["-v", "run"]).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    let ready = async { while !log.next_line().await.unwrap().expect("a line").contains("ready for jobs") {} };
    timeout(4 * SOON, ready).await.expect("it begins");
    drop(log);
    for _ in 0..3 {
        project.run(&["push", "echo", "--wait"]).done();
    }
    assert_eq!(server.try_wait().unwrap(), None, "it runs on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_waits_for_its_store_ends_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("gristmill.toml");
    std::fs::write(&manifest, "[store]\nurl = \"redis://127.0.0.1:1\"\n").unwrap();
    let mut runner = Process::run(&manifest);
    line_with(&runner, &["trying again until it is there"]).await;
    runner.signal(Signal::TERM);
    let status = until("its end", SOON, async || runner.ended()).await;
    assert_eq!(status.code(), Some(0), "{}", runner.log());
}

/// The next thing that the service says to what started it.
async fn said(socket: &tokio::net::UnixDatagram) -> String {
    let mut words = [0; 64];
    let length = timeout(SOON, socket.recv(&mut words)).await.expect("a word from the service").unwrap();
    String::from_utf8_lossy(&words[..length]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn systemd_is_told_that_the_service_is_ready_lives_and_ends() {
    let project = project().await;
    let path = project.manifest().with_file_name("notify");
    let socket = tokio::net::UnixDatagram::bind(&path).unwrap();
    let mut command = run_command(&project.manifest(), &[]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
    let mut runner = Process::start(command, &project.manifest());
    assert_eq!(said(&socket).await, "READY=1");
    for _ in 0..3 {
        assert_eq!(said(&socket).await, "WATCHDOG=1");
    }
    project.run(&["health", "--ready"]).done();
    runner.signal(Signal::TERM);
    let words = until("the last word", SOON, async || Some(said(&socket).await).filter(|word| word != "WATCHDOG=1"));
    assert_eq!(words.await, "STOPPING=1");
    until("the runner to end", SOON, async || runner.ended()).await;
    assert_eq!(project.run(&["health", "--server", "http://127.0.0.1:1"]).code, 1);
}
