//! The corridor: push, migrate, claim, settle.

use std::time::{Duration, Instant};

use super::mill::{LEASE, Mill, delayed, failure, job, retry, tenant, topic, unique, until, worker};
use crate::job::{Due, NewJob, Payload, WorkerId};
use crate::outcome::{Reason, Verdict};
use crate::store::Clock;
use crate::store::{ClaimFrom, Inspect, JobState, Produce, Pushed, ResultView, Settled, Settlement, Store};
use crate::time::Timestamp;

#[tokio::test]
async fn a_job_is_pushed_claimed_and_acked() {
    let mill = Mill::new().await;
    let mut pushed = job("mail");
    pushed.spec.metadata = vec![("trace".into(), "t1".into())];
    assert_eq!(mill.store.push(std::slice::from_ref(&pushed)).await.unwrap(), [Pushed::Stored]);
    mill.pass(5);

    let claim = mill.claim(10).await.pop().unwrap();
    assert_eq!(claim.job.spec, pushed.spec);
    assert_eq!((claim.attempt, claim.lease.delivery), (1, 1));
    assert_eq!(claim.job.enqueued_at, claim.job.due_at);
    assert_eq!(claim.claimed_at.since(claim.job.enqueued_at), Duration::from_millis(5));
    assert_eq!(claim.lease_until, mill.now().plus(LEASE));
    assert_eq!((claim.previous, claim.checkpoint.as_ref()), (None, None));

    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(mill.state(&pushed.spec).await, None);
    assert!(mill.claim(10).await.is_empty());
}

#[tokio::test]
async fn the_oldest_job_comes_first_across_batches() {
    let mill = Mill::new().await;
    let jobs: Vec<NewJob> = (0..1203).map(|_| job("mail")).collect();
    mill.push(&jobs).await;
    let claims = [mill.claim(3).await, mill.claim(1200).await].concat();
    assert!(claims.iter().map(|claim| &claim.job.spec.id).eq(jobs.iter().map(|job| &job.spec.id)));
}

#[tokio::test]
async fn one_claim_serves_many_topics_and_names_the_drained() {
    let mill = Mill::new().await;
    mill.push(&[job("a"), job("b"), job("b"), job("b")]).await;
    let line = |of: &str, max| ClaimFrom { topic: topic(of), max, lease: LEASE };
    let claimed = mill.store.claim(&worker(), &[line("a", 2), line("b", 2), line("c", 1)]).await.unwrap();
    assert_eq!(claimed.claims.len(), 3);
    assert_eq!(claimed.drained, [topic("a"), topic("c")]);
}

#[tokio::test]
async fn a_delayed_job_is_never_early() {
    let mill = Mill::new().await;
    let pushed = delayed("mail", 1000);
    mill.push(std::slice::from_ref(&pushed)).await;
    mill.pass(999);
    let migrated = mill.store.migrate(&tenant(), 10).await.unwrap();
    assert_eq!((migrated.moved, migrated.next_due_in), (0, Some(Duration::from_millis(1))));
    assert!(mill.claim(1).await.is_empty());
    mill.pass(1);
    let migrated = mill.store.migrate(&tenant(), 10).await.unwrap();
    assert_eq!((migrated.moved, migrated.next_due_in), (1, None));
    let claim = mill.claim(1).await.pop().unwrap();
    assert_eq!(claim.job.due_at.since(claim.job.enqueued_at), Duration::from_secs(1));
}

#[tokio::test]
async fn a_fraction_of_a_millisecond_is_waited_for() {
    let mill = Mill::new().await;
    mill.push(&[NewJob { due: Due::After(Duration::from_micros(1)), ..job("mail") }]).await;
    assert!(mill.claim(1).await.is_empty());
    mill.pass(1);
    assert_eq!(mill.migrate().await, 1);
}

#[tokio::test]
async fn a_due_time_in_the_past_is_now() {
    let mill = Mill::new().await;
    let past = Due::At(Timestamp::from_millis(1));
    mill.push(&[NewJob { due: past, ..job("mail") }, NewJob { due: Due::At(mill.now()), ..job("mail") }]).await;
    let claims = mill.claim(3).await;
    assert_eq!(claims.len(), 2);
    assert!(claims.iter().all(|claim| claim.job.due_at == mill.now()));
}

#[tokio::test]
async fn by_the_servers_clock_nothing_is_early_either() {
    let mill = Mill::new().await;
    let store = mill.store.clone().with_clock(Clock::Own);
    let pushed_at = Instant::now();
    store.push(&[delayed("mail", 20)]).await.unwrap();
    until("the job is due", async || store.migrate(&tenant(), 1).await.unwrap().moved == 1).await;
    assert!(pushed_at.elapsed() >= Duration::from_millis(20));
}

#[tokio::test]
async fn the_end_of_time_is_bounded() {
    let mill = Mill::new().await;
    let late = NewJob { due: Due::At(Timestamp::from_millis(u64::MAX)), ..job("mail") };
    mill.push(&[late.clone(), NewJob { due: Due::After(Duration::MAX), ..job("mail") }]).await;
    let until = Timestamp::from_millis(99_999_999_999_999);
    assert_eq!(mill.state(&late.spec).await, Some(JobState::Delayed { until }));
    assert_eq!(mill.counts("mail").await.delayed, 2);
}

#[tokio::test]
async fn migration_is_bounded_and_shared_among_topics() {
    let mill = Mill::new().await;
    let jobs: Vec<NewJob> = (0..30).map(|_| delayed("a", 1)).chain([delayed("b", 2)]).collect();
    mill.push(&jobs).await;
    mill.pass(10);
    let migrated = mill.store.migrate(&tenant(), 10).await.unwrap();
    assert_eq!((migrated.moved, migrated.next_due_in), (10, Some(Duration::ZERO)));
    assert_eq!((mill.counts("a").await.ready, mill.counts("b").await.ready), (9, 1), "b is not behind all of a");
    assert_eq!(mill.store.migrate(&tenant(), 100).await.unwrap().moved, 21);
    assert_eq!(mill.store.migrate(&tenant(), 100).await.unwrap().next_due_in, None);
}

#[tokio::test]
async fn the_attempt_is_counted_at_the_claim() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let view = mill.store.job(&tenant(), &claim.lease.job).await.unwrap().unwrap();
    assert_eq!(view.attempts, 1);
}

#[tokio::test]
async fn a_late_settle_is_refused_and_changes_nothing() {
    let mill = Mill::new().await;
    let first = mill.running().await;
    mill.settle(&first, retry(0)).await;
    let second = mill.claim(1).await.pop().unwrap();
    assert_eq!((second.attempt, second.lease.delivery, second.previous), (2, 2, Some(Reason::Failed)));

    assert_eq!(mill.settle(&first, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(mill.settle(&first, Verdict::Bury(failure(Reason::Trap))).await, Settled::LeaseLost);
    assert!(matches!(mill.state(&second.job.spec).await, Some(JobState::Running { .. })));
    assert_eq!(mill.settle(&second, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(mill.settle(&second, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!((mill.total("acked").await, mill.counts("mail").await.running), (1, 0));
}

#[tokio::test]
async fn another_workers_lease_is_not_ours() {
    let mill = Mill::new().await;
    let mut claim = mill.running().await;
    claim.lease.worker = WorkerId::new("impostor");
    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(mill.settle(&claim, retry(0)).await, Settled::LeaseLost);
    assert_eq!(mill.store.extend(&[claim.lease], LEASE).await.unwrap(), [false]);
}

#[tokio::test]
async fn the_same_lease_settles_once_in_a_batch() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let ack = Settlement::new(claim.lease.clone(), Verdict::Ack(None));
    let settled = mill.store.settle(&[ack.clone(), ack.clone()]).await.unwrap();
    assert_eq!(settled, [Settled::Done, Settled::LeaseLost]);
    let lease = mill.running().await.lease;
    let (retry, ack) = (Settlement::new(lease.clone(), retry(0)), Settlement { lease, ..ack });
    let settled = mill.store.settle(&[retry, ack]).await.unwrap();
    assert_eq!(settled, [Settled::Done, Settled::LeaseLost], "the first one counts");
}

#[tokio::test]
async fn mixed_verdicts_are_answered_in_order() {
    let mill = Mill::new().await;
    mill.push(&(0..6).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let claims = mill.claim(6).await;
    let wait = Duration::from_secs(1);
    let verdicts = [
        Verdict::Ack(None),
        retry(1000),
        Verdict::Snooze(wait),
        Verdict::Release(wait),
        Verdict::Bury(failure(Reason::Rejected)),
        Verdict::Expire,
    ];
    let mut settlements: Vec<Settlement> =
        claims.iter().zip(verdicts).map(|(claim, verdict)| Settlement::new(claim.lease.clone(), verdict)).collect();
    settlements[1].lease.delivery = 9;
    let settled = mill.store.settle(&settlements).await.unwrap();
    let lost: Vec<usize> = (0..6).filter(|i| settled[*i] == Settled::LeaseLost).collect();
    assert_eq!(lost, [1]);
    let counts = mill.counts("mail").await;
    assert_eq!((counts.ready, counts.delayed, counts.running, counts.dead), (0, 2, 1, 1));
}

#[tokio::test]
async fn snooze_and_release_give_the_attempt_back() {
    let mill = Mill::new().await;
    let first = mill.running().await;
    mill.settle(&first, Verdict::Release(Duration::ZERO)).await;
    let second = mill.claim(1).await.pop().unwrap();
    assert_eq!((second.attempt, second.lease.delivery, second.previous), (1, 2, None));
    mill.settle(&second, Verdict::Snooze(Duration::from_millis(50))).await;
    assert!(mill.claim(1).await.is_empty());
    mill.pass(50);
    mill.migrate().await;
    let third = mill.claim(1).await.pop().unwrap();
    assert_eq!((third.attempt, third.lease.delivery), (1, 3));
    assert_eq!(third.job.due_at, first.job.due_at, "when it first became due");
}

#[tokio::test]
async fn a_job_is_retried_later_and_then_dead() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    mill.settle(&claim, retry(10)).await;
    assert_eq!(
        mill.state(&claim.job.spec).await,
        Some(JobState::Delayed { until: mill.now().plus(Duration::from_millis(10)) })
    );
    mill.pass(10);
    mill.migrate().await;
    let claim = mill.claim(1).await.pop().unwrap();
    assert_eq!(claim.attempt, 2);
    mill.settle(&claim, Verdict::Bury(failure(Reason::Timeout))).await;
    assert_eq!(mill.state(&claim.job.spec).await, Some(JobState::Dead { since: mill.now() }));
    let dead = mill.store.dead(&topic("mail"), 0, 10).await.unwrap().pop().unwrap();
    assert_eq!((dead.attempts, dead.failure), (2, Some(failure(Reason::Timeout))));
    assert_eq!(dead.job.spec, claim.job.spec);
}

#[tokio::test]
async fn follow_ups_appear_with_the_ack() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let mut ack = Settlement::new(claim.lease.clone(), Verdict::Ack(None));
    ack.follow_ups = vec![job("next"), delayed("next", 10), job("mail")];
    assert_eq!(mill.settle_with(ack).await, Settled::Done);
    let next = mill.counts("next").await;
    assert_eq!((next.ready, next.delayed, mill.counts("mail").await.ready), (1, 1, 1));
    assert_eq!(mill.store.wanted(&tenant(), &[]).await.unwrap().next_due_in, Some(Duration::from_millis(10)));
}

#[tokio::test]
async fn follow_ups_of_a_lost_lease_or_a_failure_do_not_appear() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let mut late = Settlement::new(claim.lease.clone(), Verdict::Ack(None));
    late.follow_ups = vec![job("next")];
    late.lease.delivery += 1;
    assert_eq!(mill.settle_with(late.clone()).await, Settled::LeaseLost);
    let failed = Settlement { lease: claim.lease.clone(), verdict: retry(0), ..late };
    assert_eq!(mill.settle_with(failed).await, Settled::Done);
    assert!(mill.claim_as(&worker(), "next", 1).await.claims.is_empty());
}

#[tokio::test]
async fn a_follow_up_of_another_tenant_is_refused() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let mut foreign = job("next");
    foreign.spec.topic.tenant = "other".parse().unwrap();
    let mut ack = Settlement::new(claim.lease.clone(), Verdict::Ack(None));
    ack.follow_ups = vec![foreign];
    assert!(mill.store.settle(&[ack]).await.is_err());
    assert!(matches!(mill.state(&claim.job.spec).await, Some(JobState::Running { .. })));
}

#[tokio::test]
async fn a_unique_value_is_held_until_the_end() {
    let mill = Mill::new().await;
    let (first, second) = (unique("mail", "u"), unique("mail", "u"));
    let duplicate = Pushed::Duplicate(first.spec.id.clone());
    let pushed = mill.store.push(&[first.clone(), second.clone(), unique("other", "u")]).await.unwrap();
    assert_eq!(pushed, [Pushed::Stored, duplicate.clone(), Pushed::Stored]);
    assert_eq!(mill.store.push(std::slice::from_ref(&first)).await.unwrap(), [Pushed::Exists]);

    let settle = |verdict| async {
        let claim = mill.claim(1).await.pop().unwrap();
        let unique = claim.job.spec.unique.as_ref().map(|unique| unique.value.clone());
        mill.settle_with(Settlement { unique, ..Settlement::new(claim.lease, verdict) }).await
    };
    settle(retry(0)).await;
    assert_eq!(mill.store.push(std::slice::from_ref(&second)).await.unwrap(), [duplicate]);
    settle(Verdict::Ack(None)).await;
    assert_eq!(mill.store.push(std::slice::from_ref(&second)).await.unwrap(), [Pushed::Stored]);
    settle(Verdict::Bury(failure(Reason::Trap))).await;
    assert_eq!(mill.store.push(&[unique("mail", "u")]).await.unwrap(), [Pushed::Stored]);
    assert_eq!(mill.total("duplicate").await, 2);
}

#[tokio::test]
async fn pushing_the_same_id_again_changes_nothing() {
    let mill = Mill::new().await;
    let pushed = job("mail");
    let again = NewJob { due: Due::After(LEASE), ..pushed.clone() };
    assert_eq!(mill.store.push(&[pushed.clone(), pushed]).await.unwrap(), [Pushed::Stored, Pushed::Exists]);
    assert_eq!(mill.store.push(std::slice::from_ref(&again)).await.unwrap(), [Pushed::Exists]);
    let _claim = mill.claim(2).await;
    assert_eq!(mill.store.push(&[again]).await.unwrap(), [Pushed::Exists], "running is known too");
    let counts = mill.counts("mail").await;
    assert_eq!((counts.ready, counts.delayed, counts.running, counts.totals["pushed"]), (0, 0, 1, 1));
}

#[tokio::test]
async fn large_batches_and_bodies_are_split_and_arrive_whole() {
    let mill = Mill::new().await;
    let mut jobs: Vec<NewJob> = (0..1100).map(|_| job("mail")).collect();
    jobs.extend((0..3).map(|_| {
        let mut big = job("mail");
        big.spec.body = Payload { data: vec![7; 3 * 1024 * 1024], content_type: None };
        big
    }));
    assert!(mill.store.push(&jobs).await.unwrap().iter().all(|pushed| *pushed == Pushed::Stored));
    let claims = mill.claim(2000).await;
    assert_eq!(claims.len(), 1103);
    assert_eq!(claims[1102].job.spec, jobs[1102].spec);
    let acks: Vec<_> = claims.into_iter().map(|claim| Settlement::new(claim.lease, Verdict::Ack(None))).collect();
    assert!(mill.store.settle(&acks).await.unwrap().iter().all(|settled| *settled == Settled::Done));
    assert_eq!((mill.counts("mail").await.running, mill.total("acked").await), (0, 1103));
}

#[tokio::test]
async fn tenants_are_kept_apart() {
    let mill = Mill::new().await;
    let mut theirs = job("mail");
    theirs.spec.topic.tenant = "other".parse().unwrap();
    mill.push(&[job("mail"), theirs.clone()]).await;
    assert_eq!(mill.claim(5).await.len(), 1);
    let line = ClaimFrom { topic: theirs.spec.topic.clone(), max: 5, lease: LEASE };
    let own = ClaimFrom { topic: topic("mail"), ..line.clone() };
    let claims = mill.store.claim(&worker(), &[own, line]).await.unwrap().claims;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].lease.topic, theirs.spec.topic);
    assert_eq!(mill.settle(&claims[0], Verdict::Ack(None)).await, Settled::Done);
}

#[tokio::test]
async fn results_are_kept_for_their_time() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let payload = Payload { data: b"42".to_vec(), content_type: Some("text/plain".into()) };
    let ack = Settlement::new(claim.lease.clone(), Verdict::Ack(Some(payload.clone())));
    mill.settle_with(Settlement { keep_result: Duration::from_secs(60), ..ack }).await;
    let view = mill.store.job(&tenant(), &claim.lease.job).await.unwrap().unwrap();
    assert_eq!((view.state, view.job), (JobState::Finished, None));
    assert_eq!(view.result, Some(ResultView::Complete(Some(payload))));
    // Expiry is the server's own; what matters is that it was asked for.
    let key = mill.store.keys(&tenant()).result(&claim.lease.job);
    let left = mill.raw(redis::cmd("PTTL").arg(key)).await;
    assert!(matches!(left, redis::Value::Int(1..=60_000)), "{left:?}");
}
