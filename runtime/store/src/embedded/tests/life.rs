//! The corridor: push, migrate, claim, settle, reap.

use std::collections::HashSet;
use std::time::Duration;

use super::mill::{
    DEAD_AFTER, LEASE, Mill, bury, delayed, failure, job, retry, tenant, topic, unique, urgent, with, worker,
};
use crate::{ClaimFrom, JobState, Produce, Pushed, Settled, Settlement, Store};
use gristmill_core::job::{JobSpec, NewJob, Payload, Priority, Unique, WorkerId};
use gristmill_core::outcome::{Reason, Verdict};

#[tokio::test]
async fn a_job_comes_out_as_it_went_in() {
    let mill = Mill::new().await;
    let pushed = with("mail", |spec| {
        let id = spec.id.clone();
        *spec = JobSpec {
            id,
            topic: topic("mail"),
            body: Payload { data: vec![0, 255], content_type: Some("a/b".into()) },
            metadata: vec![("x".into(), "\"1\"".into()), ("x".into(), "2".into())],
            key: Some("k".into()),
            priority: Priority::Low,
            unique: Some(Unique { value: "u".into(), window: Some(Duration::from_secs(1)) }),
            max_attempts: Some(3),
            ttl: Some(Duration::from_secs(60)),
            keep_result: Some(Duration::from_millis(5)),
        };
    });
    assert_eq!(mill.store.push(std::slice::from_ref(&pushed)).await.unwrap(), [Pushed::Stored]);
    mill.pass(5);
    let claim = mill.claim(10).await.pop().unwrap();
    assert_eq!(claim.job.spec, pushed.spec);
    assert_eq!((claim.attempt, claim.lease.delivery, claim.previous, claim.checkpoint.clone()), (1, 1, None, None));
    assert_eq!(claim.job.enqueued_at, claim.job.due_at);
    assert_eq!(claim.lease_until, mill.now().plus(LEASE));
    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!(mill.settle(&claim, Verdict::Ack(None)).await, Settled::LeaseLost);
    assert_eq!(mill.number("SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM bodies)").await, 0);
}

#[tokio::test]
async fn the_oldest_job_comes_first_across_batches_and_a_restart() {
    let mill = Mill::on_disk(crate::embedded::Durability::Process).await;
    let mut jobs: Vec<NewJob> = (0..1203).map(|_| job("mail")).collect();
    mill.push(&jobs).await;
    let mut claims = mill.claim(3).await;
    let mill = mill.reopen().await;
    jobs.push(job("mail"));
    mill.push(&jobs[1203..]).await;
    claims.append(&mut mill.claim(2000).await);
    assert!(claims.iter().map(|claim| &claim.job.spec.id).eq(jobs.iter().map(|job| &job.spec.id)));
}

#[tokio::test]
async fn five_high_two_normal_one_low_of_eight_and_the_turn_outlives_a_restart() {
    let mill = Mill::on_disk(crate::embedded::Durability::Process).await;
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        mill.push(&(0..20).map(|_| urgent("mail", priority)).collect::<Vec<_>>()).await;
    }
    let taken = |claims: Vec<gristmill_core::job::Claim>| {
        claims.iter().map(|claim| claim.job.spec.priority).collect::<Vec<_>>()
    };
    assert_eq!(taken(mill.claim(3).await), Priority::TURNS[..3]);
    let mill = mill.reopen().await;
    assert_eq!(taken(mill.claim(13).await), [&Priority::TURNS[3..], &Priority::TURNS[..]].concat());
}

#[tokio::test]
async fn normal_jobs_alone_count_no_turns() {
    let mill = Mill::new().await;
    mill.push(&[job("mail"), job("mail")]).await;
    mill.claim(2).await;
    mill.push(&[job("mail"), urgent("mail", Priority::High)]).await;
    assert_eq!(mill.claim(1).await[0].job.spec.priority, Priority::High, "the first turn");
}

#[tokio::test]
async fn a_claim_serves_many_topics_and_tenants_and_names_the_drained() {
    let mill = Mill::new().await;
    let mut theirs = job("a");
    theirs.spec.topic.tenant = "other".parse().unwrap();
    mill.push(&[job("a"), job("b"), job("b"), job("b"), theirs.clone()]).await;
    let line = |topic, max| ClaimFrom { topic, max, lease: LEASE };
    let lines = [
        line(topic("a"), 2),
        line(topic("b"), 2),
        line(topic("c"), 1),
        line(theirs.spec.topic, 1),
        line(topic("d"), 0),
    ];
    let claimed = mill.store.claim(&worker(), &lines).await.unwrap();
    assert_eq!(claimed.claims.len(), 4);
    assert_eq!(claimed.drained, [topic("a"), topic("c")]);
}

#[tokio::test]
async fn due_jobs_become_ready_by_due_time_and_then_id() {
    let mill = Mill::new().await;
    let named = |id: &str, ms| {
        let mut job = delayed("mail", ms);
        job.spec.id = id.parse().unwrap();
        job
    };
    mill.push(&[named("b", 2), named("z", 1), named("A", 2), named("late", 9)]).await;
    mill.pass(2);
    let migrated = mill.store.migrate(&tenant(), 10).await.unwrap();
    assert_eq!((migrated.moved, migrated.next_due_in), (3, Some(Duration::from_millis(7))));
    let order: Vec<String> = mill.claim(9).await.iter().map(|claim| claim.lease.job.to_string()).collect();
    assert_eq!(order, ["z", "A", "b"]);
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
    assert_eq!(mill.store.migrate(&tenant(), 0).await.unwrap().next_due_in, None);
}

#[tokio::test]
async fn every_verdict_has_its_place_and_its_count() {
    let mill = Mill::new().await;
    mill.push(&(0..7).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let claims = mill.claim(7).await;
    let wait = Duration::from_secs(1);
    let verdicts = [
        Verdict::Ack(None),
        retry(1000),
        Verdict::Snooze(wait),
        Verdict::Release(Duration::ZERO),
        bury(),
        Verdict::Expire,
        Verdict::Ack(None),
    ];
    let mut settlements: Vec<Settlement> =
        claims.iter().zip(verdicts).map(|(claim, verdict)| Settlement::new(claim.lease.clone(), verdict)).collect();
    settlements[6].lease.delivery = 9;
    let settled = mill.store.settle(&settlements).await.unwrap();
    assert_eq!(settled.iter().filter(|settled| **settled == Settled::Done).count(), 6);
    let counts = mill.counts("mail").await;
    assert_eq!((counts.ready, counts.delayed, counts.running, counts.dead), (1, 2, 1, 1));
    let totals: Vec<_> = counts.totals.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let ones = ["acked", "dead-trap", "expired"].map(|name| (name, 1));
    assert_eq!(totals, [&ones[..], &[("pushed", 7), ("released", 1), ("retried", 1), ("snoozed", 1)]].concat());
    let again = mill.claim(1).await.pop().unwrap();
    assert_eq!((again.attempt, again.lease.delivery, again.job.due_at), (1, 2, claims[3].job.due_at));
}

#[tokio::test]
async fn follow_ups_stand_in_line_right_behind_their_job() {
    let mill = Mill::new().await;
    mill.push(&[job("mail"), job("mail")]).await;
    let claims = mill.claim(2).await;
    let follow_up = job("mail");
    let first = Settlement {
        follow_ups: vec![follow_up.clone(), delayed("next", 5)],
        ..Settlement::new(claims[0].lease.clone(), Verdict::Snooze(Duration::ZERO))
    };
    mill.store.settle(&[first, Settlement::new(claims[1].lease.clone(), retry(0))]).await.unwrap();
    let order: Vec<_> = mill.claim(9).await.into_iter().map(|claim| claim.lease.job).collect();
    assert_eq!(order, [claims[0].lease.job.clone(), follow_up.spec.id, claims[1].lease.job.clone()]);
    assert_eq!(mill.counts("next").await.delayed, 1);
}

#[tokio::test]
async fn follow_ups_of_a_failure_a_lost_lease_or_another_tenant_do_not_appear() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let failed = Settlement { follow_ups: vec![job("next")], ..Settlement::new(claim.lease.clone(), retry(0)) };
    let mut late = Settlement { verdict: Verdict::Ack(None), ..failed.clone() };
    late.lease.delivery += 1;
    assert_eq!(mill.settle_with(late.clone()).await, Settled::LeaseLost);
    let mut foreign = Settlement { lease: claim.lease.clone(), ..late };
    foreign.follow_ups[0].spec.topic.tenant = "other".parse().unwrap();
    assert!(mill.store.settle(&[foreign]).await.is_err());
    assert!(matches!(mill.state(&claim.job.spec).await, Some(JobState::Running { .. })));
    assert_eq!(mill.settle_with(failed).await, Settled::Done);
    assert!(mill.claim_as(&worker(), "next", 1).await.claims.is_empty());
}

#[tokio::test]
async fn a_unique_value_is_held_until_the_end_or_for_its_window() {
    let mill = Mill::new().await;
    let first = unique("mail", "u", None);
    let duplicate = Pushed::Duplicate(first.spec.id.clone());
    let jobs = [first.clone(), unique("mail", "u", None), unique("other", "u", None), first.clone()];
    assert_eq!(
        mill.store.push(&jobs).await.unwrap(),
        [Pushed::Stored, duplicate.clone(), Pushed::Stored, Pushed::Exists]
    );
    let claim = mill.claim(1).await.pop().unwrap();
    mill.settle(&claim, retry(0)).await;
    assert_eq!(mill.store.push(&[unique("mail", "u", Some(9))]).await.unwrap(), [duplicate]);
    let claim = mill.claim(1).await.pop().unwrap();
    mill.settle(&claim, bury()).await;

    let windowed = unique("mail", "u", Some(10));
    mill.push(std::slice::from_ref(&windowed)).await;
    let claim = mill.claim(1).await.pop().unwrap();
    mill.settle(&claim, Verdict::Ack(None)).await;
    mill.pass(9);
    let still = Pushed::Duplicate(windowed.spec.id);
    assert_eq!(mill.store.push(&[unique("mail", "u", None)]).await.unwrap(), [still]);
    mill.pass(1);
    assert_eq!(mill.store.push(&[unique("mail", "u", None)]).await.unwrap(), [Pushed::Stored]);
    assert_eq!(mill.total("duplicate").await, 3);
}

#[tokio::test]
async fn what_is_overdue_is_found_and_reaped_once() {
    let mill = Mill::new().await;
    mill.store.heartbeat(&worker()).await.unwrap();
    let claim = mill.running().await;
    mill.push(&[job("mail")]).await;
    let other = mill.claim_as(&WorkerId::new("other"), "mail", 1).await.claims.pop().unwrap();
    let overdue = async || mill.store.overdue(&tenant(), DEAD_AFTER, 100).await.unwrap();
    mill.pass(9_999);
    assert!(overdue().await.is_empty());
    mill.pass(1);
    let found = overdue().await;
    assert_eq!((found.len(), found[0].worker_died, &found[0].claim.lease), (1, true, &claim.lease));
    let reap = |lease: &gristmill_core::job::Lease| Settlement {
        only_if_overdue: Some(DEAD_AFTER),
        ..Settlement::new(lease.clone(), retry(0))
    };
    assert_eq!(mill.settle_with(reap(&other.lease)).await, Settled::LeaseLost, "alive and in time");
    assert_eq!(mill.settle_with(reap(&claim.lease)).await, Settled::Done);
    mill.pass(20_000);
    let found = overdue().await;
    assert_eq!((found.len(), found[0].worker_died, &found[0].claim.lease), (1, false, &other.lease));
    assert_eq!(mill.store.extend(std::slice::from_ref(&other.lease), LEASE).await.unwrap(), [true]);
    assert_eq!(mill.settle_with(reap(&other.lease)).await, Settled::LeaseLost, "extended meanwhile");
    assert_eq!(mill.store.extend(&[claim.lease], LEASE).await.unwrap(), [false]);
}

#[tokio::test]
async fn a_worker_that_is_retired_or_forgotten_is_never_called_dead() {
    let mill = Mill::new().await;
    mill.store.heartbeat(&worker()).await.unwrap();
    mill.running().await;
    mill.pass(3_600_000);
    let found = mill.store.overdue(&tenant(), DEAD_AFTER, 9).await.unwrap();
    assert_eq!((found.len(), found[0].worker_died), (1, false));
    mill.store.heartbeat(&worker()).await.unwrap();
    mill.store.extend(&[found[0].claim.lease.clone()], LEASE).await.unwrap();
    mill.store.retire(&worker()).await.unwrap();
    mill.pass(20_000);
    assert!(mill.store.overdue(&tenant(), DEAD_AFTER, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_worker_can_ask_what_it_holds() {
    let mill = Mill::new().await;
    mill.push(&[job("mail"), job("mail"), job("mail")]).await;
    let claims = mill.claim(2).await;
    mill.claim_as(&WorkerId::new("other"), "mail", 1).await;
    let held = async |except| mill.store.claims_of(&tenant(), &worker(), &except).await.unwrap();
    assert_eq!(held(HashSet::new()).await, [claims[1].lease.clone(), claims[0].lease.clone()]);
    assert_eq!(held(HashSet::from([claims[0].lease.job.clone()])).await, [claims[1].lease.clone()]);
}

#[tokio::test]
async fn the_next_attempt_sees_the_checkpoint_and_the_last_failure() {
    let mill = Mill::new().await;
    let first = mill.running().await;
    assert!(mill.store.checkpoint(&first.lease, b"step 1").await.unwrap());
    mill.settle(&first, retry(0)).await;
    assert!(!mill.store.checkpoint(&first.lease, b"too late").await.unwrap());
    let second = mill.claim(1).await.pop().unwrap();
    assert_eq!(second.checkpoint.as_deref(), Some(&b"step 1"[..]));
    assert_eq!((second.attempt, second.previous), (2, Some(Reason::Failed)));
    mill.settle(&second, Verdict::Release(Duration::ZERO)).await;
    assert_eq!(mill.claim(1).await[0].previous, Some(failure(Reason::Failed).reason), "a release forgets nothing");
}

#[tokio::test]
async fn an_unreadable_job_is_buried_and_the_others_go_on() {
    let mill = Mill::new().await;
    let (broken, whole) = (unique("mail", "u", None), job("mail"));
    mill.push(&[broken.clone(), whole.clone()]).await;
    mill.raw("UPDATE jobs SET metadata = 'no JSON' WHERE unique_value = 'u'").await;
    let claims = mill.claim(10).await;
    assert_eq!((claims.len(), &claims[0].job.spec), (1, &whole.spec));
    let dead = crate::Inspect::dead(&mill.store, &topic("mail"), 0, 10).await.unwrap().pop().unwrap();
    let failure = dead.failure.unwrap();
    assert_eq!((failure.reason, failure.detail.code.as_str()), (Reason::Rejected, "unreadable"));
    assert_eq!((dead.job.spec.id, dead.job.spec.body), (broken.spec.id, broken.spec.body));
    assert_eq!(mill.store.push(&[unique("mail", "u", None)]).await.unwrap(), [Pushed::Stored], "its value is free");
    mill.raw("UPDATE jobs SET body = NULL").await;
    mill.pass(30_000);
    assert!(mill.store.overdue(&tenant(), DEAD_AFTER, 10).await.unwrap().is_empty());
    assert_eq!((mill.counts("mail").await.running, mill.counts("mail").await.dead), (0, 2));
}
