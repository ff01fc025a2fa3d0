//! The example producers: each pushes one job now, the same again, one in a minute, and many at once.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use gristmill_tests::guests;
use gristmill_tests::redis::Redis;
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};

use crate::languages::require;

/// Runs the example, and waits until all it pushed is done but for the job that is due in a minute.
async fn pushes(project: &TestProject, program: &[&str], variable: &str, address: &str, counted: &str) {
    let _runner = project.serve().await;
    let address =
        if address.is_empty() { format!("http://{}", project.address().unwrap()) } else { address.to_owned() };
    let [program, arguments @ ..] = program else { panic!("a program") };
    let said = Command::new(program)
        .args(arguments)
        .arg("echo")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/producers"))
        .env(variable, address)
        .output()
        .unwrap();
    assert!(
        said.status.success(),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
    until("all jobs that are due to be done", SOON, async || {
        let stats = project.run(&["stats", "--json"]).documents();
        let echo = stats.into_iter().find(|document| document["topic"] == "echo")?;
        let total = |what: &str| echo["totals"][what].as_u64().unwrap_or_default();
        let left = |what: &str| echo[what].as_u64() == Some(0);
        let done = left("ready") && left("running") && echo["delayed"] == 1;
        (done && total(counted) > 1_000 && total("acked") + 1 >= total(counted)).then_some(())
    })
    .await;
}

async fn over_http(program: &[&str]) {
    let programs: Vec<_> = program[..1].iter().copied().chain((program[0] == "sh").then_some("curl")).collect();
    require(&programs);
    let project = TestProject::new("", &[("echo", guests::ECHO)]).await;
    pushes(&project, program, "GRISTMILL_SERVER", "", "pushed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_pushes_over_http() {
    over_http(&["python3", "push.py"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_pushes_over_http() {
    over_http(&["node", "push.mjs"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn go_pushes_over_http() {
    over_http(&["go", "run", "push.go"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_pushes_over_http() {
    over_http(&["sh", "push.sh"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_cli_pushes_into_the_store() {
    require(&["redis-cli"]);
    let project = TestProject::on_redis("[topics.echo]\nraw-producers = true\n", &[("echo", guests::ECHO)]).await;
    let url = reached_by_tcp(project.redis.as_ref().unwrap()).await;
    pushes(&project, &["sh", "push-redis.sh"], "REDIS_URL", &url, "adopted").await;
}

/// `redis-cli` takes no URL of a socket.
async fn reached_by_tcp(redis: &Redis) -> String {
    // A port that was free a moment ago may be another test's by now: Redis says so, and gets another one.
    let port = until("a port that Redis gets", SOON, async || {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        redis.ask::<String>("CONFIG", &["SET", "port", &port.to_string()]).await.map(|_| port)
    })
    .await;
    format!("redis://127.0.0.1:{port}")
}
