//! Signals, as far as they are subscriptions.

use std::time::Duration;

use redis::{Value, cmd, from_redis_value};
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::server::{TestRedis, until};
use crate::prelude::*;
use crate::redis::path::claim::behind::Behind;
use crate::redis::{DEFAULT_PREFIX, RedisStore};
use crate::tests::{LEASE, delayed, job, tenant, topic};
use crate::{ClaimFrom, Signal, WaitingClaim};
use gristmill_core::job::{TopicId, WorkerId};

pub(super) async fn next(signals: &mut Receiver<Signal>) -> Signal {
    timeout(Duration::from_secs(30), signals.recv()).await.expect("a signal in time").unwrap()
}

#[tokio::test]
async fn listening_ends_with_the_receiver() {
    let store = TestRedis::new().await;
    let signals = store.store.signals(&[tenant()]).await.unwrap();
    let wake = store.store.first().keys(&tenant()).wake_channel();
    let listeners = async || store.raw(cmd("PUBSUB").arg("NUMSUB").arg(&wake)).await;
    let count = |n| Value::Array(vec![Value::BulkString(wake.clone().into()), Value::Int(n)]);
    assert_eq!(listeners().await, count(1));
    drop(signals);
    until("the subscription is gone", async || listeners().await == count(0)).await;
}

/// Runners that wait for these topics, the first one for the longest.
struct Runners {
    store: TestRedis,
    workers: Vec<WorkerId>,
    signals: Vec<Receiver<Signal>>,
}

impl Runners {
    async fn new(serving: &[&[&str]]) -> Self {
        let (mut runners, store) = ((Vec::new(), Vec::new()), TestRedis::new().await);
        for (number, names) in serving.iter().enumerate() {
            store.pass(1);
            let worker = WorkerId::new(&format!("w{number}"));
            let topics: Vec<TopicId> = names.iter().map(|name| topic(name)).collect();
            runners.1.push(store.store.wake_ups(&worker, &[tenant()], &topics).await.unwrap());
            runners.0.push(worker);
        }
        Self { store, workers: runners.0, signals: runners.1 }
    }

    async fn push(&self, to: &str, jobs: usize) {
        self.store.push(&(0..jobs).map(|_| job(to)).collect::<Vec<_>>()).await;
    }

    /// A runner claims; by then some time has passed.
    async fn claim(&self, runner: usize, of: &str, max: usize) -> usize {
        self.store.pass(1);
        self.store.claim_as(&self.workers[runner], of, max).await.claims.len()
    }

    /// What each has received so far.
    async fn received(&mut self) -> Vec<Vec<Signal>> {
        self.store.raw(cmd("PUBLISH").arg("gm:wake").arg("cancel acme end")).await;
        let mut all = Vec::new();
        for signals in &mut self.signals {
            let mut received = Vec::new();
            loop {
                match next(signals).await {
                    Signal::Cancelled { .. } => break,
                    signal => received.push(signal),
                }
            }
            all.push(received);
        }
        all
    }

    /// Which have been woken for the topic, and nothing else.
    async fn woken(&mut self, for_topic: &str) -> Vec<usize> {
        let received = self.received().await.into_iter().enumerate();
        received
            .flat_map(|(runner, received)| {
                received.into_iter().map(move |signal| {
                    assert_eq!(signal, Signal::Ready(topic(for_topic)));
                    runner
                })
            })
            .collect()
    }
}

#[tokio::test]
async fn each_push_to_an_empty_topic_wakes_one_runner_and_the_next_push_another() {
    let mut runners = Runners::new(&[&["mail"], &["mail"], &["mail"]]).await;
    for round in 0..7 {
        runners.push("mail", 1).await;
        assert_eq!(runners.woken("mail").await, [round % 3]);
        // The jobs of a topic that a runner was woken for wake none.
        runners.push("mail", 1).await;
        assert!(runners.woken("mail").await.is_empty());
        assert_eq!(runners.claim(round % 3, "mail", 9).await, 2);
    }
}

#[tokio::test]
async fn a_push_wakes_a_runner_that_serves_the_topic() {
    let mut runners = Runners::new(&[&["mail"], &["mail", "sms"], &["mail"]]).await;
    runners.push("sms", 1).await;
    assert_eq!(runners.woken("sms").await, [1]);
    runners.push("other", 1).await;
    assert!(runners.woken("other").await.is_empty());
}

#[tokio::test]
async fn a_claim_that_leaves_jobs_in_line_wakes_the_next_runner() {
    let mut runners = Runners::new(&[&["mail"], &["mail"], &["mail"]]).await;
    runners.push("mail", 10).await;
    assert_eq!(runners.woken("mail").await, [0]);
    assert_eq!(runners.claim(0, "mail", 4).await, 4);
    assert_eq!(runners.woken("mail").await, [1]);
    assert_eq!(runners.claim(1, "mail", 9).await, 6);
    assert!(runners.woken("mail").await.is_empty());
    // The first one left jobs in line: it waits no more.
    runners.push("mail", 1).await;
    assert_eq!(runners.woken("mail").await, [2]);
}

#[tokio::test]
async fn a_runner_that_has_no_room_passes_on_what_it_was_woken_for() {
    let mut runners = Runners::new(&[&["mail"], &["mail"]]).await;
    let mail = [topic("mail")];
    runners.store.store.pass_on(&mail).await.unwrap();
    assert!(runners.woken("mail").await.is_empty(), "there are no jobs");
    runners.push("mail", 1).await;
    assert_eq!(runners.woken("mail").await, [0]);
    runners.store.store.pass_on(&mail).await.unwrap();
    assert_eq!(runners.woken("mail").await, [1]);
    runners.store.store.pass_on(&mail).await.unwrap();
    assert!(runners.woken("mail").await.is_empty(), "none waits");
}

#[tokio::test]
async fn a_runner_that_is_gone_is_passed_over() {
    let mut runners = Runners::new(&[&["mail"], &["mail"], &["mail"]]).await;
    runners.signals.remove(0);
    let gone = async || {
        let count = runners.store.raw(cmd("PUBSUB").arg("NUMSUB").arg("gm:wake:w0")).await;
        matches!(count, Value::Array(count) if count.last() == Some(&Value::Int(0)))
    };
    until("the subscription is gone", gone).await;
    // In the order of those that are left.
    runners.push("mail", 1).await;
    assert_eq!(runners.woken("mail").await, [0]);
    let waiters = runners.store.raw(cmd("ZCARD").arg("gm:{acme/0}:waiters:mail")).await;
    assert_eq!(waiters, Value::Int(1));
}

#[tokio::test]
async fn one_runner_hears_of_a_delayed_job_and_all_if_none_waits() {
    let mut runners = Runners::new(&[&["mail"], &["mail"]]).await;
    let due = |ms| Signal::Due { tenant: tenant(), wait: Duration::from_millis(ms) };
    runners.store.push(&[delayed("mail", 60_000)]).await;
    assert_eq!(runners.received().await, [vec![due(60_000)], vec![]]);
    runners.store.push(&[delayed("mail", 30_000)]).await;
    assert_eq!(runners.received().await, [vec![due(30_000)], vec![]], "it goes on waiting");
    runners.store.push(&[delayed("mail", 40_000)]).await;
    assert_eq!(runners.received().await, [vec![], vec![]]);
    runners.store.push(&[delayed("other", 9_000)]).await;
    assert_eq!(runners.received().await, [vec![due(9_000)], vec![due(9_000)]]);
}

#[tokio::test]
async fn a_runner_waits_again_after_its_server_was_away() {
    let mut store = TestRedis::new().await;
    let mut signals = store.store.wake_ups(&WorkerId::new("w"), &[tenant()], &[topic("mail")]).await.unwrap();
    store.server.replace().await;
    assert_eq!(next(&mut signals).await, Signal::Lost);
    until("the store answers", async || store.store.push(&[job("mail")]).await.is_ok()).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
}

#[tokio::test]
async fn runners_that_have_not_said_for_hours_that_they_wait_are_forgotten() {
    let runners = Runners::new(&[&["mail"], &["mail"]]).await;
    runners.store.pass(3 * 3600 * 1000);
    let _signals = runners.store.store.wake_ups(&WorkerId::new("w9"), &[tenant()], &[topic("mail")]).await.unwrap();
    let waiters = runners.store.raw(cmd("ZRANGE").arg("gm:{acme/0}:waiters:mail").arg(0).arg(-1)).await;
    assert_eq!(waiters, Value::Array(vec![Value::BulkString("gm:wake:w9".into())]));
}

#[tokio::test]
async fn a_delay_ends_to_the_microsecond_and_is_shown_in_whole_milliseconds() {
    const JOBS: usize = 20;
    let test = TestRedis::new().await;
    let store = RedisStore::connect(&test.server.url(), DEFAULT_PREFIX).await.unwrap();
    let keys = store.first().keys(&tenant());
    for _ in 0..JOBS {
        store.push(&[delayed("mail", 60_000)]).await.unwrap();
    }
    let delayed_jobs = keys.delayed(&topic("mail").topic);
    let read = test.raw(cmd("ZRANGE").arg(delayed_jobs).arg(0).arg(-1).arg("WITHSCORES")).await;
    let scores: Vec<(String, f64)> = from_redis_value(read).unwrap();
    assert_eq!(scores.len(), JOBS);
    assert!(
        scores.iter().any(|(_, due)| due.fract() > 0.0),
        "the clock had whole milliseconds twenty times: {scores:?}"
    );
    for (id, due) in scores {
        let stored: Vec<u8> = from_redis_value(test.raw(cmd("HGET").arg(keys.jobs()).arg(id)).await).unwrap();
        let stamp: [u8; 8] = stored[8..16].try_into().unwrap();
        assert_eq!(u64::from_be_bytes(stamp), due.floor() as u64);
    }
}

/// A claim of the first runner that waits for so many jobs of the topic.
fn waiting(runners: &Runners, of: &str, max: usize) -> WaitingClaim {
    runners.store.store.wait_to_claim(&runners.workers[0], &[ClaimFrom::new(topic(of), max, LEASE)]).unwrap()
}

/// How many jobs the claim has got, whose runner looks after it while something happens.
async fn got(mut waiting: WaitingClaim, happens: impl Future) -> usize {
    tokio::join!(async { waiting.claimed().await.unwrap().claims.len() }, happens).0
}

#[tokio::test]
async fn a_job_that_this_process_pushes_goes_to_its_claim_that_waits_and_no_runner_is_woken() {
    let mut runners = Runners::new(&[&["mail"], &["mail"]]).await;
    assert_eq!(got(waiting(&runners, "mail", 2), runners.push("mail", 1)).await, 1);
    assert!(runners.woken("mail").await.is_empty());
    // It was one claim: runners are woken again.
    runners.push("mail", 1).await;
    assert_eq!(runners.woken("mail").await, [0]);
}

#[tokio::test]
async fn what_this_process_moves_goes_to_its_claim_that_waits_and_wakes_runners_for_the_rest() {
    let mut runners = Runners::new(&[&["mail", "audit"]]).await;
    runners.store.push(&[delayed("mail", 5), delayed("mail", 5), delayed("audit", 5)]).await;
    runners.received().await;
    runners.store.pass(5);
    let migrate = async { runners.store.store.migrate(&tenant(), 9).await.unwrap().moved };
    assert_eq!(got(waiting(&runners, "mail", 9), migrate).await, 2);
    assert_eq!(runners.woken("audit").await, [0]);
}

#[tokio::test]
async fn a_claim_that_comes_before_the_script_that_it_belongs_behind_is_made_again() {
    let runners = Runners::new(&[&["mail"]]).await;
    let (claim, store) = (waiting(&runners, "mail", 2), &runners.store.store.first());
    let (topics, go) = store.waiting_claim(&[topic("mail")]).unwrap();
    let (done, answered) = oneshot::channel();
    go.send(Behind { topics, answered }).unwrap();
    let script = async {
        // The claim is on its way already.
        store.push_claimed(&job("mail")).await.unwrap();
        drop(done);
    };
    assert_eq!(got(claim, script).await, 1);
}

#[tokio::test]
async fn a_claim_that_is_taken_back_gets_nothing() {
    let mut runners = Runners::new(&[&["mail"]]).await;
    assert!(waiting(&runners, "mail", 2).take_back().await.is_none());
    runners.push("mail", 1).await;
    assert_eq!(runners.woken("mail").await, [0]);
}
