//! Ten thousand connections that only sit there.

use std::time::Duration;

use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_project::TestProject;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// On our side of them, with some to spare for the other tests of this process.
const FILES: u64 = 14_000;

/// As many files as that, or as this process may have.
fn raise_files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(FILES, |maximum| FILES.min(maximum));
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
    }
    wanted
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_connections_do_not_block_new_ones() {
    let connections = raise_files().saturating_sub(4000).min(10_000);
    let project = TestProject::new("", &[("echo", guests::ECHO)]).await;
    let _server = project.serve().await;
    let address = project.address().expect("it listens");
    let client = HttpClient::new(address);
    let mut idle = Vec::new();
    for _ in 0..connections {
        // Where the queue is full, the system asks again after 1, 3, 7, 15 and 31 seconds.
        let connecting = timeout(Duration::from_secs(120), TcpStream::connect(address));
        idle.push(connecting.await.expect("it takes connections").unwrap());
    }
    let path = "/v1/tenants/default/topics/echo/jobs?wait_ms=30000";
    for _ in 0..20 {
        let answer = client.post(path, &json!({ "body": 1 })).await;
        assert_eq!((answer.status, &answer.json()["job"]["state"]), (201, &json!("finished")), "{}", answer.text());
    }
    drop(idle);
    assert_eq!(client.get("/healthz").await.status, 200);
}
