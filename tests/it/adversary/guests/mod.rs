//! Hostile guests and components, beside the honest jobs of another tenant.

mod text;

use std::time::Duration;

use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use puppet::{Cause, Count, End, Enqueue, Script, Step};
use serde_json::Value;
use tokio::task::JoinSet;

use super::probe::{self, Latency};
use super::target::Target;
use super::{is_chosen, length, print_heading, print_row};

/// Of the topics whose attempts end by nothing else, and of those whose attempts mostly end sooner, also on a slow machine.
const TIMEOUT: Duration = Duration::from_millis(500);
const LONG_TIMEOUT: Duration = Duration::from_secs(1);
const MANIFEST: &str = r#"
    [journal]
    path = "journal.jsonl"
    [handlers]
    compile-timeout = "20s"
    [tenants.honest.topics.echo]
    [tenants.evil.topics.puppet]
    timeout = "1s"
    fuel = "2G"
    attempts = 1
    enqueue = ["sink"]
    [tenants.evil.topics.patient]
    handler = "puppet"
    timeout = "1s"
    fuel = "100T"
    host-calls = "1G"
    attempts = 1
    [tenants.evil.topics.timed]
    handler = "puppet"
    timeout = "500ms"
    fuel = "100T"
    host-calls = "1G"
    attempts = 1
    [tenants.evil.topics.endless]
    timeout = "500ms"
    fuel = "100T"
    host-calls = "1G"
    attempts = 1
    [tenants.evil.topics.text]
    timeout = "1s"
    fuel = "100T"
    host-calls = "1G"
    attempts = 1
    [tenants.evil.topics.sink]
    handler = "nobody"
"#;
/// The server runs so many guests at once, each with the default limit of memory.
const GUESTS: u64 = 16;
const MEMORY: u64 = 64 << 20;

/// Jobs of a kind at once: as many as the smallest machine has threads for guests.
const AT_ONCE: usize = 2;

type Verdicts = &'static [&'static str];

/// Name, topic, what the puppet is to do, and the verdicts that are right.
fn scripts() -> Vec<(&'static str, &'static str, Script, Verdicts)> {
    let end = Script::end;
    let step = |step: Step| Script::new([step]);
    let cause = || Cause { code: "c".into(), message: "m".repeat(900_000), ..Cause::default() };
    let sink =
        |data: &str| Enqueue { topic: "sink".into(), data: data.into(), count: Count::Forever, ..Enqueue::default() };
    let elsewhere = Enqueue { topic: "puppet".into(), count: Count::Forever, ..Enqueue::default() };
    vec![
        ("endless loop", "timed", end(End::InfiniteLoop), &["timeout"]),
        ("endless loop with little fuel", "puppet", end(End::InfiniteLoop), &["fuel-exhausted", "timeout"]),
        ("memory without end", "patient", end(End::MemoryBomb), &["memory-exceeded"]),
        (
            "a leak, and then a loop",
            "timed",
            Script::new([Step::Leak(32 << 20), Step::End(End::InfiniteLoop)]),
            &["timeout"],
        ),
        ("recursion without end", "patient", end(End::StackOverflow), &["trap"]),
        ("a panic", "puppet", end(End::Panic("the runner is on fire".into())), &["trap"]),
        ("a panic of a megabyte", "puppet", end(End::Panic("x".repeat(900_000))), &["trap"]),
        ("unreachable", "puppet", end(End::Unreachable), &["trap"]),
        ("exit", "puppet", end(End::Exit(3)), &["trap"]),
        ("a sleep of an hour", "timed", step(Step::SleepMs(3_600_000)), &["timeout"]),
        ("a wait for a cancellation", "timed", step(Step::WaitUntilCancelled), &["timeout", "complete"]),
        ("a result over the limit", "puppet", end(End::Bytes(2 << 20)), &["limit"]),
        ("a failure of a megabyte", "puppet", end(End::Retry(cause())), &["failed"]),
        ("a rejection of a megabyte", "puppet", end(End::Reject(cause())), &["rejected"]),
        ("calls of the host for ever", "timed", step(Step::HostCalls(u64::MAX)), &["timeout"]),
        ("calls of the host over the limit", "puppet", step(Step::HostCalls(u64::MAX)), &["limit", "timeout"]),
        ("log lines for ever", "timed", step(Step::LogFlood { lines: u64::MAX, bytes: 100 }), &["timeout"]),
        ("long log lines for ever", "timed", step(Step::LogFlood { lines: u64::MAX, bytes: 1 << 20 }), &["timeout"]),
        ("printed lines for ever", "timed", step(Step::StdoutFlood { lines: u64::MAX, bytes: 100 }), &["timeout"]),
        ("empty printed lines for ever", "timed", step(Step::StdoutFlood { lines: u64::MAX, bytes: 0 }), &["timeout"]),
        ("jobs without end", "puppet", step(Step::EnqueueIgnoringErrors(sink("x"))), &["limit", "timeout"]),
        (
            "large jobs without end",
            "timed",
            step(Step::EnqueueIgnoringErrors(sink(&"x".repeat(500_000)))),
            &["timeout"],
        ),
        ("jobs without a grant", "timed", step(Step::EnqueueIgnoringErrors(elsewhere)), &["timeout"]),
        ("a checkpoint over the limit", "puppet", step(Step::CheckpointBytes(1 << 20)), &["complete"]),
        (
            "checkpoints, a thousand",
            "puppet",
            Script::new(vec![Step::CheckpointBytes(60_000); 1000]),
            &["complete", "timeout", "limit"],
        ),
        (
            "progress, ten thousand times",
            "puppet",
            Script::new(vec![Step::Progress(1, None); 10_000]),
            &["complete", "timeout"],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_jobs_are_done_beside_every_kind_of_hostile_guest() {
    let handlers = [("echo", guests::ECHO), ("puppet", guests::PUPPET)];
    let mut target = Target::start(MANIFEST, &handlers).await;
    let honest = target.client("honest", &["push", "read"]).await;
    let alone = probe::measure(&honest, length() * 5).await;
    let mut experiment =
        Experiment { target: &mut target, honest, alone, overshoot: Duration::ZERO, wrong: Vec::new() };
    print_heading();
    for (name, topic, script, right) in scripts() {
        experiment.run(name, topic, None, script.to_json(), right).await;
    }
    for (topic, components) in text::all() {
        for (name, component, right) in components {
            experiment.run(name, topic, Some(component), Vec::new(), right).await;
        }
    }
    println!("the deadline was overrun by {:.1} ms at most; goal: 20", experiment.overshoot.as_secs_f64() * 1000.0);
    assert!(experiment.wrong.is_empty(), "{}", experiment.wrong.join("\n"));
}

struct Experiment<'a> {
    target: &'a mut Target,
    honest: HttpClient,
    alone: Latency,
    /// By how much an attempt outlived its deadline, at most.
    overshoot: Duration,
    /// Verdicts that are not among the right ones.
    wrong: Vec<String>,
}

impl Experiment<'_> {
    /// Uploads the component, if there is one, and runs its jobs while the honest tenant works.
    async fn run(&mut self, name: &str, topic: &str, component: Option<Vec<u8>>, body: Vec<u8>, right: Verdicts) {
        if !is_chosen(name) {
            return;
        }
        let timeout = if ["timed", "endless"].contains(&topic) { TIMEOUT } else { LONG_TIMEOUT };
        let before = self.target.reset_peak();
        let operator = self.target.operator().clone();
        let hostile = tokio::spawn(attack(operator, topic.to_owned(), component, body));
        let during = probe::measure(&self.honest, length().max(TIMEOUT)).await;
        let verdicts = hostile.await.unwrap();
        let peak = self.target.peak();
        assert!(peak < before + GUESTS * MEMORY, "{name}: {peak} bytes of memory, {before} before");
        let mut said = Vec::new();
        for (job, verdict) in verdicts {
            if !right.contains(&&*verdict) {
                self.wrong.push(format!("{name}: {verdict} instead of {right:?}"));
            }
            if let Some(job) = job.filter(|_| verdict == "timeout") {
                self.overshoot = self.overshoot.max(self.lifetime_of(&job).await.saturating_sub(timeout));
            }
            said.push(verdict);
        }
        said.dedup();
        print_row(&format!("{name}: {}, peak {} MiB", said.join(", "), peak >> 20), self.alone, during);
        self.target.assert_unharmed();
    }

    /// By the journal, which has the times of each attempt.
    async fn lifetime_of(&self, job: &str) -> Duration {
        let journal = self.target.project.manifest().with_file_name("journal.jsonl");
        let line = until("the line of the attempt", SOON, async || {
            let text = std::fs::read_to_string(&journal).unwrap();
            let mut whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            whole.find(|line| line.contains(job)).map(|line| serde_json::from_str::<Value>(line).unwrap())
        })
        .await;
        let at = |field: &str| line[field].as_u64().map(Duration::from_micros);
        let took = at("ended_us").zip(at("started_us")).map(|(ended, started)| ended - started);
        took.unwrap_or_default()
    }
}

/// The jobs and what became of them. One verdict without a job: the component was refused.
async fn attack(
    operator: HttpClient,
    topic: String,
    component: Option<Vec<u8>>,
    body: Vec<u8>,
) -> Vec<(Option<String>, String)> {
    let path = format!("/v1/tenants/evil/topics/{topic}");
    if let Some(component) = component {
        let upload = Request::put(format!("{path}/handler")).header("content-type", "application/wasm");
        let answer = operator.send(upload, component).await;
        if answer.status >= 300 {
            return vec![(None, answer.json()["code"].as_str().unwrap().to_owned())];
        }
    }
    let mut jobs = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (operator, path, body) = (operator.clone(), path.clone(), body.clone());
        jobs.spawn(async move {
            let request = Request::post(format!("{path}/jobs?wait_ms=60000&keep_result_ms=60000"));
            let answer = operator.send(request.header("content-type", "application/octet-stream"), body).await;
            assert_eq!(answer.status, 201, "{}", answer.text());
            let answer = answer.json();
            let job = &answer["job"];
            let verdict =
                [&job["last_failure"]["reason"], &job["result"]["outcome"]].into_iter().find_map(Value::as_str);
            let verdict = verdict.unwrap_or_else(|| panic!("no verdict: {job}"));
            (answer["id"].as_str().map(str::to_owned), verdict.to_owned())
        });
    }
    jobs.join_all().await
}
