//! Progress: what a running attempt says of itself is known as long as it runs.

use gristmill_core::job::{JobId, Progress};
use gristmill_core::outcome::Verdict;
use gristmill_store::{JobView, show_progress};
use gristmill_store_tests::test_store::{TestStore, job, retry, tenant};

super::cases![
    what_an_attempt_says_last_is_its_progress,
    a_later_attempt_has_said_nothing_yet,
    what_a_lost_attempt_says_changes_nothing,
    progress_is_shown_with_running_jobs,
];

fn progress(basis_points: u32, note: &str) -> Progress {
    Progress { basis_points, note: note.into() }
}

async fn known(queue: &TestStore, deliveries: &[(JobId, u64)]) -> Vec<Option<Progress>> {
    queue.store.progress(&tenant(), deliveries).await.unwrap()
}

async fn what_an_attempt_says_last_is_its_progress(queue: TestStore) {
    let (one, other) = (queue.running().await.lease, queue.running().await.lease);
    let deliveries = [(one.job.clone(), 1), (other.job.clone(), 1), (JobId::generate(), 1)];
    assert_eq!(known(&queue, &deliveries).await, [None, None, None]);
    queue.store.note_progress(&[(one.clone(), progress(1, "a b"))]).await.unwrap();
    let both = [(one, progress(5_000, "half of it\nis done")), (other, progress(10_000, ""))];
    queue.store.note_progress(&both).await.unwrap();
    let said = both.map(|(_, said)| Some(said));
    assert_eq!(known(&queue, &deliveries).await, [&said[..], &[None]].concat());
}

async fn a_later_attempt_has_said_nothing_yet(queue: TestStore) {
    let claim = queue.running().await;
    queue.store.note_progress(&[(claim.lease.clone(), progress(9_000, "nearly"))]).await.unwrap();
    queue.settle(&claim, retry(0)).await;
    let again = queue.claim_one().await;
    assert_eq!(known(&queue, &[(again.lease.job.clone(), again.lease.delivery)]).await, [None]);
    queue.store.note_progress(&[(again.lease.clone(), progress(10, "anew"))]).await.unwrap();
    assert_eq!(known(&queue, &[(again.lease.job, again.lease.delivery)]).await, [Some(progress(10, "anew"))]);
}

async fn what_a_lost_attempt_says_changes_nothing(queue: TestStore) {
    let lost = queue.running().await;
    queue.settle(&lost, retry(0)).await;
    let again = queue.claim_one().await.lease;
    let deliveries = [(again.job.clone(), again.delivery)];
    queue.store.note_progress(&[(again, progress(10, "anew"))]).await.unwrap();
    queue.store.note_progress(&[(lost.lease.clone(), progress(9_000, "nearly"))]).await.unwrap();
    assert_eq!(known(&queue, &deliveries).await, [Some(progress(10, "anew"))]);
    queue.settle(&lost, Verdict::Ack(None)).await;
    assert_eq!(known(&queue, &deliveries).await, [Some(progress(10, "anew"))]);
}

async fn progress_is_shown_with_running_jobs(queue: TestStore) {
    let done = queue.running().await;
    queue.settle(&done, Verdict::Ack(None)).await;
    let running = queue.running().await.lease;
    queue.push(&[job("mail")]).await;
    queue.store.note_progress(&[(running.clone(), progress(7, ""))]).await.unwrap();
    let mut views: Vec<JobView> = Vec::from_iter(queue.view(&running.job).await);
    show_progress(&*queue.store, &tenant(), &mut views).await.unwrap();
    assert_eq!(views[0].progress, Some(progress(7, "")));
}
