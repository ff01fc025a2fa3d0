//! `invoke`: one attempt, with no queue and no store.

use gristmill_tests::guests;
use gristmill_tests::test_project::{Said, TestProject, fields};
use puppet::{End, Enqueue, Script, Step};
use serde_json::json;

/// A project whose store is unavailable: no test here needs it.
async fn project() -> TestProject {
    let mut project = TestProject::on_redis("[topics.sink]\n[topics.puppet]\nmemory = \"16MiB\"", &[]).await;
    project.redis.as_mut().unwrap().stop();
    project
}

fn play(project: &TestProject, script: &Script, options: &[&str]) -> Said {
    project.pipe(&script.to_json(), &[&["invoke", guests::PUPPET], options].concat())
}

/// Says something in every way there is.
fn talkative(end: End) -> Script {
    let job = Enqueue { topic: "sink".into(), data: "{}".into(), delay_ms: Some(90_000), ..Enqueue::default() };
    let talk = [Step::Log("grinding".into()), Step::Stdout("plain".into()), Step::Progress(5000, Some("half".into()))];
    Script::new(talk.into_iter().chain([Step::Enqueue(job), Step::End(end)]))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_goes_to_standard_output_and_the_report_to_standard_error() {
    let project = project().await;
    let said = play(&project, &talkative(End::Text("flour".into())), &[]);
    assert_eq!(said.done(), "flour");
    let report = &said.err;
    let lines = [
        "outcome     complete: 5B, text/plain",
        "fuel        ",
        " of 1T\n",
        "memory      ",
        " of 16MiB\n",
        "time        ",
        "used        ",
        " % of ",
        "follow-ups  sink in 1m30s: {}",
        "INFO     grinding  puppet=yes",
        "stdout   plain",
        "progress half  basis-points=5000",
    ];
    for line in lines {
        assert!(report.contains(line), "no {line:?} in\n{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_one_document_with_everything_in_it() {
    let project = project().await;
    let document = play(&project, &talkative(End::Text("flour".into())), &["--json"]).ended(0).document();
    let documented = [
        "duration_us",
        "follow_ups",
        "fuel",
        "log",
        "log_lines_dropped",
        "memory_peak_bytes",
        "message",
        "nearest_limit",
        "outcome",
        "output",
    ];
    assert_eq!(fields(&document), documented);
    assert_eq!((&document["outcome"], &document["output"]["text"]), (&json!("complete"), &json!("flour")));
    assert!(document["fuel"].as_u64() > Some(0) && document["memory_peak_bytes"].as_u64() > Some(0));
    let line = json!({"level": "info", "source": "log", "message": "grinding", "fields": [["puppet", "yes"]]});
    assert_eq!(document["log"][0], line);
    assert_eq!(document["follow_ups"][0]["topic"], "sink");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_ends_with_4_and_its_backtrace() {
    let project = project().await;
    let said = play(&project, &talkative(End::Panic("on fire".into())), &[]);
    assert!(said.ended(4).out.is_empty());
    for text in
        ["outcome  trap: on fire (panicked at ", "\n         (wasm trap: ", "puppet::evil::panic", "stderr   on fire"]
    {
        assert!(said.err.contains(text), "no {text:?} in\n{}", said.err);
    }
    assert!(!said.err.contains("follow-ups"), "nothing is enqueued by an attempt that failed: {}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_on_the_command_line_are_those_of_the_attempt() {
    let project = project().await;
    let spin = Script::end(End::InfiniteLoop);
    let cases = [
        (play(&project, &spin, &["--fuel", "10k"]), "fuel-exhausted"),
        (play(&project, &spin, &["--fuel", "100T", "--timeout", "50ms"]), "timeout"),
        (play(&project, &Script::end(End::MemoryBomb), &["--memory", "2MiB"]), "memory-exceeded"),
    ];
    for (said, outcome) in cases {
        assert!(said.ended(4).err.starts_with(&format!("outcome  {outcome}: ")), "{}", said.err);
    }
    let none = play(&project, &spin, &["--timeout", "0s"]);
    assert!(none.ended(2).err.contains("at least 1ms"), "{}", none.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_attempt_and_its_settings_may_be_chosen() {
    let project = project().await;
    let report = Script::end(End::Report { config: vec!["colour".into()], secrets: vec![] });
    let options = ["--topic", "acme/runner", "--attempt", "3", "--meta", "a=1", "--config", "colour=green"];
    let report: puppet::Report = serde_json::from_str(&play(&project, &report, &options).done()).unwrap();
    assert_eq!((report.tenant.as_str(), report.topic.as_str(), report.attempt), ("acme", "runner", 3));
    assert_eq!(report.metadata, [("a".to_owned(), "1".to_owned())]);
    assert_eq!(report.config["colour"].as_deref(), Some("green"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_a_component_is_refused_by_name() {
    let project = project().await;
    let bad = project.manifest().with_file_name("bad.wasm");
    std::fs::write(&bad, "garbage").unwrap();
    let said = project.run(&["invoke", bad.to_str().unwrap()]);
    assert!(said.ended(1).err.contains("bad.wasm: this is no WebAssembly"), "{}", said.err);
    let said = project.run(&["invoke", "nowhere.wasm"]);
    assert!(said.ended(1).err.contains("nowhere.wasm: No such file"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_limit_is_one_of_all_limits() {
    let project = project().await;
    let job = || Step::Enqueue(Enqueue { topic: "sink".into(), data: "{}".into(), ..Enqueue::default() });
    let cases = [
        ("follow-ups = 2", Script::new([job(), job(), Step::End(End::Complete)]), "follow-ups"),
        ("log-limit = \"64B\"", Script::new([Step::Log("x".repeat(60)), Step::End(End::Complete)]), "log"),
    ];
    for (limit, script, nearest) in cases {
        project.write_manifest(&format!("[defaults]\nclock = true\n[topics.sink]\n[topics.puppet]\n{limit}"));
        let document = play(&project, &script, &["--json"]).ended(0).document();
        assert_eq!(document["nearest_limit"], json!({ "limit": nearest, "percent": 100 }), "{document}");
    }
}
