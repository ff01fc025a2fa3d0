//! Jobs that are over: how and when they ended is remembered for a while.

use std::time::Duration;

use gristmill_core::job::{JobId, NewJob};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::topic::ENDED_RETENTION;
use gristmill_store::{DeadLimits, EndedAs, JobEnd, JobState, REMEMBERED, Settlement};
use gristmill_store_tests::test_store::{TestStore, failure, job, keyed, retry, settlement, tenant, topic};

super::cases![
    a_job_that_is_done_is_remembered_with_its_attempts,
    a_job_that_is_not_over_or_never_was_has_no_end,
    jobs_that_end_otherwise_are_remembered_too,
    jobs_of_one_call_are_remembered_with_their_own_attempts,
    an_end_is_forgotten_when_its_time_is_over,
    an_end_that_is_not_to_be_remembered_is_not,
    a_late_settle_leaves_no_end,
    a_job_that_is_pushed_and_ends_again_has_its_latest_end,
    a_forgotten_topic_remembers_no_ends,
    jobs_with_keys_are_remembered,
    ; in_order:
    the_last_thousand_jobs_of_a_topic_are_remembered_and_not_all,
    jobs_that_ended_are_listed_the_latest_first,
];

async fn ended(queue: &TestStore, id: &JobId) -> Option<(EndedAs, u32)> {
    let view = queue.store.ended(&tenant(), id).await.unwrap()?;
    assert_eq!((&view.id, &view.state, &view.job, &view.result), (id, &JobState::Finished, &None, &None));
    Some((view.ended?.outcome, view.attempts))
}

async fn done(queue: &TestStore, jobs: &[NewJob]) {
    for jobs in jobs.chunks(500) {
        queue.push(jobs).await;
        let mut left = jobs.len();
        while left > 0 {
            let claims = queue.claim(500).await;
            left -= claims.len();
            let acks: Vec<_> = claims.iter().map(|claim| settlement(claim, Verdict::Ack(None))).collect();
            queue.store.settle(&acks).await.unwrap();
        }
    }
}

async fn a_job_that_is_done_is_remembered_with_its_attempts(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, retry(0)).await;
    let claim = queue.claim_one().await;
    queue.pass(7);
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(queue.view(&claim.lease.job).await, None, "its result is not kept");
    let view = queue.store.ended(&tenant(), &claim.lease.job).await.unwrap().unwrap();
    assert_eq!((view.state, view.attempts), (JobState::Finished, 2));
    let end = JobEnd { topic: topic("mail"), outcome: EndedAs::Complete, at: queue.now() };
    assert_eq!(view.ended, Some(end));
}

async fn a_job_that_is_not_over_or_never_was_has_no_end(queue: TestStore) {
    let dead = queue.dead().await.lease.job;
    let running = queue.running().await.lease.job;
    let waiting = job("mail");
    let unknown = JobId::generate();
    queue.push(std::slice::from_ref(&waiting)).await;
    for id in [dead, running, waiting.spec.id, unknown] {
        assert_eq!(ended(&queue, &id).await, None);
    }
    assert_eq!(queue.store.ended_jobs(&topic("mail"), 10).await.unwrap(), []);
}

async fn jobs_that_end_otherwise_are_remembered_too(queue: TestStore) {
    let expired = queue.running().await;
    queue.settle(&expired, Verdict::Expire).await;
    let waiting = job("mail");
    queue.push(std::slice::from_ref(&waiting)).await;
    queue.store.cancel(&tenant(), std::slice::from_ref(&waiting.spec.id)).await.unwrap();
    let stopped = queue.running().await;
    queue.store.cancel(&tenant(), std::slice::from_ref(&stopped.lease.job)).await.unwrap();
    queue.settle(&stopped, retry(0)).await;
    let deleted = queue.dead().await.lease.job;
    queue.store.delete_dead(&topic("mail"), std::slice::from_ref(&deleted)).await.unwrap();
    let swept = queue.dead().await.lease.job;
    let none = DeadLimits { topic: topic("mail"), keep: 0, retention: ENDED_RETENTION };
    assert_eq!(queue.store.sweep(&[none]).await.unwrap(), [1]);
    assert_eq!(ended(&queue, &expired.lease.job).await, Some((EndedAs::Expired, 1)));
    assert_eq!(ended(&queue, &waiting.spec.id).await, Some((EndedAs::Cancelled, 0)));
    assert_eq!(ended(&queue, &stopped.lease.job).await, Some((EndedAs::Cancelled, 1)));
    assert_eq!(ended(&queue, &deleted).await, Some((EndedAs::Deleted, 1)));
    assert_eq!(ended(&queue, &swept).await, Some((EndedAs::Deleted, 1)));
}

async fn jobs_of_one_call_are_remembered_with_their_own_attempts(queue: TestStore) {
    let released = queue.running().await;
    queue.settle(&released, Verdict::Release(Duration::ZERO)).await;
    let retried = queue.running().await;
    let other = queue.claim_one().await;
    for claim in [&retried, &other] {
        let verdict = if claim.lease.job == released.lease.job { Verdict::Snooze(Duration::ZERO) } else { retry(0) };
        queue.settle(claim, verdict).await;
    }
    queue.push(&[job("mail")]).await;
    let mut claims = queue.claim(3).await;
    while claims.len() < 3 {
        claims.extend(queue.claim(3).await);
    }
    let attempts: Vec<_> = claims.iter().map(|claim| (claim.lease.job.clone(), claim.attempt)).collect();
    let acks: Vec<_> = claims.iter().map(|claim| settlement(claim, Verdict::Ack(None))).collect();
    queue.store.settle(&acks).await.unwrap();
    let mut all: Vec<u32> = attempts.iter().map(|(_, attempts)| *attempts).collect();
    all.sort_unstable();
    assert_eq!(all, [1, 1, 2]);
    for (id, attempts) in attempts {
        assert_eq!(ended(&queue, &id).await, Some((EndedAs::Complete, attempts)));
    }
}

async fn an_end_is_forgotten_when_its_time_is_over(queue: TestStore) {
    let claim = queue.running().await;
    let remembered = Duration::from_secs(60);
    queue.settle_with(Settlement { remember: remembered, ..settlement(&claim, Verdict::Ack(None)) }).await;
    queue.pass(59_999);
    assert_eq!(ended(&queue, &claim.lease.job).await, Some((EndedAs::Complete, 1)));
    queue.pass(1);
    assert_eq!(ended(&queue, &claim.lease.job).await, None);
    assert_eq!(queue.store.ended_jobs(&topic("mail"), 10).await.unwrap(), []);
    queue.store.sweep(&[DeadLimits { topic: topic("mail"), keep: 0, retention: remembered }]).await.unwrap();
    assert_eq!(ended(&queue, &claim.lease.job).await, None);
}

async fn an_end_that_is_not_to_be_remembered_is_not(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle_with(Settlement { remember: Duration::ZERO, ..settlement(&claim, Verdict::Ack(None)) }).await;
    assert_eq!(ended(&queue, &claim.lease.job).await, None);
}

async fn a_late_settle_leaves_no_end(queue: TestStore) {
    let late = queue.running().await;
    queue.settle(&late, retry(0)).await;
    queue.claim_one().await;
    queue.settle(&late, Verdict::Ack(None)).await;
    assert_eq!(ended(&queue, &late.lease.job).await, None);
}

async fn a_job_that_is_pushed_and_ends_again_has_its_latest_end(queue: TestStore) {
    let again = job("mail");
    done(&queue, std::slice::from_ref(&again)).await;
    queue.pass(5);
    queue.push(std::slice::from_ref(&again)).await;
    queue.store.cancel(&tenant(), std::slice::from_ref(&again.spec.id)).await.unwrap();
    assert_eq!(ended(&queue, &again.spec.id).await, Some((EndedAs::Cancelled, 0)));
}

async fn a_forgotten_topic_remembers_no_ends(queue: TestStore) {
    let id = queue.running().await;
    queue.settle(&id, Verdict::Ack(None)).await;
    assert!(queue.store.forget_topic(&topic("mail")).await.unwrap());
    assert_eq!(ended(&queue, &id.lease.job).await, None);
    assert_eq!(queue.store.ended_jobs(&topic("mail"), 10).await.unwrap(), []);
}

async fn jobs_with_keys_are_remembered(queue: TestStore) {
    queue.push(&[keyed("a")]).await;
    let claim = queue.claim_one().await;
    queue.settle_with(Settlement { is_keyed: true, ..settlement(&claim, Verdict::Ack(None)) }).await;
    assert_eq!(ended(&queue, &claim.lease.job).await, Some((EndedAs::Complete, 1)));
}

async fn the_last_thousand_jobs_of_a_topic_are_remembered_and_not_all(queue: TestStore) {
    let quiet = queue.dead().await.lease.job;
    queue.store.delete_dead(&topic("mail"), std::slice::from_ref(&quiet)).await.unwrap();
    let jobs: Vec<_> = (0..10 * REMEMBERED / 2).map(|_| job("mail")).collect();
    done(&queue, &jobs).await;
    let listed = queue.store.ended_jobs(&topic("mail"), usize::MAX).await.unwrap();
    assert!((REMEMBERED..jobs.len()).contains(&listed.len()), "{}", listed.len());
    for job in &jobs[jobs.len() - REMEMBERED..] {
        assert!(listed.iter().any(|view| view.id == job.spec.id));
    }
    assert_eq!(ended(&queue, &quiet).await, None);
    assert!(ended(&queue, &jobs[jobs.len() - 1].spec.id).await.is_some());
}

async fn jobs_that_ended_are_listed_the_latest_first(queue: TestStore) {
    let mut all = Vec::new();
    for _ in 0..3 {
        let claim = queue.running().await;
        queue.settle(&claim, Verdict::Ack(None)).await;
        queue.pass(1);
        all.insert(0, claim.lease.job);
    }
    let buried = queue.running().await;
    queue.settle(&buried, Verdict::Bury(failure(Reason::Trap))).await;
    let listed = async |limit| {
        let jobs = queue.store.ended_jobs(&topic("mail"), limit).await.unwrap();
        jobs.into_iter().map(|view| view.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(10).await, all);
    assert_eq!(listed(2).await, all[..2]);
    assert_eq!(queue.store.ended_jobs(&topic("other"), 10).await.unwrap(), []);
}
