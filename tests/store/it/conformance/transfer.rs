//! Transfer: jobs move from store to store, and none is lost or doubled however often the move is interrupted.

use std::time::Duration;

use super::dead::dead_jobs;
use gristmill_core::job::{Job, JobId, NewJob, Priority};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{Cancelled, Imported, JobState, Pushed, Settled, StoredJob, StoredPlace};
use gristmill_store_tests::test_store::{
    TestStore, claimed, delayed, failure, ids, job, of_priority, poll, retry, settlement, tenant, topic, unique,
    unique_for,
};

super::cases![
    running_jobs_stay,
    exporting_changes_nothing,
    jobs_arrive_with_all_that_is_known_about_them,
    arrived_jobs_are_not_counted_as_pushed,
    a_job_that_became_due_on_the_way_is_delayed_until_it_is_migrated,
    an_import_stores_a_job_once_even_if_the_job_has_ended,
    an_id_that_is_taken_is_not_taken_in,
    forgotten_marks_let_a_job_come_again,
    a_job_that_goes_back_can_come_again_although_its_mark_was_not_forgotten,
    a_mark_that_was_not_forgotten_is_not_taken_for_a_later_job_of_the_same_id,
    remove_exported_removes_jobs_without_counting_them,
    running_jobs_are_not_let_go_of,
    a_unique_value_moves_with_its_job,
    a_unique_value_that_another_job_holds_is_left_to_it,
    a_move_that_is_interrupted_anywhere_loses_and_doubles_nothing,
    ; in_order:
    waiting_and_dead_jobs_go_out_in_order,
    outgoing_jobs_are_read_in_bounded_numbers,
    arrived_jobs_keep_their_order,
    a_store_that_is_moved_into_itself_keeps_its_jobs,
];

async fn exported(queue: &TestStore) -> Vec<StoredJob> {
    queue.store.export(&topic("mail"), 10_000).await.unwrap()
}

async fn import(queue: &TestStore, jobs: &[StoredJob]) -> Vec<Imported> {
    queue.store.import(jobs).await.unwrap()
}

fn stored_ids(jobs: &[StoredJob]) -> Vec<JobId> {
    jobs.iter().map(|stored| stored.job.spec.id.clone()).collect()
}

fn high(mut job: NewJob) -> NewJob {
    job.spec.options.priority = Priority::High;
    job
}

/// Two dead jobs, then waiting ones of every kind: ids in the order in which they go out.
async fn filled(queue: &TestStore) -> Vec<JobId> {
    let dead = [queue.dead().await.lease.job, {
        queue.pass(1);
        queue.dead().await.lease.job
    }];
    let [low, normal, again, first, late, soon] = [
        of_priority(Priority::Low),
        job("mail"),
        job("mail"),
        of_priority(Priority::High),
        high(delayed("mail", 90)),
        delayed("mail", 30),
    ];
    queue.push(&[low.clone(), normal.clone(), again.clone(), first.clone(), late.clone(), soon.clone()]).await;
    [ids([&first, &normal, &again, &low, &soon, &late]), dead.into()].concat()
}

async fn waiting_and_dead_jobs_go_out_in_order(queue: TestStore) {
    let order = filled(&queue).await;
    let out = exported(&queue).await;
    assert_eq!(stored_ids(&out), order);
    assert_eq!(out[0].place, StoredPlace::Ready);
    assert_eq!(out[4].place, StoredPlace::Delayed { until: queue.in_ms(30) });
    assert_eq!(out[7].place, StoredPlace::Dead { since: queue.now() });
    assert!(queue.store.export(&topic("audit"), 9).await.unwrap().is_empty());
}

async fn running_jobs_stay(queue: TestStore) {
    queue.running().await;
    assert!(exported(&queue).await.is_empty());
}

async fn exporting_changes_nothing(queue: TestStore) {
    filled(&queue).await;
    let before = queue.counts("mail").await;
    assert_eq!(exported(&queue).await, exported(&queue).await);
    assert_eq!(queue.counts("mail").await, before);
}

async fn outgoing_jobs_are_read_in_bounded_numbers(queue: TestStore) {
    let order = filled(&queue).await;
    for limit in [0, 1, 3, 5, 7, 8] {
        let out = queue.store.export(&topic("mail"), limit).await.unwrap();
        assert_eq!(stored_ids(&out), order[..limit]);
    }
}

async fn jobs_arrive_with_all_that_is_known_about_them(queue: TestStore) {
    let mut pushed = job("mail");
    pushed.spec.metadata = vec![("trace".into(), "t1".into())];
    pushed.spec.options.ttl = Some(Duration::from_secs(1));
    queue.push(&[pushed]).await;
    queue.pass(7);
    let first = queue.claim_one().await;
    queue.store.checkpoint(&first.lease, b"half").await.unwrap();
    queue.settle(&first, retry(50)).await;
    let [stored]: [StoredJob; 1] = exported(&queue).await.try_into().unwrap();
    assert_eq!((&stored.job, stored.attempts, stored.deliveries), (&*first.job, 1, 1));
    assert_eq!(stored.last_failure, Some(failure(Reason::Failed)));
    assert_eq!((stored.checkpoint.as_deref(), stored.unique_for), (Some(&b"half"[..]), None));

    let there = queue.another().await;
    assert_eq!(import(&there, std::slice::from_ref(&stored)).await, [Imported::Stored]);
    assert_eq!(there.view(&first.lease.job).await, queue.view(&first.lease.job).await);
    assert_eq!(exported(&there).await, [stored]);
    queue.pass(50);
    assert_eq!(there.migrate().await.moved, 1);
    let second = there.claim_one().await;
    assert_eq!((&second.job, second.attempt, second.lease.delivery), (&first.job, 2, 2));
    assert_eq!((second.previous, second.checkpoint.as_deref()), (Some(Reason::Failed), Some(&b"half"[..])));
    assert_eq!(there.settle(&first, Verdict::Ack(None)).await, Settled::LeaseLost, "fenced in the new store too");
}

async fn arrived_jobs_keep_their_order(queue: TestStore) {
    let order = filled(&queue).await;
    let there = queue.another().await;
    let out = exported(&queue).await;
    assert_eq!(import(&there, &out[..3]).await, [Imported::Stored; 3]);
    assert_eq!(import(&there, &out[3..]).await, [Imported::Stored; 5]);
    assert_eq!(exported(&there).await, out);
    assert_eq!(there.places().await, [4, 2, 0, 2]);
    assert_eq!(claimed(&there.claim(2).await), order[..2]);
    let dead: Vec<Job> = dead_jobs(&there).await.into_iter().filter_map(|dead| dead.job).collect();
    assert_eq!(dead, [&out[7], &out[6]].map(|stored| stored.job.clone()));
}

async fn arrived_jobs_are_not_counted_as_pushed(queue: TestStore) {
    filled(&queue).await;
    let there = queue.another().await;
    import(&there, &exported(&queue).await).await;
    assert!(there.counts("mail").await.totals.values().all(|n| *n == 0));
    let wanted = poll(&*there.store, &tenant()).await;
    assert_eq!((wanted.ready, wanted.next_due_in), (vec![topic("mail")], Some(Duration::from_millis(30))));
    assert_eq!(there.store.tenants().await.unwrap(), [tenant()]);
}

async fn a_job_that_became_due_on_the_way_is_delayed_until_it_is_migrated(queue: TestStore) {
    queue.push(&[delayed("mail", 5)]).await;
    let out = exported(&queue).await;
    queue.pass(50);
    let there = queue.another().await;
    import(&there, &out).await;
    assert_eq!(there.places().await, [0, 1, 0, 0]);
    assert_eq!(there.migrate().await.moved, 1);
    assert_eq!(there.places().await, [1, 0, 0, 0]);
}

async fn an_import_stores_a_job_once_even_if_the_job_has_ended(queue: TestStore) {
    queue.push(&[job("mail")]).await;
    let out = exported(&queue).await;
    let there = queue.another().await;
    assert_eq!(import(&there, &out).await, [Imported::Stored]);
    assert_eq!(import(&there, &out).await, [Imported::Before]);
    let claim = there.claim_one().await;
    there.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(import(&there, &out).await, [Imported::Before], "it is over, and still known");
    assert_eq!(there.places().await, [0; 4]);
}

async fn an_id_that_is_taken_is_not_taken_in(queue: TestStore) {
    let pushed = job("mail");
    queue.push(std::slice::from_ref(&pushed)).await;
    let there = queue.another().await;
    there.push(&[delayed("mail", 5), pushed]).await;
    assert_eq!(import(&there, &exported(&queue).await).await, [Imported::IdTaken]);
    assert_eq!(there.places().await, [1, 1, 0, 0]);
}

async fn forgotten_marks_let_a_job_come_again(queue: TestStore) {
    queue.push(&[job("mail")]).await;
    let out = exported(&queue).await;
    let there = queue.another().await;
    import(&there, &out).await;
    there.store.clear_move_marks(&tenant(), &stored_ids(&out)).await.unwrap();
    assert_eq!(import(&there, &out).await, [Imported::IdTaken]);
    let claim = there.claim_one().await;
    there.settle(&claim, Verdict::Ack(None)).await;
    there.store.clear_move_marks(&tenant(), &stored_ids(&out)).await.unwrap();
    assert_eq!(import(&there, &out).await, [Imported::Stored]);
}

async fn a_job_that_goes_back_can_come_again_although_its_mark_was_not_forgotten(queue: TestStore) {
    queue.push(&[job("mail")]).await;
    let out = exported(&queue).await;
    let there = queue.another().await;
    import(&there, &out).await;
    queue.store.remove_exported(&topic("mail"), &stored_ids(&out)).await.unwrap();
    // Interrupted here; and then all the way back, and there once more.
    assert_eq!(import(&queue, &exported(&there).await).await, [Imported::Stored]);
    there.store.remove_exported(&topic("mail"), &stored_ids(&out)).await.unwrap();
    assert_eq!(import(&there, &exported(&queue).await).await, [Imported::Stored]);
}

async fn a_mark_that_was_not_forgotten_is_not_taken_for_a_later_job_of_the_same_id(queue: TestStore) {
    let nightly = job("mail");
    queue.push(std::slice::from_ref(&nightly)).await;
    let out = exported(&queue).await;
    let there = queue.another().await;
    import(&there, &out).await;
    queue.store.remove_exported(&topic("mail"), &stored_ids(&out)).await.unwrap();
    // Interrupted here, and never forgotten; the job is done there, and its producer pushes the next one here.
    let claim = there.claim_one().await;
    there.settle(&claim, Verdict::Ack(None)).await;
    queue.pass(1000);
    queue.push(std::slice::from_ref(&nightly)).await;
    assert_eq!(import(&there, &exported(&queue).await).await, [Imported::Stored]);
}

async fn a_store_that_is_moved_into_itself_keeps_its_jobs(queue: TestStore) {
    let order = filled(&queue).await;
    let taken_in = import(&queue, &exported(&queue).await).await;
    assert!(taken_in.iter().all(|taken_in| *taken_in == Imported::IdTaken), "{taken_in:?}");
    assert_eq!(stored_ids(&exported(&queue).await), order);
}

async fn remove_exported_removes_jobs_without_counting_them(queue: TestStore) {
    let order = filled(&queue).await;
    let before = queue.counts("mail").await.totals;
    let asked = [order.clone(), vec!["unknown".parse().unwrap(), order[0].clone()]].concat();
    let answers = queue.store.remove_exported(&topic("mail"), &asked).await.unwrap();
    assert_eq!(answers, [vec![true; 8], vec![false; 2]].concat());
    for id in &order {
        assert_eq!(queue.view(id).await, None);
    }
    assert_eq!((queue.places().await, queue.counts("mail").await.totals), ([0; 4], before));
    queue.pass(100);
    assert_eq!(queue.migrate().await.moved, 0);
    let took = queue.claim_as(&gristmill_store_tests::test_store::worker(), "mail", 9).await;
    assert_eq!((took.claims.len(), took.strays), (0, 0));
}

async fn running_jobs_are_not_let_go_of(queue: TestStore) {
    let claim = queue.running().await;
    let answers = queue.store.remove_exported(&topic("mail"), std::slice::from_ref(&claim.lease.job)).await.unwrap();
    assert_eq!(answers, [false]);
    let waiting = job("audit");
    queue.push(std::slice::from_ref(&waiting)).await;
    assert_eq!(
        queue.store.remove_exported(&topic("mail"), &[waiting.spec.id]).await.unwrap(),
        [false],
        "another topic's"
    );
    assert_eq!(queue.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
}

async fn a_unique_value_moves_with_its_job(queue: TestStore) {
    let (until_done, window) = (unique("mail", "u"), unique_for("mail", "v", 100));
    queue.push(&[until_done.clone(), window.clone()]).await;
    queue.pass(40);
    let out = exported(&queue).await;
    assert_eq!(out[1].unique_for, Some(Duration::from_millis(60)));
    let there = queue.another().await;
    import(&there, &out).await;
    queue.store.remove_exported(&topic("mail"), &stored_ids(&out)).await.unwrap();
    for (value, holder) in [("u", &until_done), ("v", &window)] {
        let again = unique("mail", value);
        assert_eq!(there.push(std::slice::from_ref(&again)).await, [Pushed::Duplicate(holder.spec.id.clone())]);
    }
    for value in ["u", "v"] {
        assert_eq!(queue.push(&[unique("mail", value)]).await, [Pushed::Stored], "it has left the old store");
    }
    queue.pass(60);
    assert_eq!(there.push(&[unique("mail", "v")]).await, [Pushed::Stored]);
    let claim = there.claim_one().await;
    there.settle_with(settlement(&claim, Verdict::Ack(None))).await;
    assert_eq!(there.push(&[unique("mail", "u")]).await, [Pushed::Stored]);
}

async fn a_unique_value_that_another_job_holds_is_left_to_it(queue: TestStore) {
    let (ours, theirs) = (unique("mail", "u"), unique("mail", "u"));
    queue.push(std::slice::from_ref(&ours)).await;
    let there = queue.another().await;
    there.push(std::slice::from_ref(&theirs)).await;
    assert_eq!(import(&there, &exported(&queue).await).await, [Imported::Stored]);
    assert_eq!(there.push(&[unique("mail", "u")]).await, [Pushed::Duplicate(theirs.spec.id.clone())]);
    let claims = there.claim(2).await;
    assert_eq!(claimed(&claims), ids([&theirs, &ours]));
    there.settle_with(settlement(&claims[1], Verdict::Release(Duration::ZERO))).await;
    assert_eq!(there.store.cancel(&tenant(), &[ours.spec.id]).await.unwrap(), [Cancelled::Gone]);
    assert_eq!(there.push(&[unique("mail", "u")]).await, [Pushed::Duplicate(theirs.spec.id)], "it was never ours");
}

/// Begins the whole move again after each number of steps.
async fn a_move_that_is_interrupted_anywhere_loses_and_doubles_nothing(queue: TestStore) {
    let order = filled(&queue).await;
    let there = queue.another().await;
    queue.store.set_paused(&topic("mail"), true).await.unwrap();
    for steps in 1.. {
        let mut left = steps;
        let mut step = || {
            left -= 1;
            left > 0
        };
        // Batches of three; whoever is interrupted begins again.
        let done = 'moving: loop {
            let batch = queue.store.export(&topic("mail"), 3).await.unwrap();
            if batch.is_empty() {
                break 'moving true;
            }
            let moved = stored_ids(&batch);
            import(&there, &batch).await;
            if !step() {
                break 'moving false;
            }
            queue.store.remove_exported(&topic("mail"), &moved).await.unwrap();
            if !step() {
                break 'moving false;
            }
            there.store.clear_move_marks(&tenant(), &moved).await.unwrap();
        };
        if done {
            break;
        }
    }
    assert_eq!(queue.places().await, [0; 4]);
    let mut arrived = stored_ids(&exported(&there).await);
    arrived.sort();
    let mut order = order;
    order.sort();
    assert_eq!(arrived, order);
    for id in &order {
        assert!(!matches!(there.state(id).await, None | Some(JobState::Running { .. })));
    }
}
