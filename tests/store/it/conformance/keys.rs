//! Jobs that share a key: they run one at a time, or as many as their topic says, in the order in which they became ready.

use std::time::Duration;

use gristmill_core::job::{Claim, JobId, NewJob, Priority};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::topic::{FleetLimits, KeyLimits, OnDead};
use gristmill_store::{BehindKey, Cancelled, ClaimFrom, JobQuery, Settled, Settlement, Signal, StateFilter, find};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, TestStore, claimed, delayed, failure, ids, job, keyed, line, retry, settlement, tenant, topic, unique,
    worker,
};
use gristmill_test_servers::wait::SOON;
use tokio::time::timeout;

super::cases![
    jobs_of_a_key_run_one_at_a_time_in_order,
    an_empty_key_is_none,
    a_key_of_one_topic_is_not_anothers,
    jobs_that_wait_are_ready_and_counted_apart,
    a_job_that_waits_says_for_whom,
    jobs_of_a_key_are_found_without_a_look_at_the_others,
    whatever_ends_a_job_lets_the_next_one_of_its_key_start,
    a_job_that_is_put_back_keeps_its_slot,
    a_cancelled_job_that_waits_leaves_its_place,
    the_next_one_starts_when_the_first_is_cancelled,
    jobs_of_a_key_are_cancelled_in_one_call,
    a_running_job_that_is_cancelled_keeps_its_slot_until_it_ends,
    a_delayed_job_waits_for_no_key_until_it_is_due,
    several_delayed_jobs_of_a_key_are_due_in_their_order,
    a_follow_up_of_its_own_key_runs_after_those_that_wait,
    a_crash_gives_the_slot_to_the_same_job_again,
    a_key_has_as_many_slots_as_the_last_claim_said,
    a_batch_ends_jobs_of_many_keys,
    #[cfg(feature = "thorough")]
    ten_thousand_jobs_of_a_key_hold_up_no_other,
    a_key_and_a_unique_value_both_hold,
    a_paused_topic_starts_no_job_of_a_key_that_goes_on,
    a_topic_that_was_forgotten_has_the_usual_slots,
    ; in_order:
    keys_and_jobs_without_one_do_not_wait_for_each_other,
    the_end_of_a_job_announces_the_next_one_of_its_key,
    fewer_slots_hold_as_the_jobs_end,
    priorities_order_keys_and_not_the_jobs_of_a_key,
    a_key_may_have_any_text,
    jobs_that_wait_are_listed_page_by_page,
];

pub(super) fn slots(max_running: u32, on_dead: OnDead) -> FleetLimits {
    FleetLimits { per_key: KeyLimits { max_running, on_dead, rate: None }, ..FleetLimits::NONE }
}

/// So many jobs of `mail` with the key `k`.
pub(super) async fn pushed(queue: &TestStore, count: usize) -> Vec<NewJob> {
    let jobs: Vec<NewJob> = (0..count).map(|_| keyed("k")).collect();
    queue.push(&jobs).await;
    jobs
}

pub(super) async fn claim(queue: &TestStore, limits: FleetLimits) -> Vec<Claim> {
    queue.store.claim(&worker(), &[line("mail", 100).within(limits)]).await.unwrap().claims
}

pub(super) fn bury() -> Verdict {
    Verdict::Bury(failure(Reason::Trap))
}

pub(super) async fn ack(queue: &TestStore, claim: &Claim) {
    assert_eq!(queue.settle_with(settlement(claim, Verdict::Ack(None))).await, Settled::Done);
}

/// Claims and acks what is ready, one after the other, until there is no more.
pub(super) async fn run_all(queue: &TestStore) -> Vec<JobId> {
    let mut run = Vec::new();
    while let Some(claim) = queue.claim(1).await.pop() {
        ack(queue, &claim).await;
        run.push(claim.lease.job);
    }
    run
}

pub(super) async fn behind(queue: &TestStore, job: &NewJob) -> Option<BehindKey> {
    queue.view(&job.spec.id).await.unwrap().behind
}

async fn jobs_of_a_key_run_one_at_a_time_in_order(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    for (place, job) in jobs.iter().enumerate() {
        let claims = claim(&queue, FleetLimits::NONE).await;
        assert_eq!(claimed(&claims), std::slice::from_ref(&job.spec.id));
        assert_eq!(queue.places().await, [2 - place as u64, 0, 1, 0]);
        ack(&queue, &claims[0]).await;
    }
    assert_eq!((queue.claim(9).await.len(), queue.places().await), (0, [0, 0, 0, 0]));
}

async fn keys_and_jobs_without_one_do_not_wait_for_each_other(queue: TestStore) {
    let jobs = [keyed("a"), keyed("a"), keyed("b"), job("mail"), keyed("b"), job("mail")];
    queue.push(&jobs).await;
    let claims = claim(&queue, FleetLimits::NONE).await;
    assert_eq!(claimed(&claims), ids([&jobs[0], &jobs[2], &jobs[3], &jobs[5]]));
    ack(&queue, &claims[1]).await;
    assert_eq!(claimed(&queue.claim(9).await), ids([&jobs[4]]));
    ack(&queue, &claims[0]).await;
    assert_eq!(claimed(&queue.claim(9).await), ids([&jobs[1]]));
}

async fn an_empty_key_is_none(queue: TestStore) {
    queue.push(&[keyed(""), keyed("")]).await;
    assert_eq!(queue.claim(9).await.len(), 2);
}

async fn a_key_of_one_topic_is_not_anothers(queue: TestStore) {
    let mut other = keyed("k");
    other.spec.topic = topic("other");
    queue.push(&[keyed("k"), other]).await;
    assert_eq!((queue.claim(9).await.len(), queue.claim_as(&worker(), "other", 9).await.claims.len()), (1, 1));
}

async fn jobs_that_wait_are_ready_and_counted_apart(queue: TestStore) {
    pushed(&queue, 3).await;
    let counts = queue.counts("mail").await;
    assert_eq!((counts.ready, counts.waiting_for_key, counts.totals["pushed"]), (3, 2, 3));
    let claimed = queue.store.claim(&worker(), &[line("mail", 9)]).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.drained), (1, vec![topic("mail")]), "a claim finds no others");
    let counts = queue.counts("mail").await;
    assert_eq!((counts.ready, counts.waiting_for_key, counts.oldest_ready), (2, 2, None));
    ack(&queue, &claimed.claims[0]).await;
    let counts = queue.counts("mail").await;
    assert_eq!((counts.ready, counts.waiting_for_key), (2, 1));
}

async fn jobs_of_a_key_are_found_without_a_look_at_the_others(queue: TestStore) {
    let mut of_key = ids(&pushed(&queue, 5).await);
    of_key.sort();
    let others: Vec<NewJob> = (0..100).map(|_| job("mail")).collect();
    queue.push(&others).await;
    queue.claim_one().await;
    let of_at_most = async |limit| queue.store.jobs_of_key(&topic("mail"), "k", limit).await.unwrap();
    assert_eq!(of_at_most(5).await, Some(of_key.clone()));
    assert_eq!(of_at_most(4).await, None, "they are more");
    let query: JobQuery = "key:k".parse().unwrap();
    let (mut found, mut looked_at, mut after) = (Vec::new(), 0, None);
    loop {
        let page = find(&*queue.store, &tenant(), None, &query, after, 2).await.unwrap();
        found.extend(page.jobs.into_iter().map(|view| view.id));
        looked_at += page.looked_at;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.sort();
    assert_eq!(found, of_key, "each once");
    assert!(looked_at < 30, "{looked_at}");
}

async fn a_job_that_waits_says_for_whom(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    assert_eq!(behind(&queue, &jobs[0]).await, None);
    let holders = ids([&jobs[0]]);
    assert_eq!(behind(&queue, &jobs[1]).await, Some(BehindKey { holders: holders.clone(), ahead: 0 }));
    assert_eq!(behind(&queue, &jobs[2]).await, Some(BehindKey { holders, ahead: 1 }));
    assert_eq!(queue.store.jobs_ahead(&topic("mail"), &jobs[1].spec.id).await.unwrap(), None);
    ack(&queue, &queue.claim_one().await).await;
    assert_eq!(behind(&queue, &jobs[1]).await, None);
    assert_eq!(behind(&queue, &jobs[2]).await, Some(BehindKey { holders: ids([&jobs[1]]), ahead: 0 }));
}

async fn the_end_of_a_job_announces_the_next_one_of_its_key(queue: TestStore) {
    pushed(&queue, 2).await;
    let claims = claim(&queue, FleetLimits::NONE).await;
    let mut signals = queue.signals(&[tenant()]).await;
    ack(&queue, &claims[0]).await;
    let signal = timeout(SOON, signals.recv()).await.expect("a signal in time");
    assert_eq!(signal, Some(Signal::Ready(topic("mail"))));
}

async fn whatever_ends_a_job_lets_the_next_one_of_its_key_start(queue: TestStore) {
    let jobs = pushed(&queue, 5).await;
    for verdict in [Verdict::Ack(None), Verdict::Expire, bury()] {
        let claim = queue.claim_one().await;
        queue.settle_with(settlement(&claim, verdict)).await;
    }
    // One whose job is not known.
    let claim = queue.claim_one().await;
    queue.settle_with(Settlement::new(claim.lease, Verdict::Ack(None))).await;
    assert_eq!(claimed(&queue.claim(9).await), ids(&jobs[4..]));
}

async fn a_job_that_is_put_back_keeps_its_slot(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = jobs[0].spec.id.clone();
    for verdict in [retry(0), Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO)] {
        let claims = claim(&queue, FleetLimits::NONE).await;
        assert_eq!(claimed(&claims), std::slice::from_ref(&first));
        queue.settle_with(settlement(&claims[0], verdict)).await;
    }
    for verdict in [retry(50), Verdict::Snooze(Duration::from_millis(50))] {
        let claims = claim(&queue, FleetLimits::NONE).await;
        queue.settle_with(settlement(&claims[0], verdict)).await;
        assert_eq!(queue.claim(9).await.len(), 0, "the next one waits for it");
        queue.pass(100);
        queue.migrate().await;
    }
    assert_eq!(run_all(&queue).await, ids(&jobs));
}

async fn cancel(queue: &TestStore, jobs: &[&NewJob]) -> Vec<Cancelled> {
    queue.store.cancel(&tenant(), &ids(jobs.iter().copied())).await.unwrap()
}

async fn a_cancelled_job_that_waits_leaves_its_place(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    assert_eq!(cancel(&queue, &[&jobs[1]]).await, [Cancelled::Gone]);
    let counts = queue.counts("mail").await;
    assert_eq!((counts.ready, counts.waiting_for_key), (2, 1));
    assert_eq!(run_all(&queue).await, ids([&jobs[0], &jobs[2]]));
}

async fn the_next_one_starts_when_the_first_is_cancelled(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    assert_eq!(cancel(&queue, &[&jobs[0]]).await, [Cancelled::Gone]);
    assert_eq!(run_all(&queue).await, ids(&jobs[1..]));
    let jobs = pushed(&queue, 2).await;
    let first = queue.claim_one().await;
    queue.settle_with(settlement(&first, retry(1000))).await;
    assert_eq!(cancel(&queue, &[&jobs[0]]).await, [Cancelled::Gone], "it was delayed between two attempts");
    assert_eq!(run_all(&queue).await, ids(&jobs[1..]));
}

async fn jobs_of_a_key_are_cancelled_in_one_call(queue: TestStore) {
    let jobs = pushed(&queue, 4).await;
    let cancelled = cancel(&queue, &[&jobs[0], &jobs[1], &jobs[3]]).await;
    assert_eq!(cancelled, [Cancelled::Gone; 3]);
    assert_eq!(run_all(&queue).await, ids([&jobs[2]]));
    assert_eq!(queue.places().await, [0, 0, 0, 0]);
}

async fn a_running_job_that_is_cancelled_keeps_its_slot_until_it_ends(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = queue.claim_one().await;
    assert_eq!(cancel(&queue, &[&jobs[0]]).await, [Cancelled::Stopping]);
    assert_eq!(queue.claim(9).await.len(), 0);
    assert_eq!(queue.settle_with(settlement(&first, retry(0))).await, Settled::Cancelled);
    assert_eq!(run_all(&queue).await, ids(&jobs[1..]));
}

fn keyed_after(ms: u64) -> NewJob {
    let mut job = delayed("mail", ms);
    job.spec.options.key = Some("k".into());
    job
}

async fn a_delayed_job_waits_for_no_key_until_it_is_due(queue: TestStore) {
    let (late, now) = (keyed_after(100), keyed("k"));
    queue.push(&[late.clone(), now.clone()]).await;
    let first = queue.claim_one().await;
    assert_eq!(first.lease.job, now.spec.id, "one that is not due holds up no other");
    queue.pass(100);
    queue.migrate().await;
    assert_eq!(queue.claim(9).await.len(), 0);
    assert_eq!(behind(&queue, &late).await, Some(BehindKey { holders: ids([&now]), ahead: 0 }));
    ack(&queue, &first).await;
    assert_eq!(run_all(&queue).await, ids([&late]));
}

async fn several_delayed_jobs_of_a_key_are_due_in_their_order(queue: TestStore) {
    let jobs = [keyed_after(30), keyed_after(10), keyed_after(20)];
    queue.push(&jobs).await;
    queue.pass(50);
    queue.migrate().await;
    assert_eq!(run_all(&queue).await, ids([&jobs[1], &jobs[2], &jobs[0]]));
}

async fn a_follow_up_of_its_own_key_runs_after_those_that_wait(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let (first, follow_up) = (queue.claim_one().await, keyed("k"));
    let ack = Settlement { follow_ups: vec![follow_up.clone()], ..settlement(&first, Verdict::Ack(None)) };
    queue.settle_with(ack).await;
    assert_eq!(run_all(&queue).await, ids([&jobs[1], &follow_up]));
}

async fn a_crash_gives_the_slot_to_the_same_job_again(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    queue.heartbeat(&worker()).await;
    queue.claim_one().await;
    queue.pass(DEAD_AFTER.as_millis() as u64);
    let overdue = queue.store.overdue(&[tenant()], DEAD_AFTER, 9).await.unwrap().jobs;
    let reap = Settlement { only_if_overdue: Some(DEAD_AFTER), ..settlement(&overdue[0].claim, retry(0)) };
    assert_eq!(queue.settle_with(reap).await, Settled::Done);
    assert_eq!(run_all(&queue).await, ids(&jobs));
}

/// Runs a job of the key `k` under these limits, which hold from then on.
async fn set_limits(queue: &TestStore, limits: FleetLimits) {
    queue.push(&[keyed("k")]).await;
    let claims = claim(queue, limits).await;
    ack(queue, &claims[0]).await;
}

async fn a_key_has_as_many_slots_as_the_last_claim_said(queue: TestStore) {
    let two = slots(2, OnDead::Continue);
    set_limits(&queue, two).await;
    let jobs = pushed(&queue, 4).await;
    let claims = claim(&queue, two).await;
    assert_eq!(claimed(&claims), ids(&jobs[..2]));
    assert_eq!(behind(&queue, &jobs[2]).await.unwrap().holders.len(), 2);
    ack(&queue, &claims[1]).await;
    let three = slots(3, OnDead::Continue);
    let third = claim(&queue, three).await;
    assert_eq!(claimed(&third), ids(&jobs[2..3]));
    // More slots hold from the next end on.
    pushed(&queue, 2).await;
    assert_eq!(claim(&queue, three).await.len(), 0);
    ack(&queue, &third[0]).await;
    assert_eq!(claim(&queue, three).await.len(), 2);
}

async fn fewer_slots_hold_as_the_jobs_end(queue: TestStore) {
    set_limits(&queue, slots(3, OnDead::Continue)).await;
    pushed(&queue, 5).await;
    let claims = claim(&queue, slots(3, OnDead::Continue)).await;
    queue.push(&[job("mail")]).await;
    assert_eq!((claims.len(), claim(&queue, FleetLimits::NONE).await.len()), (3, 1));
    for (n, running) in claims.iter().enumerate() {
        ack(&queue, running).await;
        let next = claim(&queue, FleetLimits::NONE).await.len();
        assert_eq!(next, usize::from(n == 2), "none until the others have ended");
    }
}

async fn priorities_order_keys_and_not_the_jobs_of_a_key(queue: TestStore) {
    let of = |key, priority| {
        let mut job = keyed(key);
        job.spec.options.priority = priority;
        job
    };
    let jobs = [of("a", Priority::Low), of("a", Priority::High), of("b", Priority::High)];
    queue.push(&jobs).await;
    assert_eq!(run_all(&queue).await, ids([&jobs[2], &jobs[0], &jobs[1]]));
}

async fn a_batch_ends_jobs_of_many_keys(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..90).map(|n| keyed(&format!("k{}", n / 3))).collect();
    queue.push(&jobs).await;
    for round in 0..3 {
        let claims = claim(&queue, FleetLimits::NONE).await;
        let expected: Vec<_> = jobs.iter().skip(round).step_by(3).collect();
        let (mut found, mut expected) = (claimed(&claims), ids(expected));
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "round {round}");
        let acks: Vec<_> = claims.iter().map(|claim| settlement(claim, Verdict::Ack(None))).collect();
        assert_eq!(queue.store.settle(&acks).await.unwrap(), [Settled::Done; 30]);
    }
    assert_eq!(queue.places().await, [0, 0, 0, 0]);
}

async fn ten_thousand_jobs_of_a_key_hold_up_no_other(queue: TestStore) {
    pushed(&queue, 10_000).await;
    let others = [keyed("other"), job("mail")];
    queue.push(&others).await;
    let claimed = queue.store.claim(&worker(), &[line("mail", 9)]).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.drained.len()), (3, 1));
}

async fn a_key_may_have_any_text(queue: TestStore) {
    let long = "x".repeat(300);
    let texts = ["a", "a ", "a 1", "1 a", " ", "a\nb", "~", "é", "0:", &long, "\"'\u{0}"];
    for key in texts {
        queue.push(&[keyed(key), keyed(key)]).await;
    }
    for _ in 0..2 {
        let claims = claim(&queue, FleetLimits::NONE).await;
        let keys: Vec<_> = claims.iter().map(|claim| claim.job.spec.options.key.clone().unwrap()).collect();
        assert_eq!(keys, texts);
        for claim in claims {
            ack(&queue, &claim).await;
        }
    }
    assert_eq!(queue.places().await, [0, 0, 0, 0]);
}

async fn jobs_that_wait_are_listed_page_by_page(queue: TestStore) {
    let jobs: Vec<NewJob> = (0..12).map(|n| keyed(["a", "b", "c"][n % 3])).collect();
    queue.push(&jobs).await;
    let line = jobs.iter().take(3);
    let waiting = (0..3).flat_map(|key| jobs.iter().skip(3 + key).step_by(3));
    let expected = ids(line.chain(waiting));
    for limit in [1, 2, 3, 5, 12, 100] {
        let (mut listed, mut next) = (Vec::new(), None);
        loop {
            let page = queue.store.jobs(&topic("mail"), StateFilter::Ready, next.as_ref(), limit).await.unwrap();
            assert!(page.jobs.len() <= limit);
            listed.extend(page.jobs.into_iter().map(|view| view.id));
            // As it would come over HTTP.
            next = page.next.map(|next| next.to_string().parse().unwrap());
            if next.is_none() {
                break;
            }
        }
        assert_eq!(listed, expected, "pages of {limit}");
    }
}

async fn a_key_and_a_unique_value_both_hold(queue: TestStore) {
    let of = |value| {
        let mut job = unique("mail", value);
        job.spec.options.key = Some("k".into());
        job
    };
    let jobs = [of("u"), of("v"), of("v")];
    queue.push(&jobs).await;
    assert_eq!(queue.total("duplicate").await, 1);
    assert_eq!(run_all(&queue).await, ids(&jobs[..2]));
}

async fn a_paused_topic_starts_no_job_of_a_key_that_goes_on(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = queue.claim_one().await;
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    ack(&queue, &first).await;
    assert_eq!(queue.claim(9).await.len(), 0);
    queue.store.set_paused(&topic("mail"), false).await.unwrap();
    assert_eq!(run_all(&queue).await, ids(&jobs[1..]));
}

async fn a_topic_that_was_forgotten_has_the_usual_slots(queue: TestStore) {
    let from = [ClaimFrom::new(topic("mail"), 9, SOON).within(slots(3, OnDead::Halt))];
    queue.push(&[keyed("k")]).await;
    let claims = queue.store.claim(&worker(), &from).await.unwrap().claims;
    ack(&queue, &claims[0]).await;
    assert!(queue.store.forget_topic(&topic("mail")).await.unwrap());
    let jobs = pushed(&queue, 2).await;
    assert_eq!(claimed(&queue.store.claim(&worker(), &from).await.unwrap().claims), ids(&jobs[..1]));
}
