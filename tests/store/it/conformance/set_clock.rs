//! The store's clock is set: what waits for a time that no producer named waits for as long as before, and what was asked for at a point in time
//! waits for that.

use std::time::Duration;

use super::after::{after, stored};
use gristmill_core::job::{Claim, Due, JobChange, NewJob};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::schedule::{Schedule, ScheduleId};
use gristmill_core::topic::{FleetLimits, KeyLimits, Rate};
use gristmill_store::{ClaimFrom, DeadLimits, JobState, Pushed, ScheduleChange};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, TestStore, delayed, failure, job, line, poll, retry, tenant, topic, unique_for, worker,
};

super::cases![
    a_step_back_moves_delays_and_retries_and_no_time_that_was_named,
    a_step_back_before_the_store_is_opened_moves_the_same,
    a_changed_job_waits_for_what_it_was_changed_to,
    a_job_that_waits_for_another_is_due_when_it_would_have_been,
    a_respawned_job_that_waits_for_another_waits_for_no_named_time,
    a_schedule_does_not_stand_still,
    a_store_says_what_its_clock_shows,
    a_clock_that_is_wrong_for_a_time_makes_no_delay_longer_or_shorter,
    ; not_spread:
    a_budget_of_a_day_that_is_not_yet_holds_up_no_job,
    a_step_back_moves_leases_windows_rates_and_retention,
    a_budget_that_is_new_is_used_once_the_clock_is_put_right,
    a_step_forward_makes_due_what_it_passes_and_a_step_back_afterwards_nothing_late,
];

const MINUTE: u64 = 60_000;
const STEPS: [u64; 5] = [10 * MINUTE, 60 * MINUTE, 24 * 60 * MINUTE, 7 * 24 * 60 * MINUTE, 2_345];

/// Sets the clock back, and has a worker notice it.
async fn set_back(queue: &TestStore, ms: u64) {
    queue.heartbeat(&worker()).await;
    queue.set_back(ms);
    queue.heartbeat(&worker()).await;
}

fn at(queue: &TestStore, ms: u64) -> NewJob {
    NewJob { due: Due::At(queue.in_ms(ms)), ..job("mail") }
}

/// A job that waits for a minute to be tried again.
async fn retried(queue: &TestStore) -> Claim {
    let claim = queue.running().await;
    queue.settle(&claim, retry(MINUTE)).await;
    claim
}

async fn until(queue: &TestStore, job: &NewJob) -> u64 {
    match queue.state(&job.spec.id).await {
        Some(JobState::Delayed { until }) => until.as_millis(),
        state => panic!("it is {state:?}"),
    }
}

/// One delay, one retry and one named time, each of which waits for as long as it should.
async fn assert_delays(queue: &TestStore, ms: u64, set_back: impl AsyncFn(&TestStore)) {
    let (delay, named) = (delayed("mail", MINUTE), at(queue, 2 * MINUTE));
    retried(queue).await;
    queue.push(&[delay.clone(), named.clone()]).await;
    let due = queue.in_ms(2 * MINUTE).as_millis();
    set_back(queue).await;
    assert_eq!(until(queue, &delay).await, queue.in_ms(MINUTE).as_millis(), "{ms}");
    assert_eq!(until(queue, &named).await, due);
    queue.pass(MINUTE - 1);
    assert_eq!(queue.migrate().await.moved, 0, "{ms}");
    queue.pass(1);
    assert_eq!(queue.migrate().await.moved, 2, "{ms}");
    queue.pass(ms + MINUTE - 1);
    assert_eq!(queue.migrate().await.moved, 0, "{ms}");
    queue.pass(1);
    assert_eq!(queue.migrate().await.moved, 1, "{ms}");
    work_off(queue).await;
}

/// Acks what is ready.
async fn work_off(queue: &TestStore) {
    loop {
        let claims = queue.claim(9).await;
        for claim in &claims {
            queue.settle(claim, Verdict::Ack(None)).await;
        }
        if claims.is_empty() {
            return;
        }
    }
}

async fn a_step_back_moves_delays_and_retries_and_no_time_that_was_named(queue: TestStore) {
    for ms in STEPS {
        assert_delays(&queue, ms, async |queue| set_back(queue, ms).await).await;
    }
}

async fn a_step_back_before_the_store_is_opened_moves_the_same(mut queue: TestStore) {
    let (delay, named) = (delayed("mail", MINUTE), at(&queue, 2 * MINUTE));
    queue.push(&[delay.clone(), named.clone()]).await;
    queue.heartbeat(&worker()).await;
    let due = queue.in_ms(2 * MINUTE).as_millis();
    queue.set_back(60 * MINUTE);
    queue.reopen().await;
    queue.heartbeat(&worker()).await;
    assert_eq!(until(&queue, &delay).await, queue.in_ms(MINUTE).as_millis());
    assert_eq!(until(&queue, &named).await, due);
}

/// Sets the clock by this many milliseconds, pushes a job, and has a worker notice the step.
async fn set_and_push(queue: &TestStore, ms: i64, job: &NewJob) {
    queue.heartbeat(&worker()).await;
    let by = ms.unsigned_abs();
    if ms < 0 {
        queue.set_back(by)
    } else {
        queue.set_forward(by)
    }
    queue.push(std::slice::from_ref(job)).await;
    queue.heartbeat(&worker()).await;
}

async fn a_clock_that_is_wrong_for_a_time_makes_no_delay_longer_or_shorter(queue: TestStore) {
    const WRONG_FOR: u64 = 7_000;
    for ms in STEPS.into_iter().filter(|ms| *ms >= MINUTE) {
        for first in [-ms.cast_signed(), ms.cast_signed()] {
            let wait = ms + 3 * MINUTE;
            let [before, unnoticed, during] = [(); 3].map(|()| delayed("mail", wait));
            queue.push(std::slice::from_ref(&before)).await;
            set_and_push(&queue, first, &unnoticed).await;
            queue.push(std::slice::from_ref(&during)).await;
            queue.pass(WRONG_FOR);
            let after = delayed("mail", wait);
            set_and_push(&queue, -first, &after).await;
            for (job, passed) in [(before, WRONG_FOR), (unnoticed, WRONG_FOR), (during, WRONG_FOR), (after, 0)] {
                assert_eq!(until(&queue, &job).await, queue.in_ms(wait - passed).as_millis(), "{first}, {passed}");
            }
            queue.pass(wait);
            assert_eq!(queue.migrate().await.moved, 4);
            work_off(&queue).await;
        }
    }
}

async fn a_changed_job_waits_for_what_it_was_changed_to(queue: TestStore) {
    let (named, delay) = (at(&queue, 5 * MINUTE), delayed("mail", 5 * MINUTE));
    queue.push(&[named.clone(), delay.clone()]).await;
    let due = queue.in_ms(2 * MINUTE);
    let changes = [(&named, Due::After(Duration::from_millis(MINUTE))), (&delay, Due::At(due))];
    for (job, due) in changes {
        let change = JobChange { due: Some(due), priority: None };
        queue.store.change(&tenant(), std::slice::from_ref(&job.spec.id), &change).await.unwrap();
    }
    set_back(&queue, 60 * MINUTE).await;
    assert_eq!(until(&queue, &named).await, queue.in_ms(MINUTE).as_millis());
    assert_eq!(until(&queue, &delay).await, due.as_millis());
}

async fn a_store_says_what_its_clock_shows(queue: TestStore) {
    let shown = async || queue.store.clock_time(&tenant()).await.unwrap();
    assert_eq!(shown().await, queue.in_ms(0));
    queue.pass(MINUTE);
    assert_eq!(shown().await, queue.in_ms(0));
    set_back(&queue, 60 * MINUTE).await;
    assert_eq!(shown().await, queue.in_ms(0));
    let clocks = queue.store.clocks().await;
    assert!(!clocks.is_empty() && clocks.iter().all(|(_, clock)| clock.store == queue.in_ms(0)), "{clocks:?}");
}

async fn a_schedule_does_not_stand_still(queue: TestStore) {
    let id = |name: &str| ScheduleId { topic: topic("mail"), name: name.parse().unwrap() };
    let day = 24 * 60 * MINUTE;
    for (name, ms) in [("often", MINUTE), ("daily", day)] {
        let schedule = Schedule { every: Some(Duration::from_millis(ms)), ..Schedule::default() };
        queue.store.change_schedule(&id(name), &ScheduleChange::Put(Box::new(schedule))).await.unwrap();
    }
    let next =
        async |name: &str| queue.store.schedules(&tenant(), Some(&id(name))).await.unwrap()[0].record.next.unwrap();
    queue.pass(day);
    assert_eq!(queue.migrate().await.fired, 2);
    let tomorrow = next("daily").await;
    set_back(&queue, 60 * MINUTE).await;
    assert!(next("often").await <= queue.in_ms(MINUTE), "it would stand still for an hour");
    assert_eq!(next("daily").await, tomorrow, "a tick is not repeated that comes as rarely as this");
    queue.pass(MINUTE);
    assert_eq!(queue.migrate().await.fired, 1);
    set_back(&queue, 7 * day).await;
    assert!(next("daily").await <= queue.in_ms(day));
}

async fn a_budget_of_a_day_that_is_not_yet_holds_up_no_job(queue: TestStore) {
    const DAY: u64 = 24 * 60 * MINUTE;
    let mut limits = FleetLimits::NONE;
    limits.tenant.jobs_per_day = Some(1);
    let claim = async || queue.claim_within(&worker(), &[line("mail", 9).within(limits)]).await.unwrap().claims.len();
    let is_wanted = async || {
        queue.migrate().await;
        !poll(&*queue.store, &tenant()).await.ready.is_empty()
    };
    for ms in STEPS {
        queue.push(&[job("mail"), job("mail")]).await;
        assert_eq!(claim().await + claim().await, 1, "{ms}");
        assert!(!is_wanted().await, "{ms}");
        set_back(&queue, ms).await;
        assert!(is_wanted().await, "a runner is to ask again, {ms}");
        assert_eq!(claim().await, usize::from(ms >= DAY), "{ms}");
        queue.pass(3 * DAY);
    }
}

async fn a_step_back_moves_leases_windows_rates_and_retention(queue: TestStore) {
    let rate = Some(Rate { jobs: 1, per: Duration::from_secs(60), burst: 1 });
    let by_rate = || line("rated", 9).within(FleetLimits { rate, ..FleetLimits::NONE });
    let per_key = KeyLimits { rate, max_running: 9, ..KeyLimits::DEFAULT };
    let by_key = || line("keyed", 9).within(FleetLimits { per_key, ..FleetLimits::NONE });
    let budget = || {
        let mut limits = FleetLimits::NONE;
        limits.tenant.jobs_per_day = Some(1_000_000);
        line("budget", 9).within(limits)
    };
    let start = async |from: ClaimFrom| {
        let claims = queue.claim_within(&worker(), &[from]).await.unwrap().claims;
        for claim in &claims {
            queue.settle(claim, Verdict::Ack(None)).await;
        }
        claims.len()
    };
    let keyed = || {
        let mut job = job("keyed");
        job.spec.options.key = Some("k".into());
        job
    };
    for ms in STEPS {
        queue.push(&[job("rated"), job("rated"), keyed(), keyed(), job("budget")]).await;
        assert_eq!((start(by_rate()).await, start(by_key()).await, start(budget()).await), (1, 1, 1), "{ms}");
        assert_eq!((start(by_rate()).await, start(by_key()).await), (0, 0), "{ms}");
        queue.push(&[unique_for("window", "u", MINUTE)]).await;
        let (held, dead) = (queue.running().await, queue.running().await);
        queue.settle(&dead, Verdict::Bury(failure(Reason::Trap))).await;
        let overdue = async || queue.store.overdue(&[tenant()], DEAD_AFTER, 9).await.unwrap().jobs.len();
        let sweep = async || {
            let retention = Duration::from_millis(MINUTE);
            queue.store.sweep(&[DeadLimits { topic: topic("mail"), keep: 9, retention }]).await.unwrap()[0]
        };

        set_back(&queue, ms).await;
        queue.push(&[job("budget")]).await;
        assert_eq!(start(budget()).await, 1, "{ms}");
        assert_eq!((start(by_rate()).await, start(by_key()).await), (0, 0), "{ms}");
        assert!(matches!(queue.push(&[unique_for("window", "u", MINUTE)]).await[..], [Pushed::Duplicate(_)]));
        queue.pass(29_999);
        queue.heartbeat(&worker()).await;
        assert_eq!(overdue().await, 0, "{ms}");
        queue.pass(1);
        assert_eq!(overdue().await, 1, "{ms}");
        queue.settle(&held, Verdict::Ack(None)).await;

        queue.pass(MINUTE / 2 - 1);
        assert_eq!(sweep().await, 0, "{ms}");
        queue.pass(2);
        queue.migrate().await;
        assert_eq!((start(by_rate()).await, start(by_key()).await), (1, 1), "{ms}");
        assert_eq!(sweep().await, 1, "{ms}");
        assert_eq!(queue.push(&[unique_for("window", "u", 1)]).await, [Pushed::Stored], "{ms}");
        queue.pass(2);
        for claim in queue.claim_as(&worker(), "window", 9).await.claims {
            queue.settle(&claim, Verdict::Ack(None)).await;
        }
        queue.pass(10 * MINUTE);
    }
    assert_eq!(queue.store.fsck().await.unwrap().findings, []);
}

async fn a_step_forward_makes_due_what_it_passes_and_a_step_back_afterwards_nothing_late(queue: TestStore) {
    for ms in STEPS.into_iter().filter(|ms| *ms >= MINUTE) {
        let (short, long) = (delayed("mail", MINUTE), delayed("mail", 2 * ms));
        queue.push(&[short.clone(), long.clone()]).await;
        queue.heartbeat(&worker()).await;
        queue.pass(ms);
        queue.heartbeat(&worker()).await;
        assert_eq!(queue.migrate().await.moved, 1, "{ms}");
        let (wrong, named) = (delayed("mail", MINUTE), at(&queue, MINUTE));
        queue.push(&[wrong.clone(), named.clone()]).await;
        set_back(&queue, ms).await;
        queue.pass(MINUTE);
        assert_eq!(queue.migrate().await.moved, 1, "what began under the wrong clock, {ms}");
        assert_eq!(queue.state(&named.spec.id).await, Some(JobState::Delayed { until: queue.in_ms(ms) }));
        queue.pass(2 * ms);
        assert_eq!(queue.migrate().await.moved, 2, "{ms}");
        work_off(&queue).await;
    }
}

async fn a_job_that_waits_for_another_is_due_when_it_would_have_been(queue: TestStore) {
    let first = job("mail");
    let (soon, later) = (after("mail", &[&first]), after("mail", &[&first]));
    let later = NewJob { due: Due::After(Duration::from_millis(2 * MINUTE)), ..later };
    let named = NewJob { due: Due::At(queue.in_ms(2 * MINUTE)), ..after("mail", &[&first]) };
    let due = queue.in_ms(2 * MINUTE);
    stored(&queue, &[first, soon.clone(), later.clone(), named.clone()]).await;
    queue.pass(MINUTE);
    set_back(&queue, 60 * MINUTE).await;
    let claim = queue.claim_one().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(until(&queue, &later).await, queue.in_ms(MINUTE).as_millis());
    assert_eq!(until(&queue, &named).await, due.as_millis());
    assert_eq!(queue.state(&soon.spec.id).await, Some(JobState::Ready));
}

async fn a_respawned_job_that_waits_for_another_waits_for_no_named_time(queue: TestStore) {
    let first = job("mail");
    let second = NewJob { due: Due::At(queue.in_ms(MINUTE)), ..after("mail", &[&first]) };
    stored(&queue, &[first.clone(), second.clone()]).await;
    for _ in 0..2 {
        let claim = queue.claim_one().await;
        queue.settle(&claim, Verdict::Bury(failure(Reason::Trap))).await;
        queue.pass(MINUTE);
        queue.migrate().await;
    }
    let ids = [first.spec.id.clone(), second.spec.id.clone()];
    assert_eq!(queue.store.respawn(&topic("mail"), &ids).await.unwrap(), [true; 2]);
    set_back(&queue, 60 * MINUTE).await;
    let claim = queue.claim_one().await;
    queue.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(queue.state(&second.spec.id).await, Some(JobState::Ready));
}

async fn a_budget_that_is_new_is_used_once_the_clock_is_put_right(queue: TestStore) {
    const DAY: u64 = 24 * 60 * MINUTE;
    let mut limits = FleetLimits::NONE;
    limits.tenant.jobs_per_day = Some(1);
    let start = async || queue.claim_within(&worker(), &[line("mail", 9).within(limits)]).await.unwrap().claims.len();
    queue.push(&[job("mail"), job("mail"), job("mail")]).await;
    set_back(&queue, DAY).await;
    assert_eq!((start().await, start().await), (1, 0));
    queue.set_forward(DAY);
    queue.heartbeat(&worker()).await;
    queue.migrate().await;
    assert_eq!(poll(&*queue.store, &tenant()).await.ready, [topic("mail")]);
}
