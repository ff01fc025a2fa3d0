//! The audit log: which requests are in it, and what a line says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gristmill::config::LineFileSettings;
use gristmill::job::WorkerId;
use gristmill::server::{AuditLog, HttpServerSettings};
use gristmill::token::{Scope, TokenHash};
use gristmill_tests::test_project::TestProject;
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::routes::{About, Needs, ROUTES};
use super::{limited, token};

/// A runner that keeps an audit log.
struct Audited {
    runner: TestRunner,
    log: AuditLog,
    folder: TempDir,
}

impl Audited {
    async fn start() -> Self {
        let folder = TempDir::with_prefix("gristmill-").unwrap();
        fs::create_dir(folder.path().join("log")).unwrap();
        let settings = LineFileSettings::at(folder.path().join("log/audit.jsonl"));
        let log = AuditLog::open(&settings, &WorkerId::new("mill-1")).unwrap();
        let http = HttpServerSettings { audit: Some(log.clone()), ..HttpServerSettings::default() };
        let topics = "[tenants.acme.topics.mail]\n[tenants.other.topics.mail]";
        let runner = TestRunner::start_with(http, On::Memory, topics, &[]).await;
        Self { runner, log, folder }
    }

    async fn token(&self, tenant: Option<&str>, scopes: &[Scope]) -> String {
        token(&*self.runner.store, tenant, scopes).await
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log/audit.jsonl")
    }

    /// Every line, once the log is closed.
    async fn end(&self) -> Vec<Value> {
        self.log.clone().close().await;
        lines(&self.path())
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn id(text: &str) -> String {
    TokenHash::of(text).id().to_string()
}

/// What a line says of these fields.
fn said(line: &Value, fields: &[&str]) -> Value {
    fields.iter().map(|field| line[*field].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_that_administers_leaves_a_line_and_no_other_does() {
    let audited = Audited::start().await;
    let admin = audited.token(None, &Scope::ALL).await;
    let client = audited.runner.client().with_token(&admin);
    let mut expected = Vec::new();
    for route in ROUTES {
        let about = About { tenant: "acme", ..About::NOTHING };
        let status = route.ask(&client, about).await.status;
        let administers = matches!(route.needs, Needs::Tenant(Scope::Admin) | Needs::Everywhere(Scope::Admin));
        if administers && route.method != "GET" {
            expected.push(json!([route.method, status, id(&admin)]));
        }
    }
    let lines = audited.end().await;
    let found: Vec<Value> = lines.iter().map(|line| said(line, &["method", "status", "token"])).collect();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_refusals_name_their_token_object_and_request() {
    let audited = Audited::start().await;
    let (admin, reader) =
        (audited.token(Some("acme"), &Scope::ALL).await, audited.token(Some("acme"), &[Scope::Read]).await);
    let client = audited.runner.client().with_token(&admin);
    let empty = json!({});
    let made = client.post("/v1/tenants/acme/tokens", &json!({ "scopes": [], "description": "for the press" })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let text = made.json()["text"].as_str().unwrap().to_owned();
    let pause = client.post("/v1/tenants/acme/topics/mail/pause", &empty).await;
    assert_eq!(pause.status, 200);
    client.post("/v1/tenants/acme/topics/mail/jobs", &json!({ "body": "a letter" })).await;
    // By mistake with its text in place of its id.
    assert_eq!(client.delete(&format!("/v1/tenants/acme/tokens/{text}")).await.status, 400);
    assert_eq!(client.get("/v1/tenants/other/topics/mail").await.status, 403);
    let read = audited.runner.client().with_token(&reader);
    assert_eq!(read.delete("/v1/tenants/acme/topics/mail").await.status, 403);
    assert_eq!(audited.runner.client().get("/v1/tenants").await.status, 401);
    let stranger = audited.runner.client().with_token("gm_a-guess");
    assert_eq!(stranger.get("/api/acme/mail/size").await.status, 401);
    let slow = limited(&*audited.runner.store, Some("acme"), &[Scope::Read], Some(1)).await;
    let slow = audited.runner.client().with_token(&slow);
    until("one request too many", SOON, async || (slow.get("/v1").await.status == 429).then_some(())).await;
    let path = audited.path();
    let lines = audited.end().await;

    let fields = ["client", "token", "tenant", "method", "route", "object", "status", "problem"];
    let topic = "/v1/tenants/{tenant}/topics/{topic}";
    let mail = json!({ "tenant": "acme", "topic": "mail" });
    let acme = json!({ "tenant": "acme" });
    let of_token = json!({ "tenant": "acme", "id": id(&text) });
    let (admin, reader) = (id(&admin), id(&reader));
    let expected = [
        json!(["token", admin, "acme", "POST", "/v1/tenants/{tenant}/tokens", acme, 201, null]),
        json!(["token", admin, "acme", "POST", format!("{topic}/pause"), mail, 200, null]),
        json!(["token", admin, "acme", "DELETE", "/v1/tenants/{tenant}/tokens/{id}", of_token, 400, "bad-request"]),
        json!(["token", admin, "acme", "GET", topic, { "tenant": "other", "topic": "mail" }, 403, "forbidden"]),
        json!(["token", reader, "acme", "DELETE", topic, mail, 403, "forbidden"]),
        json!(["unknown", null, null, "GET", "/v1/tenants", {}, 401, "token-missing"]),
    ];
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(said(line, &fields), *expected);
        assert_eq!(said(line, &["worker", "peer", "omitted"]), json!(["mill-1", "127.0.0.1", 0]));
    }
    assert_eq!(lines[0]["made"], id(&text));
    assert_eq!(lines[1]["request"], pause.header("x-request-id"));
    let of_lmstfy = json!(["GET", "/api/{namespace}/{queue}/size", { "namespace": "acme", "queue": "mail" }, 401]);
    assert_eq!(said(&lines[6], &["method", "route", "object", "status"]), of_lmstfy);
    assert_eq!(said(&lines[7], &["route", "status", "problem"]), json!(["/v1", 429, "rate-limited"]));
    assert_eq!(lines.len(), 8);

    let written = fs::read_to_string(&path).unwrap();
    for secret in ["gm_", "a letter", "for the press"] {
        assert!(!written.contains(secret), "{secret}: {written}");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_lmstfys_apis_are_in_it_too() {
    let audited = Audited::start().await;
    let admin = audited.runner.lmstfy_admin();
    let made = admin.send(Request::post("/token/acme?description=press&scope=admin,push,work"), Vec::new()).await;
    let text = made.json()["token"].as_str().unwrap().to_owned();
    let client = audited.runner.client().with_token("");
    let lmstfy = |request: hyper::http::request::Builder| request.header("x-token", &text);
    let published = client.send(lmstfy(Request::put("/api/acme/mail?delay=100")), b"a letter".to_vec()).await;
    let job = published.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(client.send(lmstfy(Request::delete(format!("/api/acme/mail/job/{job}"))), Vec::new()).await.status, 204);
    assert_eq!(client.send(lmstfy(Request::delete("/api/acme/mail")), Vec::new()).await.status, 204);
    assert_eq!(admin.send(Request::delete(format!("/token/acme/default:{text}")), Vec::new()).await.status, 204);
    let lines = audited.end().await;

    let fields = ["client", "token", "method", "route", "object", "made", "status"];
    let (token, queue) = (id(&text), "/api/{namespace}/{queue}");
    let expected = json!([
        ["anybody", null, "POST", "/token/{namespace}", { "namespace": "acme" }, token, 201],
        ["token", token, "DELETE", format!("{queue}/job/{{job}}"), { "namespace": "acme", "queue": "mail", "job": job }, null, 204],
        ["token", token, "DELETE", queue, { "namespace": "acme", "queue": "mail" }, null, 204],
        ["anybody", null, "DELETE", "/token/{namespace}/{token}", { "namespace": "acme", "token": token }, null, 204],
    ]);
    assert_eq!(lines.iter().map(|line| said(line, &fields)).collect::<Value>(), expected);
    assert!(!lines.iter().any(|line| line.to_string().contains(&text)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_client_hangs_up_is_in_it() {
    let audited = Audited::start().await;
    let admin = audited.token(None, &Scope::ALL).await;
    let mut stream = TcpStream::connect(audited.runner.client().address).await.unwrap();
    // The body never comes whole.
    let head = "POST /v1/tenants/acme/topics/mail/pause HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    let request = format!("{head}\r\nauthorization: Bearer {admin}\r\ncontent-length: 2\r\n\r\n{{");
    stream.write_all(request.as_bytes()).await.unwrap();
    drop(stream);
    let path = audited.path();
    until("a line", SOON, async || (!lines(&path).is_empty()).then_some(())).await;
    let lines = audited.end().await;
    assert_eq!(said(&lines[0], &["token", "method", "request"]), json!([id(&admin), "POST", lines[0]["request"]]));
    assert_eq!(lines.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_refuses_stops_no_request_and_costs_no_line() {
    let audited = Audited::start().await;
    let (log, aside) = (audited.folder.path().join("log"), audited.folder.path().join("aside"));
    let client = audited.runner.client();
    fs::rename(&log, &aside).unwrap();
    for _ in 0..20 {
        assert_eq!(client.post("/v1/tenants/acme/topics/mail/pause", &json!({})).await.status, 200);
    }
    assert!(client.get("/metrics").await.text().contains("gristmill_node_audit_lost_total 0\n"));
    fs::rename(&aside, &log).unwrap();
    assert_eq!(audited.end().await.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_refused_again_and_again_does_not_fill_the_log() {
    let audited = Audited::start().await;
    let admin = audited.token(None, &Scope::ALL).await;
    let client = audited.runner.client();
    for _ in 0..400 {
        let status = client.get("/v1/tenants").await.status;
        assert_eq!(status, 401);
    }
    client.with_token(&admin).post("/v1/tenants/acme/topics/mail/pause", &json!({})).await;
    let lines = audited.end().await;
    let omitted: u64 = lines.iter().map(|line| line["omitted"].as_u64().unwrap()).sum();
    assert_eq!(lines.len() as u64 + omitted, 401, "every refusal is written down or counted");
    assert_eq!(lines.last().unwrap()["status"], 200, "a change is always written down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_asks_the_server_is_in_the_log_of_the_manifest() {
    let project = TestProject::new("[audit]\npath = \"audit.jsonl\"\n[topics.mail]\nhandler = \"external\"", &[]).await;
    let mut server = project.serve().await;
    project.run(&["pause", "mail"]).done();
    server.signal(Signal::TERM);
    until("the server to end", SOON, async || server.ended()).await;
    let lines = lines(&project.manifest().with_file_name("audit.jsonl"));
    let fields = ["client", "token", "route", "object", "status"];
    let object = json!({ "tenant": "default", "topic": "mail" });
    assert_eq!(
        lines.iter().map(|line| said(line, &fields)).collect::<Value>(),
        json!([["command", null, "/v1/tenants/{tenant}/topics/{topic}/pause", object, 200]])
    );
}
