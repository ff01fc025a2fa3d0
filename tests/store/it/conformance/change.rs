//! Changes of waiting jobs: when they are due, and their priority.

use std::slice::from_ref;
use std::time::Duration;

use gristmill_core::job::{Due, JobChange, JobId, NewJob, Priority};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{FleetLimits, KeyLimits, Rate};
use gristmill_store::{JobChanged, JobState, Migrated, Settlement, Signal};
use gristmill_store_tests::test_store::{
    LEASE, TestStore, claimed, delayed, failure, foreign, ids, job, keyed, of_priority, retry, settlement, tenant,
    topic, unique,
};
use gristmill_test_servers::wait::SOON;
use tokio::time::timeout;

use super::keys::{ack, behind, claim, pushed, run_all};

super::cases![
    a_delayed_job_runs_now,
    a_retry_runs_now_and_keeps_what_is_known_of_it,
    a_ready_job_may_be_delayed,
    a_delayed_job_may_be_due_later,
    a_job_that_is_due_earlier_is_announced,
    a_time_that_has_passed_is_now,
    what_was_so_before_is_unchanged,
    a_running_a_dead_an_over_and_an_unknown_job_are_left_alone,
    answers_keep_the_order_of_the_ids,
    a_tenant_changes_its_own_jobs_only,
    a_time_to_live_counts_from_the_new_time,
    a_unique_value_is_held_through_a_change,
    a_large_job_may_get_another_priority,
    a_paused_topic_starts_no_job_that_is_due_now,
    a_job_that_waits_for_others_goes_on_waiting_for_them,
    a_delayed_job_leaves_its_key_to_the_next_one,
    a_job_that_has_run_keeps_its_key,
    a_job_that_waits_for_its_key_may_be_delayed,
    a_job_that_its_rate_holds_back_still_needs_a_token,
    a_job_that_its_rate_holds_back_may_be_delayed_further,
    ; in_order:
    a_job_that_is_due_now_wakes_its_topic,
    a_ready_job_goes_to_the_tail_of_its_new_line,
    a_priority_may_be_changed_before_a_job_is_due,
    a_new_priority_keeps_the_order_of_a_key,
];

const NOW: JobChange = JobChange { due: Some(Due::Now), priority: None };

fn after(ms: u64) -> JobChange {
    JobChange { due: Some(Due::After(Duration::from_millis(ms))), priority: None }
}

fn to(priority: Priority) -> JobChange {
    JobChange { due: None, priority: Some(priority) }
}

async fn change(queue: &TestStore, id: &JobId, change: JobChange) -> JobChanged {
    queue.store.change(&tenant(), from_ref(id), &change).await.unwrap().remove(0)
}

async fn changed(queue: &TestStore, job: &NewJob, to: JobChange) {
    assert_eq!(change(queue, &job.spec.id, to).await, JobChanged::Changed);
}

async fn priority(queue: &TestStore, job: &NewJob) -> Priority {
    queue.view(&job.spec.id).await.unwrap().job.unwrap().spec.options.priority
}

async fn assert_delayed(queue: &TestStore, job: &NewJob, ms: u64) {
    assert_eq!(queue.state(&job.spec.id).await, Some(JobState::Delayed { until: queue.in_ms(ms) }));
}

async fn a_delayed_job_runs_now(queue: TestStore) {
    let (pushed, later) = (delayed("mail", 10), delayed("mail", 30));
    queue.push(&[pushed.clone(), later]).await;
    changed(&queue, &pushed, NOW).await;
    assert_eq!((queue.places().await, queue.total("pushed").await), ([1, 1, 0, 0], 2));
    let view = queue.view(&pushed.spec.id).await.unwrap();
    assert_eq!((view.state, view.job.unwrap().due_at), (JobState::Ready, queue.now()));
    assert_eq!(claimed(&queue.claim(9).await), [pushed.spec.id]);
    assert_eq!(queue.migrate().await, Migrated { moved: 0, fired: 0, next_due_in: Some(Duration::from_millis(30)) });
}

async fn a_retry_runs_now_and_keeps_what_is_known_of_it(queue: TestStore) {
    let first = queue.running().await;
    queue.store.checkpoint(&first.lease, b"so far").await.unwrap();
    queue.settle(&first, retry(5000)).await;
    assert_eq!(change(&queue, &first.lease.job, NOW).await, JobChanged::Changed);
    let second = queue.claim_one().await;
    assert_eq!((second.lease.job, second.lease.delivery, second.attempt), (first.lease.job, 2, 2));
    assert_eq!((second.previous, second.checkpoint.as_deref()), (Some(Reason::Failed), Some(&b"so far"[..])));
}

async fn a_ready_job_may_be_delayed(queue: TestStore) {
    let jobs = [job("mail"), job("mail")];
    queue.push(&jobs).await;
    changed(&queue, &jobs[0], after(10)).await;
    assert_delayed(&queue, &jobs[0], 10).await;
    assert_eq!(queue.places().await, [1, 1, 0, 0]);
    assert_eq!(claimed(&queue.claim(9).await), ids([&jobs[1]]));
    queue.pass(10);
    assert_eq!(queue.migrate().await.moved, 1);
    assert_eq!(claimed(&queue.claim(9).await), ids([&jobs[0]]));
}

async fn a_delayed_job_may_be_due_later(queue: TestStore) {
    let (pushed, other) = (delayed("mail", 10), delayed("mail", 20));
    queue.push(&[pushed.clone(), other.clone()]).await;
    changed(&queue, &pushed, after(30)).await;
    assert_delayed(&queue, &pushed, 30).await;
    queue.pass(10);
    assert_eq!(queue.migrate().await, Migrated { moved: 0, fired: 0, next_due_in: Some(Duration::from_millis(10)) });
    queue.pass(20);
    assert_eq!(queue.migrate().await.moved, 2);
    assert_eq!(queue.places().await, [2, 0, 0, 0]);
}

async fn listen(queue: &TestStore) -> tokio::sync::mpsc::Receiver<Signal> {
    queue.signals(&[tenant()]).await
}

async fn next(signals: &mut tokio::sync::mpsc::Receiver<Signal>) -> Signal {
    timeout(SOON, signals.recv()).await.expect("a signal in time").expect("the store still speaks")
}

async fn a_job_that_is_due_earlier_is_announced(queue: TestStore) {
    let pushed = delayed("mail", 1000);
    queue.push(from_ref(&pushed)).await;
    let mut signals = listen(&queue).await;
    // Later than now, so nothing is to be announced.
    changed(&queue, &pushed, after(2000)).await;
    changed(&queue, &pushed, after(500)).await;
    assert_eq!(next(&mut signals).await, Signal::Due { tenant: tenant(), wait: Duration::from_millis(500) });
    queue.pass(499);
    assert_eq!(queue.migrate().await.next_due_in, Some(Duration::from_millis(1)));
}

async fn a_job_that_is_due_now_wakes_its_topic(queue: TestStore) {
    let pushed = delayed("mail", 1000);
    queue.push(from_ref(&pushed)).await;
    assert!(queue.claim(1).await.is_empty());
    let mut signals = listen(&queue).await;
    changed(&queue, &pushed, NOW).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
}

async fn a_time_that_has_passed_is_now(queue: TestStore) {
    queue.pass(1000);
    let (pushed, past) = (delayed("mail", 10), Due::At(Timestamp::from_millis(queue.now().as_millis() - 5)));
    queue.push(from_ref(&pushed)).await;
    changed(&queue, &pushed, JobChange { due: Some(past), priority: None }).await;
    let view = queue.view(&pushed.spec.id).await.unwrap();
    assert_eq!((view.state, view.job.unwrap().due_at), (JobState::Ready, queue.now()));
}

async fn what_was_so_before_is_unchanged(queue: TestStore) {
    let (ready, later) = (job("mail"), delayed("mail", 10));
    queue.push(&[ready.clone(), later.clone()]).await;
    let until = Some(Due::At(queue.in_ms(10)));
    for (job, to) in [
        (&ready, NOW),
        (&ready, to(Priority::Normal)),
        (&later, to(Priority::Normal)),
        (&later, JobChange { due: until, priority: Some(Priority::Normal) }),
        (&later, JobChange::default()),
    ] {
        assert_eq!(change(&queue, &job.spec.id, to).await, JobChanged::Unchanged, "{to:?}");
    }
    assert_eq!(queue.places().await, [1, 1, 0, 0]);
}

async fn a_running_a_dead_an_over_and_an_unknown_job_are_left_alone(queue: TestStore) {
    let dead = queue.dead().await.lease.job;
    let over = queue.running().await;
    queue.settle_with(Settlement { keep_result: LEASE, ..settlement(&over, Verdict::Ack(None)) }).await;
    let running = queue.running().await;
    for id in [&dead, &over.lease.job, &running.lease.job, &"unknown".parse().unwrap()] {
        for to in [NOW, after(10), to(Priority::High)] {
            assert_eq!(change(&queue, id, to).await, JobChanged::TooLate, "{to:?}");
        }
    }
    assert_eq!(queue.places().await, [0, 0, 1, 1]);
    assert_eq!(queue.store.extend(from_ref(&running.lease), LEASE).await.unwrap(), [true]);
}

async fn answers_keep_the_order_of_the_ids(queue: TestStore) {
    let jobs = [delayed("mail", 10), job("mail"), delayed("other", 10)];
    queue.push(&jobs).await;
    let mut asked = ids(&jobs);
    asked.insert(1, "unknown".parse().unwrap());
    asked.push(jobs[0].spec.id.clone());
    let changed = queue.store.change(&tenant(), &asked, &NOW).await.unwrap();
    let (done, same) = (JobChanged::Changed, JobChanged::Unchanged);
    assert_eq!(changed, [done, JobChanged::TooLate, same, done, same], "the last one is the first once more");
    assert!(queue.store.change(&tenant(), &[], &NOW).await.unwrap().is_empty());
}

async fn a_tenant_changes_its_own_jobs_only(queue: TestStore) {
    let theirs = NewJob { due: Due::After(Duration::from_millis(10)), ..foreign("mail") };
    queue.push(from_ref(&theirs)).await;
    assert_eq!(change(&queue, &theirs.spec.id, NOW).await, JobChanged::TooLate);
    let of = &theirs.spec.topic.tenant;
    assert_eq!(queue.store.change(of, from_ref(&theirs.spec.id), &NOW).await.unwrap(), [JobChanged::Changed]);
}

async fn a_time_to_live_counts_from_the_new_time(queue: TestStore) {
    let mut pushed = job("mail");
    pushed.spec.options.ttl = Some(Duration::from_millis(50));
    queue.push(from_ref(&pushed)).await;
    changed(&queue, &pushed, after(100)).await;
    let expires_at = queue.in_ms(150);
    queue.pass(120);
    queue.migrate().await;
    assert_eq!(queue.claim_one().await.job.expires_at(), Some(expires_at));
}

async fn a_unique_value_is_held_through_a_change(queue: TestStore) {
    let holder = unique("mail", "v");
    queue.push(from_ref(&holder)).await;
    for to in [after(10), to(Priority::High), NOW] {
        changed(&queue, &holder, to).await;
        queue.push(&[unique("mail", "v")]).await;
    }
    assert_eq!((queue.places().await, queue.total("duplicate").await), ([1, 0, 0, 0], 3));
    ack(&queue, &queue.claim_one().await).await;
    queue.push(&[unique("mail", "v")]).await;
    assert_eq!(queue.places().await, [1, 0, 0, 0], "the end of the job sets it free");
}

async fn a_ready_job_goes_to_the_tail_of_its_new_line(queue: TestStore) {
    let jobs = [Priority::Low, Priority::Normal, Priority::High].map(of_priority);
    queue.push(&jobs).await;
    changed(&queue, &jobs[0], to(Priority::High)).await;
    changed(&queue, &jobs[2], to(Priority::Normal)).await;
    assert_eq!(priority(&queue, &jobs[0]).await, Priority::High);
    assert_eq!(queue.places().await, [3, 0, 0, 0]);
    assert_eq!(claimed(&queue.claim(9).await), ids([&jobs[0], &jobs[1], &jobs[2]]));
}

async fn a_priority_may_be_changed_before_a_job_is_due(queue: TestStore) {
    let jobs = [delayed("mail", 10), job("mail")];
    queue.push(&jobs).await;
    changed(&queue, &jobs[0], to(Priority::High)).await;
    assert_delayed(&queue, &jobs[0], 10).await;
    assert_eq!(priority(&queue, &jobs[0]).await, Priority::High);
    queue.pass(10);
    queue.migrate().await;
    let first = queue.claim_one().await;
    assert_eq!((&first.lease.job, first.job.spec.options.priority), (&jobs[0].spec.id, Priority::High));
    queue.settle(&first, retry(0)).await;
    assert_eq!(priority(&queue, &jobs[0]).await, Priority::High, "an attempt changes nothing about it");
}

/// Its stored form crosses the size from which a store treats a job as large.
async fn a_large_job_may_get_another_priority(queue: TestStore) {
    let mut jobs: Vec<NewJob> = (4000..4100).map(|_| job("mail")).collect();
    jobs.iter_mut().zip(4000..).for_each(|(job, bytes)| job.spec.body.data = vec![7; bytes]);
    queue.push(&jobs).await;
    for priority in [Priority::High, Priority::Normal, Priority::Low] {
        let changed = queue.store.change(&tenant(), &ids(&jobs), &to(priority)).await.unwrap();
        assert_eq!(changed, vec![JobChanged::Changed; jobs.len()]);
        let report = queue.store.fsck().await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
    let claims = queue.claim(200).await;
    assert_eq!(claims.iter().map(|claim| claim.job.spec.body.data.len()).sum::<usize>(), (4000..4100).sum::<usize>());
}

async fn a_paused_topic_starts_no_job_that_is_due_now(queue: TestStore) {
    let pushed = delayed("mail", 10);
    queue.push(from_ref(&pushed)).await;
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    changed(&queue, &pushed, NOW).await;
    assert!(queue.claim(1).await.is_empty());
    queue.store.set_paused(&topic("mail"), false).await.unwrap();
    assert_eq!(claimed(&queue.claim(1).await), [pushed.spec.id]);
}

async fn a_job_that_waits_for_others_goes_on_waiting_for_them(queue: TestStore) {
    let (first, mut waiter) = (job("mail"), job("mail"));
    waiter.spec.options.after = vec![first.spec.id.clone()];
    queue.push(&[first.clone(), waiter.clone()]).await;
    let to = JobChange { priority: Some(Priority::High), ..after(20) };
    changed(&queue, &waiter, to).await;
    assert_eq!(change(&queue, &waiter.spec.id, to).await, JobChanged::Unchanged);
    assert_eq!(queue.state(&waiter.spec.id).await, Some(JobState::Waiting));
    assert_eq!(run_all(&queue).await, ids([&first]));
    assert_delayed(&queue, &waiter, 20).await;
    assert_eq!(priority(&queue, &waiter).await, Priority::High);

    let mut next = job("mail");
    next.spec.options.after = vec![waiter.spec.id.clone()];
    queue.push(&[NewJob { due: Due::After(Duration::from_secs(60)), ..next.clone() }]).await;
    changed(&queue, &next, NOW).await;
    assert_eq!(queue.state(&next.spec.id).await, Some(JobState::Waiting));
    queue.pass(20);
    queue.migrate().await;
    assert_eq!(run_all(&queue).await, ids([&waiter, &next]));
}

async fn a_delayed_job_leaves_its_key_to_the_next_one(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    changed(&queue, &jobs[0], after(10)).await;
    assert_eq!(run_all(&queue).await, ids([&jobs[1], &jobs[2]]));
    let more = pushed(&queue, 2).await;
    queue.pass(10);
    queue.migrate().await;
    assert_eq!(
        run_all(&queue).await,
        ids([&more[0], &more[1], &jobs[0]]),
        "it stands behind those that were ready before"
    );
}

async fn a_job_that_has_run_keeps_its_key(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = queue.claim_one().await;
    queue.settle(&first, retry(0)).await;
    changed(&queue, &jobs[0], after(10)).await;
    assert!(queue.claim(9).await.is_empty());
    assert_eq!(behind(&queue, &jobs[1]).await.unwrap().holders, ids([&jobs[0]]));
    changed(&queue, &jobs[0], NOW).await;
    assert_eq!(run_all(&queue).await, ids(&jobs));
}

async fn a_job_that_waits_for_its_key_may_be_delayed(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    assert_eq!(change(&queue, &jobs[1].spec.id, NOW).await, JobChanged::Unchanged, "it stays behind the first");
    changed(&queue, &jobs[1], after(10)).await;
    assert_delayed(&queue, &jobs[1], 10).await;
    assert_eq!(queue.counts("mail").await.waiting_for_key, 1);
    assert_eq!(behind(&queue, &jobs[1]).await, None);
    changed(&queue, &jobs[1], NOW).await;
    assert_eq!(run_all(&queue).await, ids([&jobs[0], &jobs[2], &jobs[1]]));
}

async fn a_new_priority_keeps_the_order_of_a_key(queue: TestStore) {
    let (jobs, other) = (pushed(&queue, 3).await, keyed("other"));
    queue.push(from_ref(&other)).await;
    changed(&queue, &jobs[2], to(Priority::High)).await;
    assert_eq!(claimed(&queue.claim(9).await), ids([&jobs[0], &other]));
    assert_eq!(behind(&queue, &jobs[2]).await.unwrap().ahead, 1);
    assert_eq!(queue.counts("mail").await.waiting_for_key, 2);
}

/// Ten jobs of a key in a second, two at a time.
fn ten() -> FleetLimits {
    let rate = Some(Rate { jobs: 10, per: Duration::from_secs(1), burst: 1 });
    FleetLimits { per_key: KeyLimits { max_running: 2, rate, ..KeyLimits::DEFAULT }, ..FleetLimits::NONE }
}

async fn a_job_that_its_rate_holds_back_still_needs_a_token(queue: TestStore) {
    let jobs = pushed(&queue, 1).await;
    assert_eq!(claimed(&claim(&queue, ten()).await), ids(&jobs));
    let held = pushed(&queue, 1).await;
    assert!(claim(&queue, ten()).await.is_empty());
    changed(&queue, &held[0], NOW).await;
    assert_eq!(queue.state(&held[0].spec.id).await, Some(JobState::Ready));
    assert!(claim(&queue, ten()).await.is_empty());
    let view = queue.view(&held[0].spec.id).await.unwrap();
    assert_eq!((view.state, view.rate_of_key), (JobState::Delayed { until: queue.in_ms(100) }, true));
    queue.pass(100);
    queue.migrate().await;
    assert_eq!(claimed(&claim(&queue, ten()).await), ids(&held));
}

async fn a_job_that_its_rate_holds_back_may_be_delayed_further(queue: TestStore) {
    let jobs = pushed(&queue, 1).await;
    let first = claim(&queue, ten()).await;
    assert_eq!(claimed(&first), ids(&jobs));
    let held = pushed(&queue, 1).await;
    assert!(claim(&queue, ten()).await.is_empty());
    changed(&queue, &held[0], after(60_000)).await;
    assert!(!queue.view(&held[0].spec.id).await.unwrap().rate_of_key);
    // It holds up no other job of its key.
    let next = pushed(&queue, 1).await;
    queue.pass(100);
    queue.migrate().await;
    assert_eq!(claimed(&claim(&queue, ten()).await), ids(&next));
    queue.pass(60_000);
    queue.migrate().await;
    queue.settle(&first[0], Verdict::Bury(failure(Reason::Trap))).await;
    assert_eq!(claimed(&claim(&queue, ten()).await), ids(&held));
}
