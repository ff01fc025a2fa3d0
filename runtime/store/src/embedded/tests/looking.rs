//! What people see, what they do with jobs, and who is woken.

use std::time::Duration;

use super::mill::{Mill, bury, delayed, failure, job, next, retry, tenant, told, topic, unique, urgent, with, worker};
use crate::{
    Cancelled, DeadLimits, Inspect, JobState, PendingWork, Produce, Pushed, ResultView, Settled, Settlement, Signal,
    Store,
};
use gristmill_core::job::{JobId, Priority};
use gristmill_core::outcome::{Reason, Verdict};

#[tokio::test]
async fn a_job_is_seen_wherever_it_is() {
    let mill = Mill::new().await;
    let pushed = with("mail", |spec| spec.keep_result = Some(Duration::from_secs(60)));
    let late = gristmill_core::job::NewJob { due: delayed("mail", 10).due, ..pushed.clone() };
    mill.push(&[late]).await;
    let until = mill.now().plus(Duration::from_millis(10));
    assert_eq!(mill.state(&pushed.spec).await, Some(JobState::Delayed { until }));
    mill.pass(10);
    mill.migrate().await;
    assert_eq!(mill.state(&pushed.spec).await, Some(JobState::Ready));
    let claim = mill.claim(1).await.pop().unwrap();
    let running = JobState::Running {
        worker: worker().to_string(),
        delivery: 1,
        lease_until: claim.lease_until,
        cancelled: false,
    };
    assert_eq!(mill.state(&pushed.spec).await, Some(running));
    mill.settle(&claim, bury()).await;
    let view = mill.store.job(&tenant(), &pushed.spec.id).await.unwrap().unwrap();
    assert_eq!((view.state, view.attempts), (JobState::Dead { since: mill.now() }, 1));
    assert_eq!(view.last_failure, Some(failure(Reason::Trap)));
    assert_eq!(
        (view.result, view.job.unwrap().spec),
        (Some(ResultView::Dead(failure(Reason::Trap))), pushed.spec.clone())
    );
    assert_eq!(mill.store.delete_dead(&topic("mail"), std::slice::from_ref(&pushed.spec.id)).await.unwrap(), [true]);
    assert_eq!(mill.state(&pushed.spec).await, Some(JobState::Finished));
    mill.pass(60_000);
    assert_eq!(mill.state(&pushed.spec).await, None);
}

#[tokio::test]
async fn dead_jobs_are_listed_latest_first_in_pages() {
    let mill = Mill::new().await;
    let mut buried = Vec::new();
    for _ in 0..5 {
        let claim = mill.running().await;
        mill.settle(&claim, bury()).await;
        buried.push(claim.lease.job);
        mill.pass(1);
    }
    buried.reverse();
    let page = async |skip, limit| -> Vec<JobId> {
        let dead = mill.store.dead(&topic("mail"), skip, limit).await.unwrap();
        dead.into_iter().map(|dead| dead.job.spec.id).collect()
    };
    assert_eq!(page(0, 2).await, buried[..2]);
    assert_eq!(page(2, usize::MAX).await, buried[2..]);
    assert!(page(0, 0).await.is_empty());
}

#[tokio::test]
async fn a_respawned_job_has_all_attempts_before_it_and_keeps_fence_and_checkpoint() {
    let mill = Mill::new().await;
    let first = mill.running().await;
    mill.store.checkpoint(&first.lease, b"c").await.unwrap();
    mill.settle(&first, bury()).await;
    mill.pass(1000);
    let ids = [first.lease.job.clone(), "unknown".parse().unwrap()];
    assert_eq!(mill.store.respawn(&topic("other"), &ids).await.unwrap(), [false, false]);
    assert_eq!(mill.store.respawn(&topic("mail"), &ids).await.unwrap(), [true, false]);
    let second = mill.claim(1).await.pop().unwrap();
    assert_eq!((second.attempt, second.lease.delivery, second.previous), (1, 2, None));
    assert_eq!((second.job.due_at, second.job.enqueued_at), (mill.now(), first.job.enqueued_at));
    assert_eq!(second.checkpoint.as_deref(), Some(&b"c"[..]));
    assert_eq!(mill.settle(&first, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(mill.counts("mail").await.dead, 0);
}

#[tokio::test]
async fn respawn_asks_for_a_value_held_until_done_and_not_for_a_window() {
    let mill = Mill::new().await;
    let bury_one = async |job| {
        mill.push(&[job]).await;
        let claim = mill.claim(1).await.pop().unwrap();
        mill.settle(&claim, bury()).await;
        [claim.lease.job]
    };
    let until_done = bury_one(unique("mail", "u", None)).await;
    let windowed = bury_one(unique("mail", "w", Some(5))).await;
    mill.pass(5);
    mill.push(&[unique("mail", "u", None), unique("mail", "w", None)]).await;
    assert_eq!(mill.store.respawn(&topic("mail"), &until_done).await.unwrap(), [false]);
    assert_eq!(mill.store.respawn(&topic("mail"), &windowed).await.unwrap(), [true]);
    let claims = mill.claim(2).await;
    mill.settle(&claims[0], Verdict::Ack(None)).await;
    assert_eq!(mill.store.respawn(&topic("mail"), &until_done).await.unwrap(), [true]);
    let [holder] = until_done;
    assert_eq!(mill.store.push(&[unique("mail", "u", None)]).await.unwrap(), [Pushed::Duplicate(holder)]);
}

#[tokio::test]
async fn a_waiting_job_is_cancelled_at_once() {
    let mill = Mill::new().await;
    let ready = with("mail", |spec| {
        spec.keep_result = Some(Duration::from_secs(60));
        spec.unique = unique("mail", "u", None).spec.unique;
    });
    let (soon, late) = (delayed("mail", 10), delayed("mail", 20));
    mill.push(&[ready.clone(), soon.clone(), late]).await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    let ids = [ready.spec.id.clone(), soon.spec.id.clone(), ready.spec.id.clone(), "unknown".parse().unwrap()];
    let gone = [Cancelled::Gone, Cancelled::Gone, Cancelled::TooLate, Cancelled::TooLate];
    assert_eq!(mill.store.cancel(&tenant(), &ids).await.unwrap(), gone);
    assert_eq!(told(&mut signals), [Signal::Finished(tenant(), ready.spec.id.clone())]);
    let view = mill.store.job(&tenant(), &ready.spec.id).await.unwrap().unwrap();
    assert_eq!((view.state, view.result), (JobState::Finished, Some(ResultView::Cancelled)));
    assert_eq!((mill.total("cancelled").await, mill.counts("mail").await.delayed), (2, 1));
    let wanted = mill.store.poll_work(&tenant(), &[]).await.unwrap();
    assert_eq!(wanted.next_due_in, Some(Duration::from_millis(20)), "nobody waits for what is gone");
    assert_eq!(mill.store.push(&[unique("mail", "u", None)]).await.unwrap(), [Pushed::Stored]);
}

#[tokio::test]
async fn a_running_job_that_was_cancelled_is_gone_unless_it_succeeds() {
    let mill = Mill::new().await;
    mill.push(&[job("mail"), job("mail")]).await;
    let claims = mill.claim(2).await;
    let ids: Vec<JobId> = claims.iter().map(|claim| claim.lease.job.clone()).collect();
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    assert_eq!(mill.store.cancel(&tenant(), &ids).await.unwrap(), [Cancelled::Stopping; 2]);
    assert_eq!(told(&mut signals), ids.iter().map(|id| Signal::Cancelled(tenant(), id.clone())).collect::<Vec<_>>());
    let mut marked = mill.store.poll_work(&tenant(), &[]).await.unwrap().cancelled;
    marked.sort_unstable();
    assert_eq!(marked, {
        let mut ids = ids.clone();
        ids.sort_unstable();
        ids
    });
    assert_eq!(mill.settle(&claims[0], Verdict::Ack(None)).await, Settled::Done);
    let snooze = Settlement {
        keep_result: Duration::from_secs(1),
        notify: true,
        follow_ups: vec![job("next")],
        ..Settlement::new(claims[1].lease.clone(), Verdict::Snooze(Duration::ZERO))
    };
    assert_eq!(mill.settle_with(snooze).await, Settled::Cancelled);
    assert_eq!(told(&mut signals), [Signal::Finished(tenant(), ids[1].clone())]);
    let result = mill.store.job(&tenant(), &ids[1]).await.unwrap().unwrap().result;
    assert_eq!(result, Some(ResultView::Cancelled));
    let counts = mill.store.counts(&tenant()).await.unwrap();
    assert_eq!(counts.len(), 1, "its follow-up does not appear");
    assert_eq!((counts[0].running, counts[0].totals["cancelled"], counts[0].totals["acked"]), (0, 1, 1));
}

#[tokio::test]
async fn a_paused_topic_hands_nothing_out_until_it_is_resumed() {
    let mill = Mill::new().await;
    assert!(!mill.store.set_paused(&topic("mail"), false).await.unwrap());
    assert!(mill.store.set_paused(&topic("mail"), true).await.unwrap());
    assert!(!mill.store.set_paused(&topic("mail"), true).await.unwrap());
    assert!(mill.counts("mail").await.paused);
    let claim = mill.claim_as(&worker(), "mail", 1).await;
    assert_eq!((claim.claims.len(), claim.drained), (0, vec![topic("mail")]));
    mill.push(&[job("mail")]).await;
    assert!(mill.claim(1).await.is_empty());
    assert!(mill.store.poll_work(&tenant(), &[]).await.unwrap().ready.is_empty());
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    assert!(mill.store.set_paused(&topic("mail"), false).await.unwrap());
    assert_eq!(told(&mut signals), [Signal::Ready(topic("mail"))]);
    assert_eq!(mill.claim(1).await.len(), 1);
    mill.store.set_paused(&topic("never"), true).await.unwrap();
    mill.store.set_paused(&topic("never"), false).await.unwrap();
    assert_eq!(mill.store.counts(&tenant()).await.unwrap().len(), 1, "it never held a job");
    assert_eq!(mill.store.tenants().await.unwrap(), [tenant()]);
}

#[tokio::test]
async fn ready_is_said_when_a_topic_was_found_empty_and_only_then() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    mill.push(&[job("mail"), urgent("mail", Priority::Low)]).await;
    mill.push(&[job("mail"), job("other")]).await;
    assert_eq!(told(&mut signals), [Signal::Ready(topic("mail")), Signal::Ready(topic("other"))]);
    let claims = mill.claim(3).await;
    mill.settle(&claims[0], retry(0)).await;
    assert!(told(&mut signals).is_empty(), "no claim has found it empty yet");
    mill.claim(2).await;
    mill.settle(&claims[1], retry(0)).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
}

#[tokio::test]
async fn due_is_said_only_if_nothing_is_due_earlier() {
    let mill = Mill::new().await;
    let mut signals = mill.store.signals(&[tenant()]).await.unwrap();
    for (of, ms) in [("a", 1000), ("b", 2000), ("a", 1500), ("b", 500)] {
        mill.push(&[delayed(of, ms)]).await;
    }
    let due = |ms| Signal::Due(tenant(), Duration::from_millis(ms));
    assert_eq!(told(&mut signals), [due(1000), due(500)]);
    let wanted = mill.store.poll_work(&tenant(), &[]).await.unwrap();
    assert_eq!(wanted, PendingWork { next_due_in: Some(Duration::from_millis(500)), ..PendingWork::default() });
}

#[tokio::test]
async fn a_slow_receiver_is_told_that_signals_were_lost_and_others_are_not() {
    let mill = Mill::new().await;
    let mut slow = mill.store.signals(&[tenant()]).await.unwrap();
    let mut others = mill.store.signals(&["other".parse().unwrap()]).await.unwrap();
    let jobs: Vec<_> = (0..1500).map(|n| job(&format!("t{n}"))).collect();
    mill.push(&jobs).await;
    let signals = told(&mut slow);
    assert_eq!((signals.len(), signals.last()), (1025, Some(&Signal::Lost)));
    mill.push(&[job("again")]).await;
    assert_eq!(told(&mut slow), [Signal::Ready(topic("again"))]);
    assert!(told(&mut others).is_empty());
}

#[tokio::test]
async fn dead_jobs_over_age_or_number_are_discarded_in_bounded_steps() {
    let mill = Mill::new().await;
    let bury_all = async |n: usize| {
        mill.push(&(0..n).map(|_| job("mail")).collect::<Vec<_>>()).await;
        let claims = mill.claim(n).await;
        let ends: Vec<_> = claims.iter().map(|claim| Settlement::new(claim.lease.clone(), bury())).collect();
        mill.store.settle(&ends).await.unwrap();
    };
    let sweep = async |keep, ms| {
        let limits = DeadLimits { topic: topic("mail"), keep, retention: Duration::from_millis(ms) };
        mill.store.sweep(&[limits]).await.unwrap()
    };
    bury_all(1003).await;
    mill.pass(10);
    bury_all(5).await;
    assert_eq!(sweep(2000, 11).await, [0]);
    assert_eq!(sweep(2000, 10).await, [1000]);
    assert_eq!(sweep(2000, 10).await, [3]);
    assert_eq!(sweep(4, 10).await, [1]);
    assert_eq!((mill.counts("mail").await.dead, mill.total("discarded").await), (4, 1004));
    assert_eq!(mill.store.sweep(&[]).await.unwrap(), Vec::<u64>::new());
}

#[tokio::test]
async fn results_values_and_workers_whose_time_is_over_are_swept() {
    let mill = Mill::new().await;
    mill.store.heartbeat(&worker()).await.unwrap();
    mill.push(&[unique("mail", "u", Some(5))]).await;
    let claim = mill.claim(1).await.pop().unwrap();
    let ack = Settlement::new(claim.lease, Verdict::Ack(None));
    mill.settle_with(Settlement { keep_result: Duration::from_millis(5), ..ack }).await;
    let left = async || {
        mill.store.sweep(&[]).await.unwrap();
        mill.number(
            "SELECT (SELECT count(*) FROM results) + (SELECT count(*) FROM uniques) + (SELECT count(*) FROM workers)",
        )
        .await
    };
    mill.pass(4);
    assert_eq!(left().await, 3);
    mill.pass(1);
    assert_eq!(left().await, 1);
    mill.pass(3_600_000);
    assert_eq!(left().await, 0);
}
