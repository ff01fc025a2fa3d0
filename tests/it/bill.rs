//! The bill of a real runner in a process of its own.

use std::collections::BTreeMap;
use std::fs;

use caller::Call;
use gristmill::bill::{BillLine, Cost, Day};
use gristmill::job::TopicId;
use gristmill::time::Timestamp;
use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::process::Process;
use gristmill_tests::server::{Answer, Server};
use gristmill_tests::test_project::TestProject;
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use puppet::{Count, End, Enqueue, Script, Step};
use rustix::process::Signal;
use serde_json::{Value, json};

const MANIFEST: &str = r#"
    [journal]
    path = "journal.jsonl"

    [defaults]
    attempts = 3
    backoff = "1ms"

    [topics.echo]
    [topics.puppet]
    [topics.reused]
    handler = "puppet"
    reuse = 5

    [topics.hasty]
    handler = "puppet"
    timeout = "50ms"
    fuel = "1T"
    attempts = 1

    [topics.poor]
    handler = "puppet"
    fuel = "10M"

    [topics.caller.http]
    allow = ["http://*:*"]
    networks = ["127.0.0.1"]

    # Nobody works here.
    [topics.sink]
    handler = "nobody"

    [topics.print]
    handler = "external"

    [tenants.acme.topics.echo]
"#;

async fn project() -> TestProject {
    let handlers = [("echo", guests::ECHO), ("puppet", guests::PUPPET), ("caller", guests::CALLER)];
    TestProject::new(MANIFEST, &handlers).await
}

async fn end(mut runner: Process) {
    runner.signal(Signal::TERM);
    let status = until("the runner to end", SOON, async || runner.ended()).await;
    assert!(status.success(), "{status}: {}", runner.log());
}

/// What the lines of the journal come to, by topic and day.
fn journal(project: &TestProject) -> BTreeMap<(TopicId, Day), Cost> {
    let text = fs::read_to_string(project.manifest().with_file_name("journal.jsonl")).unwrap();
    let mut sums: BTreeMap<_, Cost> = BTreeMap::new();
    for line in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let number = |field: &str| line[field].as_u64().unwrap_or_else(|| panic!("`{field}` in {line}"));
        let settled = matches!(line["settled"].as_str(), Some("done" | "cancelled"));
        let end = line["ended_us"].as_u64().unwrap_or_else(|| number("claimed_us"));
        let topic = TopicId {
            tenant: line["tenant"].as_str().unwrap().parse().unwrap(),
            topic: line["topic"].as_str().unwrap().parse().unwrap(),
        };
        *sums.entry((topic, Day::of(Timestamp::from_millis(end / 1000)))).or_default() += Cost {
            attempts: settled.into(),
            fuel: number("fuel"),
            memory_kib_ms: number("memory_kib_ms"),
            run_us: line["run_us"].as_u64().unwrap_or_default(),
            bytes_in: if settled { number("body_bytes") } else { 0 },
            bytes_out: if line["settled"] == "done" { number("result_bytes") + number("follow_up_bytes") } else { 0 },
            requests: number("requests"),
        };
    }
    sums
}

/// The bill as a command shows it. Jobs may end on either side of midnight, and so may this.
fn bill(project: &TestProject) -> BTreeMap<(TopicId, Day), Cost> {
    let documents = project.run(&["bill", "--from", "2020-01-01", "--json"]).documents();
    let lines = documents.into_iter().map(|line| serde_json::from_value::<BillLine>(line).unwrap());
    lines.map(|line| ((line.topic, line.day), line.cost)).collect()
}

async fn push_jobs(project: &TestProject, server: &Server) -> u64 {
    let push = |topic: &str, count: &str, body: &[u8]| project.pipe(body, &["push", topic, "--count", count]).done();
    push("echo", "200", b"grain");
    push("acme/echo", "50", b"more grain");
    let enqueue = Enqueue { topic: "sink".into(), data: "bran".into(), count: Count::Times(3), ..Enqueue::default() };
    let good = Script::new([Step::Enqueue(enqueue), Step::End(End::Text("flour".into()))]);
    push("puppet", "40", &good.to_json());
    push("puppet", "20", &Script::end(End::Panic("on fire".into())).to_json());
    let third = Script::new([Step::RetryUntilAttempt { attempt: 3, after_ms: Some(1) }, Step::End(End::Complete)]);
    push("puppet", "20", &third.to_json());
    push("reused", "20", &good.to_json());
    push("hasty", "5", &Script::end(End::InfiniteLoop).to_json());
    push("poor", "10", &Script::end(End::InfiniteLoop).to_json());
    push("caller", "10", &Call::get(server.url("/")).alone());
    200 + 50 + 40 + 20 + 20 + 20 + 5 + 10 + 10
}

/// Waits until so many jobs of the tenants are done or dead.
async fn until_over(project: &TestProject, jobs: u64) {
    until("the jobs to be over", SOON, async || {
        let counts =
            ["default", "acme"].map(|tenant| project.run(&["stats", "--tenant", tenant, "--json"]).documents());
        let over = |topic: &Value| {
            let acked = topic["totals"]["acked"].as_u64().unwrap_or_default();
            acked + topic["dead"].as_u64().unwrap()
        };
        (counts.iter().flatten().map(over).sum::<u64>() == jobs).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_the_journal_add_up_to_the_bill() {
    let (project, server) = (project().await, Server::start(|_| Answer::ok("here")).await);
    let runner = project.serve().await;
    let jobs = push_jobs(&project, &server).await;
    until_over(&project, jobs).await;
    end(runner).await;

    let (journal, bill) = (journal(&project), bill(&project));
    assert_eq!(bill, journal);
    let mut total = Cost::default();
    bill.values().for_each(|cost| total += *cost);
    assert!(total.attempts > jobs, "retries count, too: {total:?}");
    assert!(total.amounts().into_iter().all(|amount| amount > 0), "{total:?}");
    assert_eq!(total.requests, 10);
    let of_topic = |topic: &str| {
        let mut sum = Cost::default();
        bill.iter().filter(|((id, _), _)| id.to_string() == topic).for_each(|(_, cost)| sum += *cost);
        sum
    };
    let echo = of_topic("acme/echo");
    assert_eq!((echo.attempts, echo.bytes_in, echo.bytes_out), (50, 500, 500));
    assert_eq!(of_topic("reused").bytes_out, 20 * (5 + 3 * 4));

    // A second runner adds to the bill of the first one.
    let runner = project.serve().await;
    project.pipe(b"grain", &["push", "echo", "--wait"]).done();
    end(runner).await;
    assert_eq!(self::bill(&project), self::journal(&project));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bill_is_read_over_http_while_jobs_run() {
    let project = project().await;
    let runner = project.serve().await;
    let client = HttpClient::new(project.address().unwrap());
    project.pipe(b"grain", &["push", "acme/echo", "--count", "7"]).done();
    let path = "/v1/tenants/acme/bill";
    let bill = until("the bill", SOON, async || {
        let bill = client.get(path).await.json();
        (bill["total"]["attempts"] == 7).then_some(bill)
    })
    .await;
    let [line] = &bill["lines"].as_array().unwrap()[..] else { panic!("{bill}") };
    assert_eq!((&line["tenant"], &line["topic"], &line["bytes_in"]), (&json!("acme"), &json!("echo"), &json!(35)));
    assert_eq!((bill["tenant"].as_str(), bill["total"]["fuel"].as_u64()), (Some("acme"), line["fuel"].as_u64()));

    let line: BillLine = serde_json::from_value(line.clone()).unwrap();
    let whole = format!("{path}?from={0}&to={0}", line.day);
    let csv = client.get(&format!("{whole}&format=csv")).await;
    assert_eq!(csv.text(), BillLine::csv(std::slice::from_ref(&line)));
    assert!(csv.headers["content-type"].to_str().unwrap().starts_with("text/csv"), "{csv:?}");
    let accepted = client.send(Request::get(&whole).header("accept", "text/csv"), Vec::new()).await;
    assert_eq!(accepted.text(), csv.text());
    let said = project.run(&["bill", "--tenant", "acme", "--from", &line.day.to_string(), "--csv"]);
    assert_eq!(said.done(), csv.text());
    let table = project.run(&["bill", "--from", "2020-01-01"]).done();
    assert!(table.contains("ATTEMPTS") && table.contains("acme") && table.contains("MiB·s"), "{table}");

    for bad in
        ["from=2026-02-30", "from=2026-02-02&to=2026-02-01", "from=2024-01-01&to=2025-01-01", "format=xml", "form=csv"]
    {
        let answer = client.get(&format!("{path}?{bad}")).await;
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text());
    }
    project.run(&["bill", "--from", "2026-02-02", "--to", "2026-02-01"]).ended(2);
    project.run(&["bill", "--csv", "--json"]).ended(2);
    end(runner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_of_pull_workers_are_in_the_bill() {
    let project = project().await;
    let runner = project.serve().await;
    let client = HttpClient::new(project.address().unwrap());
    project.pipe(b"grain", &["push", "print", "--count", "3"]).done();
    let claimed = client.post("/v1/tenants/default/topics/print/claim", &json!({ "max": 3, "wait_ms": 30_000 })).await;
    let leases: Vec<Value> =
        claimed.json()["claims"].as_array().unwrap().iter().map(|claim| claim["lease"].clone()).collect();
    assert_eq!(leases.len(), 3, "{}", claimed.text());
    let settlements = json!([
        { "lease": leases[0], "ack": { "result": { "base64": "ZmxvdXI=" } } },
        { "lease": leases[1], "ack": {} },
        { "lease": leases[2], "bury": { "error": { "code": "torn", "message": "the paper" } } },
    ]);
    let settled = client.post("/v1/tenants/default/leases/settle", &json!({ "settlements": settlements })).await;
    assert_eq!(settled.json()["settled"], json!(["done", "done", "done"]), "{}", settled.text());
    end(runner).await;
    let mut total = Cost::default();
    bill(&project).values().for_each(|cost| total += *cost);
    assert_eq!(total, Cost { attempts: 3, bytes_in: 15, bytes_out: 5, ..Cost::default() });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bill_in_redis_is_read_without_a_server() {
    let handlers = [("echo", guests::ECHO), ("puppet", guests::PUPPET), ("caller", guests::CALLER)];
    let project = TestProject::on_redis(MANIFEST, &handlers).await;
    let runner = project.serve().await;
    project.pipe(b"grain", &["push", "echo", "--count", "100"]).done();
    project.pipe(b"grain", &["push", "acme/echo", "--count", "10"]).done();
    until_over(&project, 110).await;
    end(runner).await;
    assert_eq!(bill(&project), journal(&project));
    assert_eq!(bill(&project).values().map(|cost| cost.attempts).sum::<u64>(), 110);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bill_waits_for_room_in_a_full_redis() {
    let handlers = [("echo", guests::ECHO), ("puppet", guests::PUPPET), ("caller", guests::CALLER)];
    let project = TestProject::on_redis(MANIFEST, &handlers).await;
    let memory = async |bytes: &'static str| {
        let redis = project.redis.as_ref().unwrap();
        redis.ask::<String>("CONFIG", &["SET", "maxmemory", bytes]).await.unwrap();
    };
    let runner = project.serve().await;
    project.run(&["pause", "echo"]).done();
    project.pipe(b"grain", &["push", "echo", "--count", "3"]).done();
    memory("1").await;
    project.run(&["resume", "echo"]).done();
    until_over(&project, 3).await;
    let waits = || runner.log().contains("what attempts cost waits in memory").then_some(());
    until("the bill to wait", SOON, async || waits()).await;
    memory("0").await;
    end(runner).await;
    assert_eq!(bill(&project).values().map(|cost| cost.attempts).sum::<u64>(), 3);
}
