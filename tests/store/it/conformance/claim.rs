//! Claim: ready jobs are leased, each to one worker, oldest first.

use std::collections::HashSet;
use std::time::Duration;

use gristmill_core::job::{Claim, NewJob, Priority, WorkerId};
use gristmill_core::outcome::Verdict;
use gristmill_store::{JobState, StateFilter};
use gristmill_store_tests::test_store::{TestStore, claimed, ids, job, line, retry, tenant, topic, worker};

super::cases![
    a_topic_with_as_many_as_asked_for_is_not_called_drained,
    a_claim_of_none_takes_none,
    the_attempt_is_counted_at_the_claim,
    a_claimed_job_is_running_and_nowhere_else,
    claims_at_once_share_the_jobs_and_double_none,
    an_empty_claim_is_answered_with_nothing,
    ; in_order:
    the_oldest_ready_job_comes_first,
    a_job_that_comes_back_joins_the_end,
    one_claim_serves_many_topics_and_names_the_drained,
    each_line_of_a_claim_has_a_lease_of_its_own,
    #[cfg(feature = "thorough")]
    a_claim_is_bounded_in_bytes,
    #[cfg(feature = "thorough")]
    a_job_larger_than_a_claim_is_claimed_alone,
    #[cfg(feature = "thorough")]
    a_topic_that_a_claim_had_no_room_for_is_not_called_drained,
    #[cfg(feature = "thorough")]
    large_jobs_are_claimed_by_turns,
    #[cfg(feature = "thorough")]
    checkpoints_count_to_the_size_of_a_claim,
];

/// What a claim brings, at most.
const CLAIM_BYTES: usize = 2 << 20;

/// A job whose body has so many sixteenths of what a claim brings.
fn large(of: &str, sixteenths: usize) -> NewJob {
    let mut job = job(of);
    job.spec.body.data = vec![b'x'; sixteenths * CLAIM_BYTES / 16];
    job
}

async fn a_claim_is_bounded_in_bytes(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..20).map(|_| large("mail", 2)).collect();
    queue.push(&jobs).await;
    let (mut all, mut rounds) = (Vec::new(), 0);
    loop {
        let took = queue.claim_as(&worker(), "mail", 100).await;
        let bytes: usize = took.claims.iter().map(|claim| claim.job.spec.body.data.len()).sum();
        assert!(!took.claims.is_empty() && bytes <= CLAIM_BYTES, "{bytes} bytes");
        all.extend(claimed(&took.claims));
        rounds += 1;
        if !took.drained.is_empty() {
            break;
        }
    }
    assert!(rounds >= 3, "{rounds} claims");
    assert_eq!(all, ids(&jobs));
    assert_eq!(queue.places().await, [0, 0, 20, 0]);
}

async fn a_job_larger_than_a_claim_is_claimed_alone(queue: TestStore) {
    let jobs = [large("mail", 17), large("mail", 1), large("mail", 17)];
    queue.push(&jobs).await;
    for job in &jobs {
        assert_eq!(claimed(&queue.claim(9).await), ids([job]));
    }
    assert_eq!(queue.claim_as(&worker(), "mail", 9).await.drained, [topic("mail")]);
}

async fn a_topic_that_a_claim_had_no_room_for_is_not_called_drained(queue: TestStore) {
    let jobs = [large("a", 9), large("b", 9), job("c")];
    queue.push(&jobs).await;
    let lines = [line("a", 2), line("b", 2), line("c", 2)];
    let took = queue.store.claim(&worker(), &lines).await.unwrap();
    assert_eq!(claimed(&took.claims), ids([&jobs[0], &jobs[2]]), "a small job has room");
    assert_eq!(took.drained, [topic("a"), topic("c")]);
    let took = queue.store.claim(&worker(), &lines).await.unwrap();
    assert_eq!(claimed(&took.claims), ids([&jobs[1]]));
    assert_eq!(took.drained.len(), 3);
}

/// In the order in which small jobs are, however many claims that takes.
async fn large_jobs_are_claimed_by_turns(queue: TestStore) {
    let of = |name: &str, sixteenths: usize| -> Vec<NewJob> {
        let new = |priority: &Priority| {
            let mut job = large(name, sixteenths);
            job.spec.options.priority = *priority;
            job
        };
        Priority::ALL.iter().cycle().take(12).map(new).collect()
    };
    let (small, large) = (of("small", 0), of("large", 6));
    queue.push(&small).await;
    queue.push(&large).await;
    let small = queue.claim_as(&worker(), "small", 12).await.claims;
    let mut claims = Vec::new();
    for _ in 0..6 {
        let some = queue.claim_as(&worker(), "large", 12).await.claims;
        assert_eq!(some.len(), 2);
        claims.extend(some);
    }
    let priorities = |claims: &[Claim]| claims.iter().map(|claim| claim.job.spec.options.priority).collect::<Vec<_>>();
    assert_eq!(priorities(&claims), priorities(&small));
}

async fn checkpoints_count_to_the_size_of_a_claim(queue: TestStore) {
    queue.push(&[job("mail"), job("mail"), job("mail")]).await;
    for claim in queue.claim(3).await {
        assert!(queue.store.checkpoint(&claim.lease, &vec![b'x'; 7 * CLAIM_BYTES / 16]).await.unwrap());
        queue.settle(&claim, retry(0)).await;
    }
    assert_eq!(queue.claim(9).await.len(), 2);
    assert_eq!(queue.claim(9).await.len(), 1);
}

async fn the_oldest_ready_job_comes_first(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..5).map(|_| job("mail")).collect();
    for job in &jobs {
        queue.push(std::slice::from_ref(job)).await;
    }
    assert_eq!(claimed(&queue.claim(2).await), ids(&jobs[..2]));
    assert_eq!(claimed(&queue.claim(9).await), ids(&jobs[2..]));
}

async fn a_job_that_comes_back_joins_the_end(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..3).map(|_| job("mail")).collect();
    queue.push(&jobs).await;
    let first = queue.claim_one().await;
    queue.settle(&first, retry(0)).await;
    assert_eq!(claimed(&queue.claim(9).await), ids([&jobs[1], &jobs[2], &jobs[0]]));
}

async fn one_claim_serves_many_topics_and_names_the_drained(queue: TestStore) {
    let jobs = [job("a"), job("b"), job("b"), job("b")];
    queue.push(&jobs).await;
    let lines = [line("b", 2), line("a", 2), line("c", 1)];
    let took = queue.store.claim(&worker(), &lines).await.unwrap();
    assert_eq!(claimed(&took.claims), ids([&jobs[1], &jobs[2], &jobs[0]]), "line by line");
    assert_eq!((took.drained, took.strays), (vec![topic("a"), topic("c")], 0));
}

async fn a_topic_with_as_many_as_asked_for_is_not_called_drained(queue: TestStore) {
    queue.push(&[job("mail"), job("mail")]).await;
    assert!(queue.claim_as(&worker(), "mail", 2).await.drained.is_empty());
    assert_eq!(queue.claim_as(&worker(), "mail", 1).await.drained, [topic("mail")]);
}

async fn a_claim_of_none_takes_none(queue: TestStore) {
    queue.push(&[job("mail")]).await;
    let took = queue.claim_as(&worker(), "mail", 0).await;
    assert!(took.claims.is_empty() && took.drained.is_empty());
    assert_eq!(queue.places().await, [1, 0, 0, 0]);
}

async fn the_attempt_is_counted_at_the_claim(queue: TestStore) {
    let claim = queue.running().await;
    let view = queue.view(&claim.lease.job).await.unwrap();
    assert_eq!(view.attempts, 1);
}

async fn a_claimed_job_is_running_and_nowhere_else(queue: TestStore) {
    let claim = queue.running().await;
    assert_eq!(queue.places().await, [0, 0, 1, 0]);
    let state = JobState::Running {
        worker: worker().to_string(),
        delivery: 1,
        lease_until: claim.lease_until,
        cancelled: false,
    };
    let view = queue.view(&claim.lease.job).await.unwrap();
    assert_eq!((view.state, view.claimed_at), (state, Some(claim.claimed_at)));
    let listed = queue.store.jobs(&claim.lease.topic, StateFilter::Running, None, 9).await.unwrap();
    assert_eq!(listed.jobs[0].claimed_at, Some(claim.claimed_at));
    assert!(queue.claim_as(&WorkerId::new("other"), "mail", 9).await.claims.is_empty());
    queue.settle(&claim, Verdict::Snooze(Duration::from_secs(1))).await;
    let view = queue.view(&claim.lease.job).await.unwrap();
    assert_eq!((view.claimed_at, queue.places().await), (None, [0, 1, 0, 0]));
}

async fn claims_at_once_share_the_jobs_and_double_none(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..60).map(|_| job("mail")).collect();
    queue.push(&jobs).await;
    let claims = (0..12).map(|n| {
        let store = queue.store.clone();
        tokio::spawn(async move { store.claim(&WorkerId::new(&format!("w{n}")), &[line("mail", 5)]).await })
    });
    let mut taken = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        taken.extend(claimed(&claim.await.unwrap().unwrap().claims));
    }
    assert_eq!(taken.len(), 60);
    assert_eq!(taken.into_iter().collect::<HashSet<_>>(), ids(&jobs).into_iter().collect());
}

async fn an_empty_claim_is_answered_with_nothing(queue: TestStore) {
    let took = queue.store.claim(&worker(), &[]).await.unwrap();
    assert!(took.claims.is_empty() && took.drained.is_empty());
    assert!(queue.store.counts(&tenant()).await.unwrap().is_empty());
}

async fn each_line_of_a_claim_has_a_lease_of_its_own(queue: TestStore) {
    queue.push(&[job("a"), job("b")]).await;
    let mut lines = [line("a", 1), line("b", 1)];
    lines[1].lease *= 2;
    let took = queue.store.claim(&worker(), &lines).await.unwrap();
    assert_eq!(
        took.claims.iter().map(|claim| claim.lease_until).collect::<Vec<_>>(),
        [queue.now().plus(lines[0].lease), queue.now().plus(lines[1].lease)]
    );
}
