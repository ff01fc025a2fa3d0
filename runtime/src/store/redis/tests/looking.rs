//! What people see, and what they do with dead jobs.

use std::time::Duration;

use super::mill::{Mill, delayed, failure, job, retry, tenant, topic, unique};
use crate::job::JobId;
use crate::outcome::{Reason, Verdict};
use crate::store::{Inspect, JobState, Produce, Pushed, ResultView, Settled, Settlement, Store};

async fn bury(mill: &Mill) -> JobId {
    let claim = mill.claim(1).await.pop().unwrap();
    let bury = Settlement::new(claim.lease.clone(), Verdict::Bury(failure(Reason::Trap)));
    let unique = claim.job.spec.unique.as_ref().map(|unique| unique.value.clone());
    mill.settle_with(Settlement { unique, keep_result: Duration::from_secs(60), ..bury }).await;
    claim.lease.job
}

#[tokio::test]
async fn every_job_is_counted_where_it_is() {
    let mill = Mill::new().await;
    assert!(mill.store.counts(&tenant()).await.unwrap().is_empty());
    mill.push(&[job("mail"), job("mail"), job("mail"), delayed("mail", 10), delayed("audit", 10)]).await;
    bury(&mill).await;
    mill.claim(1).await;
    let counts = mill.store.counts(&tenant()).await.unwrap();
    let topics: Vec<String> = counts.iter().map(|counts| counts.topic.to_string()).collect();
    assert_eq!(topics, ["acme/audit", "acme/mail"]);
    let mail = &counts[1];
    assert_eq!((mail.ready, mail.delayed, mail.running, mail.dead), (1, 1, 1, 1));
    let totals: Vec<_> = mail.totals.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(totals, [("dead-trap", 1), ("pushed", 4)]);
}

#[tokio::test]
async fn drops_and_detours_are_counted() {
    let mill = Mill::new().await;
    for verdict in [retry(0), Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO), Verdict::Expire] {
        if mill.store.wanted(&tenant(), &[]).await.unwrap().ready.is_empty() {
            mill.push(&[job("mail")]).await;
        }
        let claim = mill.claim(1).await.pop().unwrap();
        assert_eq!(mill.settle(&claim, verdict).await, Settled::Done);
    }
    for what in ["retried", "snoozed", "released", "expired"] {
        assert_eq!(mill.total(what).await, 1, "{what}");
    }
    assert_eq!(mill.counts("mail").await.running, 0);
}

#[tokio::test]
async fn a_job_is_seen_wherever_it_is() {
    let mill = Mill::new().await;
    let pushed = delayed("mail", 10);
    assert_eq!(mill.state(&pushed.spec).await, None);
    mill.push(std::slice::from_ref(&pushed)).await;
    assert_eq!(
        mill.state(&pushed.spec).await,
        Some(JobState::Delayed { until: mill.now().plus(Duration::from_millis(10)) })
    );
    mill.pass(10);
    mill.migrate().await;
    assert_eq!(mill.state(&pushed.spec).await, Some(JobState::Ready));
    let claim = mill.claim(1).await.pop().unwrap();
    let running =
        JobState::Running { worker: claim.lease.worker.to_string(), lease_until: claim.lease_until, cancelled: false };
    assert_eq!(mill.state(&pushed.spec).await, Some(running));
    mill.settle(&claim, retry(0)).await;
    let view = mill.store.job(&tenant(), &pushed.spec.id).await.unwrap().unwrap();
    assert_eq!((view.state, view.attempts, view.last_failure), (JobState::Ready, 1, Some(failure(Reason::Failed))));
    assert_eq!(view.job.unwrap().spec, pushed.spec);
    bury(&mill).await;
    let view = mill.store.job(&tenant(), &pushed.spec.id).await.unwrap().unwrap();
    assert_eq!(view.state, JobState::Dead { since: mill.now() });
    assert_eq!(view.result, Some(ResultView::Dead(failure(Reason::Trap))));
}

#[tokio::test]
async fn dead_jobs_are_listed_latest_first_in_pages() {
    let mill = Mill::new().await;
    let mut buried = Vec::new();
    for _ in 0..5 {
        mill.push(&[job("mail")]).await;
        buried.push(bury(&mill).await);
        mill.pass(1);
    }
    buried.reverse();
    let page = |skip, limit| {
        let store = mill.store.clone();
        async move {
            let dead = store.dead(&topic("mail"), skip, limit).await.unwrap();
            dead.into_iter().map(|dead| dead.job.spec.id).collect::<Vec<_>>()
        }
    };
    assert_eq!(page(0, 2).await, buried[..2]);
    assert_eq!(page(2, 9).await, buried[2..]);
    assert!(page(5, 9).await.is_empty());
    assert!(page(0, 0).await.is_empty());
}

#[tokio::test]
async fn a_respawned_job_has_all_attempts_before_it_and_keeps_its_fence() {
    let mill = Mill::new().await;
    mill.push(&[job("mail")]).await;
    let first = mill.claim(1).await.pop().unwrap();
    mill.settle(&first, Verdict::Bury(failure(Reason::Trap))).await;
    mill.pass(1000);
    let unknown: JobId = "unknown".parse().unwrap();
    let answers = mill.store.respawn(&topic("mail"), &[first.lease.job.clone(), unknown]).await.unwrap();
    assert_eq!(answers, [true, false]);
    let second = mill.claim(1).await.pop().unwrap();
    assert_eq!((second.attempt, second.lease.delivery, second.previous), (1, 2, None));
    assert_eq!(second.job.due_at, mill.now(), "its time to live starts anew");
    assert_eq!(second.job.enqueued_at, first.job.enqueued_at);
    assert_eq!(mill.settle(&first, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(mill.settle(&second, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(mill.counts("mail").await.dead, 0);
}

#[tokio::test]
async fn respawn_respects_a_unique_value_that_is_taken() {
    let mill = Mill::new().await;
    mill.push(&[unique("mail", "u")]).await;
    let dead = bury(&mill).await;
    mill.push(&[unique("mail", "u")]).await;
    assert_eq!(mill.store.respawn(&topic("mail"), std::slice::from_ref(&dead)).await.unwrap(), [false]);
    let claim = mill.claim(1).await.pop().unwrap();
    let ack = Settlement::new(claim.lease, Verdict::Ack(None));
    mill.settle_with(Settlement { unique: Some("u".into()), ..ack }).await;
    assert_eq!(mill.store.respawn(&topic("mail"), std::slice::from_ref(&dead)).await.unwrap(), [true]);
    assert_eq!(mill.store.push(&[unique("mail", "u")]).await.unwrap(), [Pushed::Duplicate(dead)]);
}

#[tokio::test]
async fn dead_jobs_are_deleted_and_only_they() {
    let mill = Mill::new().await;
    mill.push(&[job("mail")]).await;
    let dead = bury(&mill).await;
    let waiting = job("mail");
    mill.push(std::slice::from_ref(&waiting)).await;
    let ids = [dead.clone(), waiting.spec.id.clone(), dead.clone()];
    assert_eq!(mill.store.delete_dead(&topic("mail"), &ids).await.unwrap(), [true, false, false]);
    let view = mill.store.job(&tenant(), &dead).await.unwrap().unwrap();
    assert_eq!((view.state, view.job), (JobState::Finished, None), "its result is kept");
    assert_eq!(mill.state(&waiting.spec).await, Some(JobState::Ready));
    assert!(mill.store.dead(&topic("mail"), 0, 9).await.unwrap().is_empty());
}
