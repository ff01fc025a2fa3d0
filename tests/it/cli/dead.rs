//! `dead`: what a person does with jobs that were given up.

use gristmill_tests::guests;
use gristmill_tests::process::Process;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use puppet::{End, Script, Step};
use serde_json::{Value, json};

const MANIFEST: &str = "[defaults]\nattempts = 1\n[topics.puppet]";

/// Jobs that die, and a runner that lets them.
async fn graveyard(ids: &[&str]) -> (TestProject, Process) {
    let project = TestProject::new(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let runner = project.serve().await;
    let panic = Script::end(End::Panic("on fire".into())).to_json();
    for id in ids {
        project.pipe(&panic, &["push", "puppet", "--id", id, "--wait"]).ended(4);
    }
    (project, runner)
}

fn listed(project: &TestProject) -> Vec<Value> {
    project.run(&["dead", "list", "puppet", "--json"]).ended(0).documents()
}

fn ids(dead: &[Value]) -> Vec<&str> {
    dead.iter().map(|dead| dead["id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dead_are_listed_the_latest_first() {
    let (project, _runner) = graveyard(&["a", "b", "c"]).await;
    let dead = listed(&project);
    assert_eq!(ids(&dead), ["c", "b", "a"]);
    for document in &dead {
        assert_eq!((&document["state"], &document["last_failure"]["reason"]), (&json!("dead"), &json!("trap")));
        assert!(document["place"]["since_ms"].is_u64(), "{document}");
    }
    let some = project.run(&["dead", "list", "puppet", "--skip", "1", "--limit", "1", "--json"]).documents();
    assert_eq!(ids(&some), ["b"]);

    let table = project.run(&["dead", "list", "puppet"]).done();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["ID", "DIED", "ATTEMPTS", "REASON", "CODE", "MESSAGE"]
    );
    assert!(
        lines.len() == 4 && lines[1].starts_with("c ") && lines[1].contains(" on fire (panicked at "),
        "one line a job: {table}"
    );
    let said = project.run(&["dead", "list", "pupet"]);
    let unknown = "tenant `default` has no such job\nthere is no topic `pupet` (did you mean `puppet`?); see `gristmill topics`\n";
    assert_eq!((said.done().as_str(), said.err.as_str()), ("", unknown));
    project.run(&["dead", "delete", "puppet", "--all", "--yes"]).done();
    let said = project.run(&["dead", "list", "puppet"]);
    assert_eq!((said.done().as_str(), said.err.as_str()), ("", "tenant `default` has no such job\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_is_shown_with_its_body_and_backtrace() {
    let (project, _runner) = graveyard(&["a"]).await;
    let document = project.run(&["dead", "show", "puppet", "a", "--json"]).ended(0).document();
    assert_eq!((&document["id"], &document["attempts"]), (&json!("a"), &json!(1)));
    let shown = project.run(&["dead", "show", "puppet", "a"]).done();
    for text in ["on fire", "puppet::evil::panic", r#"{"do":[{"end":{"panic""#] {
        assert!(shown.contains(text), "no {text:?} in\n{shown}");
    }
    let said = project.run(&["dead", "show", "puppet", "b"]);
    assert!(said.ended(1).err.contains("job b is not known"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_respawned_run_again_with_all_their_attempts() {
    let project = TestProject::new(MANIFEST, &[("puppet", guests::PUPPET)]).await;
    let script = Script::new([Step::RetryUntilCheckpoint("half way".into()), Step::End(End::Text("alive".into()))]);
    let runner = project.serve().await;
    let push = ["push", "puppet", "--id", "a", "--keep-result", "1h", "--wait"];
    project.pipe(&script.to_json(), &push).ended(4);
    drop(runner);

    let documents = project.run(&["dead", "respawn", "puppet", "a", "nobody", "--json"]).ended(1).documents();
    let expected = [("a", "respawned"), ("nobody", "not-dead")];
    assert_eq!(documents, expected.map(|(id, status)| json!({"id": id, "topic": "puppet", "status": status})));
    let view = project.run(&["job", "show", "a", "--json"]).document();
    assert_eq!((&view["state"], &view["attempts"]), (&json!("ready"), &json!(0)));
    let said = project.run(&["dead", "respawn", "puppet", "a"]);
    assert!(said.ended(1).err.contains("job a is ready, not dead"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_whose_unique_value_is_held_says_by_whom() {
    let (project, runner) = graveyard(&[]).await;
    let panic = Script::end(End::Panic("on fire".into())).to_json();
    project.pipe(&panic, &["push", "puppet", "--id", "one", "--unique", "u", "--wait"]).ended(4);
    drop(runner);
    project.run(&["push", "puppet", "--id", "two", "--unique", "u", "--delay", "1h", "--data", "x"]).ended(0);
    let said = project.run(&["dead", "respawn", "puppet", "one"]).ended(1).err.clone();
    assert!(said.contains("job one stays dead: job two holds its unique value `u`"), "{said}");
    // By way of a server, too.
    let server = project.serve().await;
    let said = project.run(&["dead", "respawn", "puppet", "one"]).ended(1).err.clone();
    assert!(said.contains("job one stays dead: job two holds its unique value `u`"), "{said}");
    drop(server);
    let document = project.run(&["dead", "respawn", "puppet", "one", "--json"]).ended(1).document();
    assert_eq!(document["status"], "unique-held");
    let why = project.run(&["job", "why", "one"]).done();
    assert!(why.contains("once job two is over, which holds its unique value `u`"), "{why}");
    let none = project.run(&["dead", "respawn", "pupet", "--all"]);
    assert!(none.ended(0).err.contains("there is no topic `pupet` (did you mean `puppet`?)"), "{}", none.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_the_dead_are_respawned_at_once() {
    let (project, _runner) = graveyard(&["a", "b"]).await;
    assert_eq!(project.run(&["dead", "respawn", "puppet", "--all"]).done(), "respawned 2 jobs of `puppet`\n");
    let bulk = project.run(&["bulk", "list", "--json"]).documents();
    assert_eq!((&bulk[0]["action"], &bulk[0]["changed"]), (&json!("respawn"), &json!(2)), "the server does it");
    // They have learned nothing.
    until("both to die again", SOON, async || (listed(&project).len() == 2).then_some(())).await;
    let counts = project.run(&["stats", "--json"]).document();
    assert_eq!(counts["totals"]["dead-trap"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deleted_are_gone_for_good() {
    let (project, _runner) = graveyard(&["a", "b", "c"]).await;
    assert_eq!(project.run(&["dead", "delete", "puppet", "b"]).done(), "deleted 1 job of `puppet`\n");
    assert_eq!(ids(&listed(&project)), ["c", "a"]);
    for all in [&["--all"][..], &["--all", "--json"], &["--query", "reason:trap"]] {
        let said = project.run(&[&["dead", "delete", "puppet"][..], all].concat());
        assert!(said.ended(1).err.contains("add --yes") && listed(&project).len() == 2, "{all:?}: {}", said.err);
    }
    let documents = project.run(&["dead", "delete", "puppet", "--all", "--yes", "--json"]).ended(0).documents();
    assert!(documents.len() == 2 && documents.iter().all(|job| job["status"] == "deleted"), "{documents:?}");
    assert!(listed(&project).is_empty());
    assert_eq!(project.run(&["dead", "delete", "puppet", "--all", "--yes"]).done(), "deleted 0 jobs of `puppet`\n");
}
