//! As many links as a job may have.

use gristmill_core::job::{MEMBERS, NewJob, NoLink, WAITERS};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{BatchSealed, Cancelled, Pushed, Settlement, Signal, job_graph};
use gristmill_store_tests::test_store::{TestStore, claimed, failure, ids, job, settlement, tenant, topic};
use gristmill_test_servers::wait::SOON;
use tokio::time::timeout;

use super::after::{after, batch, member, stored};

super::cases![
    ; in_order:
    #[cfg(feature = "thorough")]
    as_many_jobs_wait_for_one_as_may,
    the_ends_of_many_jobs_reach_those_that_wait_in_steps,
    the_ends_of_many_attempts_reach_those_that_wait_in_steps,
    what_many_jobs_waited_for_is_forgotten_in_steps,
    dead_jobs_are_respawned_before_all_that_wait_know_of_their_end,
    ; large:
    a_batch_with_as_many_members_as_may_starts_after_the_last,
    a_graph_has_no_more_edges_than_it_may,
];

/// That many jobs, and as many that wait for all of them: these are more links than one step passes on.
const CROSSED: usize = 40;

async fn crossed(queue: &TestStore) -> (Vec<NewJob>, Vec<NewJob>) {
    let jobs: Vec<NewJob> = (0..CROSSED).map(|_| job("mail")).collect();
    stored(queue, &jobs).await;
    let all: Vec<&NewJob> = jobs.iter().collect();
    let waiters: Vec<NewJob> = (0..CROSSED).map(|_| after("news", &all)).collect();
    stored(queue, &waiters).await;
    (jobs, waiters)
}

/// Goes on with what is left to be done, as a runner does. Returns in how many steps.
async fn go_on(queue: &TestStore) -> usize {
    let mut steps = 0;
    while queue.store.migrate(&tenant(), 1).await.unwrap().moved > 0 {
        steps += 1;
    }
    steps
}

/// How many jobs each of these waits for, how many of them have ended, and how many of these were not done.
async fn progress(queue: &TestStore, waiters: &[NewJob]) -> Vec<[u64; 3]> {
    let mut found = Vec::new();
    for waiter in waiters {
        let known = queue.store.waits_for(&tenant(), &waiter.spec.id, 1).await.unwrap().unwrap();
        found.push([known.total, known.ended, known.failed]);
    }
    found.dedup();
    found
}

async fn is_sound(queue: &TestStore) {
    assert_eq!(queue.store.fsck().await.unwrap().findings, []);
}

async fn the_ends_of_many_jobs_reach_those_that_wait_in_steps(mut queue: TestStore) {
    let (jobs, waiters) = crossed(&queue).await;
    let mut signals = queue.signals(&[tenant()]).await;
    let cancelled = queue.store.cancel(&tenant(), &ids(&jobs)).await.unwrap();
    assert_eq!(cancelled, [Cancelled::Gone; CROSSED]);
    assert_eq!(queue.counts("news").await.waiting, CROSSED as u64, "not all is done in one step");
    let at_once =
        async { while !matches!(signals.recv().await.unwrap(), Signal::Due { wait, .. } if wait.is_zero()) {} };
    timeout(SOON, at_once).await.expect("a runner is told to go on");
    is_sound(&queue).await;
    let last = &jobs[CROSSED - 1..];
    assert_eq!(queue.push(last).await, [Pushed::Exists], "another job of this id would be taken for it");
    // The client that cancelled them is gone.
    drop(signals);
    queue.reopen().await;
    assert!(go_on(&queue).await > 0);
    let counts = queue.counts("news").await;
    assert_eq!((counts.ready, counts.waiting), (CROSSED as u64, 0));
    assert_eq!(progress(&queue, &waiters).await, [[CROSSED as u64; 3]]);
    assert_eq!(queue.push(last).await, [Pushed::Stored]);
    is_sound(&queue).await;
}

async fn the_ends_of_many_attempts_reach_those_that_wait_in_steps(queue: TestStore) {
    let (_, waiters) = crossed(&queue).await;
    let ends = queue.claim(CROSSED).await;
    let ends: Vec<Settlement> = ends.iter().map(|claim| settlement(claim, Verdict::Ack(None))).collect();
    queue.store.settle(&ends).await.unwrap();
    assert_eq!(queue.counts("news").await.waiting, CROSSED as u64, "not all is done in one step");
    is_sound(&queue).await;
    go_on(&queue).await;
    assert_eq!(progress(&queue, &waiters).await, [[CROSSED as u64, CROSSED as u64, 0]]);
    assert_eq!(queue.counts("news").await.ready, CROSSED as u64);
    is_sound(&queue).await;
}

async fn what_many_jobs_waited_for_is_forgotten_in_steps(mut queue: TestStore) {
    let (jobs, waiters) = crossed(&queue).await;
    queue.store.cancel(&tenant(), &ids(&waiters)).await.unwrap();
    is_sound(&queue).await;
    let last = &waiters[CROSSED - 1..];
    assert_eq!(queue.push(last).await, [Pushed::Exists], "it would wait for what another job waited for");
    queue.reopen().await;
    assert!(go_on(&queue).await > 0);
    for job in &jobs {
        assert_eq!(queue.store.waiters(&tenant(), &job.spec.id).await.unwrap(), []);
    }
    assert_eq!(queue.push(last).await, [Pushed::Stored]);
    assert_eq!(progress(&queue, last).await, [[CROSSED as u64, 0, 0]]);
    is_sound(&queue).await;
}

async fn dead_jobs_are_respawned_before_all_that_wait_know_of_their_end(queue: TestStore) {
    let (jobs, waiters) = crossed(&queue).await;
    for is_respawned in [true, false] {
        let ends = queue.claim(CROSSED).await;
        let bury = |claim| settlement(claim, Verdict::Bury(failure(Reason::Rejected)));
        queue.store.settle(&ends.iter().map(bury).collect::<Vec<_>>()).await.unwrap();
        if is_respawned {
            let respawned = queue.store.respawn(&topic("mail"), &ids(&jobs)).await.unwrap();
            assert_eq!(respawned, [true; CROSSED]);
            go_on(&queue).await;
            assert_eq!(progress(&queue, &waiters).await, [[CROSSED as u64, 0, 0]]);
        } else {
            let deleted = queue.store.delete_dead(&topic("mail"), &ids(&jobs)).await.unwrap();
            assert_eq!(deleted, [true; CROSSED]);
        }
        is_sound(&queue).await;
    }
    go_on(&queue).await;
    assert_eq!(progress(&queue, &waiters).await, [[CROSSED as u64; 3]]);
    assert_eq!(queue.counts("news").await.ready, CROSSED as u64);
    for job in &jobs {
        assert_eq!(queue.store.waiters(&tenant(), &job.spec.id).await.unwrap(), []);
    }
    is_sound(&queue).await;
}

async fn a_batch_with_as_many_members_as_may_starts_after_the_last(queue: TestStore) {
    let batch = batch();
    stored(&queue, std::slice::from_ref(&batch)).await;
    stored(&queue, &(0..MEMBERS).map(|_| member(&batch)).collect::<Vec<_>>()).await;
    assert_eq!(queue.push(&[member(&batch)]).await, [Pushed::Refused(NoLink::Full(batch.spec.id.clone()))]);
    assert_eq!(queue.store.seal(&tenant(), &batch.spec.id).await.unwrap(), BatchSealed::Sealed);
    let mut run = 0;
    while run < MEMBERS {
        let claims = queue.claim(1000).await;
        run += claims.len();
        assert!(!claims.is_empty() && claims.iter().all(|claim| claim.lease.job != batch.spec.id));
        let ends: Vec<Settlement> = claims.iter().map(|claim| settlement(claim, Verdict::Ack(None))).collect();
        queue.store.settle(&ends).await.unwrap();
        let found = queue.store.waits_for(&tenant(), &batch.spec.id, 1).await.unwrap().unwrap();
        assert_eq!((found.total, found.ended), (MEMBERS as u64, run as u64));
    }
    assert_eq!(claimed(&queue.claim(9).await), ids([&batch]));
}

async fn as_many_jobs_wait_for_one_as_may(queue: TestStore) {
    let first = job("mail");
    stored(&queue, std::slice::from_ref(&first)).await;
    let waiter = || after("news", &[&first]);
    stored(&queue, &(0..WAITERS).map(|_| waiter()).collect::<Vec<_>>()).await;
    assert_eq!(queue.push(&[waiter()]).await, [Pushed::Refused(NoLink::Crowded(first.spec.id.clone()))]);
    let claim = queue.claim_one().await;
    queue.settle_with(settlement(&claim, Verdict::Ack(None))).await;
    let counts = queue.counts("news").await;
    assert_eq!((counts.ready, counts.waiting), (WAITERS as u64, 0));
}

async fn a_graph_has_no_more_edges_than_it_may(queue: TestStore) {
    let first = job("mail");
    stored(&queue, std::slice::from_ref(&first)).await;
    let layer: Vec<_> = (0..101).map(|_| after("mail", &[&first])).collect();
    stored(&queue, &layer).await;
    let all: Vec<_> = layer.iter().collect();
    stored(&queue, &(0..101).map(|_| after("mail", &all)).collect::<Vec<_>>()).await;
    let graph = job_graph(&*queue.store, &tenant(), &first.spec.id, 9, 1000).await.unwrap().unwrap();
    assert!(graph.cut && graph.edges.len() == 10_000, "{} edges", graph.edges.len());
    assert!(graph.nodes.len() > 102, "{} nodes", graph.nodes.len());
}
