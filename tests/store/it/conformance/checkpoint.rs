//! Checkpoints: what an attempt saves, the next one sees.

use std::time::Duration;

use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store_tests::test_store::{TestStore, failure, job, retry, topic};

super::cases![
    the_next_attempt_sees_the_last_checkpoint,
    a_checkpoint_is_bytes_of_any_kind,
    a_checkpoint_stays_until_another_replaces_it,
    a_checkpoint_of_a_lost_lease_is_refused,
    a_checkpoint_goes_with_its_job,
    a_respawned_job_sees_its_checkpoint,
    a_look_at_a_job_shows_its_checkpoint,
];

async fn the_next_attempt_sees_the_last_checkpoint(queue: TestStore) {
    let first = queue.running().await;
    assert!(queue.store.checkpoint(&first.lease, b"step 1").await.unwrap());
    assert!(queue.store.checkpoint(&first.lease, b"step 2").await.unwrap());
    queue.settle(&first, retry(0)).await;
    assert_eq!(queue.claim_one().await.checkpoint.as_deref(), Some(&b"step 2"[..]));
}

async fn a_checkpoint_is_bytes_of_any_kind(queue: TestStore) {
    let bytes: Vec<u8> = (0..=255).collect();
    let first = queue.running().await;
    queue.store.checkpoint(&first.lease, &bytes).await.unwrap();
    queue.settle(&first, retry(0)).await;
    assert_eq!(queue.claim_one().await.checkpoint, Some(bytes));
}

async fn a_checkpoint_stays_until_another_replaces_it(queue: TestStore) {
    let first = queue.running().await;
    queue.store.checkpoint(&first.lease, b"step 1").await.unwrap();
    queue.settle(&first, retry(0)).await;
    for verdict in [Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO), retry(0)] {
        let claim = queue.claim_one().await;
        assert_eq!(claim.checkpoint.as_deref(), Some(&b"step 1"[..]));
        queue.settle(&claim, verdict).await;
    }
}

async fn a_checkpoint_of_a_lost_lease_is_refused(queue: TestStore) {
    let first = queue.running().await;
    queue.settle(&first, retry(0)).await;
    assert!(!queue.store.checkpoint(&first.lease, b"too late").await.unwrap());
    let second = queue.claim_one().await;
    assert!(!queue.store.checkpoint(&first.lease, b"far too late").await.unwrap());
    assert_eq!(second.checkpoint, None);
    queue.settle(&second, retry(0)).await;
    assert_eq!(queue.claim_one().await.checkpoint, None);
}

async fn a_checkpoint_goes_with_its_job(queue: TestStore) {
    let pushed = job("mail");
    for verdict in [Verdict::Ack(None), Verdict::Expire, Verdict::Ack(None)] {
        queue.push(std::slice::from_ref(&pushed)).await;
        let claim = queue.claim_one().await;
        assert_eq!(claim.checkpoint, None);
        queue.store.checkpoint(&claim.lease, b"old").await.unwrap();
        queue.settle(&claim, retry(0)).await;
        let claim = queue.claim_one().await;
        queue.settle(&claim, verdict).await;
    }
}

async fn a_respawned_job_sees_its_checkpoint(queue: TestStore) {
    let claim = queue.running().await;
    queue.store.checkpoint(&claim.lease, b"step 1").await.unwrap();
    queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    queue.store.respawn(&topic("mail"), &[claim.lease.job]).await.unwrap();
    assert_eq!(queue.claim_one().await.checkpoint.as_deref(), Some(&b"step 1"[..]));
}

async fn a_look_at_a_job_shows_its_checkpoint(queue: TestStore) {
    let first = queue.running().await;
    let (tenant, id) = (&first.lease.topic.tenant, &first.lease.job);
    let shown = async || {
        let view = queue.store.job(tenant, id).await.unwrap().unwrap();
        view.checkpoint.map(|checkpoint| checkpoint.data)
    };
    assert_eq!(shown().await, None);
    queue.store.checkpoint(&first.lease, b"step 1").await.unwrap();
    assert_eq!(shown().await.as_deref(), Some(&b"step 1"[..]));
    queue.settle(&first, Verdict::Bury(failure(Reason::Trap))).await;
    assert_eq!(shown().await.as_deref(), Some(&b"step 1"[..]));
}
