//! Jobs that share a key, where one of them is dead; and where they move to another store.

use std::time::Duration;

use gristmill_core::job::{JobId, NewJob};
use gristmill_core::topic::{FleetLimits, OnDead};
use gristmill_store::{BehindKey, DeadLimits, Imported, Signal, StoredPlace};
use gristmill_store_tests::test_store::{TestStore, claimed, ids, job, keyed, retry, settlement, tenant, topic};
use gristmill_test_servers::wait::SOON;
use tokio::time::timeout;

use super::keys::{ack, behind, bury, claim, pushed, run_all, slots};

super::cases![
    a_dead_job_lets_its_key_go_on,
    a_respawned_job_that_halted_its_key_runs_before_the_others,
    a_respawned_job_that_did_not_halt_its_key_waits_behind_the_others,
    a_halted_key_goes_on_when_its_dead_job_is_deleted,
    a_topic_with_jobs_that_wait_is_not_forgotten,
    jobs_that_wait_are_moved_to_another_store_in_order,
    a_halted_key_is_halted_in_another_store,
    a_job_that_is_tried_again_holds_its_slot_in_another_store,
    keys_hold_when_the_store_is_opened_again,
    ; in_order:
    a_dead_job_halts_its_key,
    a_halted_key_goes_on_when_its_dead_job_is_swept,
];

fn halting() -> FleetLimits {
    slots(1, OnDead::Halt)
}

async fn a_dead_job_lets_its_key_go_on(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let claims = claim(&queue, FleetLimits::NONE).await;
    queue.settle_with(settlement(&claims[0], bury())).await;
    assert_eq!(run_all(&queue).await, ids(&jobs[1..]));
}

/// A dead job with the key `k`, and two that wait for it.
async fn halted(queue: &TestStore) -> Vec<NewJob> {
    let jobs = pushed(queue, 3).await;
    let claims = claim(queue, halting()).await;
    queue.settle_with(settlement(&claims[0], bury())).await;
    assert_eq!((queue.places().await, claim(queue, halting()).await.len()), ([2, 0, 0, 1], 0));
    jobs
}

async fn a_dead_job_halts_its_key(queue: TestStore) {
    let jobs = halted(&queue).await;
    assert_eq!(behind(&queue, &jobs[1]).await, Some(BehindKey { holders: ids([&jobs[0]]), ahead: 0 }));
    let others = [keyed("k"), keyed("other"), job("mail")];
    queue.push(&others).await;
    assert_eq!(claimed(&claim(&queue, halting()).await), ids(&others[1..]));
}

async fn a_respawned_job_that_halted_its_key_runs_before_the_others(queue: TestStore) {
    let jobs = halted(&queue).await;
    assert_eq!(queue.store.respawn(&topic("mail"), &ids([&jobs[0]])).await.unwrap(), [true]);
    assert_eq!(run_all(&queue).await, ids(&jobs));
}

async fn a_respawned_job_that_did_not_halt_its_key_waits_behind_the_others(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    let first = queue.claim_one().await;
    queue.settle_with(settlement(&first, bury())).await;
    assert_eq!(queue.store.respawn(&topic("mail"), &ids([&jobs[0]])).await.unwrap(), [true]);
    assert_eq!(run_all(&queue).await, ids([&jobs[1], &jobs[2], &jobs[0]]));
}

async fn a_halted_key_goes_on_when_its_dead_job_is_deleted(queue: TestStore) {
    let jobs = halted(&queue).await;
    assert_eq!(queue.store.delete_dead(&topic("mail"), &ids([&jobs[0]])).await.unwrap(), [true]);
    assert_eq!(run_all(&queue).await, ids(&jobs[1..]));
}

async fn a_halted_key_goes_on_when_its_dead_job_is_swept(queue: TestStore) {
    let jobs = halted(&queue).await;
    let mut signals = queue.signals(&[tenant()]).await;
    let limits = DeadLimits { topic: topic("mail"), keep: 0, retention: Duration::from_secs(60) };
    assert_eq!(queue.store.sweep(&[limits]).await.unwrap(), [1]);
    let signal = timeout(SOON, signals.recv()).await.expect("a signal in time");
    assert_eq!(signal, Some(Signal::Ready(topic("mail"))));
    assert_eq!(run_all(&queue).await, ids(&jobs[1..]));
}

async fn a_topic_with_jobs_that_wait_is_not_forgotten(queue: TestStore) {
    halted(&queue).await;
    assert!(!queue.store.forget_topic(&topic("mail")).await.unwrap());
}

/// Moves all jobs of `mail` to another store, a few at a time.
async fn moved(queue: &TestStore, limit: usize) -> TestStore {
    let (other, mail) = (queue.another().await, topic("mail"));
    loop {
        let jobs = queue.store.export(&mail, limit).await.unwrap();
        if jobs.is_empty() {
            return other;
        }
        assert!(other.store.import(&jobs).await.unwrap().iter().all(|imported| *imported == Imported::Stored));
        let moved: Vec<JobId> = jobs.into_iter().map(|stored| stored.job.spec.id).collect();
        assert!(queue.store.remove_exported(&mail, &moved).await.unwrap().iter().all(|removed| *removed));
        other.store.clear_move_marks(&tenant(), &moved).await.unwrap();
    }
}

async fn jobs_that_wait_are_moved_to_another_store_in_order(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..9).map(|n| keyed(["a", "b"][n % 2])).collect();
    queue.push(&jobs).await;
    let other = moved(&queue, 2).await;
    assert_eq!((queue.counts("mail").await.jobs(), other.places().await), (0, [9, 0, 0, 0]));
    let run = run_all(&other).await;
    for key in 0..2 {
        let of_key = ids(jobs.iter().skip(key).step_by(2));
        let in_order: Vec<_> = run.iter().filter(|id| of_key.contains(id)).cloned().collect();
        assert_eq!(in_order, of_key);
    }
}

async fn a_halted_key_is_halted_in_another_store(queue: TestStore) {
    let jobs = halted(&queue).await;
    let other = moved(&queue, 100).await;
    assert_eq!((claim(&other, halting()).await.len(), other.places().await), (0, [2, 0, 0, 1]));
    assert_eq!(other.store.respawn(&topic("mail"), &ids([&jobs[0]])).await.unwrap(), [true]);
    assert_eq!(run_all(&other).await, ids(&jobs));
}

async fn a_job_that_is_tried_again_holds_its_slot_in_another_store(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = queue.claim_one().await;
    queue.settle_with(settlement(&first, retry(50))).await;
    let exported = queue.store.export(&topic("mail"), 9).await.unwrap();
    let places: Vec<_> = exported.iter().map(|stored| (stored.holds_slot, stored.place)).collect();
    assert_eq!(places, [(true, StoredPlace::Delayed { until: queue.in_ms(50) }), (false, StoredPlace::Ready)]);
    let other = moved(&queue, 9).await;
    assert_eq!(other.claim(9).await.len(), 0);
    other.pass(50);
    other.migrate().await;
    assert_eq!(run_all(&other).await, ids(&jobs));
}

async fn keys_hold_when_the_store_is_opened_again(mut queue: TestStore) {
    let jobs = halted(&queue).await;
    let others = [keyed("other"), keyed("other")];
    queue.push(&others).await;
    let running = claim(&queue, halting()).await;
    queue.reopen().await;
    assert_eq!(claim(&queue, halting()).await.len(), 0);
    assert_eq!(queue.counts("mail").await.waiting_for_key, 3);
    ack(&queue, &running[0]).await;
    queue.store.delete_dead(&topic("mail"), &ids([&jobs[0]])).await.unwrap();
    let mut run = run_all(&queue).await;
    assert_eq!(run.len(), 3);
    run.retain(|id| ids(&jobs).contains(id));
    assert_eq!(run, ids(&jobs[1..]));
}
