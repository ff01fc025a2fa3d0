//! `stats`, `topics` and `job show`: for people, and for programs.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use gristmill_tests::guests;
use gristmill_tests::process::command;
use gristmill_tests::test_project::{TestProject, fields};
use gristmill_tests::wait::{SOON, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [defaults]
    attempts = 1
    [topics.puppet]
    timeout = "7s"
    [topics.parking]
    handler = "nobody"
"#;

/// One job in every place where a job can stay.
async fn project() -> TestProject {
    let project = TestProject::new(MANIFEST, &[("echo", guests::ECHO), ("puppet", guests::PUPPET)]).await;
    let _runner = project.serve().await;
    project.run(&["push", "parking", "--id", "ready", "--data", "hello", "--key", "k", "--meta", "a=b"]).done();
    project.run(&["push", "echo", "--id", "delayed", "--delay", "1h", "--data", "x"]).done();
    let panic = r#"{"do": [{"end": {"panic": "on fire"}}]}"#;
    project.run(&["push", "puppet", "--id", "dead", "--data", panic, "--wait"]).ended(4);
    project.run(&["push", "echo", "--id", "finished", "--data", "flour", "--wait"]).done();
    project
}

fn of_topic(documents: &[Value], topic: &str) -> Value {
    documents.iter().find(|document| document["topic"] == topic).unwrap_or_else(|| panic!("no {topic}")).clone()
}

/// `stats --watch`, until it is interrupted.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn begin(project: &TestProject, options: &[&str]) -> Self {
        let watch = ["stats", "--watch", "--every", "250ms", "--json"];
        let mut command = command(&project.manifest());
        let mut child = command.args(watch).args(options).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads on until the only topic has so many ready jobs.
    fn read_until(&mut self, ready: u64) {
        let is_so = |line: String| {
            let counts: Value = serde_json::from_str(&line).unwrap();
            assert!(counts["at_ms"].is_u64(), "{counts}");
            counts["ready"] == ready
        };
        assert!(self.lines.any(|line| is_so(line.unwrap())), "it ended");
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.lines.for_each(drop);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_are_watched_until_ctrl_c_while_servers_come_and_go() {
    let push = |project: &TestProject| project.run(&["push", "parking", "--data", "x"]).done();
    let project = TestProject::new(MANIFEST, &[]).await;
    push(&project);
    let mut watch = Watch::begin(&project, &[]);
    watch.read_until(1);
    let runner = project.serve().await;
    push(&project);
    watch.read_until(2);
    let server = format!("http://{}", project.address().unwrap());
    let mut remote = Watch::begin(&project, &["--server", &server]);
    push(&project);
    remote.read_until(3);
    remote.end();
    runner.kill();
    push(&project);
    watch.read_until(4);
    watch.end();

    let redis = TestProject::on_redis(MANIFEST, &[]).await;
    push(&redis);
    let mut watch = Watch::begin(&redis, &[]);
    watch.read_until(1);
    watch.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_count_jobs_by_place_and_by_fate() {
    let project = project().await;
    let documents = project.run(&["stats", "--json"]).ended(0).documents();
    for document in &documents {
        let documented = [
            "dead",
            "delayed",
            "oldest_ready_ms",
            "paused",
            "ready",
            "running",
            "tenant",
            "topic",
            "totals",
            "waiting",
            "waiting_for_key",
        ];
        assert_eq!(fields(document), documented);
    }
    let places = |topic: &str| {
        let counts = of_topic(&documents, topic);
        ["ready", "delayed", "running", "dead"].map(|place| counts[place].as_u64().unwrap())
    };
    assert_eq!((places("parking"), places("echo"), places("puppet")), ([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]));
    assert_eq!(of_topic(&documents, "echo")["totals"], json!({"pushed": 2, "acked": 1}));
    assert_eq!(of_topic(&documents, "puppet")["totals"]["dead-trap"], 1);

    let table = project.run(&["stats"]).done();
    let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..6], ["TOPIC", "READY", "DELAYED", "RUNNING", "DEAD", "PUSHED"]);
    assert_eq!(rows[1][..6], ["echo", "0", "1", "0", "0", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_join_manifest_folder_and_store() {
    let project = project().await;
    project.run(&["push", "stray", "--data", "x"]).done();
    let documents = project.run(&["topics", "--json"]).ended(0).documents();
    let documented = [
        "attempts_max",
        "compiling",
        "concurrency",
        "dead",
        "delayed",
        "external",
        "fuel",
        "handler",
        "idle",
        "lacking",
        "limited",
        "memory_bytes",
        "oldest_ready_ms",
        "origin",
        "paused",
        "ready",
        "recent",
        "refused",
        "run",
        "running",
        "serves",
        "tenant",
        "timeout_ms",
        "topic",
        "totals",
        "trial",
        "unknown",
        "version",
        "waiting",
        "waiting_for_key",
    ];
    for document in &documents {
        assert_eq!(fields(document), documented);
    }
    let origin = |topic: &str| of_topic(&documents, topic)["origin"].clone();
    assert_eq!([origin("puppet"), origin("echo"), origin("stray")], ["manifest", "folder", "store"]);
    let (puppet, parking) = (of_topic(&documents, "puppet"), of_topic(&documents, "parking"));
    assert_eq!((&puppet["timeout_ms"], &puppet["attempts_max"]), (&json!(7000), &json!(1)));
    assert!(puppet["version"].is_string() && parking["version"].is_null(), "{puppet} {parking}");

    let table = project.run(&["topics"]).done();
    let parking = table.lines().find(|line| line.starts_with("parking")).unwrap();
    assert!(parking.contains("missing"), "a topic without a handler stands out: {table}");
    assert!(table.contains("stray (unknown)"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_shows_of_one_tenant_names_it() {
    let project = TestProject::new("[topics.echo]\n[tenants.acme.topics.echo]\n", &[("echo", guests::ECHO)]).await;
    let _runner = project.serve().await;
    project.run(&["push", "acme/echo", "--data", "x", "--wait"]).done();
    let topics = |more: &[&str]| project.run(&[&["topics", "--json"], more].concat()).ended(0).documents();
    assert_eq!(topics(&[]).len(), 2);
    let [of_acme] = topics(&["--tenant", "acme"]).try_into().unwrap();
    assert_eq!(of_acme["tenant"], "acme");
    let said = project.run(&["topics", "echo"]);
    assert!(said.ended(2).err.contains("`gristmill topics why echo` says why"), "{}", said.err);
    let said = project.run(&["topics", "--tenant", "acme", "why", "echo"]);
    assert!(said.ended(2).err.contains("write --tenant behind"), "{}", said.err);
    for command in ["topics", "stats", "bill"] {
        let said = project.run(&[command, "--tenant", "acne"]);
        assert!(said.ended(0).err.contains("is of a tenant `acne` (did you mean `acme`?)"), "{}", said.err);
    }
    let none = project.run(&["attempts"]);
    assert!(none.ended(0).err.contains("no attempts of this runner for tenant `default` since"), "{}", none.err);
    let all = project.run(&["attempts", "--tenant", "acme"]);
    assert!(all.ended(0).err.contains("all attempts of this runner for tenant `acme` since"), "{}", all.err);
    assert_eq!(project.run(&["jobs"]).ended(0).err, "tenant `default` has no such job\n");
    assert_eq!(project.run(&["dead", "groups"]).ended(0).err, "no job of tenant `default` is dead, or none fits\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_marks_a_topic_that_lacks_a_grant() {
    let project = TestProject::new("[topics.puppet]\nclock = false\n", &[("puppet", guests::PUPPET)]).await;
    assert_eq!(project.run(&["topics", "--json"]).ended(0).document()["lacking"], json!(["clock"]));
    let table = project.run(&["topics"]).done();
    assert!(table.contains("lacks-grants: `puppet` needs what the topic does not grant: `clock`"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_shown_wherever_it_is() {
    let project = project().await;
    let show = |id: &str| project.run(&["job", "show", id, "--json"]).ended(0).document();
    for id in ["ready", "delayed", "dead", "finished"] {
        let view = show(id);
        assert_eq!(
            fields(&view),
            [
                "attempts",
                "checkpoint",
                "ended",
                "id",
                "job",
                "last_failure",
                "place",
                "progress",
                "result",
                "state",
                "waits_for"
            ]
        );
        assert_eq!((&view["id"], &view["state"]), (&json!(id), &json!(id)));
    }
    let (ready, delayed, dead) = (show("ready"), show("delayed"), show("dead"));
    assert_eq!((&ready["job"]["key"], &ready["job"]["metadata"]), (&json!("k"), &json!([["a", "b"]])));
    let (enqueued, until) = (&delayed["job"]["enqueued_at_ms"], &delayed["place"]["until_ms"]);
    // The store rounds to the later millisecond.
    assert!((3_600_000..=3_600_001).contains(&(until.as_u64().unwrap() - enqueued.as_u64().unwrap())));
    assert_eq!((&dead["last_failure"]["reason"], &dead["attempts"]), (&json!("trap"), &json!(1)));
    assert!(dead["last_failure"]["backtrace"].as_str().unwrap().contains("puppet"));
    let output = json!({"bytes": 5, "content_type": null, "text": "flour"});
    assert_eq!(show("finished")["result"], json!({"outcome": "complete", "output": output}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_shown_in_words() {
    let project = project().await;
    let expected: [(&str, &[&str]); 4] = [
        ("ready", &["ready: waits for a runner; see `gristmill job why`", "parking", "a=b", "hello"]),
        ("delayed", &["delayed until ", "(in 59m"]),
        ("dead", &["dead since ", "trap: on fire (panicked at ", "puppet::evil::panic"]),
        ("finished", &["finished: done at ", "echo", "complete: 5B", "flour"]),
    ];
    for (id, texts) in expected {
        let shown = project.run(&["job", "show", id]).done();
        for text in texts {
            assert!(shown.contains(text), "no {text:?} in\n{shown}");
        }
    }
    let dead = project.run(&["job", "show", "dead"]).done();
    assert_eq!(
        dead.matches("puppet::evil::panic").count(),
        1,
        "what its result says, its last failure has said: {dead}"
    );
    let said = project.run(&["job", "show", "nobody"]);
    assert!(said.ended(1).err.contains("it never was, or it ended longer ago than is remembered"), "{}", said.err);
    assert_eq!(
        project.run(&["job", "show", "ready", "--tenant", "acme"]).code,
        1,
        "another tenant's job is nobody's business"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_shown_with_what_they_run() {
    let redis = TestProject::on_redis(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    for project in [TestProject::new(MANIFEST, &[("puppet", guests::PUPPET)]).await, redis] {
        project.run(&["push", "puppet", "--id", "j", "--data", r#"{"do": ["wait-until-cancelled"]}"#]).done();
        assert_eq!(project.run(&["workers", "--json"]).ended(0).documents(), Vec::<Value>::new());
        let runner = project.serve().await;
        let runs = async || {
            let worker = project.run(&["workers", "--json"]).ended(0).documents().pop()?;
            (worker["running"] == 1 && worker["heartbeat_at_ms"].is_u64()).then_some(worker)
        };
        let worker = until("the job to run", SOON, runs).await;
        assert_eq!(fields(&worker), ["heartbeat_at_ms", "kind", "running", "topics", "worker"]);
        assert_eq!((&worker["kind"], &worker["topics"]), (&json!("runner"), &json!(["puppet"])));
        assert!(worker["worker"].as_str().unwrap().contains(&format!("-{}-", runner.pid())), "{worker}");
        assert!(project.run(&["workers"]).done().contains("puppet"));
        if let Some(address) = project.address().filter(|_| project.redis.is_none()) {
            let there = project.run(&["workers", "--json", "--server", &format!("http://{address}")]);
            assert_eq!(there.ended(0).document()["worker"], worker["worker"]);
        }
        project.run(&["job", "cancel", "j"]).done();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_shown_by_the_server_of_their_runner_and_without_one_the_journal_is_named() {
    let project = TestProject::new(MANIFEST, &[("echo", guests::ECHO), ("puppet", guests::PUPPET)]).await;
    let runner = project.serve().await;
    let panic = r#"{"do": [{"log": "kneading"}, {"end": {"panic": "on fire"}}]}"#;
    project.run(&["push", "puppet", "--id", "mad", "--data", panic, "--wait"]).ended(4);
    project.run(&["push", "echo", "--id", "fine", "--data", "x", "--wait"]).done();
    let documents = until("both attempts", SOON, async || {
        let documents = project.run(&["attempts", "--json"]).ended(0).documents();
        (documents.len() == 2).then_some(documents)
    })
    .await;
    assert_eq!(documents[1]["log"][0]["text"], "kneading puppet=yes");
    assert_eq!(project.run(&["attempts", "--job", "fine", "--json"]).ended(0).document()["outcome"], "complete");

    let text = project.run(&["attempts", "--failed", "--topic", "puppet"]).done();
    assert!(text.contains("puppet  mad  attempt 1  trapped, bury") && !text.contains("fine"), "{text}");
    assert!(text.contains("\n    INFO     kneading puppet=yes\n") && text.contains("failed: "), "{text}");

    let history = until("the bill of both attempts", SOON, async || {
        let history = project.run(&["stats", "--history", "--json"]).ended(0).document();
        (history["days"][0]["attempts"] == 2).then_some(history)
    })
    .await;
    // Minutes end when the clock says so, and a new tenant has none before.
    assert!(history["minutes"].is_array(), "{history}");
    let of_topic = project.run(&["stats", "--history", "--topic", "echo"]).done();
    let day = of_topic.lines().last().unwrap().split_whitespace().nth(1);
    assert_eq!(day, Some("1"), "{of_topic}");

    runner.kill();
    for command in [&["attempts"][..], &["stats", "--history"]] {
        let said = project.run(command);
        assert!(said.ended(3).err.contains("--server URL"), "{}", said.err);
    }
    assert!(project.run(&["attempts"]).err.contains("[journal]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_attempts_of_a_redis_are_shown_by_the_server_that_listens_where_the_manifest_says() {
    let project = TestProject::on_redis("[topics.echo]", &[("echo", guests::ECHO)]).await;
    super::build::listen_somewhere(&project);
    let _runner = project.serve().await;
    project.run(&["push", "echo", "--id", "fine", "--data", "x", "--wait"]).done();
    until("the attempt", SOON, async || project.run(&["attempts"]).done().contains("fine").then_some(())).await;
    assert!(project.run(&["stats", "--history", "--json"]).ended(0).document()["minutes"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_keeps_its_handlers_lines_out_of_the_servers_log() {
    let manifest = "[topics.puppet]\n[topics.quiet]\nhandler = \"puppet\"\nserver-log = false\n";
    let project = TestProject::new(manifest, &[("puppet", guests::PUPPET)]).await;
    let runner = project.serve().await;
    for (topic, line) in [("quiet", "this is hidden"), ("puppet", "this is loud")] {
        let script = json!({ "do": [{ "log": line }] }).to_string();
        project.run(&["push", topic, "--data", &script, "--wait"]).ended(0);
    }
    until("the loud line", SOON, async || runner.log().contains("this is loud").then_some(())).await;
    assert!(!runner.log().contains("this is hidden"), "{}", runner.log());
    assert!(project.run(&["attempts", "--topic", "quiet"]).done().contains("this is hidden"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_fails_its_attempts_is_shown_where_topics_are() {
    let project = TestProject::new("[topics.puppet]\nattempts = 1\n", &[("puppet", guests::PUPPET)]).await;
    let _runner = project.serve().await;
    for _ in 0..3 {
        project.run(&["push", "puppet", "--data", r#"{"do": [{"end": {"panic": "on fire"}}]}"#, "--wait"]).ended(4);
    }
    let topic = of_topic(&project.run(&["topics", "--json"]).documents(), "puppet");
    assert_eq!((&topic["recent"]["failing"], &topic["recent"]["serving"]["failed"]), (&json!(true), &json!(3)));
    assert_eq!(topic["recent"]["serving"]["version"], topic["version"]);
    let table = project.run(&["topics"]).done();
    assert!(table.contains("failing: 100 % of 3 attempts in the last minute, version "), "{table}");
}
