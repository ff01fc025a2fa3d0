//! Limits that hold for all claims of a topic together: what waits for them stays in line, and is announced when its turn comes.

use std::time::Duration;

use gristmill_core::job::{Claim, Name, NewJob, Priority, WorkerId};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::topic::{FleetLimits, Rate};
use gristmill_store::{ClaimFrom, Claimed, LimitReached, Migrated, Settlement, Signal};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, TestStore, claimed, delayed, failure, foreign, ids, job, line, of_priority, poll, retry, tenant, topic,
    worker,
};
use gristmill_test_servers::wait::SOON;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

super::cases![
    ; in_order:
    no_more_jobs_run_than_may,
    all_workers_share_a_limit_and_topics_do_not,
    a_topic_named_twice_in_a_claim_has_one_limit,
    the_end_of_a_job_lets_the_next_one_start,
    whatever_the_verdict_is_the_next_job_may_start,
    jobs_of_a_dead_worker_give_their_places_back,
    a_raised_limit_lets_more_jobs_start_at_once,
    a_lowered_limit_lets_none_start_until_enough_have_ended,
    a_claim_without_limits_takes_what_it_asks_for,
    a_push_to_a_topic_at_its_limit_is_not_announced,
    a_topic_that_its_limits_just_emptied_is_announced_with_its_next_job,
    a_rate_lets_its_burst_start_at_once_and_then_the_rest_in_time,
    an_idle_topic_saves_up_no_more_than_its_burst,
    a_rate_gathers_some_jobs_before_it_announces_them,
    a_rate_counts_what_starts_and_not_what_is_asked_for,
    a_retry_counts_as_a_start,
    a_raised_rate_holds_from_the_next_claim_on,
    jobs_that_wait_for_their_rate_keep_their_order,
    priorities_take_turns_within_limits,
    the_time_of_a_rate_is_found_by_a_poll,
    delayed_jobs_are_due_while_a_topic_waits_for_its_rate,
    a_migration_moves_no_more_jobs_than_it_may_where_rates_allow_more,
    a_job_that_ends_does_not_announce_a_topic_that_waits_for_its_rate,
    of_two_limits_both_hold,
    a_rate_goes_on_when_the_store_is_opened_again,
    a_topic_at_its_limit_is_so_when_the_store_is_opened_again,
    a_topic_at_its_limit_that_is_paused_starts_when_it_is_resumed,
    a_cancelled_job_that_waited_for_a_limit_is_gone,
    forgetting_a_topic_forgets_its_rate,
    limits_of_one_tenant_are_not_anothers,
    // A claim first looks which partitions have ready jobs. Those of a paused topic show none, and keep the note of a limit until it is resumed.
    ; not_spread:
    a_paused_topic_waits_for_no_limit,
];

fn running(most: u32) -> FleetLimits {
    FleetLimits { max_running: Some(most), ..FleetLimits::NONE }
}

fn rate(jobs: u32, per_s: u64, burst: u32) -> FleetLimits {
    FleetLimits { rate: Some(Rate { jobs, per: Duration::from_secs(per_s), burst }), ..FleetLimits::NONE }
}

/// Up to `max` jobs of `mail` within limits.
fn mail(max: usize, limits: FleetLimits) -> ClaimFrom {
    line("mail", max).within(limits)
}

async fn claim(queue: &TestStore, max: usize, limits: FleetLimits) -> Claimed {
    queue.claim_within(&worker(), &[mail(max, limits)]).await.unwrap()
}

/// Pushes so many jobs of `mail`.
async fn pushed(queue: &TestStore, count: usize) -> Vec<NewJob> {
    let jobs: Vec<NewJob> = (0..count).map(|_| job("mail")).collect();
    queue.push(&jobs).await;
    jobs
}

async fn listen(queue: &TestStore) -> Receiver<Signal> {
    let tenants: [Name; 1] = [tenant()];
    queue.signals(&tenants).await
}

async fn next(signals: &mut Receiver<Signal>) -> Signal {
    timeout(SOON, signals.recv()).await.expect("a signal in time").expect("the store still speaks")
}

/// Asserts that nothing was signalled: the next signal is of a push to another topic.
async fn assert_silent(queue: &TestStore, signals: &mut Receiver<Signal>) {
    queue.push(&[job("other")]).await;
    assert_eq!(next(signals).await, Signal::Ready(topic("other")));
    assert_eq!(queue.claim_as(&worker(), "other", 2).await.claims.len(), 1);
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn no_more_jobs_run_than_may(queue: TestStore) {
    let jobs = pushed(&queue, 5).await;
    let first = claim(&queue, 2, running(3)).await;
    assert_eq!((claimed(&first.claims), first.drained.len()), (ids(&jobs[..2]), 0), "the limit is not reached");
    let second = claim(&queue, 2, running(3)).await;
    assert_eq!((claimed(&second.claims), second.drained), (ids(&jobs[2..3]), vec![topic("mail")]));
    let third = claim(&queue, 2, running(3)).await;
    assert_eq!((third.claims.len(), third.drained), (0, vec![topic("mail")]));
    assert_eq!(queue.places().await, [2, 0, 3, 0]);
    assert_eq!(queue.counts("mail").await.limited, Some(LimitReached::MaxRunning));
    assert!(poll(&*queue.store, &tenant()).await.ready.is_empty());
}

async fn all_workers_share_a_limit_and_topics_do_not(queue: TestStore) {
    pushed(&queue, 3).await;
    queue.push(&[job("other"), job("other"), job("third")]).await;
    assert_eq!(claim(&queue, 9, running(2)).await.claims.len(), 2);
    let another = WorkerId::new("host-2-def");
    let from = [mail(9, running(2)), line("other", 9).within(running(1)), line("third", 9)];
    let others = queue.claim_within(&another, &from).await.unwrap();
    let topics: Vec<_> = others.claims.iter().map(|claim| claim.lease.topic.clone()).collect();
    assert_eq!(topics, [topic("other"), topic("third")]);
    assert_eq!(others.drained.len(), 3);
}

async fn a_topic_named_twice_in_a_claim_has_one_limit(queue: TestStore) {
    pushed(&queue, 9).await;
    let both = FleetLimits { rate: rate(1, 60, 4).rate, ..running(3) };
    let taken = queue.claim_within(&worker(), &[mail(2, both), mail(5, both)]).await.unwrap();
    assert_eq!(taken.claims.len(), 3);
    let taken = queue.claim_within(&worker(), &[mail(1, rate(1, 60, 4)), mail(5, rate(1, 60, 4))]).await.unwrap();
    assert_eq!(taken.claims.len(), 1);
}

async fn the_end_of_a_job_lets_the_next_one_start(queue: TestStore) {
    let jobs = pushed(&queue, 4).await;
    let first = claim(&queue, 9, running(2)).await.claims;
    let mut signals = listen(&queue).await;
    queue.settle(&first[1], Verdict::Ack(None)).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(poll(&*queue.store, &tenant()).await.ready, [topic("mail")]);
    assert_eq!(queue.counts("mail").await.limited, None);
    // The next end finds the topic announced.
    queue.settle(&first[0], Verdict::Ack(None)).await;
    assert_silent(&queue, &mut signals).await;
    let second = claim(&queue, 9, running(2)).await;
    assert_eq!((claimed(&second.claims), second.drained.len()), (ids(&jobs[2..]), 1));
    assert_eq!(queue.counts("mail").await.limited, None, "it is empty, and its limit keeps none in line");
}

async fn whatever_the_verdict_is_the_next_job_may_start(queue: TestStore) {
    let verdicts = [
        retry(60_000),
        Verdict::Snooze(ms(60_000)),
        Verdict::Release(ms(60_000)),
        Verdict::Bury(failure(Reason::Trap)),
        Verdict::Expire,
        Verdict::Ack(None),
    ];
    let jobs = pushed(&queue, verdicts.len() + 1).await;
    let mut signals = listen(&queue).await;
    for (job, verdict) in jobs.iter().zip(verdicts) {
        let taken = claim(&queue, 1, running(1)).await.claims;
        assert_eq!(claimed(&taken), ids([job]), "before {}", verdict.name());
        assert!(claim(&queue, 1, running(1)).await.claims.is_empty());
        queue.settle(&taken[0], verdict).await;
        while next(&mut signals).await != Signal::Ready(topic("mail")) {}
    }
    let last = claim(&queue, 1, running(1)).await.claims.remove(0);
    queue.push(&[job("mail")]).await;
    assert!(claim(&queue, 1, running(1)).await.claims.is_empty());
    queue.store.cancel(&tenant(), std::slice::from_ref(&last.lease.job)).await.unwrap();
    queue.settle(&last, retry(0)).await;
    while next(&mut signals).await != Signal::Ready(topic("mail")) {}
    // A retry that waits for nothing is behind those that wait.
    let (taken, behind) = (claim(&queue, 1, running(1)).await.claims.remove(0), job("mail"));
    queue.push(std::slice::from_ref(&behind)).await;
    assert!(claim(&queue, 1, running(1)).await.claims.is_empty());
    queue.settle(&taken, retry(0)).await;
    while next(&mut signals).await != Signal::Ready(topic("mail")) {}
    assert_eq!(claimed(&claim(&queue, 1, running(1)).await.claims), [behind.spec.id]);
}

async fn jobs_of_a_dead_worker_give_their_places_back(queue: TestStore) {
    let jobs = pushed(&queue, 4).await;
    queue.heartbeat(&worker()).await;
    assert_eq!(claim(&queue, 9, running(2)).await.claims.len(), 2);
    let mut signals = listen(&queue).await;
    queue.pass(10_000);
    let overdue = queue.store.overdue(&[tenant()], DEAD_AFTER, 9).await.unwrap().jobs;
    assert_eq!(overdue.len(), 2);
    for overdue in overdue {
        let reap = Settlement { only_if_overdue: Some(DEAD_AFTER), ..Settlement::new(overdue.claim.lease, retry(0)) };
        queue.settle_with(reap).await;
    }
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(claimed(&claim(&queue, 9, running(2)).await.claims), ids(&jobs[2..]));
}

async fn a_raised_limit_lets_more_jobs_start_at_once(queue: TestStore) {
    let jobs = pushed(&queue, 6).await;
    assert_eq!(claim(&queue, 9, running(2)).await.claims.len(), 2);
    let mut signals = listen(&queue).await;
    assert_eq!(claimed(&claim(&queue, 2, running(5)).await.claims), ids(&jobs[2..4]));
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")), "to those that wait for the topic");
    assert_eq!(poll(&*queue.store, &tenant()).await.ready, [topic("mail")], "it is not at the new limit");
    assert_eq!(claimed(&claim(&queue, 9, running(5)).await.claims), ids(&jobs[4..5]));
}

async fn a_lowered_limit_lets_none_start_until_enough_have_ended(queue: TestStore) {
    pushed(&queue, 9).await;
    let first = claim(&queue, 4, running(5)).await.claims;
    for (running_now, claim_of) in (1..=4).rev().zip(&first) {
        let taken = claim(&queue, 9, running(2)).await.claims;
        assert_eq!(taken.len(), if running_now < 2 { 1 } else { 0 }, "{running_now} run");
        queue.settle(claim_of, Verdict::Ack(None)).await;
    }
}

async fn a_claim_without_limits_takes_what_it_asks_for(queue: TestStore) {
    let jobs = pushed(&queue, 3).await;
    assert_eq!(claim(&queue, 9, running(1)).await.claims.len(), 1);
    assert_eq!(claimed(&queue.claim(9).await), ids(&jobs[1..]));
    assert!(claim(&queue, 9, running(2)).await.claims.is_empty());
}

async fn a_push_to_a_topic_at_its_limit_is_not_announced(queue: TestStore) {
    pushed(&queue, 2).await;
    let first = claim(&queue, 9, running(1)).await.claims;
    let mut signals = listen(&queue).await;
    pushed(&queue, 2).await;
    queue.push(&[delayed("mail", 5)]).await;
    assert!(matches!(next(&mut signals).await, Signal::Due { .. }));
    queue.pass(5);
    assert_eq!(queue.migrate().await.moved, 1);
    assert_silent(&queue, &mut signals).await;
    queue.settle(&first[0], Verdict::Ack(None)).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
}

async fn a_topic_that_its_limits_just_emptied_is_announced_with_its_next_job(queue: TestStore) {
    pushed(&queue, 2).await;
    let taken = claim(&queue, 9, running(2)).await;
    assert_eq!((taken.claims.len(), taken.drained.len()), (2, 1));
    let mut signals = listen(&queue).await;
    queue.settle(&taken.claims[0], Verdict::Ack(None)).await;
    pushed(&queue, 1).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")), "and nothing for the end of the job");
    assert_silent(&queue, &mut signals).await;
}

async fn a_rate_lets_its_burst_start_at_once_and_then_the_rest_in_time(queue: TestStore) {
    let jobs = pushed(&queue, 9).await;
    let limits = rate(10, 1, 3);
    assert_eq!(claim(&queue, 2, limits).await.claims.len(), 2);
    let mut signals = listen(&queue).await;
    let rest = claim(&queue, 9, limits).await;
    assert_eq!((rest.claims.len(), rest.drained), (1, vec![topic("mail")]), "the burst and no more");
    assert_eq!(next(&mut signals).await, Signal::Due { tenant: tenant(), wait: ms(100) });
    assert_eq!(queue.counts("mail").await.limited, Some(LimitReached::Rate { until: queue.in_ms(100) }));
    queue.pass(99);
    assert_eq!(queue.migrate().await, Migrated { moved: 0, fired: 0, next_due_in: Some(ms(1)) });
    assert!(claim(&queue, 9, limits).await.claims.is_empty());
    queue.pass(1);
    assert_eq!(queue.migrate().await, Migrated { moved: 1, fired: 0, next_due_in: None });
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(claimed(&claim(&queue, 9, limits).await.claims), ids(&jobs[3..4]));
    queue.pass(200);
    assert_eq!(claimed(&claim(&queue, 9, limits).await.claims), ids(&jobs[4..6]), "whether or not it is announced");
}

async fn an_idle_topic_saves_up_no_more_than_its_burst(queue: TestStore) {
    pushed(&queue, 20).await;
    let limits = rate(1000, 1, 4);
    assert_eq!(claim(&queue, 9, limits).await.claims.len(), 4);
    queue.pass(3_600_000);
    assert_eq!(claim(&queue, 9, limits).await.claims.len(), 4);
    queue.pass(3);
    assert_eq!(claim(&queue, 9, limits).await.claims.len(), 3);
}

async fn a_rate_gathers_some_jobs_before_it_announces_them(queue: TestStore) {
    pushed(&queue, 200).await;
    let limits = rate(1000, 1, 100);
    assert_eq!(claim(&queue, 150, limits).await.claims.len(), 100);
    assert_eq!(queue.migrate().await.next_due_in, Some(ms(5)));
    queue.pass(5);
    assert_eq!(queue.migrate().await.moved, 1);
    assert_eq!(claim(&queue, 150, limits).await.claims.len(), 5);
}

async fn a_rate_counts_what_starts_and_not_what_is_asked_for(queue: TestStore) {
    pushed(&queue, 2).await;
    let limits = rate(1, 3600, 4);
    let taken = claim(&queue, 3, limits).await;
    assert_eq!((taken.claims.len(), taken.drained.len()), (2, 1));
    assert_eq!(queue.counts("mail").await.limited, None);
    pushed(&queue, 3).await;
    assert_eq!(claim(&queue, 3, limits).await.claims.len(), 2);
}

async fn a_retry_counts_as_a_start(queue: TestStore) {
    pushed(&queue, 1).await;
    let limits = rate(1, 60, 2);
    let first = claim(&queue, 1, limits).await.claims.remove(0);
    queue.settle(&first, retry(0)).await;
    let second = claim(&queue, 1, limits).await.claims.remove(0);
    queue.settle(&second, Verdict::Release(ms(0))).await;
    assert!(claim(&queue, 1, limits).await.claims.is_empty());
    queue.pass(60_000);
    assert_eq!(claim(&queue, 1, limits).await.claims.remove(0).attempt, 2);
}

async fn a_raised_rate_holds_from_the_next_claim_on(queue: TestStore) {
    pushed(&queue, 9).await;
    assert_eq!(claim(&queue, 9, rate(1, 3600, 1)).await.claims.len(), 1);
    assert!(claim(&queue, 9, rate(100, 1, 10)).await.claims.is_empty(), "the bucket is empty");
    queue.pass(20);
    assert_eq!(claim(&queue, 9, rate(100, 1, 10)).await.claims.len(), 2);
}

async fn jobs_that_wait_for_their_rate_keep_their_order(queue: TestStore) {
    let jobs = pushed(&queue, 12).await;
    let (limits, mut taken) = (rate(10, 1, 1), Vec::<Claim>::new());
    while taken.len() < jobs.len() {
        taken.extend(claim(&queue, 9, limits).await.claims);
        queue.pass(100);
    }
    assert_eq!(claimed(&taken), ids(&jobs));
    assert!(taken.iter().all(|claim| claim.attempt == 1), "waiting is no attempt");
}

async fn priorities_take_turns_within_limits(queue: TestStore) {
    use Priority::{High, Low, Normal};
    let jobs: Vec<NewJob> = [High, High, High, Normal, Normal, Low].map(of_priority).into();
    queue.push(&jobs).await;
    let (limits, mut taken) = (rate(10, 1, 1), Vec::new());
    for _ in 0..6 {
        taken.extend(claim(&queue, 9, limits).await.claims.into_iter().map(|claim| claim.job.spec.options.priority));
        queue.pass(100);
    }
    assert_eq!(taken, [High, Normal, High, High, Normal, Low]);
}

async fn the_time_of_a_rate_is_found_by_a_poll(queue: TestStore) {
    pushed(&queue, 3).await;
    queue.push(&[delayed("other", 500)]).await;
    let limits = rate(10, 1, 1);
    claim(&queue, 9, limits).await;
    let pending = poll(&*queue.store, &tenant()).await;
    assert_eq!((pending.ready, pending.next_due_in), (Vec::new(), Some(ms(100))));
    queue.pass(100);
    assert_eq!(poll(&*queue.store, &tenant()).await.next_due_in, Some(ms(0)));
    assert_eq!(queue.migrate().await, Migrated { moved: 1, fired: 0, next_due_in: Some(ms(400)) });
    assert_eq!(poll(&*queue.store, &tenant()).await.ready, [topic("mail")]);
}

async fn delayed_jobs_are_due_while_a_topic_waits_for_its_rate(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let limits = rate(1, 1, 1);
    claim(&queue, 9, limits).await;
    let (early, late) = (delayed("mail", 300), delayed("mail", 1500));
    queue.push(&[early.clone(), late.clone()]).await;
    assert_eq!(queue.migrate().await.next_due_in, Some(ms(300)));
    queue.pass(300);
    assert_eq!(queue.migrate().await, Migrated { moved: 1, fired: 0, next_due_in: Some(ms(700)) });
    queue.pass(700);
    assert_eq!(queue.migrate().await, Migrated { moved: 1, fired: 0, next_due_in: Some(ms(500)) });
    assert_eq!(claimed(&claim(&queue, 9, limits).await.claims), ids(&jobs[1..]));
    assert_eq!(queue.migrate().await.next_due_in, Some(ms(500)));
    queue.pass(500);
    assert_eq!(queue.migrate().await, Migrated { moved: 1, fired: 0, next_due_in: Some(ms(500)) });
    queue.pass(500);
    assert_eq!(queue.migrate().await, Migrated { moved: 1, fired: 0, next_due_in: None });
    assert_eq!(claimed(&claim(&queue, 9, limits).await.claims), [early.spec.id]);
}

async fn a_job_that_ends_does_not_announce_a_topic_that_waits_for_its_rate(queue: TestStore) {
    pushed(&queue, 3).await;
    let taken = claim(&queue, 9, rate(1, 60, 2)).await.claims;
    let mut signals = listen(&queue).await;
    queue.settle(&taken[0], Verdict::Ack(None)).await;
    queue.settle(&taken[1], Verdict::Bury(failure(Reason::Trap))).await;
    assert_silent(&queue, &mut signals).await;
    assert!(poll(&*queue.store, &tenant()).await.ready.is_empty());
}

async fn of_two_limits_both_hold(queue: TestStore) {
    pushed(&queue, 20).await;
    let limits = FleetLimits { max_running: Some(3), ..rate(10, 1, 5) };
    let first = claim(&queue, 9, limits).await.claims;
    assert_eq!(first.len(), 3, "as many as may run");
    assert_eq!(queue.counts("mail").await.limited, Some(LimitReached::MaxRunning));
    assert_eq!(queue.migrate().await.next_due_in, None);
    for claim in &first {
        queue.settle(claim, Verdict::Ack(None)).await;
    }
    let second = claim(&queue, 9, limits).await.claims;
    assert_eq!(second.len(), 2, "as many as may start");
    assert_eq!(queue.counts("mail").await.limited, Some(LimitReached::Rate { until: queue.in_ms(100) }));
    queue.pass(1000);
    assert_eq!(queue.migrate().await.moved, 1);
    assert_eq!(claim(&queue, 9, limits).await.claims.len(), 1, "as many as may run");
}

async fn a_rate_goes_on_when_the_store_is_opened_again(mut queue: TestStore) {
    pushed(&queue, 9).await;
    let limits = rate(1, 60, 2);
    claim(&queue, 9, limits).await;
    queue.reopen().await;
    assert!(claim(&queue, 9, limits).await.claims.is_empty());
    assert_eq!(queue.migrate().await.next_due_in, Some(ms(60_000)));
    queue.pass(60_000);
    assert_eq!(queue.migrate().await.moved, 1);
    assert_eq!(claim(&queue, 9, limits).await.claims.len(), 1);
}

async fn a_topic_at_its_limit_is_so_when_the_store_is_opened_again(mut queue: TestStore) {
    pushed(&queue, 3).await;
    let first = claim(&queue, 9, running(2)).await.claims;
    queue.reopen().await;
    assert!(poll(&*queue.store, &tenant()).await.ready.is_empty());
    let mut signals = listen(&queue).await;
    queue.settle(&first[0], Verdict::Ack(None)).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(claim(&queue, 9, running(2)).await.claims.len(), 1);
}

async fn a_paused_topic_waits_for_no_limit(queue: TestStore) {
    pushed(&queue, 3).await;
    claim(&queue, 9, rate(1, 60, 1)).await;
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    let taken = claim(&queue, 9, rate(1, 60, 1)).await;
    assert_eq!((taken.claims.len(), taken.drained.len()), (0, 1));
    assert_eq!(queue.counts("mail").await.limited, None);
}

async fn a_topic_at_its_limit_that_is_paused_starts_when_it_is_resumed(queue: TestStore) {
    pushed(&queue, 3).await;
    let first = claim(&queue, 9, running(1)).await.claims;
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    let mut signals = listen(&queue).await;
    queue.settle(&first[0], Verdict::Ack(None)).await;
    assert_silent(&queue, &mut signals).await;
    assert!(poll(&*queue.store, &tenant()).await.ready.is_empty());
    queue.store.set_paused(&topic("mail"), false).await.unwrap();
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(claim(&queue, 9, running(1)).await.claims.len(), 1);
}

async fn a_cancelled_job_that_waited_for_a_limit_is_gone(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = claim(&queue, 9, running(1)).await.claims;
    queue.store.cancel(&tenant(), &ids(&jobs[1..])).await.unwrap();
    let mut signals = listen(&queue).await;
    queue.settle(&first[0], Verdict::Ack(None)).await;
    let more = pushed(&queue, 1).await;
    assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    assert_eq!(claimed(&claim(&queue, 9, running(1)).await.claims), ids(&more));
}

async fn forgetting_a_topic_forgets_its_rate(queue: TestStore) {
    let jobs = pushed(&queue, 2).await;
    let first = claim(&queue, 9, rate(1, 60, 1)).await.claims;
    queue.settle(&first[0], Verdict::Ack(None)).await;
    queue.store.cancel(&tenant(), &ids(&jobs[1..])).await.unwrap();
    assert!(queue.store.forget_topic(&topic("mail")).await.unwrap());
    assert_eq!(queue.migrate().await.next_due_in, None);
    pushed(&queue, 1).await;
    assert_eq!(claim(&queue, 9, rate(1, 60, 1)).await.claims.len(), 1);
}

async fn limits_of_one_tenant_are_not_anothers(queue: TestStore) {
    pushed(&queue, 2).await;
    queue.push(&[foreign("mail"), foreign("mail")]).await;
    let limits = FleetLimits { max_running: Some(1), ..rate(1, 60, 1) };
    let theirs = ClaimFrom { topic: foreign("mail").spec.topic, ..mail(9, limits) };
    let taken = queue.claim_within(&worker(), &[mail(9, limits), theirs]).await.unwrap();
    assert_eq!(taken.claims.len(), 2);
}

async fn a_migration_moves_no_more_jobs_than_it_may_where_rates_allow_more(queue: TestStore) {
    let topics = ["mail", "news"];
    for of in topics {
        queue.push(&[job(of), job(of), delayed(of, 1000), delayed(of, 1000)]).await;
        let claimed = queue.claim_within(&worker(), &[line(of, 2).within(rate(1, 1, 1))]).await.unwrap();
        assert_eq!(claimed.claims.len(), 1);
    }
    queue.pass(1000);
    queue.store.migrate(&tenant(), 1).await.unwrap();
    let delayed = [queue.counts(topics[0]).await.delayed, queue.counts(topics[1]).await.delayed];
    assert_eq!(delayed.iter().sum::<u64>(), 3, "{delayed:?}");
}
