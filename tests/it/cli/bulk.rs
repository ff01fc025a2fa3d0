//! `bulk`: one action on all jobs that fit a query, by a server.

use gristmill_tests::test_project::{TestProject, fields};
use serde_json::{Value, json};

const QUERY: &str = "meta.customer:acme";

/// Six jobs that wait, five of them of a customer.
async fn project() -> TestProject {
    let project = TestProject::new("[topics.parking]", &[]).await;
    for id in ["a", "b", "c", "d", "e"] {
        project.run(&["push", "parking", "--id", id, "--meta", "customer=acme", "--data", "x"]).done();
    }
    project.run(&["push", "parking", "--id", "other", "--data", "x"]).done();
    project
}

fn left(project: &TestProject) -> usize {
    project.run(&["job", "list", "--json"]).ended(0).documents().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_action_is_shown_and_then_done_by_the_server() {
    let project = project().await;
    let alone = project.run(&["bulk", "list"]);
    alone.ended(3);
    assert!(alone.err.contains("start `gristmill run`"), "{}", alone.err);
    let _server = project.serve().await;

    let asked = project.run(&["bulk", "start", "cancel", QUERY]);
    assert_eq!(asked.ended(1).text(), "");
    assert!(asked.err.starts_with("5 of 6 jobs fit\n  a  parking  ready\n"), "{}", asked.err);
    assert!(asked.err.contains("nothing was changed: add --yes"), "{}", asked.err);
    let document = project.run(&["erase", QUERY, "--json"]).ended(1).document();
    assert_eq!((&document["state"], left(&project)), (&json!("aborted"), 6), "{document}");
    let changed = project.run(&["bulk", "start", "change", QUERY, "--priority", "high", "--delay", "1h", "--yes"]);
    assert_eq!(changed.done(), "changed 5 jobs\n");
    let done = project.run(&["bulk", "start", "cancel", "state:delayed", QUERY, "--yes"]);
    assert_eq!(done.done(), "cancelled 5 jobs\n");
    assert_eq!(left(&project), 1);
    let none = project.run(&["bulk", "start", "delete", QUERY, "--json"]).ended(0).document();
    assert_eq!((&none["matched"], &none["state"]), (&json!(0), &json!("aborted")), "{none}");

    let listed = project.run(&["bulk", "list", "--json"]).ended(0).documents();
    let of = |name: &str| listed.iter().map(|bulk| bulk[name].clone()).collect::<Vec<Value>>();
    assert_eq!(of("action"), ["delete", "cancel", "change", "erase", "cancel"]);
    assert_eq!(of("state"), ["aborted", "done", "done", "aborted", "aborted"]);
    let documented = [
        "action",
        "actor",
        "changed",
        "created_at_ms",
        "ended_at_ms",
        "id",
        "looked_at",
        "matched",
        "q",
        "samples",
        "skipped",
        "started_at_ms",
        "state",
    ];
    assert_eq!(fields(&listed[1]), documented);
    let table = project.run(&["bulk", "list"]).done();
    assert!(table.starts_with("ID") && table.lines().count() == 6 && table.contains("operator"), "{table}");
    let id = listed[1]["id"].as_str().unwrap();
    let shown = project.run(&["bulk", "show", id]).done();
    assert!(shown.contains("state    done") && shown.contains("counted  5"), "{shown}");
    let over = project.run(&["bulk", "abort", id]);
    over.ended(1);
    assert!(over.err.contains("nothing to abort"), "{}", over.err);
    let unknown = project.run(&["bulk", "show", "no/such"]);
    unknown.ended(1);
    assert!(unknown.err.contains("there is no bulk action"), "{}", unknown.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_action_is_done_without_a_server() {
    let on_redis = TestProject::on_redis("[topics.parking]", &[]).await;
    for project in [project().await, on_redis] {
        project.run(&["push", "parking", "--id", "f", "--meta", "customer=acme", "--data", "x"]).done();
        let before = left(&project);
        let asked = project.run(&["bulk", "start", "cancel", QUERY]);
        assert!(asked.ended(1).err.contains("nothing was changed: add --yes"), "{}", asked.err);
        assert_eq!(left(&project), before);
        let changed = project.run(&["bulk", "start", "change", QUERY, "--delay", "1h", "--yes", "--json"]);
        let fits = before.min(6);
        assert_eq!(changed.ended(0).document()["changed"], fits, "{}", changed.err);
        let erased = project.run(&["erase", QUERY, "--yes"]);
        assert!(erased.done().starts_with("erased "), "{}", erased.err);
        assert_eq!(left(&project), before - fits, "only what fits");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_action_that_makes_no_sense_is_refused_before_a_server_is_asked() {
    let project = TestProject::new("", &[]).await;
    for (args, problem) in [
        (&["cancel", "state:ready"][..], "no condition besides topics and states"),
        (&["cancel", "state:ded"][..], "`ded` is no state"),
        (&["change", "key:a"][..], "`change` goes with --now"),
        (&["cancel", "key:a", "--now"][..], "`change` goes with --now"),
    ] {
        let refused = project.run(&[&["bulk", "start"], args].concat());
        refused.ended(2);
        assert!(refused.err.contains(problem), "{args:?}: {}", refused.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_would_choose_every_job_is_refused_with_conditions_to_add() {
    let project = project().await;
    for query in ["topic:parking", "topic:parking state:ready"] {
        let refused = project.run(&["bulk", "start", "cancel", query, "--yes"]);
        assert!(refused.ended(2).err.contains("add one, such as `key:cust-17`"), "{}", refused.err);
    }
    assert_eq!(left(&project), 6);
}
