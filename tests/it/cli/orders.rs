//! The delayed job at its plainest, from the command line: an order that nobody pays for in time.

use std::time::{Duration, Instant};

use gristmill_tests::guests;
use gristmill_tests::process::Process;
use gristmill_tests::test_project::TestProject;
use serde_json::{Value, json};

/// Nobody reads the notifications, so that they stay to be counted.
const MANIFEST: &str = r#"
    [topics.order-timeout]
    enqueue = ["notify"]
    [topics.notify]
    handler = "nobody"
"#;

async fn shop() -> (TestProject, Process) {
    let project = TestProject::new(MANIFEST, &[("order-timeout", guests::ORDER_TIMEOUT)]).await;
    let runner = project.serve().await;
    (project, runner)
}

fn push(project: &TestProject, order: &str, delay: &str) -> Value {
    let said = project.pipe(order.as_bytes(), &["push", "order-timeout", "--delay", delay, "--wait"]);
    serde_json::from_str(&said.done()).unwrap()
}

fn notifications(project: &TestProject) -> u64 {
    let counts = project.run(&["stats", "--json"]).ended(0).documents();
    counts.iter().find(|topic| topic["topic"] == "notify").map_or(0, |topic| topic["ready"].as_u64().unwrap())
}

fn example() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/order.json");
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpaid_order_is_closed_after_its_delay_and_not_before() {
    const DELAY: Duration = Duration::from_millis(400);
    let (project, _runner) = shop().await;
    let begun = Instant::now();
    let closing = push(&project, &example(), "400ms");
    assert!(begun.elapsed() >= DELAY, "fired after {:?}", begun.elapsed());

    assert_eq!((&closing["order_id"], &closing["closed"]), (&json!("2026-1042"), &json!(true)));
    assert_eq!(notifications(&project), 1);
    let notification = closing["notification"].as_str().unwrap();
    let job = project.run(&["job", "show", notification, "--json"]).ended(0).document();
    let body: Value = serde_json::from_str(job["job"]["body"]["text"].as_str().unwrap()).unwrap();
    let expected =
        json!({"event": "order-closed", "order_id": "2026-1042", "customer": "ada@example.org", "amount": 129.9});
    assert_eq!((&job["job"]["topic"], body), (&json!("notify"), expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_pushed_twice_notifies_once() {
    let (project, _runner) = shop().await;
    for _ in 0..2 {
        assert_eq!(push(&project, &example(), "1ms")["closed"], true);
    }
    assert_eq!(notifications(&project), 1, "the first one still waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paid_order_is_left_alone() {
    let (project, _runner) = shop().await;
    let closing = push(&project, &example().replace("placed", "paid"), "1ms");
    assert_eq!(closing, json!({"order_id": "2026-1042", "closed": false}));
    assert_eq!(notifications(&project), 0);
}
