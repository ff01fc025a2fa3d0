//! `fsck`, beside a server and without one, on both stores.

use gristmill_tests::guests;
use gristmill_tests::test_project::TestProject;
use serde_json::json;

const MANIFEST: &str = "[topics.parking]\nhandler = \"nobody\"";

/// One ready job, `lost`, in a store in use.
async fn looked_at(project: TestProject, lose: impl AsyncFn(&TestProject)) {
    let server = project.serve().await;
    project.run(&["push", "parking", "--id", "lost", "--data", "x"]).done();
    project.run(&["push", "echo", "--data", "x", "--wait"]).done();
    let said = project.run(&["fsck"]).done();
    assert!(said.contains(" 1 job, ") && said.ends_with(": nothing is wrong\n"), "{said}");

    lose(&project).await;
    let said = project.run(&["fsck"]);
    let words = ["job-in-no-place: tenant default, topic parking, job lost, ", "\n  remedy: ", ": 1 finding\n"];
    assert!(words.iter().all(|words| said.ended(1).text().contains(words)), "{}", said.text());
    let lost = || {
        let why = project.run(&["job", "why", "lost"]).done();
        assert!(why.starts_with("ready: it is not found in its line") && why.contains("gristmill fsck"), "{why}");
        assert_eq!(project.run(&["job", "why", "lost", "--json"]).document()["reason"], "in-no-place");
        let shown = project.run(&["job", "show", "lost"]).done();
        assert!(shown.contains("ready: it is not found in its line"), "{shown}");
    };
    lost();
    drop(server);
    lost();

    let said = project.run(&["fsck", "--json"]);
    let documents = said.ended(1).documents();
    let [finding, store] = &documents[..] else { panic!("{documents:?}") };
    let named = ["check", "tenant", "topic", "job"].map(|name| finding[name].as_str().unwrap());
    assert_eq!(named, ["job-in-no-place", "default", "parking", "lost"]);
    assert!(finding["place"].is_string() && finding["detail"].is_string() && finding["remedy"].is_string());
    assert_eq!((&finding["store"], &store["found"], &store["named"]), (&store["store"], &json!(1), &json!(1)));
    assert_eq!((&store["looked_at"]["jobs"], &store["skipped"]), (&json!(1), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_a_file_is_told_beside_its_server_and_without_one() {
    let project = TestProject::new(MANIFEST, &[("echo", guests::ECHO)]).await;
    looked_at(project, async |project| {
        let file = rusqlite::Connection::open(project.file()).unwrap();
        file.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        let passed_over = "UPDATE topics SET claimed_normal = (SELECT number FROM job_rows) WHERE topic = 'parking'";
        file.execute_batch(passed_over).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_redis_is_told_beside_its_server_and_without_one() {
    let project = TestProject::on_redis(MANIFEST, &[("echo", guests::ECHO)]).await;
    looked_at(project, async |project| {
        let redis = project.redis.as_ref().unwrap();
        let removed: u64 = redis.ask("LREM", &["gm:{default/0}:ready:parking", "0", "lost"]).await.unwrap();
        assert_eq!(removed, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_looked_at_is_an_error() {
    let project = TestProject::new(MANIFEST, &[]).await;
    let said = project.run(&["--store", "sqlite:none.db", "fsck"]);
    assert!(said.ended(1).err.contains("there is no file"), "{}", said.err);
    assert!(!project.manifest().with_file_name("none.db").exists());
    let said = project.run(&["--store", "sqlite::memory:", "fsck"]);
    assert!(said.ended(2).err.contains("in the memory of its server"), "{}", said.err);
    let said = project.run(&["--server", "http://127.0.0.1:1", "fsck"]);
    assert!(said.ended(2).err.contains("leave out --server"), "{}", said.err);
}
