//! Jobs that nobody wants any more.

use std::time::Duration;

use super::mill::{Mill, delayed, failure, job, retry, tenant, topic, unique, worker};
use super::waking::next;
use crate::{Cancelled, Inspect, JobState, Produce, Pushed, ResultView, Settled, Settlement, Signal, Store};
use gristmill_core::job::{Claim, JobId, JobSpec, NewJob, Priority};
use gristmill_core::outcome::{Reason, Verdict};

const MINUTE: Duration = Duration::from_secs(60);

fn kept(mut job: NewJob) -> NewJob {
    job.spec.keep_result = Some(MINUTE);
    job
}

async fn cancel(mill: &Mill, id: &JobId) -> Cancelled {
    mill.store.cancel(&tenant(), std::slice::from_ref(id)).await.unwrap().pop().unwrap()
}

async fn result(mill: &Mill, spec: &JobSpec) -> Option<(u32, ResultView)> {
    let view = mill.store.job(&tenant(), &spec.id).await.unwrap()?;
    Some((view.attempts, view.result?))
}

/// A job that was cancelled while it runs.
async fn stopping(mill: &Mill, job: NewJob) -> Claim {
    mill.push(&[job]).await;
    let claim = mill.claim(1).await.pop().unwrap();
    assert_eq!(cancel(mill, &claim.lease.job).await, Cancelled::Stopping);
    claim
}

#[tokio::test]
async fn waiting_jobs_are_gone_at_once() {
    let mill = Mill::new().await;
    let mut high = job("mail");
    high.spec.priority = Priority::High;
    let jobs = [job("mail"), high, delayed("mail", 5), delayed("mail", 9), job("other")];
    mill.push(&jobs).await;
    let mut ids: Vec<JobId> = jobs.iter().map(|job| job.spec.id.clone()).collect();
    ids.remove(3);
    ids.insert(1, "unknown".parse().unwrap());
    let answers = mill.store.cancel(&tenant(), &ids).await.unwrap();
    let gone = Cancelled::Gone;
    assert_eq!(answers, [gone, Cancelled::TooLate, gone, gone, gone]);
    for id in &ids {
        assert_eq!(mill.store.job(&tenant(), id).await.unwrap(), None);
    }
    let counts = mill.counts("mail").await;
    assert_eq!((counts.ready, counts.delayed, counts.totals["cancelled"]), (0, 1, 3));
    let wanted = mill.store.poll_work(&tenant(), &[]).await.unwrap();
    assert_eq!((wanted.ready, wanted.next_due_in), (vec![], Some(Duration::from_millis(9))));
    assert!(mill.claim(9).await.is_empty());
}

#[tokio::test]
async fn a_waiting_jobs_result_is_kept_and_told() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    let wanted = kept(job("mail"));
    mill.push(std::slice::from_ref(&wanted)).await;
    let claim = mill.claim(1).await.pop().unwrap();
    mill.settle(&claim, retry(1000)).await;
    assert_eq!(cancel(&mill, &wanted.spec.id).await, Cancelled::Gone);
    assert_eq!(result(&mill, &wanted.spec).await, Some((1, ResultView::Cancelled)));
    assert_eq!(mill.state(&wanted.spec).await, Some(JobState::Finished));
    until_finished(&mut signals, &wanted.spec.id).await;
    assert_eq!(cancel(&mill, &wanted.spec.id).await, Cancelled::TooLate);
}

async fn until_finished(signals: &mut tokio::sync::mpsc::Receiver<Signal>, id: &JobId) {
    while next(signals).await != Signal::Finished(tenant(), id.clone()) {}
}

#[tokio::test]
async fn a_running_job_is_marked_and_its_worker_told() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    let claim = stopping(&mill, job("mail")).await;
    let id = claim.lease.job.clone();
    while next(&mut signals).await != Signal::Cancelled(tenant(), id.clone()) {}
    assert_eq!(mill.store.poll_work(&tenant(), &[]).await.unwrap().cancelled, std::slice::from_ref(&id));
    assert!(matches!(mill.state(&claim.job.spec).await, Some(JobState::Running { cancelled: true, .. })));
    assert_eq!(cancel(&mill, &id).await, Cancelled::Stopping, "again is no error");
}

#[tokio::test]
async fn with_whatever_it_ends_a_cancelled_attempt_ends_the_job() {
    let mill = Mill::new().await;
    let wait = MINUTE;
    let verdicts =
        [retry(0), Verdict::Snooze(wait), Verdict::Release(Duration::ZERO), Verdict::Bury(failure(Reason::Trap))];
    for (n, verdict) in verdicts.into_iter().enumerate() {
        let mut pushed = kept(unique("mail", "u"));
        pushed.spec.priority = Priority::Low;
        let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
        let claim = stopping(&mill, pushed).await;
        let mut settlement = Settlement::of(&claim, verdict, Duration::ZERO);
        settlement.follow_ups = vec![job("next")];
        assert_eq!(mill.settle_with(settlement.clone()).await, Settled::Cancelled);
        assert_eq!(mill.settle_with(settlement).await, Settled::LeaseLost);
        assert_eq!(result(&mill, &claim.job.spec).await, Some((1, ResultView::Cancelled)));
        until_finished(&mut signals, &claim.lease.job).await;
        let counts = mill.counts("mail").await;
        assert_eq!((counts.ready, counts.delayed, counts.running, counts.dead), (0, 0, 0, 0));
        assert_eq!(counts.totals["cancelled"], n as u64 + 1);
        assert!(mill.store.poll_work(&tenant(), &[]).await.unwrap().cancelled.is_empty());
    }
    assert!(mill.claim_as(&worker(), "next", 1).await.claims.is_empty(), "no follow-up appears");
    let totals: Vec<_> = mill.counts("mail").await.totals.into_keys().collect();
    assert_eq!(totals, ["cancelled", "pushed"]);
}

#[tokio::test]
async fn success_and_expiry_are_told_as_what_they_are() {
    let mill = Mill::new().await;
    for verdict in [Verdict::Ack(None), Verdict::Expire] {
        let claim = stopping(&mill, kept(job("mail"))).await;
        let settlement = Settlement::of(&claim, verdict, Duration::ZERO);
        assert_eq!(mill.settle_with(settlement).await, Settled::Done);
        assert!(!matches!(result(&mill, &claim.job.spec).await, Some((_, ResultView::Cancelled)) | None));
    }
    // An ack that leaves nothing behind goes another way.
    let claim = stopping(&mill, job("mail")).await;
    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    assert!(mill.store.poll_work(&tenant(), &[]).await.unwrap().cancelled.is_empty());
    assert_eq!((mill.total("acked").await, mill.total("expired").await, mill.total("cancelled").await), (2, 1, 0));
}

#[tokio::test]
async fn a_late_settle_leaves_the_mark_to_the_delivery_that_runs() {
    let mill = Mill::new().await;
    let first = mill.running().await;
    mill.settle(&first, retry(0)).await;
    let second = mill.claim(1).await.pop().unwrap();
    assert_eq!(cancel(&mill, &second.lease.job).await, Cancelled::Stopping);
    assert_eq!(mill.settle(&first, retry(0)).await, Settled::LeaseLost);
    assert_eq!(mill.settle(&second, retry(0)).await, Settled::Cancelled);
}

#[tokio::test]
async fn a_cancelled_job_sets_free_what_it_holds_and_only_that() {
    let mill = Mill::new().await;
    let first = unique("mail", "u");
    mill.push(std::slice::from_ref(&first)).await;
    let claim = mill.claim(1).await.pop().unwrap();
    mill.settle_with(Settlement::of(&claim, Verdict::Bury(failure(Reason::Trap)), Duration::ZERO)).await;
    assert_eq!(cancel(&mill, &first.spec.id).await, Cancelled::TooLate, "it is dead");
    let second = unique("mail", "u");
    mill.push(std::slice::from_ref(&second)).await;
    assert_eq!(cancel(&mill, &second.spec.id).await, Cancelled::Gone);
    assert_eq!(mill.store.push(&[unique("mail", "u")]).await.unwrap(), [Pushed::Stored]);
    assert_eq!(mill.store.dead(&topic("mail"), 0, 9).await.unwrap().len(), 1);
}
