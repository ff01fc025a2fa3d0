//! Looking for damage: none is found in a store that nothing else has written to, whatever happens in it, and each kind of damage is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::dead::dead_jobs;
use gristmill_core::bill::{BillLine, Cost, Day};
use gristmill_core::job::{JobId, NewJob, Priority, WorkerId};
use gristmill_core::outcome::{Reason, StateChange, Verdict};
use gristmill_core::schedule::{Schedule, ScheduleId};
use gristmill_core::topic::{FleetLimits, KeyLimits, OnDead, Rate, TenantFleetLimits};
use gristmill_store::embedded::fsck_file;
use gristmill_store::{BillEntry, Check, ClaimFrom, DeadLimits, ScheduleChange, Settlement, StateWrite};
use gristmill_store_tests::random::seeded;
use gristmill_store_tests::test_store::{
    Kind, TestStore, delayed, failure, foreign, job, keyed, line, of_priority, retry, settlement, tenant, topic,
    unique, unique_for, worker,
};
use gristmill_test_servers::wait::{SOON, until};

super::cases![
    an_empty_store_has_no_damage,
    #[cfg(feature = "thorough")]
    a_store_in_which_much_has_happened_has_no_damage,
    no_damage_is_found_while_jobs_run,
    jobs_and_topics_are_counted,
];

/// What looking for damage finds.
async fn findings(queue: &TestStore) -> Vec<String> {
    let look = async || match queue.store.fsck().await {
        Err(error) if error.is_unavailable() => None,
        report => Some(report.unwrap()),
    };
    until("the look for damage", SOON, look).await.findings.iter().map(ToString::to_string).collect()
}

fn none() -> Vec<String> {
    Vec::new()
}

fn named(id: &str, mut job: NewJob) -> NewJob {
    job.spec.id = id.parse().unwrap();
    job
}

fn large() -> NewJob {
    let mut job = job("mail");
    job.spec.body.data = vec![b'x'; 10_000];
    job
}

fn id(name: &str) -> JobId {
    name.parse().unwrap()
}

async fn schedule(queue: &TestStore, name: &str) -> ScheduleId {
    let id = ScheduleId { topic: topic("mail"), name: name.parse().unwrap() };
    let schedule = Schedule { every: Some(Duration::from_secs(3600)), ..Schedule::default() };
    queue.store.change_schedule(&id, &ScheduleChange::Put(Box::new(schedule))).await.unwrap();
    id
}

async fn bill(queue: &TestStore) {
    let line = BillLine { topic: topic("mail"), day: Day::of(queue.now()), cost: Cost::of_amounts([1; 7]) };
    let keep = Duration::from_secs(3650 * 86_400);
    let entry = BillEntry { tenant: tenant(), writer: worker(), number: 1, lines: vec![line], keep, used_us: 3 };
    for added in queue.store.add_to_bills(&[entry]).await.unwrap() {
        added.unwrap();
    }
}

async fn an_empty_store_has_no_damage(queue: TestStore) {
    assert_eq!(findings(&queue).await, none());
}

async fn jobs_and_topics_are_counted(queue: TestStore) {
    queue.push(&[job("mail"), job("mail"), delayed("other", 1000)]).await;
    let report = queue.store.fsck().await.unwrap();
    assert_eq!((report.looked_at["jobs"], report.looked_at["topics"] >= 2, report.is_clean()), (3, true, true));
}

/// Everything that a job can meet.
async fn a_store_in_which_much_has_happened_has_no_damage(queue: TestStore) {
    let key_limits = |on_dead, rate| {
        let per_key = KeyLimits { max_running: 1, on_dead, rate };
        FleetLimits { per_key, ..FleetLimits::NONE }
    };
    queue.push(&[keyed("state")]).await;
    let claim = queue.claim_one().await;
    let state =
        StateWrite { key: "state".into(), change: StateChange::Set(b"kept".to_vec()), ttl: Duration::from_secs(90) };
    queue.settle_with(Settlement { state: Some(state), ..settlement(&claim, Verdict::Ack(None)) }).await;
    schedule(&queue, "hourly").await;
    let paused = schedule(&queue, "paused").await;
    queue.store.change_schedule(&paused, &ScheduleChange::Pause).await.unwrap();
    bill(&queue).await;
    let mut random = seeded();
    let mut running = Vec::new();
    for round in 0..12_u64 {
        let batch = vec![
            job("mail"),
            large(),
            of_priority(Priority::High),
            of_priority(Priority::Low),
            keyed("a"),
            keyed("a"),
            keyed("b c"),
            unique("mail", "u"),
            unique_for("mail", &format!("w{round}"), 2500),
            delayed("mail", round * 300),
            foreign("mail"),
            job(if round % 2 == 0 { "paused" } else { "limited" }),
        ];
        let mut linked = [job("mail"), job("next"), job("next"), job("mail")];
        linked[0].spec.options.open = true;
        linked[1].spec.options.batch = Some(linked[0].spec.id.clone());
        linked[2].spec.options.after = vec![linked[1].spec.id.clone(), linked[1].spec.id.clone()];
        linked[3].spec.options.after = vec![linked[0].spec.id.clone()];
        queue.push(&batch).await;
        queue.push(&linked).await;
        if round % 3 > 0 {
            queue.store.seal(&tenant(), &linked[0].spec.id).await.unwrap();
        }
        queue.store.set_paused(&topic("paused"), round % 5 < 3).await.unwrap();
        queue.pass(1000);
        queue.migrate().await;
        let on_dead = if round % 3 == 0 { OnDead::Halt } else { OnDead::Continue };
        let tenant_limits = TenantFleetLimits { max_running: Some(40), ..TenantFleetLimits::NONE };
        let of_tenant = if round % 5 > 2 { tenant_limits } else { TenantFleetLimits::NONE };
        let limits = key_limits(on_dead, (round % 4 < 2).then(|| Rate::new(1, Duration::from_secs(2))));
        let limited = FleetLimits { max_running: Some(2), ..FleetLimits::NONE };
        let from =
            [line("mail", 7).within(limits), line("limited", 5).within(limited), line("paused", 3), line("next", 2)];
        let from = from.map(|line| ClaimFrom { limits: FleetLimits { tenant: of_tenant, ..line.limits }, ..line });
        let worker = WorkerId::new(&format!("host-1-{}", round % 3));
        queue.heartbeat(&worker).await;
        running.extend(queue.store.claim(&worker, &from).await.unwrap().claims);
        let leases: Vec<_> = running.iter().take(3).map(|claim| claim.lease.clone()).collect();
        queue.store.extend(&leases, Duration::from_secs(90)).await.unwrap();
        if let Some(lease) = leases.first() {
            queue.store.checkpoint(lease, b"so far").await.unwrap();
            queue.store.cancel(&tenant(), &[lease.job.clone(), batch[2].spec.id.clone()]).await.unwrap();
        }
        assert_eq!(findings(&queue).await, none(), "in round {round}");
        random.shuffle(&mut running);
        let ended = running.split_off(running.len() / 3);
        let ends = ended.iter().enumerate().map(|(place, claim)| {
            let verdict = match place % 7 {
                0 => retry(0),
                1 => retry(1500),
                2 => Verdict::Bury(failure(Reason::Trap)),
                3 => Verdict::Snooze(Duration::from_millis(500)),
                4 => Verdict::Release(Duration::ZERO),
                5 => Verdict::Expire,
                _ => Verdict::Ack(None),
            };
            let follow_ups = if place % 7 > 5 { vec![job("next"), keyed("a")] } else { Vec::new() };
            Settlement { follow_ups, ..Settlement::of(claim, verdict, Duration::from_secs(60)) }
        });
        queue.store.settle(&ends.collect::<Vec<_>>()).await.unwrap();
        let dead: Vec<JobId> = dead_jobs(&queue).await.into_iter().map(|dead| dead.id).collect();
        queue.store.respawn(&topic("mail"), dead.get(..1).unwrap_or_default()).await.unwrap();
        queue.store.delete_dead(&topic("mail"), dead.get(1..2).unwrap_or_default()).await.unwrap();
        let keep = DeadLimits { topic: topic("mail"), keep: 4, retention: Duration::from_secs(5) };
        queue.store.sweep(&[keep]).await.unwrap();
    }
    assert_eq!(findings(&queue).await, none());
}

async fn no_damage_is_found_while_jobs_run(queue: TestStore) {
    let work = |number: usize| {
        let store = Arc::clone(&queue.store);
        tokio::spawn(async move {
            let worker = WorkerId::new(&format!("host-1-{number}"));
            for round in 0..40 {
                let jobs = (0..12).map(|place| match place % 4 {
                    0 => keyed(if round % 2 == 0 { "a" } else { "b" }),
                    1 => unique("mail", &format!("{number}-{round}-{place}")),
                    2 => of_priority(Priority::High),
                    _ => job("mail"),
                });
                let jobs: Vec<NewJob> = jobs.collect();
                store.push(&jobs).await.unwrap();
                let claims = store.claim(&worker, &[line("mail", 10)]).await.unwrap().claims;
                let ends = claims.iter().enumerate().map(|(place, claim)| {
                    settlement(claim, if place % 5 == 0 { retry(0) } else { Verdict::Ack(None) })
                });
                store.settle(&ends.collect::<Vec<_>>()).await.unwrap();
            }
        })
    };
    let work = [work(0), work(1), work(2)];
    let mut looks = 0;
    while looks == 0 || !work.iter().all(tokio::task::JoinHandle::is_finished) {
        assert_eq!(findings(&queue).await, none());
        looks += 1;
    }
    for work in work {
        work.await.unwrap();
    }
    assert_eq!(findings(&queue).await, none());
}

/// Jobs in every place, by their names.
async fn filled(kind: Kind) -> TestStore {
    let queue = TestStore::new(kind).await;
    let of_keyed = |name: &str, key: &str| {
        let mut job = named(name, keyed(key));
        job.spec.topic = topic("keyed");
        job
    };
    queue.push(&[named("dead", job("mail")), named("running", unique("mail", "held"))]).await;
    let claims = queue.claim(2).await;
    queue.settle(&claims[0], Verdict::Bury(failure(Reason::Trap))).await;
    let jobs = [
        named("ready", job("mail")),
        named("another", job("mail")),
        named("later", delayed("mail", 3_600_000)),
        named("unique", unique("mail", "u")),
        named("window", unique_for("mail", "w", 3_600_000)),
        of_keyed("holder", "k"),
        of_keyed("waiter", "k"),
        of_keyed("alone", "other"),
    ];
    queue.push(&jobs).await;
    let mut after = named("after", job("mail"));
    after.spec.options.after = vec![id("later"), id("ready")];
    let mut batch = named("batch", job("mail"));
    batch.spec.options.open = true;
    queue.push(&[after, batch]).await;
    schedule(&queue, "hourly").await;
    bill(&queue).await;
    queue.store.set_paused(&topic("held"), true).await.unwrap();
    assert_eq!(findings(&queue).await, none());
    queue
}

/// Damage, and what is said of it: the check, and words that name the thing.
type Damage = (Check, &'static str, &'static str);

/// `H` and a space: the holder of the running job.
const IN_REDIS: &[Damage] = &[
    (Check::JobInNoPlace, "LREM|P ready:mail|0|ready", "tenant acme, topic mail, job ready, "),
    (Check::JobInTwoPlaces, "ZADD|P delayed:mail|9000000000000|ready", "job ready, "),
    (Check::JobInTwoPlaces, "LPUSH|P ready:mail|running", "it is ready (normal priority) and running"),
    (Check::JobInTwoPlaces, "LPUSH|P ready-low:mail|ready", "it is ready (normal priority) and ready (low priority)"),
    (Check::JobUnreadable, "HSET|P jobs|ready|0123456789abcdefnonsense", "job ready, "),
    (Check::JobInWrongLine, "HSET|P priorities|ready|high", "job ready, "),
    (Check::JobMissesKeySlot, "HDEL|P slots|keyed other", "job alone, "),
    (Check::ClaimMalformed, "HSET|P claims|dead|1:2:", "job dead, "),
    (Check::ClaimMalformed, "HSET|P claims|running|1:1:nonsense", "job running, "),
    (Check::JobNotInClaim, "DEL|P processing:H ", "job running, "),
    (Check::JobWithoutLease, "ZREM|P leases|H ", "job running, "),
    (Check::ClaimWithoutLease, "ZREM|P leases|H ", "processing:host-1-abc:"),
    (Check::LeaseWithoutJobs, "ZADD|P leases|1|host-1-abc:7", "`host-1-abc:7`"),
    (Check::ClaimHoldsOther, "LPUSH|P processing:H |ready", "job ready, "),
    (Check::EntryWithoutJob, "RPUSH|P ready:mail|ghost", "job ghost, "),
    (Check::EntryWithoutJob, "ZADD|P delayed:mail|9000000000000|ghost", "delayed:mail"),
    (Check::EntryWithoutJob, "ZADD|P dead:mail|1|ghost", "dead:mail"),
    (Check::DetailWithoutJob, "HSET|P claims|ghost|1:1:", "job ghost, "),
    (Check::DetailWithoutJob, "HSET|P failures|ghost|x", "failures: "),
    (Check::DetailWithoutJob, "HSET|P checkpoints|ghost|x", "checkpoints: "),
    (Check::DetailWithoutJob, "HSET|P priorities|ghost|high", "priorities: "),
    (Check::DetailWithoutJob, "HSET|P keyed|ghost|0 x", "keyed: "),
    (Check::DetailWithoutJob, "SADD|P large|ghost", "large: "),
    (Check::DetailWithoutJob, "ZADD|P extended|1|ready", "extended: "),
    (Check::DetailWithoutJob, "SADD|P cancelled|ready", "cancelled: "),
    (Check::DetailWithoutJob, "SADD|P cancelled|ready!", "cancelled: "),
    (Check::LargeMismarked, "SADD|P large|ready", "job ready, "),
    (Check::UniqueNotHeld, "HDEL|P unique:mail|u", "job unique, "),
    (Check::UniqueHolderGone, "HSET|P unique:mail|v|ghost", "job ghost, "),
    (Check::UniqueHolderGone, "HSET|P unique:mail|v|dead", "unique:mail v"),
    (Check::UniqueWindowWrong, "HSET|P unique:mail|v|ghost 99999999999999", "unique:mail v"),
    (Check::UniqueWindowWrong, "ZADD|P windows:mail|9|v", "unique:mail v"),
    (Check::SlotHolderGone, "HSET|P slots|keyed k|ghost", "slots keyed k"),
    (Check::WaiterWithoutHolder, "HSET|P slots|keyed k|\n1 1\nwaiter\n", "job waiter, "),
    (Check::KeyIndexWrong, "ZADD|P behind|0|keyed none", "behind keyed none"),
    (Check::WaiterGone, "HSET|P slots| keyed k 9|ghost", "job ghost, "),
    (Check::LinkWaiterGone, "HDEL|P jobs|after", "job after, "),
    (Check::LinkWaiterGone, "ZADD|P links|0|w ghost o later", "job ghost, "),
    (Check::LinkJobGone, "HDEL|P jobs|later", "links w after o later"),
    (Check::WaitsForNone, "ZREM|P links|w batch o ", "job batch, "),
    (Check::WaitsForNone, "ZREM|P links|w after o later|w after o ready", "job after, "),
    (Check::LinksMismatched, "ZREM|P links|j later after", "links w after o later"),
    (Check::LinksMismatched, "ZADD|P links|0|j later batch", "links j later batch"),
    (Check::EndNotPassedOn, "ZADD|P links|0|e later c", "links e later c"),
    (Check::TopicNotListed, "ZREM|P topics|keyed", "topic keyed, job holder, "),
    (Check::TenantNotListed, "SREM|G tenants|acme", "tenant acme, "),
    (Check::PartitionNotListed, "HSET|G {acme/7}:jobs|x|y", "partition 7"),
    (Check::TopicNotAnnounced, "SREM|P active|mail", "topic mail, "),
    (Check::DueWrong, "ZREM|P due|mail", "topic mail, "),
    (Check::DueWrong, "ZREM|P due|@schedules", "@schedules"),
    (Check::PerishableMissing, "SREM|P perishable|mail", "topic mail, "),
    (Check::LimitedForEver, "ZADD|P limited|inf|keyed", "topic keyed, "),
    (Check::LimitedForEver, "ZADD|P limited|5|keyed", "topic keyed, "),
    (Check::RunningMiscounted, "HINCRBY|P counts|mail:running|1", "1 run, and 2 are noted"),
    (Check::RunningMiscounted, "HSET|P tenant|running|9", "1 run, and 9 are noted"),
    (Check::CountMalformed, "HSET|P counts|mail:acked|-1", "counts mail:acked"),
    (Check::KeyRateMalformed, "ZADD|P key-rates|5|no-key", "key-rates no-key: `5`"),
    (Check::KeyRateMalformed, "ZADD|P key-rates|inf|mail k", "topic mail, "),
    (Check::HeldBackMarkWrong, "HSET|P keyed|running|00 k", "job running, "),
    (Check::FollowUpStuck, "HSET|P outbox|late|nonsense", "job late, "),
    (Check::StateUnreadable, "SET|P state:mail:k|nonsense|EX|3600", "state:mail:k: it begins with `nonsense`"),
    (Check::StateUnreadable, "SET|P state:mail:k|1x|EX|3600", "state:mail:k: it begins with `1x`"),
    (Check::StateUnreadable, "SET|P state:no topic:k|15 x|EX|3600", "`no topic` is no topic"),
    (Check::NoExpiry, "SET|P state:mail:k|15 x", "state:mail:k"),
    (Check::NoExpiry, "HSET|P bill-taken:2027-01-15|mail:fuel|1", "bill-taken:2027-01-15"),
    (Check::PauseMisnoted, "HSET|P pauses|mail|5 somebody", "topic mail, "),
    (Check::PauseMisnoted, "HSET|P pauses|held|yesterday", "pauses held: `yesterday`"),
    (Check::ScheduleUnreadable, "HSET|P schedules|mail/hourly|nonsense", "mail/hourly"),
    (Check::ScheduleNotDue, "ZREM|P ticks|mail/hourly", "mail/hourly"),
    (Check::ScheduleNotDue, "ZADD|P ticks|5|mail/gone", "mail/gone"),
    (Check::BillMalformed, "HSET|P bill:2027-01-15|mail:fuel|much", "bill:2027-01-15 mail:fuel"),
    (Check::NoExpiry, "SET|P result:ready|x", "result:ready"),
    (Check::NoExpiry, "SET|P ended:mail|x", "ended:mail"),
    (Check::WrongType, "SET|P turns|x", "it is of type string, and not hash"),
    (Check::UnknownKey, "SET|P nonsense|x", "nonsense"),
    (Check::UnknownKey, "SET|G else:where|x", "else:where"),
];

const IN_A_FILE: &[Damage] = &[
    (
        Check::JobInNoPlace,
        "UPDATE topics SET claimed_normal = (SELECT number FROM job_rows WHERE id = 'ready') WHERE topic = 'mail'",
        "topic mail, job ready, ",
    ),
    (Check::JobInNoPlace, "UPDATE job_rows SET delayed_until = NULL WHERE id = 'later'", "job later, "),
    (Check::JobInTwoPlaces, "UPDATE topics SET claimed_normal = 0 WHERE topic = 'mail'", "job running, "),
    (Check::JobInTwoPlaces, "UPDATE job_rows SET delayed_until = 5 WHERE id = 'ready'", "job ready, "),
    (Check::BodyMissing, "UPDATE job_rows SET body = NULL WHERE id = 'ready'", "job ready, "),
    (Check::BodyMissing, "UPDATE job_rows SET body = NULL, large = 7 WHERE id = 'ready'", "job ready, "),
    (Check::JobInWrongLine, "UPDATE job_rows SET priority = 'high' WHERE id = 'ready'", "job ready, "),
    (Check::JobMissesKeySlot, "UPDATE job_rows SET slot = NULL WHERE id = 'alone'", "job alone, "),
    (Check::ClaimMalformed, "UPDATE job_rows SET attempts = 9 WHERE id = 'dead'", "job dead, "),
    (Check::JobUnreadable, "UPDATE job_rows SET metadata = 'no JSON' WHERE id = 'ready'", "job ready, "),
    (Check::JobUnreadable, "UPDATE job_rows SET options = 'no JSON' WHERE id = 'ready'", "job ready, "),
    (Check::JobUnreadable, "UPDATE job_rows SET options = '[]' WHERE id = 'ready'", "job ready, "),
    (Check::UniqueNotHeld, "DELETE FROM uniques WHERE value = 'u'", "job unique, "),
    (Check::UniqueHolderGone, "UPDATE uniques SET holder = 'ghost' WHERE value = 'u'", "job ghost, "),
    (Check::UniqueHolderGone, "INSERT INTO uniques VALUES (77, 'v', 'ghost', 5)", "topic 77"),
    (Check::LinkWaiterGone, "INSERT INTO links VALUES ('acme', 'ghost', '', '-', 0)", "tenant acme, job ghost, "),
    (Check::LinkJobGone, "UPDATE links SET job = 'ghost' WHERE job = 'later'", "links after ghost"),
    (Check::WaitsForNone, "UPDATE links SET ended = '-' WHERE waiter = 'batch'", "job batch, "),
    (Check::LinksMismatched, "UPDATE links SET members = 1 WHERE waiter = 'after' AND job = ''", "job after, "),
    (Check::LinksMismatched, "UPDATE awaited SET waiters = 2 WHERE job = 'later'", "job later, "),
    (Check::LinksMismatched, "DELETE FROM awaited WHERE job = 'later'", "links after later"),
    (Check::TopicNotListed, "UPDATE job_rows SET tenant = 'other' WHERE id = 'ready'", "tenant other, job ready, "),
    (Check::JobsMiscounted, "UPDATE topics SET running = 2 WHERE topic = 'mail'", "topic mail, "),
    (Check::WaiterWithoutHolder, "UPDATE job_rows SET slot = NULL WHERE id = 'holder'", "job waiter, "),
    (Check::DueWrong, "UPDATE topics SET next_due = NULL WHERE topic = 'mail'", "topic mail, "),
    (Check::TopicNotAnnounced, "UPDATE topics SET active = 0 WHERE topic = 'mail'", "topic mail, "),
    (Check::LimitedForEver, "UPDATE topics SET limited_until = -1 WHERE topic = 'keyed'", "topic keyed, "),
    (Check::CountMalformed, "UPDATE totals SET n = -1 WHERE name = 'pushed'", "totals pushed"),
    (
        Check::CountMalformed,
        "INSERT INTO tenant_use VALUES ('acme', 1, -1, 1, 1, NULL, NULL)",
        "tenant acme, tenant_use",
    ),
    (Check::CountMalformed, "INSERT INTO totals VALUES (77, 'acked', 1)", "topic 77"),
    (Check::DetailWithoutJob, "INSERT INTO bodies VALUES (1, x'00')", "bodies 1"),
    (Check::DetailWithoutJob, "INSERT INTO ended VALUES (77, 1, 'complete', 1, 1, 1, ' a ')", "topic 77"),
    (Check::KeyRateMalformed, "INSERT INTO key_rates VALUES ('acme', 'mail', 'k', -1)", "topic mail, key_rates k"),
    (Check::HeldBackMarkWrong, "UPDATE job_rows SET slot = 2, key = 'k' WHERE id = 'running'", "job running, "),
    (
        Check::StateUnreadable,
        "INSERT INTO states (tenant, topic, key, value, until, version) VALUES ('acme', 'mail', 'k', x'00', 5, 0)",
        "topic mail, states k: its version is 0",
    ),
    (
        Check::StateUnreadable,
        "INSERT INTO states (tenant, topic, key, value, until) VALUES ('acme', 'no topic', 'k', x'00', 5)",
        "topic no topic, states k",
    ),
    (
        Check::BillMalformed,
        "INSERT INTO taken_bills VALUES ('acme', 5, 'mail', 5, 1, -1, 1, 1, 1, 1, 1, '7')",
        "topic mail, taken_bills 5",
    ),
    (Check::PauseMisnoted, "UPDATE topics SET paused = 0 WHERE topic = 'held'", "topic held, pauses "),
    (Check::PauseMisnoted, "INSERT INTO pauses VALUES (77, 5, NULL)", "pauses 77"),
    (Check::LeaseWithoutJobs, "INSERT INTO batches VALUES (5, 5, 1, 'host-2', 1)", "`host-2`"),
    (Check::ClaimHoldsOther, "UPDATE batches SET last = last + (1 << 41)", "`host-1-abc`"),
    (Check::BillMalformed, "UPDATE bills SET fuel = -1", "tenant acme, topic mail, bills "),
    (Check::ScheduleUnreadable, "UPDATE schedules SET record = 'nonsense'", "schedules hourly"),
    (Check::ScheduleNotDue, "UPDATE schedules SET due = NULL", "schedules hourly"),
];

fn assert_found(findings: &[String], (check, damage, words): Damage) {
    let named = |finding: &&String| finding.starts_with(check.name()) && finding.contains(words);
    assert!(findings.iter().any(|finding| named(&finding)), "after {damage}: {findings:#?}");
}

#[tokio::test]
async fn damage_in_redis_is_found_and_named() {
    for damage in IN_REDIS {
        let queue = filled(Kind::REDIS).await;
        let claim: String = queue.redis("HGET|P claims|running").await;
        let holder = claim.splitn(3, ':').last().unwrap();
        queue.redis::<::redis::Value>(&damage.1.replace("H ", holder)).await;
        assert_found(&findings(&queue).await, *damage);
    }
}

#[tokio::test]
async fn damage_in_a_file_is_found_and_named() {
    for damage in IN_A_FILE {
        let queue = filled(Kind::File).await;
        queue.sql(damage.1);
        let found = findings(&queue).await;
        assert_found(&found, *damage);
        let from_outside = fsck_file(&queue.file()).unwrap();
        let from_outside: Vec<String> = from_outside.findings.iter().map(ToString::to_string).collect();
        assert_eq!(from_outside, found, "beside the process that owns the file");
    }
}

#[test]
fn every_check_finds_something() {
    let found: BTreeSet<Check> = IN_REDIS.iter().chain(IN_A_FILE).map(|(check, ..)| *check).collect();
    assert_eq!(found, Check::ALL.iter().copied().collect());
}

/// The outbox of a partition has it until it is pushed to its own, for a moment: nothing but an hour shows that none pushes it.
#[tokio::test]
async fn a_follow_up_job_is_stuck_after_an_hour_and_not_before() {
    let queue = filled(Kind::REDIS).await;
    const COPY: &str = "redis.call('HSET', KEYS[2], 'late', redis.call('HGET', KEYS[1], 'ready')) return 1";
    queue.redis::<i64>(&format!("EVAL|{COPY}|2|P jobs|P outbox")).await;
    assert_eq!(findings(&queue).await, none());
    queue.pass(3_600_001);
    let found = findings(&queue).await;
    assert_found(&found, (Check::FollowUpStuck, "an hour", "topic mail, job late, "));
}

/// What is repaired by the next claim is named until then.
#[tokio::test]
async fn many_findings_of_a_check_are_counted() {
    let queue = filled(Kind::REDIS).await;
    for number in 0..150 {
        queue.redis::<i64>(&format!("RPUSH|P ready:mail|ghost-{number}")).await;
    }
    let report = queue.store.fsck().await.unwrap();
    assert_eq!((report.findings.len(), report.unnamed()), (100, 50));
    assert!(queue.view(&id("ready")).await.is_some());
}
