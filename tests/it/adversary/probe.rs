//! An honest tenant that pushes jobs at a steady rate and waits for their results.

use std::fmt;
use std::time::{Duration, Instant};

use gristmill_tests::http_client::HttpClient;
use hyper::Request;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::is_long;

/// Jobs a second: a tenth of the processor is enough where only what must hold is asserted.
fn rate() -> u32 {
    if is_long() { 50 } else { 10 }
}

/// From the moment at which a job was to be pushed to its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

impl Latency {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
        Self { p50: at(50), p99: at(99) }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |duration: Duration| duration.as_secs_f64() * 1000.0;
        write!(out, "{:.1}, {:.1}", millis(self.p50), millis(self.p99))
    }
}

/// Pushes jobs at a steady rate, however long the answers take, and asks `/healthz` with each tenth of them.
///
/// # Panics
/// When a job is not done, or `/healthz` does not answer 200.
pub(super) async fn measure(honest: &HttpClient, length: Duration) -> Latency {
    let mut asked = JoinSet::new();
    let mut tick = interval(Duration::from_secs(1) / rate());
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let begun = Instant::now();
    let mut number = 0_u32;
    while begun.elapsed() < length {
        let due = tick.tick().await;
        let client = honest.clone();
        let with_health = number.is_multiple_of(10);
        asked.spawn(async move {
            push(&client, number).await;
            let took = due.elapsed();
            if with_health {
                let health = client.try_send(Request::get("/healthz"), Vec::new()).await.expect("/healthz answers");
                assert_eq!(health.status, 200, "/healthz: {}", health.text());
            }
            took
        });
        number += 1;
    }
    Latency::of(asked.join_all().await)
}

async fn push(client: &HttpClient, number: u32) {
    let request = Request::post("/v1/tenants/honest/topics/echo/jobs?wait_ms=60000");
    let request = request.header("content-type", "application/json");
    let body = format!("{{\"body\": {number}, \"keep_result_ms\": 60000}}");
    let answer = client.try_send(request, body.into_bytes()).await.expect("an answer to an honest push");
    assert!(answer.status == 201, "an honest push: {} {}", answer.status, answer.text());
    assert_eq!(answer.json()["job"]["state"], "finished", "{}", answer.text());
}
