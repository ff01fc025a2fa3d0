//! Rates of keys: how often jobs of one key start. A job whose key has no token left is delayed, and keeps its slot.

use std::time::Duration;

use gristmill_core::job::{Claim, JobId, NewJob, Priority};
use gristmill_core::outcome::Verdict;
use gristmill_core::topic::{FleetLimits, KeyLimits, Rate};
use gristmill_store::{BehindKey, Cancelled, JobState, Migrated, Settled, Settlement, Signal};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, TestStore, claimed, ids, job, keyed, line, poll, retry, settlement, tenant, topic, worker,
};
use gristmill_test_servers::wait::SOON;
use tokio::time::timeout;

use super::keys::{ack, behind, bury, claim, pushed};

super::cases![
    the_rate_of_a_key_holds_for_that_key_only,
    a_start_of_another_key_gives_no_token,
    a_burst_of_a_key_starts_at_once,
    a_key_saves_up_no_more_than_its_burst,
    jobs_of_a_key_keep_their_order_under_its_rate,
    a_job_that_is_held_back_is_delayed_and_holds_its_slot,
    every_attempt_counts_as_a_start,
    a_crash_gives_no_key_a_second_start,
    a_job_that_is_held_back_may_be_cancelled,
    a_raised_rate_of_a_key_holds_within_five_minutes,
    a_lowered_rate_of_a_key_holds_from_the_next_claim_on,
    without_a_rate_what_was_held_back_starts_at_its_time,
    the_rate_of_a_key_goes_on_when_the_store_is_opened_again,
    the_rate_of_a_key_holds_though_the_clock_is_set_back,
    jobs_without_a_key_have_no_rate,
    thousands_of_keys_are_held_back_and_hold_up_no_other,
    a_paused_topic_holds_no_job_back,
    ; in_order:
    a_claim_passes_over_what_it_holds_back,
    what_is_held_back_is_announced_when_it_is_due,
    jobs_with_slots_of_one_key_start_in_their_order,
    a_job_that_was_held_back_goes_before_one_that_is_new,
    a_job_that_is_held_back_again_keeps_its_place_and_the_rate,
    the_rate_of_a_key_and_that_of_its_topic_both_hold,
    what_is_held_back_takes_no_turn_of_its_priority,
];

fn rate(jobs: u32, per_s: u64, burst: u32) -> FleetLimits {
    within(1, Some(Rate { jobs, per: Duration::from_secs(per_s), burst }))
}

fn within(max_running: u32, rate: Option<Rate>) -> FleetLimits {
    FleetLimits { per_key: KeyLimits { max_running, rate, ..KeyLimits::DEFAULT }, ..FleetLimits::NONE }
}

/// Ten in a second, one at a time.
fn ten() -> FleetLimits {
    rate(10, 1, 1)
}

/// Claims and acks what may start, until there is no more.
async fn run(queue: &TestStore, limits: FleetLimits) -> Vec<JobId> {
    let mut run = Vec::new();
    loop {
        let claims = claim(queue, limits).await;
        if claims.is_empty() {
            return run;
        }
        for claim in &claims {
            ack(queue, claim).await;
        }
        run.extend(claimed(&claims));
    }
}

/// Lets so much time pass, and makes ready what is due then.
async fn pass(queue: &TestStore, ms: u64) -> Migrated {
    queue.pass(ms);
    queue.migrate().await
}

/// Asserts that the rate of its key holds the job back for so long.
async fn assert_held(queue: &TestStore, job: &NewJob, ms: u64) {
    let view = queue.view(&job.spec.id).await.unwrap();
    assert_eq!((view.state, view.rate_of_key), (JobState::Delayed { until: queue.in_ms(ms) }, true));
}

async fn the_rate_of_a_key_holds_for_that_key_only(queue: TestStore) {
    let jobs = [keyed("a"), keyed("a"), keyed("b"), keyed("b"), keyed("b")];
    queue.push(&jobs).await;
    let sorted = |mut ids: Vec<JobId>| {
        ids.sort();
        ids
    };
    assert_eq!(sorted(run(&queue, ten()).await), sorted(ids([&jobs[0], &jobs[2]])));
    assert_held(&queue, &jobs[1], 100).await;
    assert_held(&queue, &jobs[3], 100).await;
    let other = keyed("c");
    queue.push(std::slice::from_ref(&other)).await;
    assert_eq!(run(&queue, ten()).await, ids([&other]));
    assert_eq!(pass(&queue, 99).await.moved, 0);
    assert_eq!(run(&queue, ten()).await, []);
    assert_eq!(pass(&queue, 1).await.moved, 2);
    assert_eq!(sorted(run(&queue, ten()).await), sorted(ids([&jobs[1], &jobs[3]])));
    pass(&queue, 100).await;
    assert_eq!(run(&queue, ten()).await, ids([&jobs[4]]));
    assert_eq!(queue.places().await, [0, 0, 0, 0]);
}

async fn a_start_of_another_key_gives_no_token(queue: TestStore) {
    let limits = rate(1, 60, 1);
    for key in ["a", "b", "c"] {
        queue.push(&[keyed(key)]).await;
        assert_eq!(run(&queue, limits).await.len(), 1);
    }
    let jobs = ["a", "b", "c"].map(keyed);
    queue.push(&jobs).await;
    assert_eq!(run(&queue, limits).await, []);
    for job in &jobs {
        assert_held(&queue, job, 60_000).await;
    }
}

async fn a_burst_of_a_key_starts_at_once(queue: TestStore) {
    let (jobs, limits) = (pushed(&queue, 6).await, rate(10, 1, 3));
    assert_eq!(run(&queue, limits).await, ids(&jobs[..3]));
    assert_held(&queue, &jobs[3], 100).await;
    pass(&queue, 200).await;
    assert_eq!(run(&queue, limits).await, ids(&jobs[3..5]));
    assert_held(&queue, &jobs[5], 100).await;
}

async fn a_key_saves_up_no_more_than_its_burst(queue: TestStore) {
    let limits = rate(10, 1, 2);
    let jobs = pushed(&queue, 3).await;
    assert_eq!(run(&queue, limits).await, ids(&jobs[..2]));
    pass(&queue, 3_600_000).await;
    let more = pushed(&queue, 2).await;
    assert_eq!(run(&queue, limits).await, ids([&jobs[2], &more[0]]));
    assert_held(&queue, &more[1], 100).await;
}

async fn jobs_of_a_key_keep_their_order_under_its_rate(queue: TestStore) {
    let jobs = pushed(&queue, 6).await;
    let mut started = Vec::new();
    for round in 1..=6 {
        started.extend(run(&queue, ten()).await);
        assert_eq!(started.len(), round, "one in each tenth of a second");
        pass(&queue, 100).await;
    }
    assert_eq!(started, ids(&jobs));
}

async fn a_job_that_is_held_back_is_delayed_and_holds_its_slot(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    assert_eq!(run(&queue, ten()).await, ids(&jobs[..1]));
    assert_held(&queue, &jobs[1], 100).await;
    assert_eq!(queue.view(&jobs[1].spec.id).await.unwrap().attempts, 0, "waiting is no attempt");
    assert_eq!(queue.places().await, [1, 1, 0, 0]);
    assert_eq!(behind(&queue, &jobs[2]).await, Some(BehindKey { holders: ids([&jobs[1]]), ahead: 0 }));
    let pending = poll(&*queue.store, &tenant()).await;
    assert_eq!((pending.ready, pending.next_due_in), (Vec::new(), Some(Duration::from_millis(100))));
    pass(&queue, 100).await;
    assert!(!queue.view(&jobs[1].spec.id).await.unwrap().rate_of_key, "it is ready");
    let second = claim(&queue, ten()).await.remove(0);
    assert_eq!((&second.lease.job, second.attempt, second.lease.delivery), (&jobs[1].spec.id, 1, 1));
    queue.settle_with(settlement(&second, retry(700))).await;
    assert!(!queue.view(&jobs[1].spec.id).await.unwrap().rate_of_key, "it waits for its next attempt");
}

async fn every_attempt_counts_as_a_start(queue: TestStore) {
    let jobs = pushed(&queue, 1).await;
    let verdicts = [retry(0), Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO)];
    for verdict in verdicts {
        let running = claim(&queue, ten()).await.remove(0);
        assert_eq!(queue.settle_with(settlement(&running, verdict)).await, Settled::Done);
        assert!(claim(&queue, ten()).await.is_empty());
        assert_held(&queue, &jobs[0], 100).await;
        pass(&queue, 100).await;
    }
    let last = claim(&queue, ten()).await.remove(0);
    queue.settle_with(settlement(&last, bury())).await;
    let next = pushed(&queue, 1).await;
    assert!(claim(&queue, ten()).await.is_empty());
    assert_held(&queue, &next[0], 100).await;
}

async fn a_crash_gives_no_key_a_second_start(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let limits = rate(1, 60, 1);
    queue.heartbeat(&worker()).await;
    let lost = claim(&queue, limits).await;
    assert_eq!(lost.len(), 1);
    queue.pass(DEAD_AFTER.as_millis() as u64);
    let overdue = queue.store.overdue(&[tenant()], DEAD_AFTER, 9).await.unwrap().jobs;
    let reap = Settlement { only_if_overdue: Some(DEAD_AFTER), ..settlement(&overdue[0].claim, retry(0)) };
    assert_eq!(queue.settle_with(reap).await, Settled::Done);
    assert!(claim(&queue, limits).await.is_empty(), "the attempt that was lost has started");
    let left = 60_000 - DEAD_AFTER.as_millis() as u64;
    assert_held(&queue, &jobs[0], left).await;
    pass(&queue, left).await;
    assert_eq!(run(&queue, limits).await, ids(&jobs[..1]));
    assert_held(&queue, &jobs[1], 60_000).await;
}

async fn a_job_that_is_held_back_may_be_cancelled(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    run(&queue, ten()).await;
    let cancelled = queue.store.cancel(&tenant(), &ids([&jobs[1]])).await.unwrap();
    assert_eq!(cancelled, [Cancelled::Gone]);
    assert_eq!(run(&queue, ten()).await, [], "it has not used up a token, nor given one back");
    assert_held(&queue, &jobs[2], 100).await;
    assert_eq!(queue.places().await, [0, 1, 0, 0]);
    pass(&queue, 100).await;
    assert_eq!(run(&queue, ten()).await, ids(&jobs[2..]));
}

async fn a_raised_rate_of_a_key_holds_within_five_minutes(queue: TestStore) {
    let (jobs, slow) = (pushed(&queue, 3).await, rate(1, 86_400, 1));
    assert_eq!(run(&queue, slow).await, ids(&jobs[..1]));
    assert_held(&queue, &jobs[1], 300_000).await;
    pass(&queue, 300_000).await;
    assert_eq!(run(&queue, slow).await, []);
    assert_held(&queue, &jobs[1], 300_000).await;
    pass(&queue, 300_000).await;
    assert_eq!(run(&queue, ten()).await, [], "the bucket is empty");
    assert_held(&queue, &jobs[1], 100).await;
    pass(&queue, 100).await;
    assert_eq!(run(&queue, ten()).await, ids(&jobs[1..2]));
    assert_held(&queue, &jobs[2], 100).await;
}

async fn a_lowered_rate_of_a_key_holds_from_the_next_claim_on(queue: TestStore) {
    let jobs = pushed(&queue, 4).await;
    assert_eq!(run(&queue, ten()).await, ids(&jobs[..1]));
    pass(&queue, 100).await;
    let slow = rate(1, 200, 1);
    assert_eq!(run(&queue, slow).await, ids(&jobs[1..2]));
    assert_held(&queue, &jobs[2], 200_000).await;
    pass(&queue, 199_999).await;
    assert_eq!(run(&queue, slow).await, []);
    pass(&queue, 1).await;
    assert_eq!(run(&queue, slow).await, ids(&jobs[2..3]));
}

async fn without_a_rate_what_was_held_back_starts_at_its_time(queue: TestStore) {
    let jobs = pushed(&queue, 4).await;
    assert_eq!(run(&queue, rate(1, 60, 1)).await, ids(&jobs[..1]));
    let other = keyed("other");
    queue.push(std::slice::from_ref(&other)).await;
    assert_eq!(run(&queue, FleetLimits::NONE).await, ids([&other]));
    pass(&queue, 60_000).await;
    assert_eq!(run(&queue, FleetLimits::NONE).await, ids(&jobs[1..]));
}

async fn the_rate_of_a_key_goes_on_when_the_store_is_opened_again(mut queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    let limits = rate(1, 60, 1);
    assert_eq!(run(&queue, limits).await, ids(&jobs[..1]));
    queue.reopen().await;
    assert_held(&queue, &jobs[1], 60_000).await;
    assert_eq!(run(&queue, limits).await, []);
    assert_eq!(pass(&queue, 60_000).await.moved, 1);
    let second = claim(&queue, limits).await;
    assert_eq!(claimed(&second), ids(&jobs[1..2]));
    queue.reopen().await;
    ack(&queue, &second[0]).await;
    assert_eq!(run(&queue, limits).await, []);
    assert_held(&queue, &jobs[2], 60_000).await;
}

async fn the_rate_of_a_key_holds_though_the_clock_is_set_back(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = claim(&queue, ten()).await;
    queue.set_back(3_600_000);
    ack(&queue, &first[0]).await;
    assert_eq!(run(&queue, ten()).await, []);
    assert_held(&queue, &jobs[1], 100).await;
    pass(&queue, 100).await;
    assert_eq!(run(&queue, ten()).await, ids(&jobs[1..]));
}

async fn jobs_without_a_key_have_no_rate(queue: TestStore) {
    queue.push(&[job("mail"), keyed(""), job("mail"), keyed("k"), keyed("k")]).await;
    assert_eq!(run(&queue, rate(1, 3600, 1)).await.len(), 4);
}

async fn thousands_of_keys_are_held_back_and_hold_up_no_other(queue: TestStore) {
    let limits = rate(1, 60, 1);
    let all = line("mail", 5000).within(limits);
    let jobs: Vec<NewJob> = (0..3000).map(|n| keyed(&format!("k{}", n % 1500))).collect();
    queue.push(&jobs).await;
    let mut started: Vec<Claim> = Vec::new();
    for _ in 0..5 {
        started.extend(queue.store.claim(&worker(), std::slice::from_ref(&all)).await.unwrap().claims);
    }
    assert_eq!(started.len(), 1500);
    let acks: Vec<_> = started.iter().map(|claim| settlement(claim, Verdict::Ack(None))).collect();
    queue.store.settle(&acks).await.unwrap();
    let other = job("mail");
    queue.push(std::slice::from_ref(&other)).await;
    let one = line("mail", 1).within(limits);
    let mut found = Vec::new();
    // A claim holds back a bounded number of jobs.
    for _ in 0..5 {
        found.extend(queue.store.claim(&worker(), std::slice::from_ref(&one)).await.unwrap().claims);
    }
    assert_eq!(claimed(&found), ids([&other]));
    assert_eq!(queue.places().await, [0, 1500, 1, 0]);
    assert_eq!(pass(&queue, 60_000).await.moved, 1500);
}

async fn a_paused_topic_holds_no_job_back(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = claim(&queue, ten()).await;
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    ack(&queue, &first[0]).await;
    assert!(claim(&queue, ten()).await.is_empty());
    assert_eq!(queue.places().await, [1, 0, 0, 0]);
    queue.store.set_paused(&topic("mail"), false).await.unwrap();
    assert_eq!(run(&queue, ten()).await, []);
    assert_held(&queue, &jobs[1], 100).await;
}

async fn a_claim_passes_over_what_it_holds_back(queue: TestStore) {
    let spent: Vec<NewJob> = (0..20).map(|n| keyed(&format!("k{n}"))).collect();
    queue.push(&spent).await;
    assert_eq!(run(&queue, ten()).await.len(), 20);
    queue.push(&(0..20).map(|n| keyed(&format!("k{n}"))).collect::<Vec<_>>()).await;
    let others = [keyed("new"), job("mail")];
    queue.push(&others).await;
    let from = [line("mail", 1).within(ten())];
    let claimed_by = queue.store.claim(&worker(), &from).await.unwrap();
    assert_eq!((claimed(&claimed_by.claims), claimed_by.drained, claimed_by.strays), (ids(&others[..1]), vec![], 0));
    assert_eq!(queue.places().await, [1, 20, 1, 0]);
    let claimed_by = queue.store.claim(&worker(), &[line("mail", 9).within(ten())]).await.unwrap();
    assert_eq!((claimed(&claimed_by.claims), claimed_by.drained), (ids(&others[1..]), vec![topic("mail")]));
}

async fn what_is_held_back_is_announced_when_it_is_due(queue: TestStore) {
    pushed(&queue, 2).await;
    let first = claim(&queue, ten()).await;
    ack(&queue, &first[0]).await;
    let mut signals = queue.signals(&[tenant()]).await;
    let mut next = async || timeout(SOON, signals.recv()).await.expect("a signal in time").unwrap();
    assert!(claim(&queue, ten()).await.is_empty());
    assert_eq!(next().await, Signal::Due { tenant: tenant(), wait: Duration::from_millis(100) });
    assert_eq!(pass(&queue, 100).await, Migrated { moved: 1, fired: 0, next_due_in: None });
    assert_eq!(next().await, Signal::Ready(topic("mail")));
}

fn three_at_once() -> FleetLimits {
    within(3, ten().per_key.rate)
}

/// Has the store know how many slots a key has.
async fn with_three_slots(queue: &TestStore) {
    queue.push(&[keyed("first")]).await;
    assert_eq!(run(queue, three_at_once()).await.len(), 1);
}

async fn jobs_with_slots_of_one_key_start_in_their_order(queue: TestStore) {
    with_three_slots(&queue).await;
    let jobs = pushed(&queue, 7).await;
    let mut started = Vec::new();
    for round in 1..=7 {
        started.extend(run(&queue, three_at_once()).await);
        assert_eq!(started.len(), round);
        pass(&queue, 100).await;
    }
    assert_eq!(started, ids(&jobs));
}

async fn a_job_that_is_held_back_again_keeps_its_place_and_the_rate(queue: TestStore) {
    let (jobs, limits) = (pushed(&queue, 4).await, within(3, ten().per_key.rate));
    assert_eq!(run(&queue, limits).await, ids(&jobs[..1]));
    // The second one, which is due after 100 ms, starts late, so there is no token for the third one at its time.
    pass(&queue, 150).await;
    assert_eq!(run(&queue, limits).await, ids(&jobs[1..2]));
    pass(&queue, 55).await;
    assert_eq!(run(&queue, limits).await, []);
    assert_held(&queue, &jobs[2], 45).await;
    pass(&queue, 95).await;
    assert_eq!(run(&queue, limits).await, ids(&jobs[2..3]));
    assert_held(&queue, &jobs[3], 100).await;
}

async fn a_job_that_was_held_back_goes_before_one_that_is_new(queue: TestStore) {
    with_three_slots(&queue).await;
    let jobs = pushed(&queue, 2).await;
    assert_eq!(claimed(&claim(&queue, three_at_once()).await), ids(&jobs[..1]));
    assert_held(&queue, &jobs[1], 100).await;
    queue.pass(100);
    let new = pushed(&queue, 1).await;
    assert!(claim(&queue, three_at_once()).await.is_empty(), "there is a token, which the other job is to have");
    assert_held(&queue, &new[0], 100).await;
    queue.migrate().await;
    assert_eq!(claimed(&claim(&queue, three_at_once()).await), ids(&jobs[1..]));
    pass(&queue, 100).await;
    assert_eq!(claimed(&claim(&queue, three_at_once()).await), ids(&new));
}

async fn the_rate_of_a_key_and_that_of_its_topic_both_hold(queue: TestStore) {
    let jobs = [keyed("a"), keyed("a"), keyed("b"), keyed("c"), keyed("d")];
    queue.push(&jobs).await;
    let of_topic = Rate { jobs: 1, per: Duration::from_secs(1), burst: 3 };
    let limits = FleetLimits { rate: Some(of_topic), ..ten() };
    let within = [line("mail", 9).within(limits)];
    let first = queue.claim_within(&worker(), &within).await.unwrap().claims;
    assert_eq!(claimed(&first), ids([&jobs[0], &jobs[2], &jobs[3]]));
    ack(&queue, &first[0]).await;
    assert!(queue.claim_within(&worker(), &within).await.unwrap().claims.is_empty());
    assert_eq!(queue.places().await, [2, 0, 2, 0], "a topic without a token holds no key back");
    pass(&queue, 1000).await;
    let second = queue.claim_within(&worker(), &within).await.unwrap().claims;
    assert_eq!(claimed(&second), ids([&jobs[4]]));
    ack(&queue, &second[0]).await;
    pass(&queue, 1000).await;
    assert_eq!(claimed(&queue.claim_within(&worker(), &within).await.unwrap().claims), ids([&jobs[1]]));
}

async fn what_is_held_back_takes_no_turn_of_its_priority(queue: TestStore) {
    let of = |key, priority| {
        let mut job = keyed(key);
        job.spec.options.priority = priority;
        job
    };
    queue.push(&[of("a", Priority::High)]).await;
    assert_eq!(run(&queue, ten()).await.len(), 1);
    queue.push(&[of("a", Priority::High)]).await;
    let jobs = [of("b", Priority::High), of("c", Priority::Normal), of("d", Priority::High), of("e", Priority::High)];
    queue.push(&jobs).await;
    let mut started = Vec::new();
    for _ in 0..4 {
        started.extend(queue.store.claim(&worker(), &[line("mail", 1).within(ten())]).await.unwrap().claims);
    }
    assert_eq!(claimed(&started), ids([&jobs[1], &jobs[0], &jobs[2], &jobs[3]]));
}
