//! `job list`, `dead groups`, and what is done to the dead that a query chooses.

use gristmill_tests::guests;
use gristmill_tests::test_project::{TestProject, fields};
use puppet::{Cause, End, Script};
use serde_json::Value;

const MANIFEST: &str = "[defaults]\nattempts = 1\n[topics.puppet]\n[topics.parking]";

async fn project() -> TestProject {
    let project = TestProject::new(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let runner = project.serve().await;
    for (id, code) in [("a1", "full"), ("a2", "full"), ("b", "gone")] {
        let cause = Cause { code: code.into(), message: format!("mailbox {id}7 is {code}"), ..Cause::default() };
        let script = Script::end(End::Reject(cause)).to_json();
        project.pipe(&script, &["push", "puppet", "--id", id, "--wait"]).ended(4);
    }
    for (id, body) in [("p1", r#"{"user":{"id":42}}"#), ("p2", r#"{"user":{"id":43}}"#)] {
        project.run(&["push", "parking", "--id", id, "--data", body, "--key", "k"]).done();
    }
    // Through a server, and then without one.
    with_and_without_a_server(&project);
    drop(runner);
    with_and_without_a_server(&project);
    project
}

fn ids(project: &TestProject, args: &[&str]) -> Vec<String> {
    let documents = project.run(&[args, &["--json"]].concat()).ended(0).documents();
    documents.iter().map(|view| view["id"].as_str().unwrap().to_owned()).collect()
}

fn with_and_without_a_server(project: &TestProject) {
    assert_eq!(ids(project, &["job", "list"]), ["p1", "p2", "b", "a2", "a1"]);
    assert_eq!(ids(project, &["job", "list", "body.user.id:42"]), ["p1"]);
    assert_eq!(ids(project, &["job", "list", "state:dead", "code:full"]), ["a2", "a1"]);
    assert_eq!(ids(project, &["job", "list", "key:k", "--limit", "1"]), ["p1"]);
    let table = project.run(&["job", "list", "topic:parking", "--columns", "id,body.user.id,key"]).done();
    assert_eq!(table, "ID  BODY.USER.ID  KEY\np1  42            k\np2  43            k\n");
    assert_eq!(ids(project, &["jobs", "code:full", "--skip", "1"]), ["a1"], "the same by a shorter name");
    let table = project.run(&["job", "list", "state:dead", "--limit", "1"]).done();
    assert!(table.contains("CODE") && table.contains("  gone  "), "{table}");
    let none = project.run(&["job", "list", "key:none"]);
    // Of those that are ready, the store knows the keys.
    assert_eq!((none.done().as_str(), none.err.as_str()), ("", "no job of tenant `default` fits; looked at 3\n"));
    let word = project.run(&["jobs", "puppet", "key:none"]);
    let hint = "fits; looked at 3\n`topic:puppet` finds the jobs of the topic `puppet`\n";
    assert!(word.done().is_empty() && word.err.ends_with(hint), "{}", word.err);
    let wrong = project.run(&["job", "list", "state:ded"]);
    wrong.ended(2);
    assert!(wrong.err.contains("at character 1, `state:ded`: `ded` is no state: use ready"), "{}", wrong.err);

    let groups = project.run(&["dead", "groups", "--json"]).ended(0).documents();
    assert_eq!(groups.iter().map(|group| group["count"].clone()).collect::<Vec<Value>>(), [2, 1]);
    let documented = ["code", "count", "first_ms", "last_ms", "message", "q", "reason", "sample", "tenant", "topic"];
    assert_eq!(fields(&groups[0]), documented);
    let table = project.run(&["dead", "groups", "code:gone"]).done();
    let lines: Vec<_> = table.lines().collect();
    assert!(lines.len() == 2 && lines[1].trim_start().starts_with("1  puppet  rejected  gone"), "{table}");
    // Groups of two topics may have the same number.
    assert!(lines[1].contains("  topic:puppet group:"), "{table}");
    // How long ago the last one died changes from call to call.
    let lasting = |table: &str| -> Vec<String> {
        table.split_whitespace().filter(|word| !word.starts_with(char::is_numeric)).map(str::to_owned).collect()
    };
    for same in [["dead", "list"], ["job", "list"]] {
        let groups = project.run(&[&same[..], &["code:gone", "--groups"]].concat()).done();
        assert_eq!(lasting(&groups), lasting(&table));
    }
    let table = project.run(&["dead", "list", "code:full", "--columns", "id,topic,code"]).done();
    assert_eq!(table, "ID  TOPIC   CODE\na2  puppet  full\na1  puppet  full\n", "of every topic");
    let top = project.run(&["top", "--once", "--json"]);
    let top = top.ended(0).document();
    assert_eq!(fields(&top), ["dead", "running", "topics", "workers"]);
    assert_eq!(top["dead"][0]["count"], 2);
    // A server knows that `parking` has no handler: that comes before the dead ones.
    assert!(["parking", "puppet"].map(Value::from).contains(&top["topics"][0]["topic"]), "{top}");
    let listed = project.run(&["dead", "list", "puppet", "code:gone", "--json"]).ended(0).documents();
    assert_eq!(listed.iter().map(|dead| dead["id"].clone()).collect::<Vec<Value>>(), ["b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_a_query_and_the_dead_are_deleted_by_one() {
    let project = project().await;
    let refused = project.run(&["dead", "delete", "puppet", "--query", "state:dead"]);
    refused.ended(2);
    assert!(refused.err.contains("say --all"), "{}", refused.err);
    assert_eq!(
        project.run(&["dead", "delete", "puppet", "--query", "code:full", "--yes"]).done(),
        "deleted 2 jobs of `puppet`\n"
    );
    assert_eq!(ids(&project, &["job", "list", "state:dead"]), ["b"]);
    assert_eq!(
        project.run(&["dead", "respawn", "puppet", "--query", "code:gone"]).done(),
        "respawned 1 job of `puppet`\n"
    );
    assert_eq!(ids(&project, &["job", "list", "topic:puppet state:ready"]), ["b"]);
}
