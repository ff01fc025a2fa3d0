//! Secrets that no handler sees, searched for in everything that a runner leaves behind.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use caller::{Call, payload};
use gristmill_tests::guests;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};

const SECRET: &str = "sk_live_4eC39HqLyjWDarjtT1zdp7dc";
const MANIFEST: &str = r#"
    [defaults]
    attempts = 3
    backoff = "10ms"
    record = "all"
    result-retention = "1h"
    [topics.caller.secrets]
    key = { file = "key", hosts = ["http://127.0.0.1:*"] }
    [topics.caller.http]
    allow = ["http://127.0.0.1:*", "http://localhost:*"]
    networks = ["127.0.0.1", "::1"]
    [topics.wasi-client.env]
    KEY = { file = "key", hosts = ["http://127.0.0.1:*"] }
    [topics.wasi-client.http]
    allow = ["http://127.0.0.1:*"]
    networks = ["127.0.0.1"]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_with_hosts_is_in_nothing_that_is_left_of_its_jobs() {
    // Of two answers one is lost, and the other has all that was sent.
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |request| match tries.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => Answer::Lost,
        _ => Answer::ok(request),
    })
    .await;
    let handlers = [("caller", guests::CALLER), ("wasi-client", guests::WASI_CLIENT)];
    let project = TestProject::new(MANIFEST, &handlers).await;
    let key = project.manifest().with_file_name("key");
    std::fs::write(&key, format!("{SECRET}\n")).unwrap();
    let process = project.serve().await;
    let call = |url: String| Call {
        method: "POST".into(),
        headers: vec![("authorization".into(), "Bearer $SECRET".into())],
        body: Some("key=$SECRET".into()),
        secret: Some("key".into()),
        must: true,
        ..Call::get(url)
    };
    let jobs = [
        ("own", "caller", call(server.url("/$SECRET?key=$SECRET")).alone()),
        ("other", "caller", call(format!("http://localhost:{}/?key=$SECRET", server.port())).alone()),
        ("standard", "wasi-client", server.url("/there").into_bytes()),
    ];
    for (id, topic, body) in &jobs {
        let result = project.pipe(body, &["push", topic, "--id", id, "--wait"]).done();
        assert!(result.contains("gristmill-secret-") && !result.contains(SECRET), "{id}: {result}");
        let attempts = project.run(&["attempts", "--job", id, "--json"]);
        assert!(!attempts.ended(0).text().contains(SECRET));
    }
    // Its last attempt is recorded, and can be replayed where the secret is not known.
    let denied = Call { must: true, ..Call::get("http://denied.example/") };
    let body = payload(&[call(server.url("/$SECRET")), denied]);
    project.pipe(&body, &["push", "caller", "--id", "failed", "--wait"]).ended(4);
    std::fs::write(&key, "another secret").unwrap();
    let replay = async || (project.run(&["replay", "failed"]).code == 0).then_some(());
    until("a replay that ends the same", SOON, replay).await;
    let sent: Vec<_> = server.requests().iter().map(|request| request.matches(SECRET).count()).collect();
    assert_eq!(sent, [4, 4, 0, 0, 1, 1, 3, 3, 3]);
    drop(process);
    std::fs::remove_file(key).unwrap();
    let folder = project.manifest().parent().unwrap().to_owned();
    assert_eq!(files_with(SECRET, &folder), [""; 0]);
    let placeholders = files_with("gristmill-secret-", &folder);
    assert!(placeholders.iter().any(|name| name.starts_with("gristmill.db")), "{placeholders:?}");
    assert!(placeholders.iter().any(|name| name == "run.log"), "{placeholders:?}");
}

/// The names of the files that have a text in them.
fn files_with(text: &str, folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(text, &path));
        } else if std::fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}
