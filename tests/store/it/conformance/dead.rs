//! Dead jobs: listed, brought back, deleted.

use gristmill_core::job::{JobId, TopicId};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_store::{JobQuery, JobState, JobView, Scanned, Settled, StateFilter, scan};
use gristmill_store_tests::test_store::{TestStore, failure, foreign, job, retry, topic};

super::cases![
    the_oldest_dead_jobs_of_a_topic_are_found,
    of_jobs_that_died_in_the_same_millisecond_the_first_by_id_is_the_oldest,
    a_respawned_job_has_all_attempts_before_it_and_keeps_its_fence,
    a_respawned_job_knows_no_failure,
    only_dead_jobs_of_the_topic_are_respawned,
    a_job_may_die_again,
    only_dead_jobs_are_deleted,
    a_deleted_job_is_gone_and_its_id_is_free,
    ; in_order:
    a_respawned_job_joins_the_end,
];

/// The dead jobs of `mail`, as they are listed.
pub(super) async fn dead_jobs(queue: &TestStore) -> Vec<JobView> {
    let (mail, mut all) = (topic("mail"), Vec::new());
    let mut most = Scanned::at_most(usize::MAX, usize::MAX);
    scan(&*queue.store, (&mail, StateFilter::Dead), None, &JobQuery::default(), &mut most, |view| all.push(view))
        .await
        .unwrap();
    all
}

async fn respawn(queue: &TestStore, ids: &[JobId]) -> Vec<bool> {
    queue.store.respawn(&topic("mail"), ids).await.unwrap()
}

async fn oldest(queue: &TestStore, of: &TopicId, limit: usize) -> Vec<(Timestamp, JobId)> {
    queue.store.oldest_dead(of, limit).await.unwrap()
}

async fn the_oldest_dead_jobs_of_a_topic_are_found(queue: TestStore) {
    let mut buried = Vec::new();
    for _ in 0..5 {
        buried.push((queue.now(), queue.dead().await.lease.job));
        queue.pass(1);
    }
    for (limit, count) in [(0, 0), (2, 2), (5, 5), (usize::MAX, 5)] {
        assert_eq!(oldest(&queue, &topic("mail"), limit).await, buried[..count], "{limit} of them");
    }
    assert!(oldest(&queue, &topic("audit"), 9).await.is_empty());
    assert!(oldest(&queue, &foreign("mail").spec.topic, 9).await.is_empty());
    respawn(&queue, &[buried.remove(0).1]).await;
    assert_eq!(oldest(&queue, &topic("mail"), 9).await, buried);
}

async fn of_jobs_that_died_in_the_same_millisecond_the_first_by_id_is_the_oldest(queue: TestStore) {
    for id in ["b", "c", "a"] {
        let mut job = job("mail");
        job.spec.id = id.parse().unwrap();
        queue.push(&[job]).await;
        let claim = queue.claim_one().await;
        queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    }
    assert_eq!(oldest(&queue, &topic("mail"), 2).await, ["a", "b"].map(|id| (queue.now(), id.parse().unwrap())));
}

async fn a_respawned_job_has_all_attempts_before_it_and_keeps_its_fence(queue: TestStore) {
    let first = queue.dead().await;
    queue.pass(1000);
    let ids = [first.lease.job.clone(), "unknown".parse().unwrap()];
    assert_eq!(respawn(&queue, &ids).await, [true, false]);
    assert_eq!(queue.view(&first.lease.job).await.unwrap().attempts, 0);
    let second = queue.claim_one().await;
    assert_eq!((second.attempt, second.lease.delivery), (1, 2));
    assert_eq!((second.job.due_at, second.job.enqueued_at), (queue.now(), first.job.enqueued_at));
    assert_eq!(second.job.spec, first.job.spec);
    assert_eq!(queue.settle(&first, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(queue.settle(&second, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(queue.places().await, [0; 4]);
}

async fn a_respawned_job_knows_no_failure(queue: TestStore) {
    let dead = queue.dead().await.lease.job;
    respawn(&queue, std::slice::from_ref(&dead)).await;
    assert_eq!(queue.view(&dead).await.unwrap().last_failure, None);
    assert_eq!(queue.claim_one().await.previous, None);
}

async fn a_respawned_job_joins_the_end(queue: TestStore) {
    let dead = [queue.dead().await.lease.job, queue.dead().await.lease.job];
    let waiting = job("mail");
    queue.push(std::slice::from_ref(&waiting)).await;
    assert_eq!(respawn(&queue, &dead).await, [true, true]);
    let order = gristmill_store_tests::test_store::claimed(&queue.claim(9).await);
    assert_eq!(order, [&waiting.spec.id, &dead[0], &dead[1]].map(Clone::clone));
}

async fn only_dead_jobs_of_the_topic_are_respawned(queue: TestStore) {
    let dead = queue.dead().await.lease.job;
    let running = queue.running().await;
    let waiting = job("mail");
    queue.push(std::slice::from_ref(&waiting)).await;
    assert_eq!(respawn(&queue, &[running.lease.job.clone(), waiting.spec.id.clone()]).await, [false, false]);
    let elsewhere = queue.store.respawn(&topic("audit"), std::slice::from_ref(&dead)).await.unwrap();
    assert_eq!((elsewhere, queue.places().await), (vec![false], [1, 0, 1, 1]));
    assert_eq!(respawn(&queue, &[dead.clone(), dead]).await, [true, false]);
    assert_eq!(queue.places().await, [2, 0, 1, 0]);
    assert_eq!(queue.settle(&running, Verdict::Ack(None)).await, Settled::Done);
}

async fn a_job_may_die_again(queue: TestStore) {
    let first = queue.dead().await;
    respawn(&queue, std::slice::from_ref(&first.lease.job)).await;
    let second = queue.claim_one().await;
    queue.settle(&second, retry(0)).await;
    let third = queue.claim_one().await;
    assert_eq!((third.attempt, third.lease.delivery), (2, 3));
    queue.settle(&third, Verdict::Bury(failure(Reason::Limit))).await;
    let dead = dead_jobs(&queue).await.pop().unwrap();
    assert_eq!((dead.attempts, dead.last_failure), (2, Some(failure(Reason::Limit))));
    assert_eq!((queue.total("dead-trap").await, queue.total("dead-limit").await), (1, 1));
}

async fn only_dead_jobs_are_deleted(queue: TestStore) {
    let dead = queue.dead().await.lease.job;
    let running = queue.running().await.lease.job;
    let waiting = job("mail");
    queue.push(std::slice::from_ref(&waiting)).await;
    let elsewhere = queue.store.delete_dead(&topic("audit"), std::slice::from_ref(&dead)).await.unwrap();
    assert_eq!(elsewhere, [false]);
    let ids = [dead.clone(), waiting.spec.id.clone(), running, dead.clone(), "unknown".parse().unwrap()];
    let answers = queue.store.delete_dead(&topic("mail"), &ids).await.unwrap();
    assert_eq!(answers, [true, false, false, false, false]);
    assert_eq!(queue.state(&waiting.spec.id).await, Some(JobState::Ready));
    assert_eq!(queue.places().await, [1, 0, 1, 0]);
}

async fn a_deleted_job_is_gone_and_its_id_is_free(queue: TestStore) {
    let claim = queue.dead().await;
    queue.store.delete_dead(&topic("mail"), std::slice::from_ref(&claim.lease.job)).await.unwrap();
    assert_eq!(queue.view(&claim.lease.job).await, None);
    assert_eq!(respawn(&queue, std::slice::from_ref(&claim.lease.job)).await, [false]);
    let mut again = job("mail");
    again.spec.id = claim.lease.job;
    queue.push(&[again]).await;
    let again = queue.claim_one().await;
    assert_eq!((again.attempt, again.previous, again.checkpoint), (1, None, None));
}
