//! Recordings of attempts: opaque bytes beside a job, for a time, and only so many of a topic.

use std::time::Duration;

use gristmill_core::job::JobId;
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{Cancelled, DeadLimits, RECORDINGS_BYTES, RecordedJob, Settled};
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
    a_forgotten_topic_leaves_no_recording,
    recorded_jobs_are_listed_page_by_page,
    recordings_whose_time_is_over_are_not_listed,
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

async fn listed(queue: &TestStore, after: Option<&RecordedJob>, limit: usize) -> Vec<RecordedJob> {
    queue.store.recorded_jobs(&topic("mail"), after, limit).await.unwrap()
}

fn ids(jobs: &[RecordedJob]) -> Vec<&str> {
    jobs.iter().map(|job| job.id.as_str()).collect()
}

/// Those that are kept until later come first, and of the same millisecond the greater id.
async fn recorded_jobs_are_listed_page_by_page(queue: TestStore) {
    assert_eq!(listed(&queue, None, 10).await, []);
    for (number, ms) in [(5, 0), (3, 10), (1, 20), (2, 20), (4, 20)] {
        keep(&queue, &id(number), b"some", KEEP + Duration::from_millis(ms)).await;
    }
    queue.store.keep_recordings(&topic("other"), &[(id(6), b"some".to_vec())], KEEP).await.unwrap();
    let all = listed(&queue, None, 10).await;
    let mut expected = all.clone();
    expected.sort_by(|one, other| other.cmp(one));
    assert_eq!((&all, all.len()), (&expected, 5));
    let mut paged = Vec::new();
    while let page = listed(&queue, paged.last(), 2).await
        && !page.is_empty()
    {
        assert!(page.len() <= 2);
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert_eq!(listed(&queue, None, 0).await, []);
    // The last one of a page is kept anew: it was listed, and comes first now.
    let (last, rest) = (&all[1], ids(&all[2..]));
    queue.pass(1);
    keep(&queue, &last.id, b"again", KEEP + Duration::from_secs(1)).await;
    let after = listed(&queue, Some(last), 10).await;
    assert!(ids(&after).ends_with(&rest), "{after:?}, {rest:?}");
    assert_eq!(listed(&queue, None, 1).await[0].id, last.id);
}

async fn recordings_whose_time_is_over_are_not_listed(queue: TestStore) {
    keep(&queue, &id(1), b"brief", KEEP).await;
    keep(&queue, &id(2), b"long", 2 * KEEP).await;
    assert_eq!(ids(&listed(&queue, None, 10).await), ["job-2", "job-1"]);
    queue.pass(KEEP.as_millis() as u64);
    assert_eq!(ids(&listed(&queue, None, 10).await), ["job-2"]);
}

/// One that was in use, and one of which the store knows nothing else.
async fn a_forgotten_topic_leaves_no_recording(queue: TestStore) {
    let claim = queue.running().await;
    keep(&queue, &claim.lease.job, b"of an attempt", KEEP).await;
    assert!(!queue.store.forget_topic(&topic("mail")).await.unwrap(), "it has a job");
    assert!(find(&queue, &claim.lease.job).await.is_some());
    queue.settle(&claim, Verdict::Ack(None)).await;
    queue.store.keep_recordings(&topic("other"), &[(id(1), b"some".to_vec())], KEEP).await.unwrap();
    for name in ["mail", "other"] {
        assert!(queue.store.forget_topic(&topic(name)).await.unwrap());
        assert_eq!(queue.store.recorded_jobs(&topic(name), None, 10).await.unwrap(), []);
    }
    assert_eq!(find(&queue, &claim.lease.job).await, None);
}
