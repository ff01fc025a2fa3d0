//! As many links as a job may have.

use gristmill::job::{MEMBERS, NoLink, WAITERS};
use gristmill::outcome::Verdict;
use gristmill::store::{BatchSealed, Pushed, Settlement, job_graph};
use gristmill_tests::test_store::{TestStore, claimed, ids, job, settlement, tenant};

use super::after::{after, batch, member, stored};

super::cases![
    ; in_order:
    as_many_jobs_wait_for_one_as_may,
    a_batch_with_as_many_members_as_may_starts_after_the_last,
    a_graph_has_no_more_edges_than_it_may,
];

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
