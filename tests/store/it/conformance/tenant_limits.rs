//! Limits that hold for all topics of a tenant together: how many jobs run, and the budgets of an hour and a day.

use std::time::Duration;

use gristmill_core::job::{Claim, TopicId};
use gristmill_core::outcome::{Settled, Verdict};
use gristmill_core::topic::{FleetLimits, TenantFleetLimits};
use gristmill_store::{ClaimFrom, Claimed, LimitReached, Settlement};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, TestStore, claimed, foreign, ids, job, line, poll, retry, settlement, tenant, topic, worker,
};

super::cases![
    ; in_order:
    no_more_jobs_of_a_tenant_run_than_may,
    the_end_of_a_job_lets_one_of_another_topic_start,
    each_end_lets_the_topic_start_that_has_waited_for_the_longest,
    a_topic_whose_jobs_are_gone_lets_the_next_one_start,
    jobs_of_a_dead_worker_give_their_places_back_to_their_tenant,
    a_raised_limit_of_a_tenant_holds_at_once,
    limits_of_a_topic_and_of_its_tenant_both_hold,
    jobs_of_a_claim_without_limits_count_as_running,
    what_waits_for_its_tenant_does_so_when_the_store_is_opened_again,
    so_many_jobs_of_a_tenant_start_in_a_day,
    so_much_fuel_of_a_tenant_is_used_in_an_hour,
    a_budget_that_is_used_up_stops_all_topics_of_the_tenant_and_no_other,
    fuel_counts_once_and_only_with_the_lease,
    a_raised_budget_holds_at_once,
    what_is_used_of_budgets_is_known_when_the_store_is_opened_again,
    the_end_of_a_job_wakes_no_topic_whose_budget_is_used_up,
    // A claim asks no partition in which the topic has no ready jobs: there the next one waits for another claim of the tenant.
    ; not_spread:
    a_topic_that_is_woken_and_has_no_jobs_lets_the_next_one_start,
];

/// The first moment of the test is the beginning of an hour, and so long before the end of a day.
const DAY_ENDS_MS: u64 = 16 * HOUR_MS;
const HOUR_MS: u64 = 3_600_000;

const fn of_tenant(tenant: TenantFleetLimits) -> FleetLimits {
    FleetLimits { tenant, ..FleetLimits::NONE }
}

const fn running(most: u32) -> FleetLimits {
    of_tenant(TenantFleetLimits { max_running: Some(most), ..TenantFleetLimits::NONE })
}

const fn jobs_per_day(jobs: u64) -> FleetLimits {
    of_tenant(TenantFleetLimits { jobs_per_day: Some(jobs), ..TenantFleetLimits::NONE })
}

const fn fuel_per_hour(fuel: u64) -> FleetLimits {
    of_tenant(TenantFleetLimits { fuel_per_hour: Some(fuel), ..TenantFleetLimits::NONE })
}

async fn claim_lines(queue: &TestStore, from: &[ClaimFrom]) -> Claimed {
    queue.claim_within(&worker(), from).await.unwrap()
}

/// Up to nine jobs of a topic.
async fn claim(queue: &TestStore, of: &str, limits: FleetLimits) -> Vec<Claim> {
    claim_lines(queue, &[line(of, 9).within(limits)]).await.claims
}

async fn pushed(queue: &TestStore, of: &str, count: usize) {
    queue.push(&(0..count).map(|_| job(of)).collect::<Vec<_>>()).await;
}

/// The topics that wait for a claim, once what is due is done.
async fn wanted(queue: &TestStore) -> Vec<TopicId> {
    queue.migrate().await;
    poll(&*queue.store, &tenant()).await.ready
}

async fn limited(queue: &TestStore, of: &str) -> Option<LimitReached> {
    queue.counts(of).await.limited
}

async fn ack(queue: &TestStore, claim: &Claim, fuel: u64) -> Settled {
    queue.settle_with(Settlement { fuel, ..settlement(claim, Verdict::Ack(None)) }).await
}

async fn no_more_jobs_of_a_tenant_run_than_may(queue: TestStore) {
    pushed(&queue, "mail", 3).await;
    pushed(&queue, "other", 3).await;
    let from = ["mail", "other"].map(|of| line(of, 9).within(running(4)));
    let first = claim_lines(&queue, &from).await;
    let topics: Vec<_> = first.claims.iter().map(|claim| claim.lease.topic.topic.to_string()).collect();
    assert_eq!(topics, ["mail", "mail", "mail", "other"]);
    assert_eq!(first.drained.len(), 2);
    assert_eq!(limited(&queue, "other").await, Some(LimitReached::TenantMaxRunning));
    assert_eq!(limited(&queue, "mail").await, None, "none of its jobs is left in line");
    assert_eq!(wanted(&queue).await, []);
    queue.push(&[foreign("mail")]).await;
    let theirs = ClaimFrom { topic: foreign("mail").spec.topic, ..line("mail", 9) }.within(running(1));
    assert_eq!(claim_lines(&queue, &[theirs]).await.claims.len(), 1, "each tenant has its own");
}

async fn the_end_of_a_job_lets_one_of_another_topic_start(queue: TestStore) {
    pushed(&queue, "mail", 1).await;
    let waiting = job("other");
    queue.push(std::slice::from_ref(&waiting)).await;
    for verdict in [retry(60_000), Verdict::Snooze(Duration::from_secs(60)), Verdict::Ack(None)] {
        pushed(&queue, "mail", 1).await;
        let first = claim_lines(&queue, &[line("mail", 1).within(running(1))]).await.claims.remove(0);
        assert!(claim(&queue, "other", running(1)).await.is_empty());
        queue.settle(&first, verdict).await;
        assert_eq!(wanted(&queue).await, [topic("mail"), topic("other")]);
        assert_eq!(limited(&queue, "other").await, None);
    }
    let taken = claim(&queue, "other", running(1)).await;
    assert_eq!((claimed(&taken), taken[0].attempt), (ids([&waiting]), 1), "waiting is no attempt");
}

async fn each_end_lets_the_topic_start_that_has_waited_for_the_longest(queue: TestStore) {
    pushed(&queue, "mail", 2).await;
    let first = claim(&queue, "mail", running(2)).await;
    for of in ["third", "other", "fourth"] {
        pushed(&queue, of, 1).await;
        queue.pass(1);
        assert!(claim(&queue, of, running(2)).await.is_empty());
    }
    ack(&queue, &first[0], 0).await;
    assert_eq!(wanted(&queue).await, [topic("third")]);
    ack(&queue, &first[1], 0).await;
    assert_eq!(wanted(&queue).await, [topic("other"), topic("third")]);
}

async fn a_topic_that_is_woken_and_has_no_jobs_lets_the_next_one_start(queue: TestStore) {
    pushed(&queue, "mail", 1).await;
    let first = claim(&queue, "mail", running(1)).await;
    let gone = job("other");
    queue.push(&[gone.clone(), job("third")]).await;
    for of in ["other", "third"] {
        queue.pass(1);
        assert!(claim(&queue, of, running(1)).await.is_empty());
    }
    ack(&queue, &first[0], 0).await;
    queue.migrate().await;
    queue.store.cancel(&tenant(), &ids([&gone])).await.unwrap();
    assert!(claim(&queue, "other", running(1)).await.is_empty());
    assert_eq!(wanted(&queue).await, [topic("third")]);
    assert_eq!(claim(&queue, "third", running(1)).await.len(), 1);
}

async fn a_topic_whose_jobs_are_gone_lets_the_next_one_start(queue: TestStore) {
    pushed(&queue, "mail", 1).await;
    let first = claim(&queue, "mail", running(1)).await;
    let gone = job("other");
    queue.push(&[gone.clone(), job("third")]).await;
    for of in ["other", "third"] {
        queue.pass(1);
        assert!(claim(&queue, of, running(1)).await.is_empty());
    }
    queue.store.cancel(&tenant(), &ids([&gone])).await.unwrap();
    ack(&queue, &first[0], 0).await;
    // A runner claims from what it hears of.
    for of in wanted(&queue).await {
        claim(&queue, of.topic.as_str(), running(1)).await;
    }
    wanted(&queue).await;
    assert_eq!(claim(&queue, "third", running(1)).await.len() as u64 + queue.counts("third").await.running, 1);
    assert_eq!(limited(&queue, "third").await, None);
}

async fn jobs_of_a_dead_worker_give_their_places_back_to_their_tenant(queue: TestStore) {
    pushed(&queue, "mail", 2).await;
    pushed(&queue, "other", 3).await;
    queue.heartbeat(&worker()).await;
    assert_eq!(claim(&queue, "mail", running(2)).await.len(), 2);
    assert!(claim(&queue, "other", running(2)).await.is_empty());
    queue.pass(10_000);
    for overdue in queue.store.overdue(&[tenant()], DEAD_AFTER, 9).await.unwrap().jobs {
        let reap =
            Settlement { only_if_overdue: Some(DEAD_AFTER), ..Settlement::new(overdue.claim.lease, retry(60_000)) };
        queue.settle_with(reap).await;
    }
    assert_eq!(wanted(&queue).await, [topic("other")]);
    assert_eq!(claim(&queue, "other", running(2)).await.len(), 2);
}

async fn a_raised_limit_of_a_tenant_holds_at_once(queue: TestStore) {
    pushed(&queue, "mail", 5).await;
    assert_eq!(claim(&queue, "mail", running(1)).await.len(), 1);
    assert_eq!(claim(&queue, "mail", running(3)).await.len(), 2);
    assert!(claim(&queue, "mail", running(2)).await.is_empty(), "a lowered one, too");
    assert_eq!(claim(&queue, "mail", FleetLimits::NONE).await.len(), 2, "each claim brings its own");
}

async fn limits_of_a_topic_and_of_its_tenant_both_hold(queue: TestStore) {
    pushed(&queue, "mail", 5).await;
    let both = FleetLimits { max_running: Some(2), ..running(3) };
    let first = claim(&queue, "mail", both).await;
    assert_eq!((first.len(), limited(&queue, "mail").await), (2, Some(LimitReached::MaxRunning)));
    pushed(&queue, "other", 2).await;
    assert_eq!(claim(&queue, "other", running(3)).await.len(), 1);
    ack(&queue, &first[0], 0).await;
    assert_eq!(wanted(&queue).await, [topic("mail"), topic("other")]);
    assert_eq!(claim(&queue, "mail", both).await.len(), 1);
    assert!(claim(&queue, "other", running(3)).await.is_empty());
    assert_eq!(limited(&queue, "other").await, Some(LimitReached::TenantMaxRunning));
}

async fn jobs_of_a_claim_without_limits_count_as_running(queue: TestStore) {
    pushed(&queue, "mail", 9).await;
    let before = claim_lines(&queue, &[line("mail", 2)]).await.claims;
    assert_eq!(claim_lines(&queue, &[line("mail", 1).within(running(4))]).await.claims.len(), 1);
    let since = claim_lines(&queue, &[line("mail", 2)]).await.claims;
    assert!(claim(&queue, "mail", running(4)).await.is_empty());
    for claim in before.iter().chain(&since) {
        ack(&queue, claim, 0).await;
    }
    assert_eq!(claim(&queue, "mail", running(4)).await.len(), 3);
}

async fn what_waits_for_its_tenant_does_so_when_the_store_is_opened_again(mut queue: TestStore) {
    pushed(&queue, "mail", 1).await;
    pushed(&queue, "other", 1).await;
    let first = claim(&queue, "mail", running(1)).await;
    assert!(claim(&queue, "other", running(1)).await.is_empty());
    queue.reopen().await;
    assert_eq!(limited(&queue, "other").await, Some(LimitReached::TenantMaxRunning));
    ack(&queue, &first[0], 0).await;
    assert_eq!(wanted(&queue).await, [topic("other")]);
    assert_eq!(claim(&queue, "other", running(1)).await.len(), 1);
}

async fn so_many_jobs_of_a_tenant_start_in_a_day(queue: TestStore) {
    pushed(&queue, "mail", 4).await;
    pushed(&queue, "other", 3).await;
    let limits = jobs_per_day(3);
    let first = claim_lines(&queue, &[line("mail", 2).within(limits)]).await.claims;
    ack(&queue, &first[0], 0).await;
    queue.settle(&first[1], retry(0)).await;
    let from = ["other", "mail"].map(|of| line(of, 9).within(limits));
    assert_eq!(claim_lines(&queue, &from).await.claims.len(), 1, "what has started counts, whatever became of it");
    let until = queue.in_ms(DAY_ENDS_MS);
    for of in ["mail", "other"] {
        assert_eq!(limited(&queue, of).await, Some(LimitReached::JobsPerDay { used: 3, budget: 3, until }));
    }
    assert_eq!(wanted(&queue).await, []);
    queue.pass(DAY_ENDS_MS - 1);
    assert!(claim(&queue, "mail", limits).await.is_empty());
    assert_eq!(queue.migrate().await.next_due_in, Some(Duration::from_millis(1)));
    queue.pass(1);
    assert_eq!(wanted(&queue).await, [topic("mail"), topic("other")]);
    let next = claim(&queue, "mail", limits).await;
    let attempts: Vec<_> = next.iter().map(|claim| claim.attempt).collect();
    assert_eq!(attempts, [1, 1, 2], "waiting is no attempt");
}

async fn so_much_fuel_of_a_tenant_is_used_in_an_hour(queue: TestStore) {
    pushed(&queue, "mail", 9).await;
    let limits = fuel_per_hour(100);
    let take = async |max| claim_lines(&queue, &[line("mail", max).within(limits)]).await.claims;
    let first = take(2).await;
    ack(&queue, &first[0], 99).await;
    let second = take(1).await;
    assert_eq!(second.len(), 1, "some is left");
    queue.settle_with(Settlement { fuel: 30, ..settlement(&first[1], retry(60_000)) }).await;
    assert!(take(1).await.is_empty());
    ack(&queue, &second[0], 1).await;
    assert!(take(1).await.is_empty(), "what ran goes over it");
    let until = queue.in_ms(HOUR_MS);
    assert_eq!(limited(&queue, "mail").await, Some(LimitReached::FuelPerHour { used: 130, budget: 100, until }));
    assert_eq!(wanted(&queue).await, []);
    queue.pass(HOUR_MS);
    assert_eq!(wanted(&queue).await, [topic("mail")]);
    let third = take(2).await;
    assert_eq!(third.len(), 2);
    ack(&queue, &third[0], 60).await;
    queue.pass(HOUR_MS);
    ack(&queue, &third[1], 60).await;
    let fourth = take(1).await;
    assert_eq!(fourth.len(), 1, "each hour has its own");
    ack(&queue, &fourth[0], 40).await;
    assert!(take(1).await.is_empty());
}

async fn a_budget_that_is_used_up_stops_all_topics_of_the_tenant_and_no_other(queue: TestStore) {
    pushed(&queue, "mail", 2).await;
    pushed(&queue, "other", 1).await;
    queue.push(&[foreign("mail")]).await;
    let limits = fuel_per_hour(10);
    let first = claim_lines(&queue, &[line("mail", 1).within(limits)]).await.claims;
    ack(&queue, &first[0], 10).await;
    let theirs = ClaimFrom { topic: foreign("mail").spec.topic, ..line("mail", 9) }.within(limits);
    let from = [line("mail", 9).within(limits), line("other", 9).within(limits), theirs];
    let taken = claim_lines(&queue, &from).await;
    assert_eq!(taken.claims.len(), 1);
    assert_eq!(taken.claims[0].lease.topic, foreign("mail").spec.topic);
    assert!(taken.drained.contains(&topic("mail")) && taken.drained.contains(&topic("other")));
    queue.pass(HOUR_MS);
    assert_eq!(wanted(&queue).await, [topic("mail"), topic("other")]);
}

async fn fuel_counts_once_and_only_with_the_lease(queue: TestStore) {
    pushed(&queue, "mail", 3).await;
    let limits = fuel_per_hour(10);
    let first = claim_lines(&queue, &[line("mail", 1).within(limits)]).await.claims;
    ack(&queue, &first[0], 5).await;
    ack(&queue, &first[0], 5).await;
    let mut stolen = first[0].clone();
    stolen.lease.delivery += 1;
    assert_eq!(ack(&queue, &stolen, 50).await, Settled::LeaseLost);
    assert_eq!(claim(&queue, "mail", limits).await.len(), 2);
}

async fn a_raised_budget_holds_at_once(queue: TestStore) {
    pushed(&queue, "mail", 9).await;
    assert_eq!(claim(&queue, "mail", jobs_per_day(2)).await.len(), 2);
    assert!(claim(&queue, "mail", jobs_per_day(2)).await.is_empty());
    let more = claim(&queue, "mail", jobs_per_day(5)).await;
    assert_eq!(more.len(), 3);
    ack(&queue, &more[0], 7).await;
    assert!(claim(&queue, "mail", fuel_per_hour(7)).await.is_empty());
    assert_eq!(limited(&queue, "mail").await.and_then(|limit| limit.until()), Some(queue.in_ms(HOUR_MS)));
    assert_eq!(claim(&queue, "mail", fuel_per_hour(8)).await.len(), 4);
    assert_eq!(limited(&queue, "mail").await, None);
}

async fn what_is_used_of_budgets_is_known_when_the_store_is_opened_again(mut queue: TestStore) {
    pushed(&queue, "mail", 9).await;
    let limits = jobs_per_day(3);
    assert_eq!(claim_lines(&queue, &[line("mail", 2).within(limits)]).await.claims.len(), 2);
    queue.reopen().await;
    assert_eq!(claim(&queue, "mail", limits).await.len(), 1);
    queue.reopen().await;
    assert_eq!(queue.migrate().await.next_due_in, Some(Duration::from_millis(DAY_ENDS_MS)));
    queue.pass(DAY_ENDS_MS);
    assert_eq!(wanted(&queue).await, [topic("mail")]);
    assert_eq!(claim(&queue, "mail", limits).await.len(), 3);
}

async fn the_end_of_a_job_wakes_no_topic_whose_budget_is_used_up(queue: TestStore) {
    pushed(&queue, "mail", 4).await;
    let limits = TenantFleetLimits { max_running: Some(2), fuel_per_hour: Some(10), jobs_per_day: None };
    let first = claim(&queue, "mail", of_tenant(limits)).await;
    assert_eq!((first.len(), limited(&queue, "mail").await), (2, Some(LimitReached::TenantMaxRunning)));
    ack(&queue, &first[0], 10).await;
    assert!(claim(&queue, "mail", of_tenant(limits)).await.is_empty());
    ack(&queue, &first[1], 10).await;
    assert_eq!(wanted(&queue).await, []);
    queue.pass(HOUR_MS);
    assert_eq!(wanted(&queue).await, [topic("mail")]);
    assert_eq!(claim(&queue, "mail", of_tenant(limits)).await.len(), 2);
}
