//! Recordings of attempts: opaque bytes beside a job, for a time, and only so many of a topic.

use std::time::Duration;

use gristmill_core::job::JobId;
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{Cancelled, DeadLimits, RECORDINGS_BYTES, Settled};
use gristmill_store_tests::test_store::{TestStore, failure, retry, tenant, topic};
use gristmill_test_servers::wait::{SOON, until};

super::cases![
    the_latest_recording_of_a_job_is_kept,
    a_recording_is_gone_when_its_time_is_over,
    the_oldest_recordings_make_room,
    a_deleted_job_leaves_no_recording,
    a_cancelled_job_leaves_no_recording,
    a_swept_job_leaves_no_recording,
    recordings_are_forgotten,
];

const KEEP: Duration = Duration::from_secs(3600);

async fn keep(queue: &TestStore, job: &JobId, recording: &[u8], keep: Duration) {
    queue.store.keep_recordings(&topic("mail"), &[(job.clone(), recording.to_vec())], keep).await.unwrap();
}

async fn find(queue: &TestStore, job: &JobId) -> Option<Vec<u8>> {
    queue.store.recording(&topic("mail"), job).await.unwrap()
}

fn id(number: usize) -> JobId {
    format!("job-{number}").parse().unwrap()
}

async fn the_latest_recording_of_a_job_is_kept(queue: TestStore) {
    assert_eq!(find(&queue, &id(1)).await, None);
    let bytes: Vec<u8> = (0..=255).collect();
    keep(&queue, &id(1), &bytes, KEEP).await;
    keep(&queue, &id(2), b"first", KEEP).await;
    keep(&queue, &id(2), b"second", KEEP).await;
    assert_eq!((find(&queue, &id(1)).await, find(&queue, &id(2)).await), (Some(bytes), Some(b"second".to_vec())));
    assert_eq!(queue.store.recording(&topic("other"), &id(1)).await.unwrap(), None);
}

async fn a_recording_is_gone_when_its_time_is_over(queue: TestStore) {
    keep(&queue, &id(1), b"brief", Duration::from_millis(40)).await;
    queue.pass(40);
    // Some stores' entries also go by the server's own clock, which no test can turn.
    until("the recording to be gone", SOON, async || find(&queue, &id(1)).await.is_none().then_some(())).await;
}

async fn the_oldest_recordings_make_room(queue: TestStore) {
    let quarter = vec![7; usize::try_from(RECORDINGS_BYTES / 4).unwrap()];
    for number in 0..4 {
        keep(&queue, &id(number), &quarter, KEEP).await;
        queue.pass(1);
    }
    assert!(find(&queue, &id(0)).await.is_some(), "there is room for all of them");
    keep(&queue, &id(4), &quarter, KEEP).await;
    let mut left = Vec::new();
    for number in 0..5 {
        left.push(find(&queue, &id(number)).await.is_some());
    }
    assert_eq!(left, [false, true, true, true, true]);
}

async fn a_deleted_job_leaves_no_recording(queue: TestStore) {
    let claim = queue.running().await;
    let job = &claim.lease.job;
    queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    keep(&queue, job, b"of the last attempt", KEEP).await;
    keep(&queue, &id(1), b"of another job", KEEP).await;
    assert_eq!(queue.store.delete_dead(&topic("mail"), std::slice::from_ref(job)).await.unwrap(), [true]);
    assert_eq!((find(&queue, job).await, find(&queue, &id(1)).await), (None, Some(b"of another job".to_vec())));
}

/// Neither one that waits for its next attempt, nor one that runs.
async fn a_cancelled_job_leaves_no_recording(queue: TestStore) {
    let waits = queue.running().await;
    queue.settle(&waits, retry(10)).await;
    let runs = queue.running().await;
    let (waits, other) = (&waits.lease.job, id(1));
    for job in [waits, &runs.lease.job, &other] {
        keep(&queue, job, b"of an attempt", KEEP).await;
    }
    let wanted = [waits.clone(), runs.lease.job.clone(), other.clone()];
    let cancelled = queue.store.cancel(&tenant(), &wanted).await.unwrap();
    assert_eq!(cancelled, [Cancelled::Gone, Cancelled::Stopping, Cancelled::TooLate]);
    assert_eq!(queue.settle(&runs, retry(0)).await, Settled::Cancelled);
    assert_eq!((find(&queue, waits).await, find(&queue, &runs.lease.job).await), (None, None));
    assert!(find(&queue, &other).await.is_some(), "nobody cancelled it");
}

async fn a_swept_job_leaves_no_recording(queue: TestStore) {
    let (old, young) = (queue.dead().await.lease.job, queue.dead().await.lease.job);
    for job in [&old, &young] {
        keep(&queue, job, b"of the last attempt", KEEP).await;
    }
    queue.pass(10);
    let third = queue.dead().await.lease.job;
    let limits = DeadLimits { topic: topic("mail"), keep: 9, retention: Duration::from_millis(10) };
    assert_eq!(queue.store.sweep(&[limits]).await.unwrap(), [2]);
    assert!(queue.state(&third).await.is_some());
    assert_eq!((find(&queue, &old).await, find(&queue, &young).await), (None, None));
}

async fn recordings_are_forgotten(queue: TestStore) {
    for number in 0..3 {
        keep(&queue, &id(number), b"some", KEEP).await;
    }
    queue.store.forget_recordings(&topic("mail"), &[id(0), id(2), id(9)]).await.unwrap();
    assert_eq!((find(&queue, &id(0)).await, find(&queue, &id(2)).await), (None, None));
    assert!(find(&queue, &id(1)).await.is_some());
}
