//! A tenant that moves, seen from the stores.

use std::time::Duration;

use gristmill_core::job::{Claim, Due, JobId, JobSpec, NewJob, Unique, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};
use gristmill_metrics::as_actor;
use gristmill_store::TenantPlacements;
use gristmill_store::prelude::*;
use gristmill_store::sharded::ShardedStore;
use gristmill_store::{Cancelled, ClaimFrom, JobState, Pushed, ResultView, Settled, Settlement, StoreError};
use gristmill_store_tests::test_store::{part, poll};
use gristmill_test_servers::wait::{SOON, until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Pair, job, join, name, places, topic};

/// Somebody who carries jobs, until it is dropped.
fn driver(several: &ShardedStore) -> AbortOnDropHandle<()> {
    let driver = WorkerId::new(&format!("driver-{}", fastrand::u64(..)));
    AbortOnDropHandle::new(tokio::spawn(several.clone().migrate_tenants(driver, CancellationToken::new())))
}

/// Moves `acme` home.
async fn begin(several: &ShardedStore) {
    several.move_tenant(&name("acme"), &name("home")).await.unwrap();
}

async fn until_moved(several: &ShardedStore) {
    until("the move to end", 4 * SOON, async || {
        several.placement(&name("acme")).await.unwrap().from.is_none().then_some(())
    })
    .await;
}

async fn claim(several: &ShardedStore) -> Vec<Claim> {
    poll(several, &name("acme")).await;
    let line = ClaimFrom::new(topic("acme/mail"), 9, Duration::from_secs(600));
    several.claim(&WorkerId::new("w"), &[line]).await.unwrap().claims
}

async fn settle(several: &ShardedStore, claim: &Claim, verdict: Verdict) -> Settled {
    let settlement =
        Settlement { keep_result: Duration::from_secs(600), ..Settlement::new(claim.lease.clone(), verdict) };
    several.settle(&[settlement]).await.unwrap()[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_carries_waiting_and_dead_jobs_while_new_pushes_go_to_the_new_store() {
    let Pair { home, other, several } = Pair::new().await;
    let [dead, ready, delayed] =
        [job("acme/mail"), job("acme/mail"), NewJob { due: Due::After(Duration::from_secs(3600)), ..job("acme/mail") }];
    several.push(std::slice::from_ref(&dead)).await.unwrap();
    let failure = Failure::new(Reason::Failed, FailureDetail::default());
    settle(&several, &claim(&several).await[0], Verdict::Bury(failure)).await;
    several.push(&[ready.clone(), delayed.clone()]).await.unwrap();
    begin(&several).await;
    several.push(&[job("acme/mail")]).await.unwrap();
    assert_eq!((places(&home, "acme/mail").await, places(&other, "acme/mail").await), ([1, 0, 0, 0], [1, 1, 0, 1]));
    assert_eq!(places(&several, "acme/mail").await, [2, 1, 0, 1], "everybody sees both");

    let _driver = driver(&several);
    until_moved(&several).await;
    assert_eq!((places(&home, "acme/mail").await, places(&other, "acme/mail").await), ([2, 1, 0, 1], [0; 4]));
    for moved in [dead, ready, delayed] {
        assert!(home.job(&name("acme"), &moved.spec.id).await.unwrap().is_some());
    }
    assert_eq!(claim(&several).await.len(), 2, "they are handed out there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_settled_where_it_was_claimed_and_its_result_is_found() {
    let Pair { other, several, .. } = Pair::new().await;
    several.push(&[job("acme/mail"), job("acme/mail")]).await.unwrap();
    let claims = claim(&several).await;
    begin(&several).await;
    let _driver = driver(&several);
    let leases: Vec<_> = claims.iter().map(|claim| claim.lease.clone()).collect();
    assert_eq!(several.extend(&leases, Duration::from_secs(700)).await.unwrap(), [true, true]);
    assert!(several.checkpoint(&leases[0], b"half").await.unwrap());
    assert_eq!(settle(&several, &claims[0], Verdict::Ack(None)).await, Settled::Done);
    // It comes back where it ran, and follows.
    assert_eq!(settle(&several, &claims[1], Verdict::Release(Duration::ZERO)).await, Settled::Done);
    until_moved(&several).await;
    assert_eq!(places(&other, "acme/mail").await, [0; 4]);
    let view = several.job(&name("acme"), &leases[0].job).await.unwrap().unwrap();
    assert_eq!((view.state, view.result), (JobState::Finished, Some(ResultView::Complete(None))));
    assert_eq!(claim(&several).await[0].lease.job, leases[1].job);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_promised_for_jobs_that_are_over_is_still_known_after_a_move() {
    let Pair { home, several, .. } = Pair::new().await;
    let (mut once, first) = (job("acme/mail"), job("acme/mail"));
    once.spec.options.unique = Some(Unique { value: "order-17".into(), window: Some(Duration::from_secs(3600)) });
    several.push(std::slice::from_ref(&once)).await.unwrap();
    settle(&several, &claim(&several).await[0], Verdict::Ack(None)).await;
    // Linked jobs stay in the old store.
    let mut second = job("acme/mail");
    second.spec.options.after = vec![first.spec.id.clone()];
    several.push(&[first.clone(), second]).await.unwrap();
    begin(&several).await;
    let _driver = driver(&several);
    until("the value to move", 4 * SOON, async || {
        home.unique_holder(&topic("acme/mail"), "order-17").await.unwrap().filter(|holder| *holder == once.spec.id)
    })
    .await;
    let again = NewJob { spec: JobSpec { id: JobId::generate(), ..once.spec.clone() }, ..once.clone() };
    assert_eq!(several.push(&[again]).await.unwrap(), [Pushed::Duplicate(once.spec.id.clone())]);
    // Whoever moves all of them on to another store has to learn of what is in the one before.
    let results = several.jobs_with_result(&name("acme")).await.unwrap();
    assert_eq!(results, [once.spec.id.clone()]);
    assert_eq!(several.export_results(&name("acme"), &results).await.unwrap().len(), 1);
    assert!(several.has_links(&name("acme")).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_has_not_moved_yet_exists_and_a_cancelled_job_is_gone() {
    let Pair { several, .. } = Pair::new().await;
    let [first, second] = [job("acme/mail"), job("acme/mail")];
    several.push(&[first.clone(), second.clone()]).await.unwrap();
    begin(&several).await;
    let again = several.push(&[first.clone(), job("acme/mail"), job("mail")]).await.unwrap();
    assert_eq!(again, [Pushed::Exists, Pushed::Stored, Pushed::Stored]);
    let ids = [second.spec.id.clone(), "unknown".parse().unwrap()];
    assert_eq!(several.cancel(&name("acme"), &ids).await.unwrap(), [Cancelled::Gone, Cancelled::TooLate]);
    let _driver = driver(&several);
    until_moved(&several).await;
    assert_eq!(places(&several, "acme/mail").await, [2, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_a_late_server_pushes_to_the_old_store_are_found() {
    let Pair { home, other, several } = Pair::new().await;
    begin(&several).await;
    let _driver = driver(&several);
    until_moved(&several).await;
    let late = job("acme/mail");
    other.push(std::slice::from_ref(&late)).await.unwrap();
    until("the job to follow", 4 * SOON, async || home.job(&name("acme"), &late.spec.id).await.unwrap()).await;
    // It is in both for as long as it takes to let go of it.
    until("nothing to be left", SOON, async || (places(&other, "acme/mail").await == [0; 4]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_keeps_an_operators_pause_and_drops_its_own() {
    let Pair { other, several, .. } = Pair::new().await;
    several.push(&[job("acme/mail"), job("acme/held")]).await.unwrap();
    as_actor("alice".into(), several.set_paused(&topic("acme/held"), true)).await.unwrap();
    let paused = async || {
        let counts = several.counts(&name("acme")).await.unwrap().into_iter().filter(|counts| counts.paused);
        counts.map(|counts| (counts.topic, counts.pause.and_then(|pause| pause.by))).collect::<Vec<_>>()
    };
    begin(&several).await;
    let _driver = driver(&several);
    until_moved(&several).await;
    assert_eq!(paused().await, [(topic("acme/held"), Some("alice".into()))]);
    let left = super::counts(&other, "acme/mail").await.unwrap();
    assert_eq!(left.pause.unwrap().by.unwrap(), "the move of its tenant to store home");
    // And back, where everything was paused for the sake of the move.
    several.set_paused(&topic("acme/held"), false).await.unwrap();
    // Refused while the driver is in the midst of something for too long.
    until("a turn", SOON, async || several.move_tenant(&name("acme"), &name("other")).await.ok()).await;
    until_moved(&several).await;
    assert!(paused().await.is_empty());
    assert_eq!(claim(&several).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_is_stopped_anywhere_is_succeeded_by_another() {
    const JOBS: usize = 3000;
    let Pair { home, other, several } = Pair::new().await;
    let jobs: Vec<NewJob> = (0..JOBS).map(|_| job("acme/mail")).collect();
    several.push(&jobs).await.unwrap();
    begin(&several).await;
    let mut seen = 0;
    for _ in 0..4 {
        let driver = driver(&several);
        // The one before said that it would carry for a while yet.
        until("some to be moved", 4 * SOON, async || {
            let [moved, ..] = places(&home, "acme/mail").await;
            (moved > seen || moved == JOBS as u64).then(|| seen = moved)
        })
        .await;
        drop(driver);
    }
    let _driver = driver(&several);
    until_moved(&several).await;
    assert_eq!((places(&home, "acme/mail").await, places(&other, "acme/mail").await), ([JOBS as u64, 0, 0, 0], [0; 4]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_id_is_taken_in_the_new_store_waits_for_its_end() {
    let Pair { home, other, several } = Pair::new().await;
    let twin = job("acme/mail");
    other.push(std::slice::from_ref(&twin)).await.unwrap();
    home.push(std::slice::from_ref(&twin)).await.unwrap();
    begin(&several).await;
    let _driver = driver(&several);
    until("the topic to be carried", 4 * SOON, async || {
        let counts = super::counts(&other, "acme/mail").await?;
        counts.paused.then_some(())
    })
    .await;
    let claims = claim(&several).await;
    assert_eq!(claims.len(), 1);
    assert_eq!(settle(&several, &claims[0], Verdict::Ack(None)).await, Settled::Done);
    until_moved(&several).await;
    assert_eq!(places(&home, "acme/mail").await, [1, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_cannot_be_made_is_refused_with_the_reason() {
    let Pair { home, several, .. } = Pair::new().await;
    let refusal = |error: StoreError| format!("{:#}", anyhow::Error::from(error));
    let unknown = refusal(several.move_tenant(&name("acme"), &name("nowhere")).await.unwrap_err());
    assert!(unknown.contains("no store `nowhere`") && unknown.contains("home, other"), "{unknown}");
    several.move_tenant(&name("acme"), &name("other")).await.unwrap();
    assert!(several.placement(&name("acme")).await.unwrap().from.is_none(), "it lives there");
    // One store by two names.
    let same = join(&home, part("mirror", &home)).await;
    same.push(&[job("acme/mail")]).await.unwrap();
    let twice = refusal(same.move_tenant(&name("acme"), &name("home")).await.unwrap_err());
    assert!(twice.contains("one store by two addresses"), "{twice}");
    assert_eq!(places(&home, "acme/mail").await, [1, 0, 0, 0]);
}
