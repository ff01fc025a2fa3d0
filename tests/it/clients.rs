//! The clients in `clients/`: all play `clients/cases.json` against one server, each in a tenant of its own, and come to the same.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_project::TestProject;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::languages::require;

/// Folder of the client, which is also its tenant, and the program that plays the cases.
const CLIENTS: [(&str, &[&str]); 6] = [
    ("python", &["python3", "cases.py"]),
    ("typescript", &["node", "cases.mjs"]),
    ("go", &["go", "run", "./cases"]),
    ("rust", &[env!("CARGO_BIN_EXE_client-cases")]),
    ("ruby", &["ruby", "cases.rb"]),
    ("php", &["php", "cases.php"]),
];
/// How often each push through the proxy is sent: busy, too many requests, an answer that is lost, an answer.
const TRIES: usize = 4;
/// Pushes that the cases send through the proxy, and the jobs in them.
const FAULTY: (usize, u64) = (3, 4);

fn manifest() -> String {
    let topics = |(tenant, _): &(&str, _)| {
        format!(
            "[tenants.{tenant}.topics]\necho = {{ handler = \"echo\" }}\nlater = {{ handler = \"external\" }}\n\
             faulty = {{ handler = \"external\" }}\n\
             work = {{ handler = \"external\", attempts = 3, backoff = \"1ms\", output-limit = \"64KiB\" }}\n"
        )
    };
    CLIENTS.iter().map(topics).collect()
}

/// Stands before a server, and fails the first tries of each push. What is asked for below `/moved` it redirects.
struct Faulty {
    address: SocketAddr,
    /// When the tries of a push came, by its `Idempotency-Key`, or by its body if it has none.
    tries: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    _task: AbortOnDropHandle<()>,
}

impl Faulty {
    async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, tries) = (listener.local_addr().unwrap(), Arc::default());
        let seen = Arc::clone(&tries);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(pass(client, server, Arc::clone(&seen)));
            }
        });
        Self { address, tries, _task: AbortOnDropHandle::new(task) }
    }
}

/// Answers one request of a connection, and closes it.
async fn pass(
    mut client: TcpStream,
    server: SocketAddr,
    tries: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
) -> io::Result<()> {
    let (head, body) = request(&mut client).await?;
    let refusal =
        |status: &str, more: &str| format!("HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n");
    if head.starts_with("POST /moved/") {
        let elsewhere = refusal("301 Moved Permanently", "Location: http://127.0.0.1:1/v1\r\n");
        return client.write_all(elsewhere.as_bytes()).await;
    }
    let key = header(&head, "idempotency-key").unwrap_or(&body).to_owned();
    let number = {
        let mut tries = tries.lock();
        let tries = tries.entry(key).or_default();
        tries.push(Instant::now());
        tries.len()
    };
    match number {
        1 => client.write_all(refusal("503 Service Unavailable", "Retry-After: 1\r\n").as_bytes()).await,
        2 => client.write_all(refusal("429 Too Many Requests", "").as_bytes()).await,
        _ => {
            let mut upstream = TcpStream::connect(server).await?;
            let kept = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
            let head: String = kept.map(|line| format!("{line}\r\n")).collect();
            upstream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).await?;
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer).await?;
            if number < TRIES { Ok(()) } else { client.write_all(&answer).await }
        }
    }
}

/// Head and body of the request of a connection.
async fn request(client: &mut TcpStream) -> io::Result<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Ok((head.to_owned(), body.to_owned()));
            }
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// What the program of a client prints.
fn play(folder: &str, program: &[&str], variables: &[(&str, String)]) -> Output {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients").canonicalize().unwrap();
    Command::new(program[0])
        .args(&program[1..])
        .arg(clients.join("cases.json"))
        .arg(folder)
        .current_dir(clients.join(folder))
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap()
}

/// Whether it is as expected. What a failure has besides that (the code of an error is a word of its language) may differ.
fn fits(expected: &Value, line: &Value) -> bool {
    match (expected, line) {
        (Value::Object(expected), Value::Object(line)) => {
            let as_many = expected.contains_key("reason") || expected.len() == line.len();
            as_many && expected.iter().all(|(name, value)| line.get(name).is_some_and(|line| fits(value, line)))
        }
        (Value::Array(expected), Value::Array(line)) => {
            expected.len() == line.len() && expected.iter().zip(line).all(|(expected, line)| fits(expected, line))
        }
        _ => expected == line,
    }
}

/// The steps at which a client does not come to what the cases say.
fn differences(client: &str, cases: &Value, output: &Output) -> Vec<String> {
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut lines = printed.lines();
    let mut wrong = Vec::new();
    for case in cases["cases"].as_array().unwrap() {
        for step in case["steps"].as_array().unwrap() {
            let line = lines.next().unwrap_or("nothing");
            if !serde_json::from_str(line).is_ok_and(|line| fits(&step["expect"], &line)) {
                wrong.push(format!("{client}: {}: {}: {line}, not {}", case["name"], step["do"], step["expect"]));
            }
        }
    }
    wrong.extend(lines.map(|line| format!("{client}: another line: {line}")));
    let logged = String::from_utf8_lossy(&output.stderr);
    let unknown = ["ecko", "layter"].into_iter().filter(|topic| !logged.contains(topic));
    wrong.extend(unknown.map(|topic| format!("{client}: the warning of topic {topic} is not logged")));
    if !(wrong.is_empty() && output.status.success()) {
        wrong.push(format!("{client}: {}: {logged}", output.status));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_come_to_the_same() {
    require(&["python3", "node", "go", "ruby", "php"]);
    let project = TestProject::new(&manifest(), &[("echo", guests::ECHO)]).await;
    let scopes = ["--scope", "push,work,read,admin", "--description", "clients", "--json"];
    let token = project.run(&[&["token", "create", "--all-tenants"][..], &scopes].concat()).document();
    let token = token["text"].as_str().unwrap().to_owned();
    let _runner = project.serve().await;
    let server = project.address().unwrap();
    let faulty = Faulty::before(server).await;
    let variables = [
        ("GRISTMILL_SERVER", format!("http://{server}")),
        ("GRISTMILL_FAULTY", format!("http://{}", faulty.address)),
        ("GRISTMILL_TOKEN", token.clone()),
    ];
    let players = CLIENTS.map(|(folder, program)| {
        let variables = variables.clone();
        tokio::task::spawn_blocking(move || play(folder, program, &variables))
    });
    let cases: Value = serde_json::from_str(include_str!("../../clients/cases.json")).unwrap();
    let mut wrong = Vec::new();
    for (player, (client, _)) in players.into_iter().zip(CLIENTS) {
        wrong.extend(differences(client, &cases, &player.await.unwrap()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let tries = faulty.tries.lock().clone();
    assert_eq!(tries.len(), CLIENTS.len() * FAULTY.0, "a push that is repeated keeps its key: {tries:?}");
    for (key, tries) in tries {
        assert_eq!(tries.len(), TRIES, "{key}");
        // Timers of JavaScript may be a millisecond early.
        assert!(tries[1] - tries[0] >= Duration::from_millis(990), "{key}: `Retry-After` was a second: {tries:?}");
    }
    let operator = HttpClient::new(server).with_token(&token);
    for (tenant, _) in CLIENTS {
        let topic = operator.get(&format!("/v1/tenants/{tenant}/topics/faulty")).await.json();
        assert_eq!(topic["ready"], FAULTY.1, "{tenant}: each job is stored once");
    }
}
