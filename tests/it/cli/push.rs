//! `push`: where a body comes from, which jobs are made of it, and what is refused.

use gristmill_tests::guests;
use gristmill_tests::test_project::{TestProject, fields};
use serde_json::json;

const MANIFEST: &str = r#"
    [defaults]
    payload-limit = "1KiB"
    # Nobody works here: what is pushed stays to be looked at.
    [topics.parking]
    handler = "nobody"
    payload-limit = "100B"
"#;

async fn project() -> TestProject {
    TestProject::new(MANIFEST, &[("echo", guests::ECHO)]).await
}

/// The body as the store has it.
fn body(project: &TestProject, id: &str) -> String {
    let job = project.run(&["job", "show", id.trim(), "--json"]).ended(0).document();
    job["job"]["body"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_comes_from_an_option_a_file_or_a_pipe() {
    let project = project().await;
    let file = project.manifest().with_file_name("body.txt");
    std::fs::write(&file, "from a file").unwrap();
    let file = file.to_str().unwrap();
    let pushed = [
        (project.run(&["push", "parking", "--data", "from an option"]), "from an option"),
        (project.run(&["push", "parking", "--file", file]), "from a file"),
        (project.pipe(b"from a pipe", &["push", "parking"]), "from a pipe"),
        (project.pipe(b"from a pipe", &["push", "parking", "--file", "-"]), "from a pipe"),
        (project.run(&["push", "parking"]), ""),
    ];
    for (said, expected) in pushed {
        assert_eq!(body(&project, &said.done()), expected);
    }
    let said = project.run(&["push", "parking", "--file", "nowhere.txt"]);
    assert!(said.ended(1).err.contains("nowhere.txt"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_makes_as_many_jobs_each_with_its_own_id() {
    let project = project().await;
    // More than are sent at once.
    let said = project.run(&["push", "parking", "--data", "x", "--count", "501"]).done();
    let ids: std::collections::HashSet<_> = said.lines().collect();
    assert_eq!(ids.len(), 501);
    let counts = project.run(&["stats", "--json"]).document();
    assert_eq!(counts["ready"], 501);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_says_what_became_of_each_job() {
    let project = project().await;
    let said = project.run(&["push", "acme/parking", "--data", "x", "--count", "2", "--json"]);
    let documents = said.ended(0).documents();
    assert_eq!(documents.len(), 2);
    for document in documents {
        assert_eq!(fields(&document), ["id", "status", "tenant", "topic"]);
        assert_eq!((&document["status"], &document["tenant"]), (&json!("stored"), &json!("acme")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_pushed_again_changes_nothing() {
    let project = project().await;
    let push = |data: &str| project.run(&["push", "parking", "--id", "order-7", "--data", data, "--json"]);
    assert_eq!(push("first").document()["status"], "stored");
    assert_eq!(push("second").ended(0).document()["status"], "exists");
    assert_eq!(body(&project, "order-7"), "first");

    let said = project.run(&["push", "parking", "--id", "order-7", "--data", "third"]);
    assert_eq!((said.done().as_str(), said.err.contains("stored already")), ("order-7\n", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unique_value_waits_once() {
    let project = project().await;
    let push = |topic: &str| project.run(&["push", topic, "--unique", "u", "--data", "x", "--json"]).document();
    let first = push("parking");
    let second = push("parking");
    assert_eq!((&second["status"], &second["id"]), (&json!("duplicate"), &first["id"]));
    assert_eq!(push("echo")["status"], "stored", "another topic's values are its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_a_pushed_job_is_stored() {
    let project = project().await;
    let options = ["--meta", "a=1", "--meta", "a=2=3", "--key", "k", "--attempts", "9", "--ttl", "1h"];
    let said =
        project.run(&[&["push", "parking", "--id", "j", "--content-type", "text/x"], options.as_slice()].concat());
    said.done();
    let job = &project.run(&["job", "show", "j", "--json"]).document()["job"];
    assert_eq!(job["metadata"], json!([["a", "1"], ["a", "2=3"]]));
    assert_eq!((&job["key"], &job["attempts_max"], &job["ttl_ms"]), (&json!("k"), &json!(9), &json!(3_600_000)));
    assert_eq!(job["body"]["content_type"], "text/x");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_to_an_unknown_topic_warns_and_names_a_near_one() {
    let project = project().await;
    for (topic, hint) in [("praking", "did you mean `parking`?"), ("ehco", "did you mean `echo`?")] {
        let said = project.run(&["push", topic, "--data", "x"]);
        said.done();
        assert!(said.err.contains(topic) && said.err.contains(hint), "{}", said.err);
    }
    let said = project.run(&["push", "something-else", "--data", "x"]);
    let warning = "warning: there is no topic `something-else`: its jobs wait until";
    assert!(said.ended(0).err.starts_with(warning), "{}", said.err);
    for topic in ["parking", "echo"] {
        assert_eq!(project.run(&["push", topic, "--data", "x"]).ended(0).err, "", "{topic}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_topics_limit_is_refused_and_not_pushed() {
    let project = project().await;
    // One that the manifest names, and one that a file makes.
    for (topic, limit) in [("parking", 100), ("echo", 1024)] {
        project.pipe(&vec![b'x'; limit], &["push", topic]).ended(0);
        let said = project.pipe(&vec![b'x'; limit + 1], &["push", topic]);
        assert!(said.ended(2).err.contains("payload-limit"), "{}", said.err);
    }
    let counts = project.run(&["stats", "--json"]).documents();
    assert!(counts.iter().all(|topic| topic["ready"] == 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_line_that_makes_no_sense_ends_with_2() {
    let project = project().await;
    let wrong: [(&[&str], &str); 9] = [
        (&["push"], "<TOPIC>"),
        (&["push", "no topic"], "no topic"),
        (&["push", "parking", "--bogus"], "--bogus"),
        (&["push", "parking", "--meta", "x"], "name=value"),
        (&["push", "parking", "--delay", "3"], "unit"),
        (&["push", "parking", "--count", "0"], "0"),
        (&["push", "parking", "--count", "2", "--id", "j"], "--id"),
        (&["push", "acme/parking", "--tenant", "other"], "tenant"),
        (&["dead", "delete", "parking"], "<IDS>"),
    ];
    for (arguments, expected) in wrong {
        let said = project.run(arguments);
        assert!(said.ended(2).err.contains(expected), "{arguments:?}: {}", said.err);
        assert!(said.out.is_empty());
    }
    let said = project.run(&["--store", "postgres://me:hunter2@db/x", "stats"]);
    assert!(said.ended(2).err.contains("redis://") && !said.err.contains("hunter2"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_store_is_reported_at_once() {
    let mut project = TestProject::on_redis(MANIFEST, &[("echo", guests::ECHO)]).await;
    project.redis.as_mut().unwrap().stop();
    let begun = std::time::Instant::now();
    for command in [&["push", "echo", "--data", "x"][..], &["push", "echo", "--wait"], &["stats"], &["topics"]] {
        let said = project.run(command);
        assert!(said.ended(3).err.starts_with("error: the store at "), "{}", said.err);
        let said = project.run(&[command, &["--json"]].concat());
        let error: serde_json::Value = serde_json::from_str(&said.ended(3).err).unwrap();
        assert_eq!(error["error"]["code"], "store-away");
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "took {:?}", begun.elapsed());
}
