//! Priority: the high ones first, and none starves.

use gristmill_core::job::{Claim, NewJob, Priority};
use gristmill_core::outcome::Verdict;
use gristmill_store_tests::test_store::{TestStore, claimed, ids, job, of_priority, retry, settlement};

use Priority::{High, Low, Normal};

super::cases![
    a_job_that_comes_back_keeps_its_priority,
    a_topic_is_drained_only_when_all_priorities_are,
    jobs_of_every_priority_are_counted_as_ready,
    ; in_order:
    of_eight_jobs_five_are_high_two_normal_and_one_low,
    turns_go_on_from_claim_to_claim,
    priority_turns_continue_after_the_store_is_reopened,
    the_highest_that_waits_takes_the_turn_of_one_that_does_not,
    among_equals_the_one_that_became_ready_first_is_first,
    with_normal_jobs_alone_no_turn_is_counted,
    a_turn_is_counted_for_each_job_of_a_claim_that_found_priorities,
    each_topic_counts_its_own_turns,
    a_delayed_job_keeps_its_priority,
    a_respawned_job_keeps_its_priority,
    follow_ups_have_their_own_priority,
    a_follow_up_that_waits_for_the_job_it_follows_has_its_own_priority,
];

fn many(priority: Priority, n: usize) -> Vec<NewJob> {
    (0..n).map(|_| of_priority(priority)).collect()
}

fn priorities(claims: &[Claim]) -> Vec<Priority> {
    claims.iter().map(|claim| claim.job.spec.options.priority).collect()
}

/// A backlog of every priority.
async fn backlog(queue: &TestStore) {
    queue.push(&[many(Low, 10), many(Normal, 10), many(High, 10)].concat()).await;
}

async fn of_eight_jobs_five_are_high_two_normal_and_one_low(queue: TestStore) {
    backlog(&queue).await;
    assert_eq!(priorities(&queue.claim(8).await), [High, Normal, High, High, Normal, High, High, Low]);
    assert_eq!(priorities(&queue.claim(8).await), Priority::TURNS);
}

async fn turns_go_on_from_claim_to_claim(queue: TestStore) {
    backlog(&queue).await;
    let mut taken = Vec::new();
    for max in [1, 3, 1, 5, 6] {
        taken.extend(priorities(&queue.claim(max).await));
    }
    assert_eq!(taken, [Priority::TURNS, Priority::TURNS].concat());
}

async fn priority_turns_continue_after_the_store_is_reopened(mut queue: TestStore) {
    backlog(&queue).await;
    queue.claim(4).await;
    queue.reopen().await;
    assert_eq!(priorities(&queue.claim(4).await), Priority::TURNS[4..]);
}

async fn the_highest_that_waits_takes_the_turn_of_one_that_does_not(queue: TestStore) {
    queue.push(&[many(Low, 3), many(Normal, 2)].concat()).await;
    assert_eq!(priorities(&queue.claim(9).await), [Normal, Normal, Low, Low, Low]);
    queue.push(&many(High, 9)).await;
    assert_eq!(priorities(&queue.claim(9).await), [High; 9]);
}

async fn among_equals_the_one_that_became_ready_first_is_first(queue: TestStore) {
    let (high, low) = (many(High, 5), many(Low, 5));
    for (high, low) in high.iter().zip(&low) {
        queue.push(&[low.clone(), high.clone()]).await;
    }
    let claims = queue.claim(10).await;
    let (first, last): (Vec<&Claim>, Vec<&Claim>) =
        claims.iter().partition(|claim| claim.job.spec.options.priority == High);
    assert_eq!((claimed(first), claimed(last)), (ids(&high), ids(&low)));
}

async fn with_normal_jobs_alone_no_turn_is_counted(queue: TestStore) {
    queue.push(&many(Normal, 3)).await;
    queue.claim(3).await;
    backlog(&queue).await;
    assert_eq!(priorities(&queue.claim(2).await), Priority::TURNS[..2]);
}

async fn a_turn_is_counted_for_each_job_of_a_claim_that_found_priorities(queue: TestStore) {
    // One low job: it is there when the claim begins, so all three of the claim are counted.
    queue.push(&[many(Normal, 2), many(Low, 1)].concat()).await;
    assert_eq!(priorities(&queue.claim(3).await), [Normal, Normal, Low]);
    backlog(&queue).await;
    assert_eq!(priorities(&queue.claim(5).await), Priority::TURNS[3..]);
}

async fn each_topic_counts_its_own_turns(queue: TestStore) {
    backlog(&queue).await;
    queue.claim(7).await;
    let others: Vec<NewJob> = Priority::ALL
        .map(|priority| {
            let mut job = job("other");
            job.spec.options.priority = priority;
            job
        })
        .into();
    queue.push(&others).await;
    assert_eq!(
        claimed(&queue.claim_as(&gristmill_store_tests::test_store::worker(), "other", 1).await.claims),
        ids(&others[..1])
    );
    assert_eq!(priorities(&queue.claim(1).await), [Low]);
}

async fn a_delayed_job_keeps_its_priority(queue: TestStore) {
    let mut jobs = Priority::ALL.map(of_priority);
    jobs.reverse();
    for job in &mut jobs {
        job.due = gristmill_core::job::Due::At(queue.in_ms(5));
    }
    queue.push(&jobs).await;
    queue.pass(5);
    assert_eq!(queue.migrate().await.moved, 3);
    assert_eq!(priorities(&queue.claim(3).await), [High, Normal, Low]);
}

async fn a_job_that_comes_back_keeps_its_priority(queue: TestStore) {
    queue.push(&many(High, 1)).await;
    let claim = queue.claim_one().await;
    queue.push(&many(Normal, 1)).await;
    queue.settle(&claim, retry(0)).await;
    let claims = queue.claim(2).await;
    assert_eq!(claims.len(), 2);
    let again = claims.iter().find(|claim| claim.job.spec.options.priority == High).unwrap();
    assert_eq!((again.attempt, &again.lease.job), (2, &claim.lease.job));
    // The turn after the high one is the normal one's: so both are where they were before.
    queue.settle_with(settlement(again, Verdict::Release(std::time::Duration::ZERO))).await;
    assert_eq!(claimed(&queue.claim(1).await), [claim.lease.job]);
}

async fn a_respawned_job_keeps_its_priority(queue: TestStore) {
    queue.push(&many(Low, 1)).await;
    let claim = queue.claim_one().await;
    let failure = gristmill_store_tests::test_store::failure(gristmill_core::outcome::Reason::Trap);
    queue.settle(&claim, Verdict::Bury(failure)).await;
    let topic = gristmill_store_tests::test_store::topic("mail");
    queue.store.respawn(&topic, std::slice::from_ref(&claim.lease.job)).await.unwrap();
    queue.push(&many(High, 2)).await;
    assert_eq!(priorities(&queue.claim(3).await), [High, High, Low]);
}

async fn follow_ups_have_their_own_priority(queue: TestStore) {
    let claim = queue.running().await;
    let mut ack = settlement(&claim, Verdict::Ack(None));
    ack.follow_ups = vec![of_priority(Low), of_priority(High)];
    queue.settle_with(ack).await;
    assert_eq!(priorities(&queue.claim(2).await), [High, Low]);
}

/// Its priority is the first of the store, and is stored in the step that ends its wait; that of another job is looked up there before.
async fn a_follow_up_that_waits_for_the_job_it_follows_has_its_own_priority(queue: TestStore) {
    queue.push(&many(Normal, 2)).await;
    let claims = queue.claim(2).await;
    let mut high = of_priority(High);
    high.spec.options.after = vec![claims[1].lease.job.clone()];
    let snooze = settlement(&claims[0], Verdict::Snooze(std::time::Duration::ZERO));
    let mut ack = settlement(&claims[1], Verdict::Ack(None));
    ack.follow_ups = vec![of_priority(Normal), high];
    queue.store.settle(&[snooze, ack]).await.unwrap();
    assert_eq!(priorities(&queue.claim(3).await), [High, Normal, Normal]);
}

async fn a_topic_is_drained_only_when_all_priorities_are(queue: TestStore) {
    queue.push(&[many(High, 1), many(Low, 1)].concat()).await;
    let worker = gristmill_store_tests::test_store::worker();
    assert!(queue.claim_as(&worker, "mail", 1).await.drained.is_empty());
    let took = queue.claim_as(&worker, "mail", 2).await;
    assert_eq!((took.claims.len(), took.drained.len()), (1, 1));
}

async fn jobs_of_every_priority_are_counted_as_ready(queue: TestStore) {
    queue.push(&Priority::ALL.map(of_priority)).await;
    assert_eq!(queue.places().await, [3, 0, 0, 0]);
}
