//! Jobs that wait for each other, looked at and cancelled together.

use gristmill_core::job::{Ended, JobId, NewJob};
use gristmill_core::outcome::Verdict;
use gristmill_store::{BatchSealed, Cancelled, GraphEdge, JobGraph, JobState, TreeCancelled, cancel_tree, job_graph};
use gristmill_store_tests::test_store::{TestStore, ids, job, settlement, tenant};

use super::after::{after, batch, member, stored};

super::cases![
    a_job_is_cancelled_after_those_that_wait_for_it,
    running_jobs_of_a_tree_are_marked,
    a_tree_of_an_unknown_job_is_empty,
    a_graph_is_cut_at_its_bounds,
    ; in_order:
    a_batch_is_cancelled_with_its_members_and_with_all_that_wait,
    a_graph_has_what_a_job_waits_for_and_what_waits_for_it,
    ; large:
    a_large_batch_is_cancelled_step_by_step,
];

async fn seal(queue: &TestStore, batch: &NewJob) {
    assert_eq!(queue.store.seal(&tenant(), &batch.spec.id).await.unwrap(), BatchSealed::Sealed);
}

async fn cancel(queue: &TestStore, id: &JobId) -> TreeCancelled {
    cancel_tree(&*queue.store, &tenant(), id, false).await.unwrap()
}

async fn graph(queue: &TestStore, of: &NewJob, depth: usize, limit: usize) -> JobGraph {
    job_graph(&*queue.store, &tenant(), &of.spec.id, depth, limit).await.unwrap().unwrap()
}

async fn a_batch_is_cancelled_with_its_members_and_with_all_that_wait(queue: TestStore) {
    let (first, other) = (job("mail"), job("mail"));
    let mut outer = batch();
    outer.spec.options.after = vec![first.spec.id.clone()];
    let mut inner = batch();
    inner.spec.options.batch = Some(outer.spec.id.clone());
    stored(&queue, &[first.clone(), other.clone(), outer.clone()]).await;
    stored(&queue, &[inner.clone(), member(&outer)]).await;
    let members = [member(&inner), member(&inner)];
    stored(&queue, &members).await;
    let behind = after("mail", &[&members[0], &other]);
    stored(&queue, &[after("mail", &[&outer]), behind]).await;
    seal(&queue, &inner).await;
    seal(&queue, &outer).await;
    let done = cancel(&queue, &outer.spec.id).await;
    assert_eq!(done, TreeCancelled { gone: 7, stopping: 0, complete: true });
    // What the batch itself waited for by name stays.
    assert_eq!(queue.places().await, [2, 0, 0, 0]);
    assert!(queue.view(&first.spec.id).await.is_some() && queue.view(&other.spec.id).await.is_some());
}

/// None that waits may start meanwhile, although it would run whatever became of those before it.
async fn a_job_is_cancelled_after_those_that_wait_for_it(queue: TestStore) {
    let mut jobs = vec![job("mail")];
    for _ in 0..30 {
        jobs.push(after("mail", &[&jobs[jobs.len() - 1], &jobs[0]]));
    }
    stored(&queue, &jobs).await;
    let done = cancel(&queue, &jobs[0].spec.id).await;
    assert_eq!(done, TreeCancelled { gone: 31, stopping: 0, complete: true });
    assert_eq!((queue.places().await, queue.total("cancelled").await), ([0; 4], 31));
}

async fn running_jobs_of_a_tree_are_marked(queue: TestStore) {
    let batch = batch();
    stored(&queue, std::slice::from_ref(&batch)).await;
    stored(&queue, &[member(&batch), member(&batch)]).await;
    seal(&queue, &batch).await;
    let claim = queue.claim_one().await;
    let done = cancel(&queue, &batch.spec.id).await;
    assert_eq!(done, TreeCancelled { gone: 2, stopping: 1, complete: true });
    let marked = matches!(queue.state(&claim.lease.job).await, Some(JobState::Running { cancelled: true, .. }));
    assert!(marked && queue.view(&batch.spec.id).await.is_none());
}

async fn a_tree_of_an_unknown_job_is_empty(queue: TestStore) {
    let nobody = job("mail").spec.id;
    assert_eq!(cancel(&queue, &nobody).await, TreeCancelled { gone: 0, stopping: 0, complete: true });
    assert_eq!(job_graph(&*queue.store, &tenant(), &nobody, 9, 9).await.unwrap(), None);
}

async fn a_large_batch_is_cancelled_step_by_step(queue: TestStore) {
    const MEMBERS: usize = 2500;
    let batch = batch();
    stored(&queue, std::slice::from_ref(&batch)).await;
    stored(&queue, &(0..MEMBERS).map(|_| member(&batch)).collect::<Vec<_>>()).await;
    seal(&queue, &batch).await;
    let (mut gone, mut steps) = (0, 0);
    loop {
        let step = cancel(&queue, &batch.spec.id).await;
        (gone, steps) = (gone + step.gone, steps + 1);
        if step.complete {
            break;
        }
        // As long as some of its members are there, it is found, and does not start.
        assert!((1000..1010).contains(&step.gone));
        assert_eq!(queue.state(&batch.spec.id).await, Some(JobState::Waiting));
    }
    assert_eq!((gone, steps), (MEMBERS as u64 + 1, 3));
    assert_eq!(queue.places().await, [0; 4]);
    assert_eq!(queue.store.cancel(&tenant(), &ids([&batch])).await.unwrap(), [Cancelled::TooLate]);
}

async fn a_graph_has_what_a_job_waits_for_and_what_waits_for_it(queue: TestStore) {
    let (first, other) = (job("mail"), job("news"));
    stored(&queue, &[first.clone(), other.clone()]).await;
    let middle = after("mail", &[&first, &other]);
    let last = after("mail", &[&middle]);
    stored(&queue, &[middle.clone(), last.clone()]).await;
    let claim = queue.claim_one().await;
    queue.settle_with(settlement(&claim, Verdict::Ack(None))).await;

    let graph = graph(&queue, &middle, 9, 9).await;
    assert!(!graph.cut);
    assert_eq!((graph.nodes[0].id.clone(), graph.nodes.len()), (middle.spec.id.clone(), 4));
    let state = |job: &NewJob| {
        let node = graph.nodes.iter().find(|node| node.id == job.spec.id).unwrap();
        (node.state.as_str(), node.waits_for.map(|progress| (progress.total, progress.ended)))
    };
    assert_eq!(state(&middle), ("waiting", Some((2, 1))));
    assert_eq!((state(&last), state(&other)), (("waiting", Some((1, 0))), ("ready", None)));
    let edge = |waiter: &NewJob, job: &NewJob, ended| GraphEdge {
        waiter: waiter.spec.id.clone(),
        job: job.spec.id.clone(),
        ended,
    };
    let done = Some(Ended::Complete);
    assert_eq!(graph.edges, [edge(&middle, &other, None), edge(&middle, &first, done), edge(&last, &middle, None)]);
}

async fn a_graph_is_cut_at_its_bounds(queue: TestStore) {
    let mut jobs = vec![job("mail")];
    for _ in 0..5 {
        jobs.push(after("mail", &[&jobs[jobs.len() - 1]]));
    }
    stored(&queue, &jobs).await;
    let size = async |of: usize, depth, limit| {
        let graph = graph(&queue, &jobs[of], depth, limit).await;
        (graph.nodes.len(), graph.edges.len(), graph.cut)
    };
    assert_eq!(size(0, 9, 9).await, (6, 5, false));
    assert_eq!((size(0, 5, 6).await, size(5, 5, 6).await), ((6, 5, false), (6, 5, false)));
    assert_eq!((size(0, 2, 9).await, size(5, 2, 9).await), ((3, 2, true), (3, 2, true)));
    assert_eq!((size(0, 9, 4).await, size(3, 1, 9).await), ((4, 3, true), (3, 2, true)));
    assert_eq!(size(0, 0, 0).await, (1, 0, true));
}
