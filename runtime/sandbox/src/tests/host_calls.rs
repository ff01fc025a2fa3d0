//! What a guest gets for its calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::guest::{handler, handler_of};
use super::{attempt, limited, listen, load};
use crate::{Attempt, AttemptControl, Cancellation, CheckpointRequest, CheckpointSender, Component, Report};
use gristmill_core::admission::Rules;
use gristmill_core::job::{AfterFailed, Claim, Due, JobOptions, Lease, Priority, Progress, Unique, WorkerId};
use gristmill_core::outcome::Outcome;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::Grants;

pub(super) fn claim(attempt: &Attempt) -> Arc<Claim> {
    let (job, now) = (Arc::clone(&attempt.job), attempt.now());
    let (id, topic) = (job.spec.id.clone(), job.spec.topic.clone());
    let lease = Lease { job: id, topic, worker: WorkerId::new("w"), delivery: 1, batch: None };
    Arc::new(Claim { job, lease, attempt: 1, claimed_at: now, lease_until: now, previous: None, checkpoint: None })
}

fn result(report: Report) -> Vec<u8> {
    let Outcome::Complete(Some(result)) = report.outcome else { panic!("{report:?}") };
    result.data
}

fn number(report: Report) -> u64 {
    u64::from_le_bytes(result(report).try_into().unwrap())
}

#[tokio::test]
async fn the_guests_clock_is_the_stores() {
    let component = load(&handler("", "(call $return_u64 (call $now))")).await;
    let mut ahead = attempt("");
    ahead.clock_offset_ms = 1_000_000;
    let host = Timestamp::now().as_millis();
    assert!((host + 1_000_000..host + 1_060_000).contains(&number(component.invoke(ahead).await)));

    let deadline = load(&handler("", "(call $return_u64 (i64.load offset=88 (local.get $job)))")).await;
    let mut behind = limited("", |limits| limits.timeout = Duration::from_secs(7));
    behind.clock_offset_ms = -1_000_000;
    let host = Timestamp::now().as_millis();
    assert!((host - 993_000..host - 933_000).contains(&number(deadline.invoke(behind).await)));
}

#[tokio::test]
async fn remaining_fuel_is_counted_at_the_call() {
    let component = load(&handler("", "(call $return_u64 (call $fuel))")).await;
    let report = component.invoke(limited("", |limits| limits.fuel = 5_000)).await;
    let (used, remaining) = (report.fuel, number(report));
    assert!((4_000..5_000).contains(&remaining) && remaining >= 5_000 - used, "{remaining} remaining, {used} used");
}

#[tokio::test]
async fn a_cancelled_attempt_can_see_it() {
    let component = load(&handler("", "(call $return_u64 (i64.extend_i32_u (call $is_cancelled)))")).await;
    let attempt = attempt("");
    assert_eq!(number(component.invoke(attempt.clone()).await), 0);
    attempt.cancellation.control.cancel();
    assert_eq!(number(component.invoke(attempt.clone()).await), 1);
    let other = Attempt { cancellation: Cancellation::default(), ..attempt };
    other.cancellation.ending.cancel();
    assert_eq!(number(component.invoke(other).await), 1);
}

#[tokio::test]
async fn only_granted_settings_exist() {
    let get = "(call $get (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 4000))
        (if (result i32) (i32.load8_u (i32.const 4000))
          (then (call $return (i32.load (i32.const 4004)) (i32.load (i32.const 4008))))
          (else (call $done)))";
    let component = load(&handler("", get)).await;
    let granted = |name: &str| {
        let mut attempt = attempt(name);
        attempt.grants = Arc::new(Grants { config: [("region".into(), "eu".into())].into(), ..Grants::default() });
        attempt
    };
    assert_eq!(result(component.invoke(granted("region")).await), b"eu");
    assert_eq!(component.invoke(granted("other")).await.outcome, Outcome::Complete(None));
}

#[tokio::test]
async fn progress_is_a_log_line_and_notifies_the_listener() {
    let progress = "(call $progress (i32.const 20000) (i32.const 1) (i32.const 2100) (i32.const 3)) (call $done)";
    let mut attempt = attempt("");
    let lines = listen(&mut attempt);
    let control = Arc::new(AttemptControl::notifying(Arc::default()));
    attempt.cancellation.control = Arc::clone(&control);
    load(&handler("", progress)).await.invoke(attempt).await;
    let reported = Progress { basis_points: 10_000, note: "abc".into() };
    assert_eq!((control.take_progress(), control.take_progress()), (Some(reported), None));
    let lines = lines.lock();
    assert_eq!((lines[0].source, lines[0].message.as_str()), ("progress", "abc"));
    assert_eq!(lines[0].fields, [("basis-points".to_owned(), "10000".to_owned())]);
}

/// Saves the body as a checkpoint and returns the answer: `[is an error, which]`.
async fn saver() -> Component {
    let save = "(call $checkpoint (call $body (local.get $job)) (call $body_n (local.get $job)) (i32.const 4000))
        (i32.store8 (i32.const 4001) (i32.load8_u (i32.const 4008)))
        (call $return (i32.const 4000) (i32.const 2))";
    load(&handler("", save)).await
}

#[tokio::test]
async fn a_checkpoint_is_kept_before_the_guest_goes_on() {
    let (requests, mut received) = mpsc::channel::<CheckpointRequest>(1);
    let keeper = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Some(request) = received.recv().await {
            kept.push((request.lease, request.state));
            let answer = if kept.len() == 1 { Ok(()) } else { Err("no".to_owned()) };
            request.reply.send(answer).unwrap();
        }
        kept
    });
    let component = saver().await;
    let mut attempt = limited("state", |limits| limits.checkpoint_bytes = 5);
    let claim = claim(&attempt);
    let (lease, requests) = (claim.lease.clone(), Arc::new(requests));
    attempt.checkpoints = Some(CheckpointSender { claim, requests });
    assert_eq!(result(component.invoke(attempt.clone()).await)[0], 0);
    assert_eq!(result(component.invoke(attempt.clone()).await), [1, 1], "unavailable");
    drop(attempt);
    assert_eq!(keeper.await.unwrap(), [(lease.clone(), b"state".to_vec()), (lease, b"state".to_vec())]);
}

#[tokio::test]
async fn a_checkpoint_can_be_too_large_or_have_no_keeper() {
    let component = saver().await;
    assert_eq!(result(component.invoke(limited("12345", |limits| limits.checkpoint_bytes = 4)).await), [1, 0]);
    assert_eq!(result(component.invoke(limited("1234", |limits| limits.checkpoint_bytes = 4)).await), [1, 1]);
}

/// Enqueues a job to the topic that the body names, twice, and returns the second answer: `[is an error, which]`.
const TWICE: &str = "(func $twice (param $job i32)
        (i32.store (i32.const 5000) (call $body (local.get $job)))
        (i32.store (i32.const 5004) (call $body_n (local.get $job)))
        (i32.store (i32.const 5008) (i32.const 2100)) (i32.store (i32.const 5012) (i32.const 5))
        (i32.store (i32.const 5048) (i32.const 1)) (i64.store (i32.const 5056) (i64.const 1700000000000))
        (i32.store8 (i32.const 5064) (i32.const 1)) (i32.store (i32.const 5068) (i32.const 2100)) (i32.store (i32.const 5072) (i32.const 5))
        (i32.store8 (i32.const 5076) (i32.const 2))
        (i32.store8 (i32.const 5080) (i32.const 1)) (i64.store (i32.const 5088) (i64.const 77))
        (call $enqueue (i32.const 5000) (i32.const 4000))
        (call $enqueue (i32.const 5000) (i32.const 4000))
        (i32.store8 (i32.const 4001) (i32.load8_u (i32.const 4008))))";

fn enqueuer(end: &str) -> Vec<u8> {
    handler(TWICE, &format!("(call $twice (local.get $job)) {end}"))
}

fn enqueuing(topic: &str, payload_bytes: u64, follow_ups: u32, granted: Option<&str>) -> Attempt {
    let mut attempt = limited(topic, |limits| limits.follow_ups = follow_ups);
    let rules = Rules { payload_bytes, ttl: Some(Duration::from_secs(9)), ..Rules::ANY };
    attempt.targets = Arc::new(HashMap::from([("mail".parse().unwrap(), rules)]));
    let enqueue = granted.map(|name| vec![name.parse().unwrap()]);
    attempt.grants = Arc::new(Grants { enqueue, ..Grants::default() });
    attempt
}

#[tokio::test]
async fn follow_ups_come_with_the_report() {
    let component = load(&enqueuer("(call $return (i32.const 4000) (i32.const 1))")).await;
    let report = component.invoke(enqueuing("mail", 5, 2, None)).await;
    assert_eq!(report.follow_ups.len(), 2);
    let job = &report.follow_ups[0];
    assert_eq!(job.due, Due::At(Timestamp::from_millis(1_700_000_000_000)));
    assert_eq!((job.spec.topic.to_string().as_str(), job.spec.body.data.as_slice()), ("mail", b"abchi".as_slice()));
    assert_eq!(job.spec.options.ttl, Some(Duration::from_secs(9)));
    let window = Some(Duration::from_millis(77));
    assert_eq!(job.spec.options.unique, Some(Unique { value: "abchi".into(), window }));
    assert_eq!(job.spec.options.priority, Priority::Low);
    assert_eq!(result(report), [0]);
}

#[tokio::test]
async fn follow_ups_of_a_failed_attempt_are_gone() {
    for end in ["(call $fail (i32.const 0))", "unreachable"] {
        let report = load(&enqueuer(end)).await.invoke(enqueuing("mail", 5, 2, None)).await;
        assert!(report.follow_ups.is_empty(), "{report:?}");
    }
}

#[tokio::test]
async fn follow_ups_are_refused_in_order() {
    let [denied, too_large, too_many, unknown] = [0, 1, 2, 3];
    let component = load(&enqueuer("(call $return (i32.const 4000) (i32.const 2))")).await;
    let cases = [
        (enqueuing("mail", 4, 1, Some("other")), denied),
        (enqueuing("nowhere", 4, 1, Some("other")), denied),
        (enqueuing("nowhere", 4, 1, None), unknown),
        (enqueuing("no name!", 4, 1, None), unknown),
        (enqueuing("mail", 4, 0, Some("mail")), too_large),
        (enqueuing("mail", 5, 1, Some("mail")), too_many),
    ];
    for (attempt, which) in cases {
        assert_eq!(result(component.invoke(attempt).await), [1, which]);
    }
}

#[tokio::test]
async fn a_component_that_was_made_before_jobs_had_links_enqueues_as_before() {
    let contract = include_str!("../../../../wit/job.wit");
    let (before, added) = contract.split_once("  /// What becomes of a job if one").unwrap();
    let (_, after) = added.split_once("result<string, linked-error>;\n").unwrap();
    let contract = [before, after].concat();
    assert!(contract.contains("enqueue: func") && !contract.contains("links"), "{contract}");
    let handle = "(call $twice (local.get $job)) (call $return (i32.const 4000) (i32.const 2))";
    let component = load(&handler_of(&contract, TWICE, handle)).await;
    let report = component.invoke(enqueuing("mail", 5, 2, None)).await;
    assert_eq!((report.follow_ups.len(), !report.follow_ups[1].spec.options.is_linked()), (2, true));
    let refused = component.invoke(enqueuing("mail", 5, 1, None)).await;
    assert_eq!(result(refused), [1, 2], "too many");
}

/// Enqueues an open batch to `mail` that waits for the job that the body names, whatever becomes of it, and a member of it. Returns the
/// member's id, or why the batch is refused.
async fn linker() -> Component {
    let functions = "(import \"gristmill:job/queue@0.1.0\" \"enqueue-linked\" (func $enqueue_linked (param i32 i32)))
        (data (i32.const 3000) \"mail\")
        (func $link (param $job i32)
          (i32.store (i32.const 5000) (i32.const 3000)) (i32.store (i32.const 5004) (i32.const 4))
          (i32.store8 (i32.const 5076) (i32.const 1))
          (i32.store (i32.const 5200) (call $body (local.get $job))) (i32.store (i32.const 5204) (call $body_n (local.get $job)))
          (i32.store (i32.const 5096) (i32.const 5200)) (i32.store (i32.const 5100) (i32.const 1))
          (i32.store8 (i32.const 5104) (i32.const 1)) (i32.store8 (i32.const 5120) (i32.const 1))
          (call $enqueue_linked (i32.const 5000) (i32.const 4000))
          (i32.store (i32.const 5100) (i32.const 0)) (i32.store8 (i32.const 5104) (i32.const 0))
          (i32.store8 (i32.const 5120) (i32.const 0)) (i32.store8 (i32.const 5108) (i32.const 1))
          (i32.store (i32.const 5112) (i32.load (i32.const 4008))) (i32.store (i32.const 5116) (i32.load (i32.const 4012)))
          (if (i32.eqz (i32.load8_u (i32.const 4000)))
            (then (call $enqueue_linked (i32.const 5000) (i32.const 4008)))))";
    let handle = "(call $link (local.get $job)) (call $return (i32.load (i32.const 4016)) (i32.load (i32.const 4020)))";
    load(&handler(functions, handle)).await
}

fn linking(id: &str) -> Attempt {
    let topic = enqueuing("mail", 5, 2, None);
    Attempt { targets: topic.targets, grants: topic.grants, ..limited(id, |limits| limits.follow_ups = 2) }
}

#[tokio::test]
async fn follow_ups_come_with_their_links() {
    let mut attempt = linking("stored");
    Arc::make_mut(&mut attempt.job).spec.options.after = vec!["stored".parse().unwrap()];
    let report = linker().await.invoke(attempt).await;
    let [batch, member] = report.follow_ups.as_slice() else { panic!("{report:?}") };
    let after = vec!["stored".parse().unwrap()];
    let options = JobOptions { ttl: Some(Duration::from_secs(9)), ..JobOptions::default() };
    assert_eq!(batch.spec.options, JobOptions { after, after_failed: AfterFailed::Run, open: true, ..options.clone() });
    assert_eq!(member.spec.options, JobOptions { batch: Some(batch.spec.id.clone()), ..options });
    let id = member.spec.id.as_str().to_owned();
    assert_eq!(result(report), id.as_bytes());
}

#[tokio::test]
async fn links_to_a_job_that_is_no_business_of_the_attempts_are_refused() {
    let report = linker().await.invoke(linking("stored")).await;
    assert!(report.follow_ups.is_empty(), "{report:?}");
    assert!(result(report).starts_with(b"a follow-up may not name job stored: "));
}

#[tokio::test]
async fn a_time_in_seconds_is_refused_with_the_reason() {
    let seconds = TWICE.replace("1700000000000", "1700000000");
    let end = "(call $return (i32.const 4000) (i32.const 2))";
    let component = load(&handler(&seconds, &format!("(call $twice (local.get $job)) {end}"))).await;
    let mut attempt = enqueuing("mail", 5, 2, None);
    let lines = listen(&mut attempt);
    assert_eq!(result(component.invoke(attempt).await), [1, 0], "denied");
    assert!(lines.lock().iter().any(|line| line.message.contains("second")), "{lines:?}");
}

#[tokio::test]
async fn links_that_name_no_job_are_refused() {
    let report = linker().await.invoke(linking("no id!")).await;
    assert!(report.follow_ups.is_empty(), "{report:?}");
    assert_eq!(result(report), b"`no id!` is no job id: use 1 to 64 of A-Z a-z 0-9 - _ . (but not `.` or `..`)");
}
