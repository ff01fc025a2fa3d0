//! Jobs that wait for other jobs.

use std::slice::from_ref;
use std::time::Duration;

use gristmill_core::job::{AfterFailed, Due, Ended, JobId, JobOptions, NewJob, NoLink};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{BatchSealed, Cancelled, DeadLimits, JobState, Pushed, Settlement, Signal, WaitsFor};
use gristmill_store_tests::test_store::{TestStore, claimed, failure, ids, job, settlement, tenant, topic, worker};
use gristmill_test_servers::wait::SOON;
use tokio::time::timeout;

super::cases![
    a_job_starts_when_the_one_before_it_is_done,
    a_job_that_waits_is_listed_and_counted,
    the_end_of_a_job_wakes_the_topic_of_the_one_after_it,
    a_job_that_is_cancelled_dead_or_expired_has_ended,
    a_retry_and_a_snooze_are_no_end,
    an_unknown_job_cannot_be_waited_for,
    a_job_that_has_ended_can_be_waited_for_while_its_result_is_kept,
    a_dead_job_has_ended_for_those_that_come_later,
    a_job_that_is_not_due_waits_for_its_time_as_well,
    a_job_counts_as_due_when_it_may_start,
    a_follow_up_may_wait_for_the_job_that_enqueued_it,
    a_job_that_waits_for_the_running_one_takes_members_from_it_until_that_has_ended,
    a_follow_up_that_cannot_wait_is_stored_and_says_so,
    a_batch_waits_until_it_is_sealed,
    a_batch_waits_for_all_of_its_members,
    a_member_that_is_respawned_counts_again,
    a_batch_that_is_sealed_takes_follow_ups_of_its_members_only,
    a_member_of_a_batch_cannot_wait_for_what_waits_for_the_batch,
    a_job_that_waits_is_cancelled_like_any_other,
    a_dead_job_that_is_gone_has_ended_for_good,
    a_job_that_waits_for_others_is_not_exported,
    a_topic_whose_jobs_wait_is_not_forgotten,
    a_push_that_is_repeated_changes_nothing,
    what_a_job_waited_for_is_known_until_it_is_gone,
    ; in_order:
    a_job_waits_for_all_that_it_names,
    a_job_with_a_key_waits_for_its_key_after_the_others,
    ; large:
    a_chain_is_pushed_at_once,
];

pub(super) fn after(topic: &str, named: &[&NewJob]) -> NewJob {
    let mut job = job(topic);
    job.spec.options.after = named.iter().map(|job| job.spec.id.clone()).collect();
    job
}

pub(super) fn batch() -> NewJob {
    let mut job = job("mail");
    job.spec.options.open = true;
    job
}

pub(super) fn member(batch: &NewJob) -> NewJob {
    let mut job = job("mail");
    job.spec.options.batch = Some(batch.spec.id.clone());
    job
}

pub(super) async fn stored(queue: &TestStore, jobs: &[NewJob]) {
    assert_eq!(queue.push(jobs).await, vec![Pushed::Stored; jobs.len()]);
}

async fn pushed(queue: &TestStore, job: &NewJob) -> Pushed {
    queue.push(std::slice::from_ref(job)).await.pop().unwrap()
}

/// Takes the ready jobs of `mail` and ends them, one after the other, until none is ready.
async fn run_all(queue: &TestStore) -> Vec<JobId> {
    let mut run = Vec::new();
    loop {
        let claims = queue.claim(1).await;
        let Some(claim) = claims.first() else { return run };
        run.push(claim.lease.job.clone());
        queue.settle_with(settlement(claim, Verdict::Ack(None))).await;
    }
}

async fn waits_for(queue: &TestStore, job: &NewJob) -> Option<WaitsFor> {
    queue.store.waits_for(&tenant(), &job.spec.id, 10).await.unwrap()
}

/// How many jobs it waits for, how many of these have ended, and how many of these were not done.
async fn progress(queue: &TestStore, job: &NewJob) -> (u64, u64, u64) {
    let WaitsFor { total, ended, failed, .. } = waits_for(queue, job).await.unwrap();
    (total, ended, failed)
}

async fn is_waiting(queue: &TestStore, job: &NewJob) -> bool {
    queue.state(&job.spec.id).await == Some(JobState::Waiting)
}

async fn a_job_starts_when_the_one_before_it_is_done(queue: TestStore) {
    let first = job("mail");
    let second = after("mail", &[&first]);
    stored(&queue, from_ref(&first)).await;
    stored(&queue, from_ref(&second)).await;
    assert_eq!(queue.places().await, [1, 1, 0, 0]);
    let claims = queue.claim(9).await;
    assert_eq!(claimed(&claims), ids([&first]));
    assert!(is_waiting(&queue, &second).await);
    queue.settle_with(settlement(&claims[0], Verdict::Ack(None))).await;
    assert_eq!(queue.places().await, [1, 0, 0, 0]);
    assert_eq!(run_all(&queue).await, ids([&second]));
    assert_eq!(waits_for(&queue, &second).await, None);
}

async fn a_job_waits_for_all_that_it_names(queue: TestStore) {
    let jobs = [job("mail"), job("mail"), job("mail")];
    stored(&queue, &jobs).await;
    let last = after("mail", &[&jobs[0], &jobs[1], &jobs[2], &jobs[0]]);
    stored(&queue, from_ref(&last)).await;
    for (n, claim) in queue.claim(3).await.iter().enumerate() {
        assert_eq!(progress(&queue, &last).await, (3, n as u64, 0));
        assert!(is_waiting(&queue, &last).await);
        queue.settle_with(settlement(claim, Verdict::Ack(None))).await;
    }
    assert_eq!(run_all(&queue).await, ids([&last]));
}

async fn a_job_that_waits_is_listed_and_counted(queue: TestStore) {
    let first = job("mail");
    let second = after("mail", &[&first]);
    stored(&queue, &[first.clone(), second.clone()]).await;
    let counts = queue.counts("mail").await;
    assert_eq!((counts.ready, counts.delayed, counts.waiting), (1, 1, 1));
    let view = queue.view(&second.spec.id).await.unwrap();
    assert_eq!(view.state, JobState::Waiting);
    assert_eq!(view.job.unwrap().spec.options, second.spec.options);
    let waits_for = view.waits_for.unwrap();
    assert_eq!(
        (waits_for.open, waits_for.jobs[0].id.clone(), waits_for.jobs[0].ended),
        (false, first.spec.id.clone(), None)
    );
    assert_eq!(queue.store.waiters(&tenant(), &first.spec.id).await.unwrap(), ids([&second]));
    assert_eq!(queue.migrate().await.next_due_in, None, "no time comes for it");
    let page = queue.store.jobs(&topic("mail"), gristmill_store::StateFilter::Delayed, None, 10).await.unwrap();
    assert_eq!((page.jobs[0].id.clone(), page.jobs[0].state.clone()), (second.spec.id, JobState::Waiting));
}

async fn the_end_of_a_job_wakes_the_topic_of_the_one_after_it(queue: TestStore) {
    let first = job("mail");
    let second = after("news", &[&first]);
    stored(&queue, &[first, second.clone()]).await;
    let claim = queue.claim_one().await;
    let mut signals = queue.signals(&[tenant()]).await;
    queue.settle_with(settlement(&claim, Verdict::Ack(None))).await;
    let signal = timeout(SOON, signals.recv()).await.expect("a signal in time");
    assert_eq!(signal, Some(Signal::Ready(topic("news"))));
    let claims = queue.claim_as(&claim.lease.worker, "news", 9).await.claims;
    assert_eq!(claimed(&claims), ids([&second]));
}

async fn a_job_that_is_cancelled_dead_or_expired_has_ended(queue: TestStore) {
    let bury = || Verdict::Bury(failure(Reason::Rejected));
    for (verdict, ended) in
        [(Some(bury()), Ended::Dead), (Some(Verdict::Expire), Ended::Expired), (None, Ended::Cancelled)]
    {
        let first = job("mail");
        let mut second = after("mail", &[&first]);
        second.spec.options.after_failed = AfterFailed::Run;
        stored(&queue, &[first.clone(), second.clone()]).await;
        match verdict {
            Some(verdict) => {
                let claim = queue.claim_one().await;
                queue.settle_with(settlement(&claim, verdict)).await;
            }
            None => assert_eq!(queue.store.cancel(&tenant(), &ids([&first])).await.unwrap(), [Cancelled::Gone]),
        }
        let found = waits_for(&queue, &second).await.unwrap();
        assert_eq!((found.total, found.ended, found.failed, found.jobs[0].ended), (1, 1, 1, Some(ended)));
        assert_eq!(found.first_failed(), Some((&first.spec.id, ended)));
        assert_eq!(run_all(&queue).await, ids([&second]));
    }
    let first = job("mail");
    stored(&queue, &[first.clone(), after("mail", &[&first])]).await;
    let claim = queue.claim_one().await;
    assert_eq!(queue.store.cancel(&tenant(), &ids([&first])).await.unwrap(), [Cancelled::Stopping]);
    queue.settle_with(settlement(&claim, Verdict::Release(Duration::ZERO))).await;
    assert_eq!(run_all(&queue).await.len(), 1, "a running job that is cancelled has ended with its attempt");
}

async fn a_retry_and_a_snooze_are_no_end(queue: TestStore) {
    let first = job("mail");
    let second = after("mail", &[&first]);
    stored(&queue, &[first.clone(), second.clone()]).await;
    let again = Verdict::Retry { after: Duration::ZERO, failure: failure(Reason::Failed) };
    for verdict in [again, Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO)] {
        let claim = queue.claim_one().await;
        assert_eq!(claim.lease.job, first.spec.id);
        queue.settle_with(settlement(&claim, verdict)).await;
        assert_eq!(progress(&queue, &second).await, (1, 0, 0));
    }
    assert_eq!(run_all(&queue).await, ids([&first, &second]));
}

async fn an_unknown_job_cannot_be_waited_for(queue: TestStore) {
    let unknown = job("mail");
    let id = unknown.spec.id.clone();
    assert_eq!(pushed(&queue, &after("mail", &[&unknown])).await, Pushed::Refused(NoLink::Unknown(id.clone())));
    assert_eq!(pushed(&queue, &member(&unknown)).await, Pushed::Refused(NoLink::Unknown(id)));
    let mut itself = job("mail");
    itself.spec.options.after = vec![itself.spec.id.clone()];
    assert_eq!(pushed(&queue, &itself).await, Pushed::Refused(NoLink::Unknown(itself.spec.id.clone())));
    assert_eq!(queue.view(&itself.spec.id).await, None);
}

async fn a_job_that_has_ended_can_be_waited_for_while_its_result_is_kept(queue: TestStore) {
    let mut first = job("mail");
    first.spec.options.keep_result = Some(Duration::from_secs(3600));
    stored(&queue, &[first.clone()]).await;
    let claim = queue.claim_one().await;
    queue.settle_with(Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO)).await;
    let second = after("mail", &[&first]);
    stored(&queue, from_ref(&second)).await;
    assert_eq!(progress(&queue, &second).await, (1, 1, 0));
    assert_eq!(run_all(&queue).await, ids([&second]));
}

async fn a_dead_job_has_ended_for_those_that_come_later(queue: TestStore) {
    let dead = queue.dead().await;
    let mut later = job("mail");
    later.spec.options = JobOptions { after: vec![dead.lease.job.clone()], ..JobOptions::default() };
    stored(&queue, &[later.clone()]).await;
    assert_eq!(progress(&queue, &later).await, (1, 1, 1));
    assert_eq!(run_all(&queue).await, ids([&later]));
}

async fn a_job_that_is_not_due_waits_for_its_time_as_well(queue: TestStore) {
    let first = job("mail");
    let mut second = after("mail", &[&first]);
    second.due = Due::After(Duration::from_millis(50));
    stored(&queue, &[first.clone(), second.clone()]).await;
    let until = queue.in_ms(50);
    assert_eq!(run_all(&queue).await, ids([&first]));
    assert_eq!(queue.state(&second.spec.id).await, Some(JobState::Delayed { until }));
    queue.pass(50);
    queue.migrate().await;
    assert_eq!(run_all(&queue).await, ids([&second]));
}

async fn a_job_counts_as_due_when_it_may_start(queue: TestStore) {
    let first = job("mail");
    let mut second = after("mail", &[&first]);
    second.spec.options.ttl = Some(Duration::from_millis(10));
    stored(&queue, &[first, second.clone()]).await;
    queue.pass(1000);
    let claim = queue.claim_one().await;
    queue.settle_with(settlement(&claim, Verdict::Ack(None))).await;
    let claim = queue.claim_one().await;
    assert_eq!((claim.job.due_at, claim.job.expires_at()), (queue.now(), Some(queue.in_ms(10))));
}

async fn a_chain_is_pushed_at_once(queue: TestStore) {
    let mut chain = vec![job("mail")];
    for _ in 1..1000 {
        let next = after("mail", &[chain.last().unwrap()]);
        chain.push(next);
    }
    stored(&queue, &chain).await;
    assert_eq!(run_all(&queue).await, ids(&chain));
}

async fn a_follow_up_may_wait_for_the_job_that_enqueued_it(queue: TestStore) {
    let first = job("mail");
    stored(&queue, from_ref(&first)).await;
    let claim = queue.claim_one().await;
    let follow_ups = vec![job("mail"), after("mail", &[&first])];
    let ack = Settlement { follow_ups: follow_ups.clone(), ..settlement(&claim, Verdict::Ack(None)) };
    queue.settle_with(ack).await;
    assert_eq!(waits_for(&queue, &follow_ups[1]).await.map(|found| (found.ended, found.failed)), Some((1, 0)));
    let mut run = run_all(&queue).await;
    run.sort();
    let mut expected = ids(&follow_ups);
    expected.sort();
    assert_eq!(run, expected);
}

async fn a_job_that_waits_for_the_running_one_takes_members_from_it_until_that_has_ended(queue: TestStore) {
    let (first, late) = (job("mail"), job("next"));
    stored(&queue, from_ref(&first)).await;
    let gather = after("later", &[&first]);
    let claim = queue.claim_one().await;
    let follow_ups = vec![gather.clone(), member(&gather)];
    let snooze = Settlement { follow_ups, ..settlement(&claim, Verdict::Snooze(Duration::ZERO)) };
    queue.settle_with(snooze).await;
    assert_eq!(progress(&queue, &gather).await, (2, 0, 0));
    let claims = queue.claim(9).await;
    for claim in &claims {
        let follow_ups = vec![member(&gather)];
        queue.settle_with(Settlement { follow_ups, ..settlement(claim, Verdict::Ack(None)) }).await;
    }
    assert_eq!((claims.len(), progress(&queue, &gather).await), (2, (4, 2, 0)));
    assert_eq!((run_all(&queue).await.len(), is_waiting(&queue, &gather).await), (2, false));
    stored(&queue, from_ref(&late)).await;
    let claim = queue.claim_as(&worker(), "next", 1).await.claims.remove(0);
    let follow_ups = vec![member(&gather)];
    queue.settle_with(Settlement { follow_ups, ..settlement(&claim, Verdict::Ack(None)) }).await;
    assert_eq!(progress(&queue, &gather).await, (4, 4, 0), "a job of its own");
}

async fn a_follow_up_that_cannot_wait_is_stored_and_says_so(queue: TestStore) {
    let claim = queue.running().await;
    let unknown = job("mail");
    let follow_up = after("mail", &[&unknown]);
    let ack = Settlement { follow_ups: vec![follow_up.clone()], ..settlement(&claim, Verdict::Ack(None)) };
    queue.settle_with(ack).await;
    let found = waits_for(&queue, &follow_up).await.unwrap();
    assert_eq!(found.first_failed(), Some((&unknown.spec.id, Ended::Unknown)));
    assert_eq!(run_all(&queue).await, ids([&follow_up]));
}

async fn a_batch_waits_until_it_is_sealed(queue: TestStore) {
    let batch = batch();
    stored(&queue, from_ref(&batch)).await;
    assert!(is_waiting(&queue, &batch).await && waits_for(&queue, &batch).await.unwrap().open);
    assert_eq!(queue.store.seal(&tenant(), &batch.spec.id).await.unwrap(), BatchSealed::Sealed);
    assert_eq!(queue.store.seal(&tenant(), &batch.spec.id).await.unwrap(), BatchSealed::NotWaiting);
    assert_eq!(run_all(&queue).await, ids([&batch]));
    assert_eq!(queue.store.seal(&tenant(), &JobId::generate()).await.unwrap(), BatchSealed::NotWaiting);
}

async fn a_batch_waits_for_all_of_its_members(queue: TestStore) {
    let batch = batch();
    stored(&queue, from_ref(&batch)).await;
    let members: Vec<NewJob> = (0..5).map(|_| member(&batch)).collect();
    stored(&queue, &members).await;
    let claims = queue.claim(2).await;
    for claim in &claims {
        queue.settle_with(settlement(claim, Verdict::Ack(None))).await;
    }
    assert_eq!(progress(&queue, &batch).await, (5, 2, 0));
    assert_eq!(queue.store.seal(&tenant(), &batch.spec.id).await.unwrap(), BatchSealed::Sealed);
    assert_eq!(queue.store.seal(&tenant(), &batch.spec.id).await.unwrap(), BatchSealed::Before);
    assert_eq!(pushed(&queue, &member(&batch)).await, Pushed::Refused(NoLink::NotOpen(batch.spec.id.clone())));
    let run = run_all(&queue).await;
    assert_eq!((run.len(), run.last()), (4, Some(&batch.spec.id)));
}

async fn a_member_that_is_respawned_counts_again(queue: TestStore) {
    let batch = batch();
    let members = [member(&batch), member(&batch)];
    stored(&queue, from_ref(&batch)).await;
    stored(&queue, &members).await;
    let claims = queue.claim(2).await;
    for claim in &claims {
        queue.settle_with(settlement(claim, Verdict::Bury(failure(Reason::Rejected)))).await;
    }
    assert_eq!(progress(&queue, &batch).await, (2, 2, 2));
    assert_eq!(queue.store.respawn(&topic("mail"), &ids(&members[..1])).await.unwrap(), [true]);
    assert_eq!(progress(&queue, &batch).await, (2, 1, 1));
    queue.store.seal(&tenant(), &batch.spec.id).await.unwrap();
    assert!(is_waiting(&queue, &batch).await);
    let claim = queue.claim_one().await;
    queue.settle_with(settlement(&claim, Verdict::Ack(None))).await;
    assert_eq!(progress(&queue, &batch).await, (2, 2, 1));
    // The batch becomes dead, and so does what comes after it; with its other member it waits again.
    let claim = queue.claim_one().await;
    queue.settle_with(settlement(&claim, Verdict::Bury(failure(Reason::Predecessor)))).await;
    assert_eq!(queue.store.respawn(&topic("mail"), &ids(&members[1..])).await.unwrap(), [true]);
    assert_eq!(queue.store.respawn(&topic("mail"), &ids([&batch])).await.unwrap(), [true]);
    assert!(is_waiting(&queue, &batch).await);
    assert_eq!(run_all(&queue).await, ids([&members[1], &batch]));
}

async fn a_batch_that_is_sealed_takes_follow_ups_of_its_members_only(queue: TestStore) {
    let batch = batch();
    stored(&queue, from_ref(&batch)).await;
    stored(&queue, &[member(&batch)]).await;
    queue.store.seal(&tenant(), &batch.spec.id).await.unwrap();
    let claim = queue.claim_one().await;
    let follow_up = member(&batch);
    let ack = Settlement { follow_ups: vec![follow_up.clone()], ..settlement(&claim, Verdict::Ack(None)) };
    queue.settle_with(ack).await;
    assert_eq!(progress(&queue, &batch).await, (2, 1, 0));
    assert_eq!(run_all(&queue).await, ids([&follow_up, &batch]));
}

async fn a_member_of_a_batch_cannot_wait_for_what_waits_for_the_batch(queue: TestStore) {
    let batch = batch();
    let later = after("mail", &[&batch]);
    stored(&queue, &[batch.clone(), later.clone()]).await;
    let with = |named: &NewJob| {
        let mut job = member(&batch);
        job.spec.options.after = vec![named.spec.id.clone()];
        job
    };
    assert_eq!(pushed(&queue, &with(&later)).await, Pushed::Refused(NoLink::Tangled(later.spec.id.clone())));
    assert_eq!(pushed(&queue, &with(&batch)).await, Pushed::Refused(NoLink::Tangled(batch.spec.id.clone())));
    assert_eq!(progress(&queue, &batch).await, (0, 0, 0), "what is refused is no member");
    let first = member(&batch);
    let second = with(&first);
    let third = with(&second);
    stored(&queue, &[first.clone(), second.clone(), third.clone()]).await;
    queue.store.seal(&tenant(), &batch.spec.id).await.unwrap();
    assert_eq!(run_all(&queue).await, ids([&first, &second, &third, &batch, &later]));
}

async fn a_job_that_waits_is_cancelled_like_any_other(queue: TestStore) {
    let first = job("mail");
    let second = after("mail", &[&first]);
    let third = after("mail", &[&second]);
    stored(&queue, &[first.clone(), second.clone(), third.clone()]).await;
    assert_eq!(queue.store.cancel(&tenant(), &ids([&second])).await.unwrap(), [Cancelled::Gone]);
    assert_eq!((queue.view(&second.spec.id).await, waits_for(&queue, &second).await), (None, None));
    assert_eq!(queue.store.waiters(&tenant(), &first.spec.id).await.unwrap(), []);
    assert_eq!(waits_for(&queue, &third).await.unwrap().first_failed(), Some((&second.spec.id, Ended::Cancelled)));
    let mut run = run_all(&queue).await;
    run.sort();
    let mut expected = ids([&first, &third]);
    expected.sort();
    assert_eq!(run, expected);
    assert_eq!(queue.counts("mail").await.jobs(), 0);
}

async fn a_dead_job_that_is_gone_has_ended_for_good(queue: TestStore) {
    let batch = batch();
    stored(&queue, from_ref(&batch)).await;
    let members = [member(&batch), member(&batch)];
    stored(&queue, &members).await;
    for claim in &queue.claim(2).await {
        queue.settle_with(settlement(claim, Verdict::Bury(failure(Reason::Rejected)))).await;
    }
    assert_eq!(queue.store.delete_dead(&topic("mail"), &ids(&members[..1])).await.unwrap(), [true]);
    let limits = DeadLimits { topic: topic("mail"), keep: 0, retention: Duration::from_secs(60) };
    assert_eq!(queue.store.sweep(&[limits]).await.unwrap(), [1]);
    for gone in &members {
        assert_eq!(queue.store.waiters(&tenant(), &gone.spec.id).await.unwrap(), []);
        // Its id is free: another job by it is none of this batch.
        let mut other = job("mail");
        other.spec.id = gone.spec.id.clone();
        stored(&queue, &[other]).await;
    }
    assert_eq!(run_all(&queue).await.len(), 2);
    assert_eq!(progress(&queue, &batch).await, (2, 2, 2));
    assert!(is_waiting(&queue, &batch).await);
}

async fn a_job_that_waits_for_others_is_not_exported(queue: TestStore) {
    let first = job("mail");
    let second = after("mail", &[&first]);
    let alone = job("mail");
    stored(&queue, &[first.clone(), second.clone(), alone.clone()]).await;
    let exported = queue.store.export(&topic("mail"), 10).await.unwrap();
    assert_eq!(exported.iter().map(|stored| stored.job.spec.id.clone()).collect::<Vec<_>>(), ids([&alone]));
    let all = ids([&first, &second, &alone]);
    assert_eq!(queue.store.remove_exported(&topic("mail"), &all).await.unwrap(), [false, false, true]);
    assert_eq!(run_all(&queue).await, ids([&first, &second]));
}

async fn a_topic_whose_jobs_wait_is_not_forgotten(queue: TestStore) {
    let first = job("mail");
    stored(&queue, &[first.clone(), after("news", &[&first])]).await;
    assert!(!queue.store.forget_topic(&topic("news")).await.unwrap());
}

async fn a_push_that_is_repeated_changes_nothing(queue: TestStore) {
    let batch = batch();
    let member = member(&batch);
    stored(&queue, &[batch.clone(), member.clone()]).await;
    assert_eq!(queue.push(&[batch.clone(), member.clone()]).await, [Pushed::Exists, Pushed::Exists]);
    assert_eq!(progress(&queue, &batch).await, (1, 0, 0));
    queue.store.seal(&tenant(), &batch.spec.id).await.unwrap();
    assert_eq!(run_all(&queue).await, ids([&member, &batch]));
}

async fn what_a_job_waited_for_is_known_until_it_is_gone(queue: TestStore) {
    let first = job("mail");
    let second = after("mail", &[&first]);
    stored(&queue, &[first.clone(), second.clone()]).await;
    let claim = queue.claim_one().await;
    queue.settle_with(settlement(&claim, Verdict::Ack(None))).await;
    let claim = queue.claim_one().await;
    assert_eq!(progress(&queue, &second).await, (1, 1, 0), "while it runs");
    queue.settle_with(settlement(&claim, Verdict::Bury(failure(Reason::Rejected)))).await;
    assert_eq!(progress(&queue, &second).await, (1, 1, 0), "while it is dead");
    assert_eq!(queue.store.delete_dead(&topic("mail"), &ids([&second])).await.unwrap(), [true]);
    assert_eq!(waits_for(&queue, &second).await, None);
}

async fn a_job_with_a_key_waits_for_its_key_after_the_others(queue: TestStore) {
    let first = job("mail");
    let mut second = after("mail", &[&first]);
    second.spec.options.key = Some("k".into());
    let mut holder = job("mail");
    holder.spec.options.key = Some("k".into());
    stored(&queue, &[first.clone(), second.clone(), holder.clone()]).await;
    let claims = queue.claim(9).await;
    assert_eq!(claimed(&claims), ids([&first, &holder]));
    queue.settle_with(settlement(&claims[0], Verdict::Ack(None))).await;
    assert_eq!(queue.claim(9).await.len(), 0, "the other job of its key runs");
    queue.settle_with(Settlement::of(&claims[1], Verdict::Ack(None), Duration::ZERO)).await;
    assert_eq!(claimed(&queue.claim(9).await), ids([&second]));
}
