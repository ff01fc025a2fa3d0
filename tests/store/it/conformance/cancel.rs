//! Cancel: waiting jobs are gone at once, running ones as soon as their attempt ends in anything but success.

use std::time::Duration;

use gristmill_core::job::{JobId, Payload, WorkerId};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{Cancelled, JobState, Migrated, PendingWork, Pushed, ResultView, Settled, Settlement};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, LEASE, TestStore, delayed, failure, foreign, job, keyed, poll, retry, settlement, tenant, topic,
};

super::cases![
    a_ready_job_is_gone_at_once,
    a_delayed_job_is_gone_at_once,
    a_running_job_is_marked,
    poll_work_lists_cancelled_jobs,
    whatever_is_not_an_ack_ends_a_cancelled_job,
    an_ack_is_stronger_than_a_cancel,
    an_expiry_is_stronger_than_a_cancel,
    a_dead_an_over_and_an_unknown_job_are_left_alone,
    cancelling_twice_counts_once,
    follow_ups_of_a_cancelled_job_do_not_appear,
    a_reaped_job_that_was_cancelled_is_gone,
    the_mark_does_not_outlive_the_job,
    the_fence_holds_for_cancelled_jobs,
    a_cancelled_jobs_end_is_kept_as_its_producer_asked,
    a_cancelled_running_jobs_end_is_kept,
    answers_keep_the_order_of_the_ids,
    a_tenant_cancels_its_own_jobs_only,
    a_cancelled_id_may_be_pushed_again,
    a_kill_marks_a_running_job_and_takes_a_waiting_one,
    a_cancelled_job_can_be_killed_and_stays_killed,
    the_mark_of_a_kill_ends_with_the_job,
    the_attempt_of_a_pull_worker_ends_with_the_kill,
    an_ack_is_stronger_than_a_kill,
];

async fn cancel(queue: &TestStore, id: &JobId) -> Cancelled {
    queue.store.cancel(&tenant(), std::slice::from_ref(id)).await.unwrap().remove(0)
}

async fn a_ready_job_is_gone_at_once(queue: TestStore) {
    let pushed = [job("mail"), job("mail")];
    queue.push(&pushed).await;
    assert_eq!(cancel(&queue, &pushed[0].spec.id).await, Cancelled::Gone);
    assert_eq!(queue.state(&pushed[0].spec.id).await, None);
    assert_eq!((queue.places().await, queue.total("cancelled").await), ([1, 0, 0, 0], 1));
    let took = queue.claim_as(&gristmill_store_tests::test_store::worker(), "mail", 9).await;
    assert_eq!((took.claims.len(), took.strays), (1, 0));
}

async fn a_delayed_job_is_gone_at_once(queue: TestStore) {
    let (pushed, later) = (delayed("mail", 10), delayed("mail", 30));
    queue.push(&[pushed.clone(), later]).await;
    assert_eq!(cancel(&queue, &pushed.spec.id).await, Cancelled::Gone);
    assert_eq!((queue.places().await, queue.total("cancelled").await), ([0, 1, 0, 0], 1));
    queue.pass(10);
    assert_eq!(queue.migrate().await, Migrated { moved: 0, fired: 0, next_due_in: Some(Duration::from_millis(20)) });
}

async fn a_running_job_is_marked(queue: TestStore) {
    let claim = queue.running().await;
    assert_eq!(cancel(&queue, &claim.lease.job).await, Cancelled::Stopping);
    let state = JobState::Running {
        worker: claim.lease.worker.to_string(),
        delivery: 1,
        lease_until: claim.lease_until,
        cancelled: true,
    };
    assert_eq!(queue.state(&claim.lease.job).await, Some(state));
    assert_eq!((queue.places().await, queue.total("cancelled").await), ([0, 0, 1, 0], 0));
    assert_eq!(queue.store.extend(&[claim.lease], LEASE).await.unwrap(), [true], "its deadline stops it");
}

async fn poll_work_lists_cancelled_jobs(queue: TestStore) {
    let claim = queue.running().await;
    cancel(&queue, &claim.lease.job).await;
    assert!(queue.claim(1).await.is_empty());
    let wanted = poll(&*queue.store, &tenant()).await;
    assert_eq!(wanted, PendingWork { cancelled: vec![claim.lease.job.clone()], ..PendingWork::default() });
    queue.settle(&claim, retry(0)).await;
    assert_eq!(poll(&*queue.store, &tenant()).await, PendingWork::default());
}

async fn whatever_is_not_an_ack_ends_a_cancelled_job(queue: TestStore) {
    let wait = Duration::from_millis(5);
    let verdicts =
        [retry(0), retry(5), Verdict::Snooze(wait), Verdict::Release(wait), Verdict::Bury(failure(Reason::Trap))];
    for (n, verdict) in verdicts.into_iter().enumerate() {
        let claim = queue.running().await;
        cancel(&queue, &claim.lease.job).await;
        assert_eq!(queue.settle(&claim, verdict.clone()).await, Settled::Cancelled, "{}", verdict.name());
        assert_eq!(queue.state(&claim.lease.job).await, None);
        assert_eq!((queue.places().await, queue.total("cancelled").await), ([0; 4], n as u64 + 1));
    }
    let totals = queue.counts("mail").await.totals;
    assert_eq!(totals.into_iter().filter(|(_, n)| *n > 0).count(), 2, "pushed and cancelled, nothing else");
}

async fn an_ack_is_stronger_than_a_cancel(queue: TestStore) {
    let claim = queue.running().await;
    cancel(&queue, &claim.lease.job).await;
    let ack = Settlement { keep_result: LEASE, ..settlement(&claim, Verdict::Ack(None)) };
    assert_eq!(queue.settle_with(ack).await, Settled::Done);
    assert_eq!(queue.view(&claim.lease.job).await.unwrap().result, Some(ResultView::Complete(None)));
    assert_eq!((queue.total("acked").await, queue.total("cancelled").await), (1, 0));
    assert!(poll(&*queue.store, &tenant()).await.cancelled.is_empty());
}

async fn an_expiry_is_stronger_than_a_cancel(queue: TestStore) {
    let claim = queue.running().await;
    cancel(&queue, &claim.lease.job).await;
    assert_eq!(queue.settle(&claim, Verdict::Expire).await, Settled::Done);
    assert_eq!((queue.total("expired").await, queue.total("cancelled").await), (1, 0));
}

async fn a_dead_an_over_and_an_unknown_job_are_left_alone(queue: TestStore) {
    let dead = queue.dead().await.lease.job;
    let over = queue.running().await;
    let kept = Settlement { keep_result: LEASE, ..settlement(&over, Verdict::Ack(None)) };
    queue.settle_with(kept).await;
    for id in [&dead, &over.lease.job, &"unknown".parse().unwrap()] {
        assert_eq!(cancel(&queue, id).await, Cancelled::TooLate);
    }
    assert_eq!((queue.places().await, queue.total("cancelled").await), ([0, 0, 0, 1], 0));
    assert!(matches!(queue.state(&dead).await, Some(JobState::Dead { .. })));
}

async fn cancelling_twice_counts_once(queue: TestStore) {
    let claim = queue.running().await;
    assert_eq!(cancel(&queue, &claim.lease.job).await, Cancelled::Stopping);
    assert_eq!(cancel(&queue, &claim.lease.job).await, Cancelled::Stopping);
    queue.settle(&claim, retry(0)).await;
    assert_eq!(cancel(&queue, &claim.lease.job).await, Cancelled::TooLate);
    let waiting = job("mail");
    queue.push(std::slice::from_ref(&waiting)).await;
    assert_eq!(cancel(&queue, &waiting.spec.id).await, Cancelled::Gone);
    assert_eq!(cancel(&queue, &waiting.spec.id).await, Cancelled::TooLate);
    assert_eq!(queue.total("cancelled").await, 2);
}

async fn follow_ups_of_a_cancelled_job_do_not_appear(queue: TestStore) {
    let claim = queue.running().await;
    cancel(&queue, &claim.lease.job).await;
    let mut snooze = settlement(&claim, Verdict::Snooze(Duration::ZERO));
    snooze.follow_ups = vec![job("next")];
    assert_eq!(queue.settle_with(snooze).await, Settled::Cancelled);
    let topics = queue.store.counts(&tenant()).await.unwrap();
    assert!(topics.iter().all(|counts| counts.topic != topic("next") || counts.ready == 0));
}

async fn a_reaped_job_that_was_cancelled_is_gone(queue: TestStore) {
    let claim = queue.running().await;
    cancel(&queue, &claim.lease.job).await;
    let reap = Settlement { only_if_overdue: Some(DEAD_AFTER), ..settlement(&claim, retry(0)) };
    assert_eq!(queue.settle_with(reap.clone()).await, Settled::LeaseLost);
    queue.pass(30_000);
    assert_eq!(queue.settle_with(reap).await, Settled::Cancelled);
    assert_eq!((queue.places().await, queue.total("cancelled").await), ([0; 4], 1));
}

async fn the_mark_does_not_outlive_the_job(queue: TestStore) {
    let pushed = job("mail");
    for verdict in [retry(0), Verdict::Ack(None), Verdict::Expire] {
        queue.push(std::slice::from_ref(&pushed)).await;
        let claim = queue.claim_one().await;
        cancel(&queue, &pushed.spec.id).await;
        queue.settle(&claim, verdict).await;
    }
    queue.push(std::slice::from_ref(&pushed)).await;
    let claim = queue.claim_one().await;
    assert!(matches!(queue.state(&pushed.spec.id).await, Some(JobState::Running { cancelled: false, .. })));
    assert!(poll(&*queue.store, &tenant()).await.cancelled.is_empty());
    assert_eq!(queue.settle(&claim, retry(0)).await, Settled::Done);
}

async fn the_fence_holds_for_cancelled_jobs(queue: TestStore) {
    let first = queue.running().await;
    queue.settle(&first, retry(0)).await;
    let second = queue.claim_one().await;
    cancel(&queue, &second.lease.job).await;
    assert_eq!(queue.settle(&first, retry(0)).await, Settled::LeaseLost);
    assert_eq!(queue.places().await, [0, 0, 1, 0]);
    assert_eq!(queue.settle(&second, retry(0)).await, Settled::Cancelled);
    assert_eq!(queue.settle(&second, retry(0)).await, Settled::LeaseLost);
}

async fn a_cancelled_jobs_end_is_kept_as_its_producer_asked(queue: TestStore) {
    let mut waiting = job("mail");
    waiting.spec.options.keep_result = Some(Duration::from_secs(60));
    queue.push(std::slice::from_ref(&waiting)).await;
    let claim = queue.claim_one().await;
    queue.settle_with(settlement(&claim, retry(0))).await;
    cancel(&queue, &waiting.spec.id).await;
    let view = queue.view(&waiting.spec.id).await.unwrap();
    assert_eq!((view.state, view.job, view.result), (JobState::Finished, None, Some(ResultView::Cancelled)));
    assert_eq!(view.attempts, 1);
}

async fn a_cancelled_running_jobs_end_is_kept(queue: TestStore) {
    let claim = queue.running().await;
    cancel(&queue, &claim.lease.job).await;
    let snooze = Settlement { keep_result: LEASE, ..settlement(&claim, Verdict::Snooze(LEASE)) };
    assert_eq!(queue.settle_with(snooze).await, Settled::Cancelled);
    let view = queue.view(&claim.lease.job).await.unwrap();
    assert_eq!((view.state, view.result, view.attempts), (JobState::Finished, Some(ResultView::Cancelled), 1));
}

async fn answers_keep_the_order_of_the_ids(queue: TestStore) {
    let running = queue.running().await.lease.job;
    let (waiting, later) = (job("mail"), delayed("audit", 10));
    queue.push(&[waiting.clone(), later.clone()]).await;
    let ids = ["unknown".parse().unwrap(), later.spec.id, running, waiting.spec.id.clone(), waiting.spec.id];
    use Cancelled::{Gone, Stopping, TooLate};
    assert_eq!(queue.store.cancel(&tenant(), &ids).await.unwrap(), [TooLate, Gone, Stopping, Gone, TooLate]);
    assert!(queue.store.cancel(&tenant(), &[]).await.unwrap().is_empty());
}

async fn a_tenant_cancels_its_own_jobs_only(queue: TestStore) {
    let theirs = foreign("mail");
    queue.push(std::slice::from_ref(&theirs)).await;
    assert_eq!(cancel(&queue, &theirs.spec.id).await, Cancelled::TooLate);
    let view = queue.store.job(&theirs.spec.topic.tenant, &theirs.spec.id).await.unwrap();
    assert_eq!(view.unwrap().state, JobState::Ready);
}

async fn a_cancelled_id_may_be_pushed_again(queue: TestStore) {
    let pushed = Payload { data: b"again".to_vec(), content_type: None };
    let mut waiting = job("mail");
    queue.push(std::slice::from_ref(&waiting)).await;
    cancel(&queue, &waiting.spec.id).await;
    waiting.spec.body = pushed.clone();
    assert_eq!(queue.push(std::slice::from_ref(&waiting)).await, [Pushed::Stored]);
    assert_eq!(queue.claim_one().await.job.spec.body, pushed);
}

async fn kill(queue: &TestStore, id: &JobId) -> Cancelled {
    queue.store.kill(&tenant(), std::slice::from_ref(id)).await.unwrap().remove(0)
}

async fn a_kill_marks_a_running_job_and_takes_a_waiting_one(queue: TestStore) {
    let claim = queue.running().await;
    let (dead, waiting) = (queue.dead().await.lease.job, job("mail"));
    queue.push(std::slice::from_ref(&waiting)).await;
    let ids = [claim.lease.job.clone(), waiting.spec.id.clone(), dead.clone()];
    let killed = queue.store.kill(&tenant(), &ids).await.unwrap();
    assert_eq!(killed, [Cancelled::Stopping, Cancelled::Gone, Cancelled::TooLate]);
    let found = poll(&*queue.store, &tenant()).await;
    assert_eq!((&found.cancelled[..], &found.killed[..]), (&ids[..1], &ids[..1]));
    assert_eq!(queue.settle(&claim, Verdict::Release(Duration::ZERO)).await, Settled::Cancelled);
    assert_eq!((queue.places().await, queue.total("cancelled").await), ([0, 0, 0, 1], 2));
    assert!(poll(&*queue.store, &tenant()).await.killed.is_empty());
}

async fn a_cancelled_job_can_be_killed_and_stays_killed(queue: TestStore) {
    let claim = queue.running().await;
    let id = claim.lease.job.clone();
    assert_eq!(cancel(&queue, &id).await, Cancelled::Stopping);
    assert!(poll(&*queue.store, &tenant()).await.killed.is_empty());
    assert_eq!(kill(&queue, &id).await, Cancelled::Stopping);
    assert_eq!(cancel(&queue, &id).await, Cancelled::Stopping);
    let found = poll(&*queue.store, &tenant()).await;
    assert_eq!((found.cancelled, found.killed), (vec![id.clone()], vec![id]));
    assert_eq!(queue.settle(&claim, retry(0)).await, Settled::Cancelled);
    assert_eq!(queue.total("cancelled").await, 1);
}

async fn the_mark_of_a_kill_ends_with_the_job(queue: TestStore) {
    let again = job("mail");
    queue.push(std::slice::from_ref(&again)).await;
    let claim = queue.claim(1).await.remove(0);
    kill(&queue, &again.spec.id).await;
    assert_eq!(queue.settle(&claim, retry(0)).await, Settled::Cancelled);
    queue.push(std::slice::from_ref(&again)).await;
    assert_eq!(queue.claim(1).await.len(), 1);
    assert_eq!(cancel(&queue, &again.spec.id).await, Cancelled::Stopping);
    let found = poll(&*queue.store, &tenant()).await;
    assert_eq!((found.cancelled, found.killed), (vec![again.spec.id], Vec::new()));
}

async fn the_attempt_of_a_pull_worker_ends_with_the_kill(queue: TestStore) {
    let mut pushed = [keyed("a"), keyed("a")];
    pushed[0].spec.options.keep_result = Some(LEASE);
    queue.push(&pushed).await;
    let claim = queue.claim_as(&WorkerId::pull("press"), "mail", 9).await.claims.remove(0);
    assert_eq!(claim.lease.job, pushed[0].spec.id);
    assert_eq!(kill(&queue, &claim.lease.job).await, Cancelled::Gone);
    assert_eq!(queue.store.extend(std::slice::from_ref(&claim.lease), LEASE).await.unwrap(), [false]);
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(queue.view(&claim.lease.job).await.unwrap().result, Some(ResultView::Cancelled));
    assert_eq!((queue.total("cancelled").await, queue.total("acked").await), (1, 0));
    assert!(poll(&*queue.store, &tenant()).await.killed.is_empty());
    assert_eq!(queue.claim(9).await[0].lease.job, pushed[1].spec.id, "the next job of the key runs");
}

async fn an_ack_is_stronger_than_a_kill(queue: TestStore) {
    let claim = queue.running().await;
    assert_eq!(kill(&queue, &claim.lease.job).await, Cancelled::Stopping);
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!((queue.total("acked").await, queue.total("cancelled").await), (1, 0));
    assert!(poll(&*queue.store, &tenant()).await.killed.is_empty());
}
