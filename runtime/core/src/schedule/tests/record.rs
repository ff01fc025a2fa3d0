//! What a store keeps of a schedule.

use std::time::Duration;

use super::*;

const HOUR: u64 = 3_600_000;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn id() -> ScheduleId {
    ScheduleId { topic: "acme/report".parse().unwrap(), name: "nightly".parse().unwrap() }
}

fn hourly() -> Schedule {
    Schedule { every: Some(Duration::from_secs(3600)), ..Schedule::default() }
}

fn record(schedule: Schedule) -> Record {
    Record::new(schedule, Origin::Api, at(HOUR + 1)).unwrap()
}

#[test]
fn a_tick_makes_one_job_and_moves_the_schedule_on() {
    let record = record(hourly());
    assert_eq!(record.awaited(), Some(at(2 * HOUR)));
    assert_eq!(record.fire(&id(), (false, false), at(2 * HOUR - 1)).unwrap(), None);
    let NewFiring { record, jobs } = record.fire(&id(), (false, false), at(2 * HOUR)).unwrap().unwrap();
    assert_eq!((jobs.len(), jobs[0].due), (1, JobDue::At(at(2 * HOUR))));
    assert_eq!((record.awaited(), record.revision), (Some(at(3 * HOUR)), 2));
    assert_eq!(record.fire(&id(), (true, false), at(HOUR)).unwrap(), None, "a clock that is set back repeats no tick");
    let again = record.fire(&id(), (true, false), at(3 * HOUR)).unwrap().unwrap();
    assert_ne!(again.jobs[0].spec.id, jobs[0].spec.id);
    assert_eq!(again.record.firings.len(), 2);
}

#[test]
fn a_tick_is_skipped_while_the_last_job_lives() {
    let record = record(Schedule { overlap: Overlap::Skip, ..hourly() });
    let NewFiring { record, jobs } = record.fire(&id(), (true, false), at(2 * HOUR)).unwrap().unwrap();
    assert_eq!(jobs.len(), 1, "there is no last job");
    let skipped = record.fire(&id(), (true, false), at(3 * HOUR)).unwrap().unwrap();
    assert_eq!(skipped.jobs, []);
    assert_eq!(skipped.record.firings[0].result, FiringResult::Overlap { job: jobs[0].spec.id.clone() });
    assert_eq!(skipped.record.awaited(), Some(at(4 * HOUR)));
    assert_eq!(record.fire(&id(), (false, false), at(3 * HOUR)).unwrap().unwrap().jobs.len(), 1);
}

#[test]
fn a_tick_is_skipped_while_the_tenant_is_full() {
    let NewFiring { record, jobs } = record(hourly()).fire(&id(), (false, true), at(2 * HOUR)).unwrap().unwrap();
    assert_eq!((jobs.len(), &record.firings[0].result), (0, &FiringResult::TenantFull));
    assert_eq!((record.awaited(), record.last_job.clone()), (Some(at(3 * HOUR)), None));
    assert_eq!(record.fire(&id(), (false, false), at(3 * HOUR)).unwrap().unwrap().jobs.len(), 1);
}

#[test]
fn a_changed_schedule_is_the_same_one() {
    let record = record(hourly()).fire(&id(), (false, false), at(2 * HOUR)).unwrap().unwrap().record;
    assert_eq!(record.redefined(&hourly(), Origin::Api, at(9 * HOUR)).unwrap(), None);
    let body = crate::job::Payload { data: b"x".to_vec(), content_type: None };
    let other_body = Schedule { body, ..hourly() };
    let changed = record.redefined(&other_body, Origin::Api, at(9 * HOUR)).unwrap().unwrap();
    assert_eq!((changed.awaited(), changed.firings.len()), (Some(at(3 * HOUR)), 1), "it is still due");
    let other_ticks = Schedule { every: Some(Duration::from_secs(7200)), ..hourly() };
    let changed = record.redefined(&other_ticks, Origin::Manifest, at(9 * HOUR)).unwrap().unwrap();
    assert_eq!((changed.awaited(), changed.firings.len()), (Some(at(10 * HOUR)), 1));
    let paused = record.paused(true, at(9 * HOUR)).unwrap().unwrap();
    let changed = paused.redefined(&other_ticks, Origin::Api, at(9 * HOUR)).unwrap().unwrap();
    assert_eq!((changed.paused, changed.awaited()), (true, None));
}

#[test]
fn what_was_due_during_a_pause_is_forgotten() {
    let record = record(hourly());
    assert_eq!(record.paused(false, at(HOUR)).unwrap(), None);
    let paused = record.paused(true, at(HOUR)).unwrap().unwrap();
    assert_eq!(paused.fire(&id(), (false, false), at(9 * HOUR)).unwrap(), None);
    assert_eq!(paused.run(&id(), &JobId::generate(), at(9 * HOUR)).jobs.len(), 1, "it is run by hand all the same");
    assert_eq!(paused.paused(false, at(9 * HOUR)).unwrap().unwrap().awaited(), Some(at(10 * HOUR)));
}

#[test]
fn a_schedule_on_its_way_fires_where_it_arrives() {
    let record = record(hourly());
    let leaving = record.on_its_way();
    assert_eq!(leaving.awaited(), None);
    assert_eq!(leaving.arrived().awaited(), record.awaited());
}

#[test]
fn jitter_makes_jobs_due_later_and_differs_from_tick_to_tick() {
    let schedule = Schedule { jitter: Duration::from_millis(99), ..hourly() };
    let shift = |tick: u64| match schedule.job(&id(), at(tick)).due {
        JobDue::At(due) => due.since(at(tick)).as_millis(),
        _ => panic!("it is due at a time"),
    };
    let shifts: std::collections::BTreeSet<_> = (1..2000).map(|n| shift(n * HOUR)).collect();
    assert_eq!((shifts.first(), shifts.last(), shifts.len()), (Some(&0), Some(&99), 100));
    assert_eq!(shift(HOUR), shift(HOUR));
}

#[test]
fn the_last_ten_firings_are_remembered_the_latest_first() {
    let mut record = record(hourly());
    for n in 2..20 {
        record = record.fire(&id(), (false, false), at(n * HOUR)).unwrap().unwrap().record;
    }
    assert_eq!(record.firings.len(), 10);
    assert_eq!((record.firings[0].tick, record.firings[9].tick), (at(19 * HOUR), at(10 * HOUR)));
    let read: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!(read, record);
}

#[test]
fn manifests_in_a_rollout_do_not_alternate() {
    let offer = |text: &str| Offer::new("report".parse().unwrap(), BTreeMap::new(), text);
    let (old, new) = (offer("old"), offer("new"));
    let (record, standing) = ManifestRecord::default().after(&old);
    assert_eq!((standing, &record.digest), (Standing::InForce, &old.digest));
    let (record, standing) = record.after(&new);
    assert_eq!((standing, &record.digest), (Standing::InForce, &new.digest));
    assert_eq!(record.after(&old), (record.clone(), Standing::Superseded));
    let insisting = Offer { insist: true, ..old.clone() };
    assert_eq!(record.after(&insisting).0.digest, old.digest, "no process backs the new one");
    let rolled_back = Offer { replaces: Some(new.digest.clone()), ..old.clone() };
    assert_eq!(record.after(&rolled_back).0.digest, old.digest, "the process that had the new one has this now");
    assert_eq!(record.after(&rolled_back).0.after(&new).1, Standing::Superseded);
}

#[test]
fn a_manifest_in_force_is_backed_once_per_look() {
    let offer = Offer::new("report".parse().unwrap(), BTreeMap::new(), "one");
    let record = ManifestRecord::default().after(&offer).0;
    let look = |seen| record.after(&Offer { seen, ..offer.clone() }).0.backed - record.backed;
    assert_eq!((look(None), look(Some(record.backed)), look(Some(record.backed + 1))), (0, 1, 0));
}

#[test]
fn the_digests_of_few_manifests_are_remembered() {
    let mut record = ManifestRecord::default();
    for n in 0..100 {
        record = record.after(&Offer::new("report".parse().unwrap(), BTreeMap::new(), format!("{n}"))).0;
    }
    assert_eq!(record.superseded.len(), SUPERSEDED);
}
