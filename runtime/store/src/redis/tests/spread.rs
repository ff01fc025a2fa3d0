//! Topics that are spread over partitions, further and further.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::{Value, cmd};

use super::claiming::calls;
use super::ledger::Ledger;
use super::server::{TestRedis, until};
use crate::prelude::*;
use crate::redis::{DEFAULT_PREFIX, RedisStore};
use crate::tests::{bury, job, retry, tenant, topic, unique, with, worker};
use crate::{
    Cancelled, ClaimFrom, Imported, PollTenant, Pushed, ScheduleChange, Settled, Settlement, StateDeleted, StateWrite,
};
use gristmill_core::job::{Ended, JobId, NewJob};
use gristmill_core::outcome::{StateChange, Verdict};
use gristmill_core::schedule::{Overlap, Schedule, ScheduleId};
use gristmill_metrics::as_actor;

impl TestRedis {
    /// From now on.
    async fn spread(&self, partitions: u32) {
        self.store.spread_after(&BTreeMap::from([(topic("mail"), partitions)]), Duration::ZERO).await.unwrap();
    }

    async fn push_one(&self, job: &NewJob) -> Pushed {
        self.store.push(std::slice::from_ref(job)).await.unwrap().pop().unwrap()
    }

    async fn places(&self, of: &str) -> [u64; 4] {
        let counts = self.counts(of).await;
        [counts.ready, counts.delayed, counts.running, counts.dead]
    }
}

#[tokio::test]
async fn a_topic_that_is_spread_further_under_load_loses_no_job_and_repeats_none() {
    let redis = TestRedis::new().await;
    let connect = async || RedisStore::connect(&redis.server.url(), DEFAULT_PREFIX).await.unwrap();
    let (one, other) = (connect().await, connect().await);
    let ledger = Ledger::default();
    let partitions = async |store: &RedisStore| store.map().await.unwrap().of_topic(&topic("mail"));
    let spreads = async {
        for (wanted, all) in [(2, 3), (3, 6)] {
            ledger.until_more().await;
            let topics = BTreeMap::from([(topic("mail"), wanted)]);
            one.spread_after(&topics, Duration::from_secs(4)).await.unwrap();
            until("the other process knows", async || partitions(&other).await == all).await;
            let is_used = async || one.partition(all - 1).counts(&tenant()).await.unwrap().len() == 1;
            until("the new partitions are in use", is_used).await;
        }
        ledger.until_more().await;
        ledger.end();
    };
    tokio::join!(spreads, ledger.consume(&one), ledger.consume(&other), ledger.produce(&one), ledger.produce(&other));
    // Pushed behind the consumers' last looks.
    ledger.consume(&one).await;
    ledger.assert_done();
}

#[tokio::test]
async fn ids_and_unique_values_are_known_where_they_were_before() {
    let redis = TestRedis::new().await;
    let first = unique("mail", "u", None);
    redis.push(std::slice::from_ref(&first)).await;
    let plain = job("mail");
    redis.push(std::slice::from_ref(&plain)).await;
    redis.spread(3).await;
    let id = first.spec.id.clone();
    assert_eq!(redis.push_one(&unique("mail", "u", None)).await, Pushed::Duplicate(id.clone()));
    assert_eq!([redis.push_one(&first).await, redis.push_one(&plain).await], [Pushed::Exists, Pushed::Exists]);
    assert_eq!(redis.total("duplicate").await, 1);

    redis.spread(5).await;
    assert_eq!(redis.push_one(&unique("mail", "u", None)).await, Pushed::Duplicate(id));
    for claim in redis.claim(9).await {
        assert_eq!(redis.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    }
    let second = unique("mail", "u", None);
    assert_eq!(redis.push_one(&second).await, Pushed::Stored);
    assert_eq!(redis.push_one(&unique("mail", "u", None)).await, Pushed::Duplicate(second.spec.id));
}

#[tokio::test]
async fn a_dead_job_of_an_earlier_partition_waits_for_its_unique_value() {
    let redis = TestRedis::new().await;
    redis.push(&[unique("mail", "u", None)]).await;
    let dead = redis.claim(1).await.pop().unwrap();
    redis.settle(&dead, bury()).await;
    redis.spread(3).await;
    assert_eq!(redis.push_one(&unique("mail", "u", None)).await, Pushed::Stored);
    let respawn = async || redis.store.respawn(&topic("mail"), std::slice::from_ref(&dead.lease.job)).await.unwrap();
    assert_eq!(respawn().await, [false]);
    let holder = redis.claim(1).await.pop().unwrap();
    redis.settle(&holder, Verdict::Ack(None)).await;
    assert_eq!(respawn().await, [true]);
    assert_eq!(redis.push_one(&unique("mail", "u", None)).await, Pushed::Duplicate(dead.lease.job));
}

#[tokio::test]
async fn the_state_of_a_key_is_found_after_its_topic_is_spread_further_and_stays_deleted() {
    let redis = TestRedis::new().await;
    let end = async |change: StateChange| {
        let mut keyed = job("mail");
        keyed.spec.options.key = Some("k".into());
        redis.push(&[keyed]).await;
        let claim = redis.claim(1).await.pop().unwrap();
        let state = Some(StateWrite { key: "k".into(), change, ttl: Duration::from_secs(3600) });
        let settlement = Settlement { state, ..Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO) };
        assert_eq!(redis.store.settle(&[settlement]).await.unwrap(), [Settled::Done]);
    };
    let versioned = async || redis.store.state(&topic("mail"), "k").await.unwrap();
    let state = async || versioned().await.map(|state| state.value);
    let delete = async |version| redis.store.delete_state(&topic("mail"), "k", version).await.unwrap();
    end(StateChange::Set(b"first".into())).await;
    redis.spread(3).await;
    assert_eq!(state().await.as_deref(), Some(&b"first"[..]));
    let first = versioned().await.unwrap().version;
    redis.pass(10);
    end(StateChange::Set(b"second".into())).await;
    assert_eq!(state().await.as_deref(), Some(&b"second"[..]));
    assert!(versioned().await.unwrap().version > first);
    assert_eq!(delete(Some(first)).await, StateDeleted::OtherVersion);
    end(StateChange::Delete).await;
    assert_eq!(state().await, None, "the first one does not come back");
    redis.spread(5).await;
    assert_eq!(state().await, None);
    end(StateChange::Set(b"third".into())).await;
    assert_eq!(delete(None).await, StateDeleted::Deleted);
    assert_eq!(state().await, None, "none of them comes back");
    assert_eq!(delete(None).await, StateDeleted::Missing);
    end(StateChange::Set(b"fourth".into())).await;
    let fourth = versioned().await.unwrap().version;
    redis.spread(7).await;
    assert_eq!(delete(Some(fourth)).await, StateDeleted::Deleted, "where it was before the topic was spread further");
    assert_eq!(state().await, None);
}

#[tokio::test]
async fn jobs_are_found_in_whichever_partition_they_are() {
    let redis = TestRedis::new().await;
    let early: Vec<NewJob> = (0..5).map(|_| job("mail")).collect();
    redis.push(&early).await;
    redis.spread(4).await;
    let late: Vec<NewJob> = (0..40).map(|_| job("mail")).collect();
    redis.push(&late).await;
    redis.push(&[job("other")]).await;
    assert_eq!(redis.places("mail").await, [45, 0, 0, 0]);

    let cancelled: Vec<JobId> = [&early[0], &late[0], &late[1]].map(|job| job.spec.id.clone()).into();
    assert_eq!(redis.store.cancel(&tenant(), &cancelled).await.unwrap(), [Cancelled::Gone; 3]);
    let mut seen = BTreeSet::new();
    while seen.len() < 42 {
        let claims = redis.claim(7).await;
        assert!((1..=7).contains(&claims.len()), "{}", claims.len());
        seen.extend(claims.iter().map(|claim| claim.lease.job.clone()));
        let verdicts = [Verdict::Ack(None), retry(60_000), bury(), Verdict::Release(Duration::from_secs(60))];
        for (claim, verdict) in claims.iter().zip(verdicts.into_iter().cycle()) {
            assert!(redis.state(&claim.job.spec).await.is_some());
            assert_eq!(redis.settle(claim, verdict).await, Settled::Done);
        }
    }
    let places = redis.places("mail").await;
    assert_eq!(redis.total("acked").await + places.iter().sum::<u64>(), 42);
    let drained = redis.claim_as(&worker(), "mail", 7).await;
    assert_eq!((drained.claims.len(), drained.drained), (0, vec![topic("mail")]));
    redis.pass(60_000);
    assert_eq!(redis.migrate().await as u64, places[1]);
    let dead = redis.store.oldest_dead(&topic("mail"), 100).await.unwrap();
    assert_eq!(dead.len() as u64, places[3]);
}

#[tokio::test]
async fn a_follow_up_for_another_partition_comes_at_once_and_also_from_a_process_that_died() {
    let redis = TestRedis::new().await;
    redis.spread(8).await;
    let map = redis.store.map().await.unwrap();
    let elsewhere = |number: u32| loop {
        let job = unique("mail", &fastrand::u64(..).to_string(), None);
        if map.of_job(&job.spec, map.now()) != number {
            return job;
        }
    };
    let settlement = async || {
        let claim = redis.running().await;
        let follow_up = elsewhere(map.of_lease(&claim.lease));
        Settlement { follow_ups: vec![follow_up], ..Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO) }
    };
    let outbox =
        |settlement: &Settlement| redis.store.partition(map.of_lease(&settlement.lease)).keys(&tenant()).outbox();
    let ended = settlement().await;
    let follow_up = ended.follow_ups[0].clone();
    assert_eq!(redis.settle_with(ended.clone()).await, Settled::Done);
    assert!(redis.state(&follow_up.spec).await.is_some());
    assert_eq!(redis.push_one(&follow_up).await, Pushed::Exists);
    assert_eq!(redis.raw(cmd("EXISTS").arg(outbox(&ended))).await, Value::Int(0));
    assert_eq!(redis.settle_with(ended).await, Settled::LeaseLost);
    redis.store.cancel(&tenant(), &[follow_up.spec.id]).await.unwrap();

    // What a process has done that dies between the two steps.
    let ended = settlement().await;
    let follow_up = ended.follow_ups[0].clone();
    let partition = redis.store.partition(map.of_lease(&ended.lease));
    assert_eq!(partition.settle(std::slice::from_ref(&ended), (&map, map.now())).await.unwrap(), [Settled::Done]);
    assert!(redis.state(&follow_up.spec).await.is_none());
    let looked = |store: &RedisStore| store.partitions.forget_look();
    redis.poll(&[]).await;
    assert!(redis.state(&follow_up.spec).await.is_none(), "the process may still push it");
    redis.pass(30_000);
    looked(&redis.store);
    redis.poll(&[]).await;
    assert!(redis.state(&follow_up.spec).await.is_some());
    assert_eq!(redis.raw(cmd("EXISTS").arg(outbox(&ended))).await, Value::Int(0));
}

#[tokio::test]
async fn a_follow_up_that_two_processes_find_overdue_is_pushed_by_one_of_them() {
    let redis = TestRedis::new().await;
    redis.spread(8).await;
    let map = redis.store.map().await.unwrap();
    let (claim, follow_up) = (redis.running().await, job("audit"));
    let partition = redis.store.partition(map.of_lease(&claim.lease));
    let ended = Settlement {
        follow_ups: vec![follow_up.clone()],
        ..Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO)
    };
    assert_ne!(map.of_job(&follow_up.spec, map.now()), partition.number);
    assert_eq!(partition.settle(&[ended], (&map, map.now())).await.unwrap(), [Settled::Done]);
    redis.pass(30_000);
    let find = async || partition.overdue_follow_ups(&tenant()).await.unwrap();
    let (one, other) = (find().await, find().await);
    redis.store.send_overdue(partition.clone(), &tenant(), one).await.unwrap();
    let from = ClaimFrom::new(topic("audit"), 1, Duration::from_secs(60));
    let claimed = redis.store.claim(&worker(), &[from]).await.unwrap().claims;
    assert_eq!(redis.settle_with(Settlement::of(&claimed[0], Verdict::Ack(None), Duration::ZERO)).await, Settled::Done);
    redis.store.send_overdue(partition, &tenant(), other).await.unwrap();
    assert_eq!(redis.state(&follow_up.spec).await, None, "it would be done twice");
}

#[tokio::test]
async fn a_follow_up_that_cannot_wait_for_a_job_of_another_partition_is_stored_all_the_same() {
    let redis = TestRedis::new().await;
    redis.spread(8).await;
    let map = redis.store.map().await.unwrap();
    // Its topic is not spread, and so in the first partition.
    let mut report = job("audit");
    let first = map.of_job(&report.spec, map.now());
    let (claim, number) = loop {
        let claim = redis.running().await;
        let number = map.of_lease(&claim.lease);
        if number != first {
            break (claim, number);
        }
    };
    report.spec.options.after = vec![claim.lease.job.clone()];
    let settlement =
        Settlement { follow_ups: vec![report.clone()], ..Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO) };
    assert_eq!(redis.settle_with(settlement).await, Settled::Done);
    let outbox = redis.store.partition(number).keys(&tenant()).outbox();
    assert_eq!(redis.raw(cmd("EXISTS").arg(outbox)).await, Value::Int(0));
    let waited = redis.store.waits_for(&tenant(), &report.spec.id, 10).await.unwrap().unwrap();
    assert_eq!((waited.total, waited.jobs[0].ended), (1, Some(Ended::Unknown)));
    assert_eq!(redis.places("audit").await, [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_poll_that_finds_nothing_shows_also_that_no_topic_is_spread() {
    let redis = TestRedis::new().await;
    let poll = async || {
        redis.store.server.map_age.forget_time();
        let tenant = PollTenant { tenant: tenant(), raw: Vec::new() };
        redis.store.first().poll_work(&[tenant]).await.unwrap().remove(0).unwrap();
        redis.store.map().await.unwrap().of_topic(&topic("mail"))
    };
    redis.poll(&[]).await;
    let reads = calls(&redis, "hgetall").await;
    assert_eq!((poll().await, calls(&redis, "hgetall").await), (1, reads));

    let other = RedisStore::connect(&redis.server.url(), DEFAULT_PREFIX).await.unwrap();
    other.spread_after(&BTreeMap::from([(topic("mail"), 3)]), Duration::ZERO).await.unwrap();
    assert_eq!(poll().await, 4);
}

#[tokio::test]
async fn a_claim_that_names_a_spread_topic_twice_takes_what_both_ask_for() {
    let redis = TestRedis::new().await;
    redis.spread(3).await;
    redis.push(&(0..9).map(|_| job("mail")).collect::<Vec<_>>()).await;
    let from = [2, 5].map(|max| ClaimFrom::new(topic("mail"), max, Duration::from_secs(30)));
    assert_eq!(redis.store.claim(&worker(), &from).await.unwrap().claims.len(), 7);
}

#[tokio::test]
async fn a_topic_that_one_of_its_partitions_uses_is_not_forgotten() {
    let redis = TestRedis::new().await;
    let hour = Duration::from_secs(3600);
    redis.push(&[job("mail")]).await;
    redis.spread(2).await;
    let claim = redis.claim(1).await.pop().unwrap();
    redis.settle(&claim, Verdict::Ack(None)).await;
    redis.pass(3_600_000);
    redis.push(&[job("mail")]).await;
    let claim = redis.claim(1).await.pop().unwrap();
    redis.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(redis.store.sweepable(&tenant(), hour).await.unwrap().idle, []);
    redis.pass(3_600_000);
    assert_eq!(redis.store.sweepable(&tenant(), hour).await.unwrap().idle, [topic("mail")]);
}

#[tokio::test]
async fn a_pause_holds_for_partitions_that_come_later() {
    let redis = TestRedis::new().await;
    redis.push(&[job("mail")]).await;
    as_actor("alice".into(), redis.store.set_paused(&topic("mail"), true)).await.unwrap();
    let pause = redis.counts("mail").await.pause;
    redis.pass(60_000);
    as_actor("who spreads it".into(), redis.spread(3)).await;
    let shown = redis.counts("mail").await.pause;
    assert_eq!((shown.as_ref().and_then(|pause| pause.by.as_deref()), &shown), (Some("alice"), &pause));
    redis.push(&(0..20).map(|_| job("mail")).collect::<Vec<_>>()).await;
    assert!(redis.claim(50).await.is_empty());
    assert!(redis.store.set_paused(&topic("mail"), false).await.unwrap());
    assert_eq!(redis.claim(50).await.len(), 21);
}

#[tokio::test]
async fn a_schedule_of_a_spread_topic_fires_once_and_sees_its_job_in_whichever_partition_it_is() {
    const HOUR: u64 = 3_600_000;
    let redis = TestRedis::new().await;
    redis.spread(3).await;
    let id = ScheduleId { topic: topic("mail"), name: "hourly".parse().unwrap() };
    let every = Some(Duration::from_millis(HOUR));
    let schedule = Schedule { every, overlap: Overlap::Skip, ..Schedule::default() };
    redis.store.change_schedule(&id, &ScheduleChange::Put(Box::new(schedule))).await.unwrap();
    let tick = async || {
        redis.pass(HOUR);
        redis.store.migrate(&tenant(), 100).await.unwrap().fired
    };
    assert_eq!((tick().await, redis.places("mail").await), (1, [1, 0, 0, 0]));
    assert_eq!(redis.store.tenants().await.unwrap(), [tenant()]);

    // It comes back from another store: into the partition of a new job.
    let exported = redis.store.export(&topic("mail"), 1).await.unwrap();
    let job = exported[0].job.spec.clone();
    assert_eq!(redis.store.remove_exported(&topic("mail"), std::slice::from_ref(&job.id)).await.unwrap(), [true]);
    assert_eq!(redis.store.import(&exported).await.unwrap(), [Imported::Stored]);
    assert!(redis.store.first().job(&tenant(), &job.id).await.unwrap().is_none());
    assert_eq!((tick().await, redis.places("mail").await), (1, [1, 0, 0, 0]), "the job waits elsewhere");

    let claim = redis.claim(1).await.pop().unwrap();
    assert_eq!(claim.lease.job, job.id);
    assert_eq!(redis.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    assert_eq!((tick().await, redis.places("mail").await), (1, [1, 0, 0, 0]));
    redis.store.set_paused(&topic("mail"), true).await.unwrap();
    assert!(redis.claim(1).await.is_empty());
    redis.store.set_paused(&topic("mail"), false).await.unwrap();
    assert_ne!(redis.claim(1).await.pop().unwrap().lease.job, job.id);
}

#[tokio::test]
async fn the_most_partitions_that_any_process_wants_count() {
    let redis = TestRedis::new().await;
    redis.spread(8).await;
    redis.spread(2).await;
    assert_eq!(redis.store.map().await.unwrap().of_topic(&topic("mail")), 9);
    redis.spread(64).await;
    let more = redis.store.spread_after(&BTreeMap::from([(topic("mail"), 65)]), Duration::ZERO).await.unwrap_err();
    assert!(format!("{:#}", anyhow::Error::from(more)).contains("128 at most"));
    let key = with("mail", |spec| spec.options.key = Some("k".into()));
    assert_eq!(redis.push_one(&key).await, Pushed::Stored);
}
