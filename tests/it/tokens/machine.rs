//! The real binary: who may come in on this machine, and where it refuses to start.

use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::process::Process;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use serde_json::json;

async fn project() -> TestProject {
    TestProject::new("", &[("echo", guests::ECHO)]).await
}

/// A runner that has said this.
async fn serve(project: &TestProject, said: &str) -> Process {
    let runner = project.serve().await;
    until(format!("`{said}` in the log"), SOON, async || runner.log().contains(said).then_some(())).await;
    runner
}

/// Somebody who asks at the door of the runner that has the file.
async fn client(project: &TestProject) -> HttpClient {
    HttpClient::new(until("the server to say where it is", SOON, async || project.address()).await)
}

/// The project's manifest with this `[http]` instead of its own.
fn listen(project: &TestProject, http: &str) {
    project.write_manifest(&format!("[http]\n{http}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_others_can_reach_needs_a_token_to_start() {
    let project = project().await;
    listen(&project, "listen = \"0.0.0.0:0\"");
    let said = project.run(&["run"]);
    for remedy in ["0.0.0.0:0", "gristmill token create", "127.0.0.1", "insecure = true", "--insecure"] {
        assert!(said.ended(2).err.contains(remedy), "{remedy}: {}", said.err);
    }
    listen(&project, "listen = \"0.0.0.0:0\"\ninsecure = true");
    let runner = serve(&project, "there are no tokens: every client that can reach").await;
    assert_eq!(client(&project).await.get("/v1").await.status, 200);
    drop(runner);

    listen(&project, "listen = \"0.0.0.0:0\"");
    let text = project.run(&["token", "create", "--all-tenants", "--scope", "read"]).done();
    let _runner = serve(&project, "tokens go over the network for all to read").await;
    let client = client(&project).await;
    assert_eq!(client.get("/v1").await.status, 401);
    assert_eq!(client.with_token(text.trim()).get("/v1").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_loopback_it_says_that_it_asks_for_no_tokens() {
    let project = project().await;
    serve(&project, "there are no tokens: every user of this machine").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_same_machine_go_on_once_there_are_tokens() {
    let project = project().await;
    let runner = project.serve().await;
    let made = project.run(&["token", "create", "--tenant", "default", "--scope", "push,read", "--json"]).document();
    let client = client(&project).await;
    assert_eq!(client.get("/v1").await.status, 401);
    let text = made["text"].as_str().unwrap();
    assert_eq!(client.with_token(text).get("/v1/tenants/default/topics").await.status, 200);
    assert_eq!(client.with_token(text).get("/v1/tenants").await.status, 403);

    project.run(&["push", "echo", "--data", "x", "--wait"]).done();
    project.run(&["pause", "echo"]).done();
    assert!(project.run(&["stats"]).done().contains("echo"));
    assert!(!runner.log().contains(text), "no log line has a token in it");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_made_listed_and_revoked_with_a_server_and_without() {
    let project = project().await;
    let create = ["token", "create", "--tenant", "acme", "--scope", "push", "--description", "web shop"];
    let without = project.run(&create);
    assert_eq!(without.done().trim().len(), 46, "the text and nothing else: {}", without.text());
    let runner = project.serve().await;
    let limits = ["--requests-per-second", "5", "--burst", "9", "--expires", "1h", "--json"];
    let with = project.run(&[&create[..], &limits].concat()).document();
    assert_eq!(with["limits"], json!({ "requests": { "per_second": 5, "burst": 9 } }));
    let lasts = with["expires_at_ms"].as_u64().unwrap() - with["created_at_ms"].as_u64().unwrap();
    assert_eq!(lasts, 3_600_000);

    let listed = project.run(&["token", "list", "--json"]);
    assert_eq!(listed.documents().len(), 2);
    for text in [without.text().trim(), with["text"].as_str().unwrap()] {
        assert!(!listed.text().contains(text));
    }
    assert!(project.run(&["token", "list"]).done().contains("web shop"));
    assert!(project.run(&["token", "list", "--tenant", "other"]).done().is_empty());
    let id = with["id"].as_str().unwrap();
    let client = client(&project).await.with_token(with["text"].as_str().unwrap());
    assert_eq!(client.get("/v1").await.status, 200);
    let revoked = project.run(&["token", "revoke", id]);
    revoked.done();
    assert!(!revoked.err.contains("last token"), "{}", revoked.err);
    assert_eq!(client.get("/v1").await.status, 401);
    assert!(project.run(&["token", "revoke", id]).ended(1).err.contains("there is no token"));
    drop(runner);
    let left = project.run(&["token", "list", "--json"]).documents();
    assert_eq!(left.len(), 1);
    let last = project.run(&["token", "revoke", left[0]["id"].as_str().unwrap()]);
    last.done();
    assert!(last.err.contains("that was the last token") && last.err.contains("token disable"), "{}", last.err);
    for wrong in [&["token", "create", "--scope", "push"][..], &["token", "create", "--tenant", "a", "--scope", "all"]]
    {
        project.run(wrong).ended(2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stays_closed_after_its_last_token() {
    let project = project().await;
    let acme = project.run(&["token", "create", "--tenant", "acme", "--scope", "admin", "--json"]).document();
    let runner = project.serve().await;
    let anybody = client(&project).await;
    let path = format!("/v1/tenants/acme/tokens/{}", acme["id"].as_str().unwrap());
    let last = anybody.with_token(acme["text"].as_str().unwrap()).delete(&path).await;
    assert_eq!(last.json(), json!({ "revoked": true }));
    let everything = json!({ "all_tenants": true, "scopes": ["admin"] });
    assert_eq!(anybody.get("/v1/tenants").await.status, 401);
    assert_eq!(anybody.post("/v1/tokens", &everything).await.status, 401);
    drop(runner);

    let runner = project.serve().await;
    let anybody = client(&project).await;
    assert_eq!(anybody.get("/v1/tenants").await.status, 401, "nor after a restart");
    let made = project.run(&["token", "create", "--all-tenants", "--scope", "read", "--json"]).document();
    assert!(project.run(&["token", "disable"]).ended(1).err.contains("revoke them first"));
    project.run(&["token", "revoke", made["id"].as_str().unwrap()]).done();
    project.run(&["token", "disable"]).done();
    assert_eq!(anybody.get("/v1/tenants").await.status, 200, "the operator has said so");
    for change in ["requests need a token from now on", "the store requires no tokens any more"] {
        assert!(!project.run(&["token", "create", "--tenant", "acme", "--scope", "read"]).done().is_empty());
        let said = async || runner.log().contains(change).then_some(());
        until(format!("`{change}` in the log"), SOON, said).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_server_takes_no_requests_through_a_proxy() {
    let project = project().await;
    let _runner = project.serve().await;
    let client = client(&project).await;
    for (name, value) in [("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=10.0.0.1"), ("via", "1.1 nginx")] {
        let ask = async |path: &str| client.send(hyper::Request::get(path).header(name, value), Vec::new()).await;
        assert_eq!((ask("/v1/tenants").await.status, ask("/healthz").await.status), (421, 200), "{name}");
    }
    let text = project.run(&["token", "create", "--all-tenants", "--scope", "read"]).done();
    let client = client.with_token(text.trim());
    let request = hyper::Request::get("/v1/tenants").header("x-forwarded-for", "10.0.0.1");
    assert_eq!(client.send(request, Vec::new()).await.status, 200);
}
