//! Results: what became of a job is kept for the time that its settlement names.

use std::time::Duration;

use gristmill_core::job::{Claim, Payload, Unique};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_store::{JobState, ResultView, Settlement};
use gristmill_store_tests::test_store::{TestStore, failure, job, retry, settlement, tenant, topic};
use gristmill_test_servers::wait::{SOON, until};

super::cases![
    a_result_is_kept_whole,
    a_result_of_nothing_is_a_result_too,
    a_result_is_gone_when_its_time_is_over,
    a_result_is_kept_only_if_it_was_asked_for,
    the_end_of_a_dead_job_is_kept_beside_the_job,
    the_result_of_a_dead_job_outlives_its_deletion,
    a_respawned_job_has_no_result,
    a_job_with_the_id_of_an_earlier_one_has_not_its_result,
    an_attempt_that_is_not_the_last_leaves_no_result,
    a_finished_job_shows_its_attempts,
    results_are_listed_and_forgotten,
];

const KEEP: Duration = Duration::from_secs(3600);

fn kept(claim: &Claim, verdict: Verdict) -> Settlement {
    Settlement { keep_result: KEEP, ..settlement(claim, verdict) }
}

async fn a_result_is_kept_whole(queue: TestStore) {
    let claim = queue.running().await;
    let payload = Payload { data: (0..=255).collect(), content_type: Some("text/plain".into()) };
    queue.settle_with(kept(&claim, Verdict::Ack(Some(payload.clone())))).await;
    let view = queue.view(&claim.lease.job).await.unwrap();
    assert_eq!((view.id, view.state, view.job), (claim.lease.job, JobState::Finished, None));
    assert_eq!(view.result, Some(ResultView::Complete(Some(payload))));
}

async fn a_result_of_nothing_is_a_result_too(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle_with(kept(&claim, Verdict::Ack(None))).await;
    assert_eq!(queue.view(&claim.lease.job).await.unwrap().result, Some(ResultView::Complete(None)));
}

async fn a_result_is_gone_when_its_time_is_over(queue: TestStore) {
    let claim = queue.running().await;
    let brief = Settlement { keep_result: Duration::from_millis(40), ..settlement(&claim, Verdict::Ack(None)) };
    queue.settle_with(brief).await;
    // Some stores' results go by the server's own clock, which no test can turn: hence both times pass.
    queue.pass(40);
    until("the result to be gone", SOON, async || queue.view(&claim.lease.job).await.is_none().then_some(())).await;
}

async fn a_result_is_kept_only_if_it_was_asked_for(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, Verdict::Ack(Some(Payload::default()))).await;
    assert_eq!(queue.view(&claim.lease.job).await, None);
}

async fn the_end_of_a_dead_job_is_kept_beside_the_job(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle_with(kept(&claim, Verdict::Bury(failure(Reason::Trap)))).await;
    let view = queue.view(&claim.lease.job).await.unwrap();
    assert_eq!((view.state, view.attempts), (JobState::Dead { since: queue.now() }, 1));
    assert_eq!(view.result, Some(ResultView::Dead(failure(Reason::Trap))));
    assert_eq!((view.job.unwrap().spec, view.last_failure), (claim.job.spec.clone(), Some(failure(Reason::Trap))));
}

async fn the_result_of_a_dead_job_outlives_its_deletion(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle_with(kept(&claim, Verdict::Bury(failure(Reason::Trap)))).await;
    queue.store.delete_dead(&topic("mail"), std::slice::from_ref(&claim.lease.job)).await.unwrap();
    let view = queue.view(&claim.lease.job).await.unwrap();
    assert_eq!((view.state, view.job), (JobState::Finished, None));
    assert_eq!(view.result, Some(ResultView::Dead(failure(Reason::Trap))));
}

async fn a_respawned_job_has_no_result(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle_with(kept(&claim, Verdict::Bury(failure(Reason::Trap)))).await;
    queue.store.respawn(&topic("mail"), std::slice::from_ref(&claim.lease.job)).await.unwrap();
    assert_eq!(queue.view(&claim.lease.job).await.unwrap().result, None);
    let again = queue.claim_one().await;
    queue.settle(&again, Verdict::Ack(None)).await;
    assert_eq!(queue.view(&claim.lease.job).await, None);
}

async fn a_job_with_the_id_of_an_earlier_one_has_not_its_result(queue: TestStore) {
    let with = |id: &str, unique: &str| {
        let mut job = job("mail");
        job.spec.id = id.parse().unwrap();
        job.spec.options.unique = (!unique.is_empty()).then(|| Unique { value: unique.into(), window: None });
        job
    };
    for id in ["plain", "unique"] {
        queue.push(&[with(id, "")]).await;
        let claim = queue.claim_one().await;
        queue.settle_with(kept(&claim, Verdict::Ack(None))).await;
    }
    queue.push(&[with("holder", "v")]).await;
    // A job that is refused leaves the earlier one its result.
    queue.push(&[with("plain", "v"), job("mail")]).await;
    assert_eq!(queue.view(&"plain".parse().unwrap()).await.unwrap().result, Some(ResultView::Complete(None)));
    queue.push(&[with("plain", "")]).await;
    queue.push(&[job("mail"), with("unique", "w")]).await;
    for id in ["plain", "unique"] {
        let view = queue.view(&id.parse().unwrap()).await.unwrap();
        assert_eq!((view.state, view.result), (JobState::Ready, None), "{id}");
    }
}

async fn an_attempt_that_is_not_the_last_leaves_no_result(queue: TestStore) {
    queue.push(&[job("mail")]).await;
    for verdict in [retry(0), Verdict::Snooze(Duration::ZERO), Verdict::Release(Duration::ZERO)] {
        let claim = queue.claim_one().await;
        queue.settle_with(kept(&claim, verdict)).await;
        assert_eq!(queue.view(&claim.lease.job).await.unwrap().result, None);
    }
}

async fn a_finished_job_shows_its_attempts(queue: TestStore) {
    let claim = queue.running().await;
    queue.settle(&claim, retry(0)).await;
    let claim = queue.claim_one().await;
    queue.settle_with(kept(&claim, Verdict::Ack(None))).await;
    assert_eq!(queue.view(&claim.lease.job).await.unwrap().attempts, 2);
}

async fn results_are_listed_and_forgotten(queue: TestStore) {
    let (mut all, body) = (Vec::new(), Payload { data: b"Ann".to_vec(), content_type: None });
    for _ in 0..5 {
        let claim = queue.running().await;
        queue.settle_with(kept(&claim, Verdict::Ack(Some(body.clone())))).await;
        all.push(claim.lease.job);
    }
    all.sort();
    let (mut seen, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = queue.store.results(&tenant(), after.as_deref(), 2).await.unwrap();
        assert!(page.jobs.len() <= 2);
        for view in page.jobs {
            assert_eq!((view.state, view.result), (JobState::Finished, Some(ResultView::Complete(Some(body.clone())))));
            seen.push(view.id);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, all);
    let unknown = job("mail").spec.id;
    let ids = [all[1].clone(), unknown, all[3].clone()];
    assert_eq!(queue.store.forget_results(&tenant(), &ids).await.unwrap(), [true, false, true]);
    assert_eq!(queue.view(&all[1]).await, None);
    assert!(queue.view(&all[0]).await.is_some());
}
