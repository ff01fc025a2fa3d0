//! Schedules: each tick one job, whoever looks; changed, paused, moved and superseded without a second job or a lost one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gristmill_core::job::{Due, JobId, Name, NewJob, Payload, TopicId};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::schedule::{
    FiringResult, Missed, Offer, Origin, Overlap, SCHEDULES_PER_TENANT, Schedule, ScheduleId, Standing,
};
use gristmill_core::topic::FleetLimits;
use gristmill_store::{Cancelled, ScheduleChange, ScheduleChanged, Signal, StoredSchedule, move_schedules};
use gristmill_store_tests::random::seeded;
use gristmill_store_tests::test_store::{TestStore, failure, job, line, poll, tenant, tenant_beside, topic, worker};
use gristmill_test_servers::wait::{SOON, until};

super::cases!(
    each_tick_makes_one_job,
    a_tick_makes_one_job_however_many_runners_see_it,
    a_tick_is_what_is_due_next,
    a_schedule_that_is_due_holds_up_no_job,
    a_clock_that_is_set_back_repeats_no_tick,
    no_tick_is_early_or_left_out_or_repeated_whatever_the_clock_does,
    a_paused_schedule_fires_no_more_and_forgets_what_was_due,
    a_removed_schedule_fires_no_more,
    a_changed_schedule_is_the_same_one,
    the_job_of_a_paused_topic_waits,
    jobs_of_schedules_count_for_the_limits_of_their_topic,
    a_tick_is_skipped_while_the_last_job_waits_or_runs,
    a_tick_makes_no_job_while_the_tenant_is_full,
    missed_ticks_are_made_up_for_as_the_schedule_says,
    a_schedule_is_run_by_hand_once_per_id,
    jobs_are_as_the_schedule_says,
    schedules_of_tenants_are_apart,
    a_tenant_with_nothing_but_a_schedule_is_listed,
    a_manifest_makes_changes_and_removes_its_schedules,
    manifests_in_a_rollout_do_not_undo_each_others_work,
    a_moved_schedule_fires_in_its_new_store_only,
    ; large:
    a_tenant_has_a_bounded_number_of_schedules,
);

const HOUR: u64 = 3_600_000;

fn id(name: &str) -> ScheduleId {
    ScheduleId { topic: topic("mail"), name: name.parse().unwrap() }
}

fn hourly() -> Schedule {
    Schedule { every: Some(Duration::from_secs(3600)), ..Schedule::default() }
}

async fn change(queue: &TestStore, name: &str, change: ScheduleChange) -> ScheduleChanged {
    queue.store.change_schedule(&id(name), &change).await.unwrap()
}

async fn put(queue: &TestStore, name: &str, schedule: Schedule) -> ScheduleChanged {
    change(queue, name, ScheduleChange::Put(Box::new(schedule))).await
}

async fn stored(queue: &TestStore, name: &str) -> Option<StoredSchedule> {
    queue.store.schedules(&tenant(), Some(&id(name))).await.unwrap().pop()
}

async fn names(queue: &TestStore) -> Vec<String> {
    let schedules = queue.store.schedules(&tenant(), None).await.unwrap();
    schedules.into_iter().map(|schedule| schedule.id.name.to_string()).collect()
}

fn due_in(ms: u64) -> NewJob {
    NewJob { due: Due::After(Duration::from_millis(ms)), ..job("mail") }
}

/// Claims and acks what is ready. Returns the ids.
async fn work_off(queue: &TestStore) -> Vec<JobId> {
    let claims = queue.claim(5000).await;
    for claim in &claims {
        queue.settle(claim, Verdict::Ack(None)).await;
    }
    claims.into_iter().map(|claim| claim.job.spec.id.clone()).collect()
}

async fn a_tick_makes_no_job_while_the_tenant_is_full(queue: TestStore) {
    put(&queue, "a", hourly()).await;
    for (is_full, jobs) in [(true, 0), (false, 1)] {
        queue.store.set_full(&tenant(), is_full).await.unwrap();
        queue.store.set_full(&tenant_beside(), !is_full).await.unwrap();
        queue.pass(HOUR);
        assert_eq!(queue.migrate().await.fired, 1, "it is dealt with");
        assert_eq!(work_off(&queue).await.len(), jobs);
        let firing = stored(&queue, "a").await.unwrap().record.firings.swap_remove(0);
        assert_eq!(firing.result == FiringResult::TenantFull, is_full, "{firing:?}");
    }
}

async fn each_tick_makes_one_job(queue: TestStore) {
    assert_eq!(put(&queue, "a", hourly()).await, ScheduleChanged::Made);
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        queue.pass(HOUR);
        assert_eq!(queue.migrate().await.fired, 1);
        assert_eq!(queue.migrate().await.fired, 0);
        let jobs = work_off(&queue).await;
        assert_eq!(jobs.len(), 1);
        assert!(seen.insert(jobs[0].clone()));
    }
    let record = stored(&queue, "a").await.unwrap().record;
    assert_eq!(record.firings.len(), 5);
    assert_eq!(record.next, Some(queue.in_ms(HOUR)), "ticks are at full hours, as the clock of this test is");
    assert_eq!(queue.total("pushed").await, 5);
}

async fn a_tick_makes_one_job_however_many_runners_see_it(queue: TestStore) {
    for name in ["a", "b", "c"] {
        put(&queue, name, hourly()).await;
    }
    for _ in 0..10 {
        queue.pass(HOUR);
        let runner = || {
            let store = Arc::clone(&queue.store);
            tokio::spawn(async move { store.migrate(&tenant(), 100).await.unwrap().fired })
        };
        let mut fired = 0;
        for runner in [(); 8].map(|()| runner()) {
            fired += runner.await.unwrap();
        }
        assert_eq!(fired, 3);
        assert_eq!(work_off(&queue).await.len(), 3);
    }
}

async fn a_tick_is_what_is_due_next(queue: TestStore) {
    let mut signals = queue.signals(&[tenant()]).await;
    put(&queue, "a", hourly()).await;
    let signal = until("the signal of the tick", SOON, async || signals.recv().await).await;
    assert_eq!(signal, Signal::Due { tenant: tenant(), wait: Duration::from_millis(HOUR) });
    let next = async || poll(&*queue.store, &tenant()).await.next_due_in;
    assert_eq!(next().await, Some(Duration::from_millis(HOUR)));
    queue.push(&[due_in(1000)]).await;
    assert_eq!(next().await, Some(Duration::from_secs(1)));
    queue.pass(1000);
    let migrated = queue.migrate().await;
    assert_eq!((migrated.moved, migrated.next_due_in), (1, Some(Duration::from_millis(HOUR - 1000))));
    change(&queue, "a", ScheduleChange::Pause).await;
    assert_eq!(next().await, None);
}

async fn a_schedule_that_is_due_holds_up_no_job(queue: TestStore) {
    put(&queue, "a", hourly()).await;
    queue.push(&[due_in(HOUR)]).await;
    queue.pass(HOUR);
    let migrated = queue.migrate().await;
    assert_eq!((migrated.moved, migrated.fired), (1, 1));
    assert_eq!(work_off(&queue).await.len(), 2);
}

async fn a_clock_that_is_set_back_repeats_no_tick(queue: TestStore) {
    put(&queue, "a", hourly()).await;
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 1);
    queue.set_back(HOUR / 2);
    assert_eq!(queue.migrate().await.fired, 0);
    queue.pass(HOUR / 2);
    assert_eq!(queue.migrate().await.fired, 0);
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 1);
    assert_eq!(work_off(&queue).await.len(), 2);
}

async fn no_tick_is_early_or_left_out_or_repeated_whatever_the_clock_does(queue: TestStore) {
    const MINUTE: u64 = 60_000;
    const TICKS: u64 = 60;
    let every = Some(Duration::from_millis(MINUTE));
    put(&queue, "a", Schedule { every, missed: Missed::All, ..Schedule::default() }).await;
    let begin = queue.now().as_millis() / MINUTE;
    let (mut random, mut latest) = (seeded(), queue.now());
    let mut ticks = Vec::new();
    while latest.as_millis() / MINUTE < begin + TICKS {
        match random.u8(..4) {
            // Further back, it would repeat ticks rather than stand still for longer.
            0 if queue.now() == latest => queue.set_back(random.u64(..3 * MINUTE)),
            1 => queue.pass(random.u64(..6 * MINUTE)),
            _ => queue.pass(random.u64(..MINUTE)),
        }
        latest = latest.max(queue.now());
        let runner = || {
            let store = Arc::clone(&queue.store);
            tokio::spawn(async move { store.migrate(&tenant(), 100).await.unwrap() })
        };
        for runner in [(); 10].map(|()| runner()) {
            runner.await.unwrap();
        }
        for claim in queue.claim(1000).await {
            let tick: u64 = claim.job.spec.id.as_str().rsplit_once('-').unwrap().1.parse().unwrap();
            assert!(tick <= queue.now().as_millis(), "{tick} is early");
            ticks.push(tick / MINUTE);
        }
    }
    ticks.sort_unstable();
    assert_eq!(ticks, (begin + 1..=latest.as_millis() / MINUTE).collect::<Vec<_>>());
}

async fn a_paused_schedule_fires_no_more_and_forgets_what_was_due(queue: TestStore) {
    assert_eq!(change(&queue, "a", ScheduleChange::Pause).await, ScheduleChanged::Unknown);
    put(&queue, "a", hourly()).await;
    assert_eq!(change(&queue, "a", ScheduleChange::Pause).await, ScheduleChanged::Changed);
    assert_eq!(change(&queue, "a", ScheduleChange::Pause).await, ScheduleChanged::Unchanged);
    queue.pass(3 * HOUR);
    assert_eq!(queue.migrate().await.fired, 0);
    assert_eq!(change(&queue, "a", ScheduleChange::Resume).await, ScheduleChanged::Changed);
    assert_eq!(queue.migrate().await.fired, 0);
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 1);
    assert_eq!(work_off(&queue).await.len(), 1);
}

async fn a_removed_schedule_fires_no_more(queue: TestStore) {
    put(&queue, "a", hourly()).await;
    put(&queue, "b", hourly()).await;
    assert_eq!(change(&queue, "a", ScheduleChange::Remove).await, ScheduleChanged::Changed);
    assert_eq!(change(&queue, "a", ScheduleChange::Remove).await, ScheduleChanged::Unknown);
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 1);
    assert_eq!((names(&queue).await, work_off(&queue).await.len()), (vec!["b".to_owned()], 1));
}

async fn a_changed_schedule_is_the_same_one(queue: TestStore) {
    put(&queue, "a", hourly()).await;
    assert_eq!(put(&queue, "a", hourly()).await, ScheduleChanged::Unchanged);
    queue.pass(HOUR);
    queue.migrate().await;
    let daily =
        Schedule { cron: Some("0 9 * * *".into()), timezone: Some("Asia/Kolkata".into()), ..Schedule::default() };
    assert_eq!(put(&queue, "a", daily).await, ScheduleChanged::Changed);
    assert_eq!(names(&queue).await, ["a"]);
    let record = stored(&queue, "a").await.unwrap().record;
    assert_eq!((record.firings.len(), record.origin), (1, Origin::Api));
    assert_eq!(record.next.unwrap().to_string(), "2027-01-16T03:30:00.000Z");
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 0);
}

async fn the_job_of_a_paused_topic_waits(queue: TestStore) {
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    put(&queue, "a", hourly()).await;
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 1);
    assert!(queue.claim(1).await.is_empty());
    assert_eq!(poll(&*queue.store, &tenant()).await.ready, []);
    queue.store.set_paused(&topic("mail"), false).await.unwrap();
    assert_eq!(poll(&*queue.store, &tenant()).await.ready, [topic("mail")]);
    assert_eq!(work_off(&queue).await.len(), 1);
}

async fn jobs_of_schedules_count_for_the_limits_of_their_topic(queue: TestStore) {
    for name in ["a", "b"] {
        put(&queue, name, hourly()).await;
    }
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 2);
    let limits = FleetLimits { max_running: Some(1), ..FleetLimits::NONE };
    let claim = async || queue.store.claim(&worker(), &[line("mail", 9).within(limits)]).await.unwrap().claims;
    let first = claim().await;
    assert_eq!((first.len(), claim().await.len()), (1, 0));
    queue.settle(&first[0], Verdict::Ack(None)).await;
    assert_eq!(claim().await.len(), 1);
}

async fn a_tick_is_skipped_while_the_last_job_waits_or_runs(queue: TestStore) {
    put(&queue, "a", Schedule { overlap: Overlap::Skip, ..hourly() }).await;
    let tick = async || {
        queue.pass(HOUR);
        assert_eq!(queue.migrate().await.fired, 1);
        matches!(stored(&queue, "a").await.unwrap().record.firings[0].result, FiringResult::Job { .. })
    };
    assert!(tick().await);
    assert!(!tick().await, "the job waits");
    let claim = queue.claim_one().await;
    assert!(!tick().await, "the job runs");
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert!(tick().await, "the job is done");
    let claim = queue.claim_one().await;
    queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
    assert!(tick().await, "the job is dead");
    let last = stored(&queue, "a").await.unwrap().record.last_job.unwrap();
    assert_eq!(queue.store.cancel(&tenant(), &[last]).await.unwrap(), [Cancelled::Gone]);
    assert!(tick().await, "the job is cancelled");
}

async fn missed_ticks_are_made_up_for_as_the_schedule_says(queue: TestStore) {
    let minutely = |missed| Schedule { every: Some(Duration::from_secs(60)), missed, ..Schedule::default() };
    for (missed, jobs) in [(Missed::Skip, 0), (Missed::One, 1), (Missed::All, 150)] {
        let name = missed.to_string();
        put(&queue, &name, Schedule { every: Some(Duration::from_secs(7200)), ..minutely(missed) }).await;
        queue.pass(150 * 2 * HOUR + HOUR);
        queue.migrate().await;
        assert_eq!(work_off(&queue).await.len(), jobs, "{missed}");
        let record = stored(&queue, &name).await.unwrap().record;
        let was_missed = record.firings.iter().any(|firing| firing.result == FiringResult::Missed);
        assert_eq!(was_missed, missed != Missed::All, "{missed}");
        assert_eq!(queue.migrate().await.fired, 0);
        change(&queue, &name, ScheduleChange::Remove).await;
        queue.pass(HOUR);
    }
    put(&queue, "fresh", minutely(Missed::Skip)).await;
    queue.pass(60_000);
    queue.migrate().await;
    assert_eq!(work_off(&queue).await.len(), 1, "a tick that comes in time was not missed");
}

async fn a_schedule_is_run_by_hand_once_per_id(queue: TestStore) {
    put(&queue, "a", hourly()).await;
    change(&queue, "a", ScheduleChange::Pause).await;
    let job: JobId = "by-hand".parse().unwrap();
    assert_eq!(change(&queue, "a", ScheduleChange::Run(job.clone())).await, ScheduleChanged::Changed);
    assert_eq!(change(&queue, "a", ScheduleChange::Run(job.clone())).await, ScheduleChanged::Unchanged);
    assert_eq!(work_off(&queue).await, [job]);
    assert_eq!(change(&queue, "b", ScheduleChange::Run(JobId::generate())).await, ScheduleChanged::Unknown);
}

async fn jobs_are_as_the_schedule_says(queue: TestStore) {
    let body = Payload { data: b"{}".to_vec(), content_type: Some("application/json".into()) };
    let metadata = vec![("by".to_owned(), "schedule".to_owned())];
    let (ttl, jitter) = (Some(Duration::from_secs(5)), Duration::from_secs(60));
    put(&queue, "a", Schedule { body: body.clone(), metadata: metadata.clone(), ttl, jitter, ..hourly() }).await;
    let tick = queue.in_ms(HOUR);
    queue.pass(HOUR);
    queue.migrate().await;
    queue.pass(60_000);
    queue.migrate().await;
    let job = queue.claim_one().await.job;
    assert_eq!((&job.spec.body, &job.spec.metadata, job.spec.options.ttl), (&body, &metadata, ttl));
    assert!((tick..=tick.plus(jitter)).contains(&job.due_at), "{} {tick}", job.due_at);
}

async fn schedules_of_tenants_are_apart(queue: TestStore) {
    let beside = ScheduleId { topic: TopicId { tenant: tenant_beside(), ..topic("mail") }, name: "a".parse().unwrap() };
    put(&queue, "a", hourly()).await;
    let made = queue.store.change_schedule(&beside, &ScheduleChange::Put(Box::new(hourly()))).await.unwrap();
    assert_eq!(made, ScheduleChanged::Made);
    change(&queue, "a", ScheduleChange::Pause).await;
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 0);
    assert_eq!(queue.store.migrate(&tenant_beside(), 10).await.unwrap().fired, 1);
    assert_eq!(queue.store.schedules(&tenant_beside(), Some(&beside)).await.unwrap()[0].id, beside);
}

async fn a_tenant_has_a_bounded_number_of_schedules(queue: TestStore) {
    for n in 0..SCHEDULES_PER_TENANT {
        assert_eq!(put(&queue, &format!("s{n}"), hourly()).await, ScheduleChanged::Made);
    }
    assert_eq!(put(&queue, "more", hourly()).await, ScheduleChanged::TooMany);
    assert_eq!(put(&queue, "s7", Schedule { missed: Missed::All, ..hourly() }).await, ScheduleChanged::Changed);
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, SCHEDULES_PER_TENANT);
    assert_eq!(queue.counts("mail").await.ready, SCHEDULES_PER_TENANT as u64);
}

async fn a_tenant_with_nothing_but_a_schedule_is_listed(queue: TestStore) {
    put(&queue, "a", hourly()).await;
    assert_eq!(queue.store.tenants().await.unwrap(), [tenant()]);
}

fn offer(schedules: &[(&str, Schedule)]) -> Offer {
    let schedules: BTreeMap<Name, Schedule> =
        schedules.iter().map(|(name, schedule)| (name.parse().unwrap(), schedule.clone())).collect();
    let digest_of = format!("{schedules:?}");
    Offer::new(topic("mail"), schedules, digest_of)
}

async fn standing(queue: &TestStore, offer: &Offer) -> Option<Standing> {
    let standings = queue.store.offer_schedules(&tenant(), std::slice::from_ref(offer)).await.unwrap();
    standings.into_iter().find(|standing| standing.topic == offer.topic.topic).unwrap().standing
}

async fn a_manifest_makes_changes_and_removes_its_schedules(queue: TestStore) {
    put(&queue, "own", hourly()).await;
    put(&queue, "taken", hourly()).await;
    let nothing = queue.store.offer_schedules(&tenant(), &[]).await.unwrap();
    assert_eq!(nothing, []);
    let daily = Schedule { cron: Some("@daily".into()), ..Schedule::default() };
    let first = offer(&[("nightly", daily.clone()), ("taken", hourly()), ("old", hourly())]);
    assert_eq!(standing(&queue, &first).await, Some(Standing::InForce));
    assert_eq!(names(&queue).await, ["nightly", "old", "own", "taken"]);
    assert_eq!(put(&queue, "nightly", hourly()).await, ScheduleChanged::OfManifest);
    assert_eq!(change(&queue, "taken", ScheduleChange::Remove).await, ScheduleChanged::OfManifest);
    assert_eq!(change(&queue, "nightly", ScheduleChange::Pause).await, ScheduleChanged::Changed);
    let second = offer(&[("nightly", Schedule { overlap: Overlap::Skip, ..daily })]);
    assert_eq!(standing(&queue, &second).await, Some(Standing::InForce));
    assert_eq!(names(&queue).await, ["nightly", "own"]);
    let nightly = stored(&queue, "nightly").await.unwrap().record;
    assert_eq!((nightly.paused, nightly.schedule.overlap, nightly.origin), (true, Overlap::Skip, Origin::Manifest));
    queue.pass(HOUR);
    assert_eq!(queue.migrate().await.fired, 1, "what was removed fires no more");
}

async fn manifests_in_a_rollout_do_not_undo_each_others_work(queue: TestStore) {
    let (old, new) = (offer(&[("a", hourly()), ("b", hourly())]), offer(&[("a", hourly())]));
    assert_eq!(standing(&queue, &old).await, Some(Standing::InForce));
    assert_eq!(standing(&queue, &new).await, Some(Standing::InForce));
    for _ in 0..3 {
        assert_eq!(standing(&queue, &old).await, Some(Standing::Superseded));
        assert_eq!(standing(&queue, &new).await, Some(Standing::InForce));
        assert_eq!(names(&queue).await, ["a"]);
    }
    // Other processes back the new one: that shows.
    let backed = async |offer: &Offer| {
        queue.store.offer_schedules(&tenant(), std::slice::from_ref(offer)).await.unwrap()[0].backed
    };
    let seen = backed(&new).await;
    assert_eq!(backed(&old).await, seen);
    assert_eq!(backed(&Offer { seen: Some(seen), ..new.clone() }).await, seen + 1);
    assert_eq!(backed(&Offer { seen: Some(seen), ..new.clone() }).await, seen + 1, "another process was first");
    let elsewhere = queue.store.offer_schedules(&tenant(), &[]).await.unwrap();
    assert_eq!((elsewhere.len(), elsewhere[0].standing, elsewhere[0].backed), (1, None, seen + 1));

    assert_eq!(standing(&queue, &Offer { insist: true, ..old.clone() }).await, Some(Standing::InForce));
    assert_eq!(names(&queue).await, ["a", "b"]);
    let last = Offer { insist: true, ..offer(&[]) };
    assert_eq!(standing(&queue, &last).await, Some(Standing::InForce));
    assert_eq!(names(&queue).await, Vec::<String>::new());
    assert_eq!(queue.store.offer_schedules(&tenant(), &[]).await.unwrap(), [], "no trace is left");
}

async fn a_moved_schedule_fires_in_its_new_store_only(queue: TestStore) {
    let other = queue.another().await;
    put(&queue, "a", hourly()).await;
    put(&queue, "b", hourly()).await;
    queue.pass(HOUR);
    queue.migrate().await;
    // An earlier move was interrupted right before it removed the schedule from the old store.
    change(&queue, "a", ScheduleChange::Export).await;
    let halfway = stored(&queue, "a").await.unwrap().record;
    assert_eq!(change(&other, "a", ScheduleChange::Import(Box::new(halfway))).await, ScheduleChanged::Made);
    queue.pass(HOUR);
    assert_eq!((queue.migrate().await.fired, other.migrate().await.fired), (1, 1));

    assert_eq!(move_schedules(&*queue.store, &*other.store, &tenant(), None).await.unwrap(), 2);
    assert_eq!((names(&queue).await.len(), names(&other).await), (0, vec!["a".to_owned(), "b".to_owned()]));
    let firings = async |name: &str| stored(&other, name).await.unwrap().record.firings.len();
    assert_eq!((firings("a").await, firings("b").await), (2, 2));
    queue.pass(HOUR);
    assert_eq!((queue.migrate().await.fired, other.migrate().await.fired), (0, 2));
    move_schedules(&*other.store, &*other.store, &tenant(), None).await.unwrap();
    queue.pass(HOUR);
    assert_eq!(other.migrate().await.fired, 2, "a store that is both ends keeps them");
}
