//! Tenants that stay where they live.

use std::collections::BTreeSet;
use std::time::Duration;

use gristmill_core::job::WorkerId;
use gristmill_core::outcome::Verdict;
use gristmill_store::TenantPlacements;
use gristmill_store::prelude::*;
use gristmill_store::{ClaimFrom, Placement, Pushed, Settled, Settlement, Signal};
use gristmill_store_tests::test_store::poll;
use gristmill_test_servers::wait::{SOON, until};

use super::{Pair, job, name, places, topic};

fn line(of: &str, max: usize) -> ClaimFrom {
    ClaimFrom::new(topic(of), max, Duration::from_secs(60))
}

#[tokio::test]
async fn a_batch_over_several_stores_goes_to_each_and_is_answered_in_order() {
    let Pair { home, other, several } = Pair::new().await;
    let jobs = [job("acme/mail"), job("mail"), job("acme/mail"), job("third/mail")];
    several.push(&jobs[..2]).await.unwrap();
    let pushed = several.push(&jobs).await.unwrap();
    assert_eq!(pushed, [Pushed::Exists, Pushed::Exists, Pushed::Stored, Pushed::Stored]);
    assert_eq!((places(&other, "acme/mail").await, places(&home, "mail").await), ([2, 0, 0, 0], [1, 0, 0, 0]));
    assert_eq!((places(&home, "acme/mail").await, places(&home, "third/mail").await), ([0; 4], [1, 0, 0, 0]));
    assert_eq!(several.tenants().await.unwrap(), ["acme", "default", "third"].map(name));
}

#[tokio::test]
async fn a_claim_takes_from_every_store_and_a_settle_finds_its_own() {
    let Pair { several, .. } = Pair::new().await;
    several.push(&[job("acme/mail"), job("mail")]).await.unwrap();
    let worker = WorkerId::new("w");
    let claimed = several.claim(&worker, &[line("acme/mail", 5), line("mail", 1)]).await.unwrap();
    let topics: BTreeSet<_> = claimed.claims.iter().map(|claim| claim.lease.topic.clone()).collect();
    assert_eq!(topics, BTreeSet::from([topic("acme/mail"), topic("mail")]));
    assert_eq!(claimed.drained, [topic("acme/mail")]);
    let leases: Vec<_> = claimed.claims.iter().map(|claim| claim.lease.clone()).collect();
    assert_eq!(several.extend(&leases, Duration::from_secs(90)).await.unwrap(), [true, true]);
    assert_ne!(several.lane(&leases[0]), several.lane(&leases[1]), "neither waits for the other's store");
    let settle = |lease: &gristmill_core::job::Lease| Settlement::new(lease.clone(), Verdict::Ack(None));
    let settlements: Vec<_> = leases.iter().map(settle).collect();
    assert_eq!(several.settle(&settlements).await.unwrap(), [Settled::Done; 2]);
    assert_eq!(several.settle(&settlements).await.unwrap(), [Settled::LeaseLost; 2]);
}

#[tokio::test]
async fn signals_of_every_store_are_received() {
    let Pair { several, .. } = Pair::new().await;
    let mut signals = several.signals(&[name("acme"), name("default")]).await.unwrap();
    several.push(&[job("acme/mail"), job("mail")]).await.unwrap();
    let mut heard = BTreeSet::new();
    while heard.len() < 2 {
        if let Signal::Ready(topic) = tokio::time::timeout(SOON, signals.recv()).await.unwrap().unwrap() {
            heard.insert(topic);
        }
    }
    assert_eq!(heard, BTreeSet::from([topic("acme/mail"), topic("mail")]));
}

#[tokio::test]
async fn the_manifests_placement_of_a_tenant_is_stored_once() {
    let Pair { home, several, .. } = Pair::new().await;
    several.write_placements().await.unwrap();
    several.write_placements().await.unwrap();
    let expected = Placement { store: name("other"), from: None, formerly: vec![name("home")], generation: 1 };
    assert_eq!(home.placements().await.unwrap().into_iter().collect::<Vec<_>>(), [(name("acme"), expected)]);
}

#[tokio::test]
async fn tenants_without_jobs_are_listed_where_they_are_placed() {
    let Pair { several, .. } = Pair::new().await;
    let listed = async || {
        let placements = several.placements().await.unwrap();
        placements.into_iter().map(|placement| (placement.tenant, placement.store)).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, [(name("acme"), name("other"))], "before a record is written");
    several.move_tenant(&name("new"), &name("other")).await.unwrap();
    assert_eq!(listed().await, [(name("acme"), name("other")), (name("new"), name("other"))]);
    several.push(&[job("mail")]).await.unwrap();
    assert_eq!(listed().await.len(), 3);
}

#[tokio::test]
async fn jobs_in_the_store_named_before_are_found_and_run() {
    let Pair { home, several, .. } = Pair::new().await;
    let early = job("acme/mail");
    home.push(std::slice::from_ref(&early)).await.unwrap();
    assert!(several.job(&name("acme"), &early.spec.id).await.unwrap().is_some());
    assert_eq!(poll(&several, &name("acme")).await.ready, [topic("acme/mail")]);
    let claimed = several.claim(&WorkerId::new("w"), &[line("acme/mail", 5)]).await.unwrap();
    assert_eq!(claimed.claims[0].lease.job, early.spec.id);
    let ack = Settlement::new(claimed.claims[0].lease.clone(), Verdict::Ack(None));
    assert_eq!(several.settle(&[ack]).await.unwrap(), [Settled::Done]);
    assert_eq!(places(&home, "acme/mail").await, [0; 4]);
}

#[tokio::test]
async fn a_second_record_of_one_generation_is_refused() {
    let Pair { home, several, .. } = Pair::new().await;
    several.write_placements().await.unwrap();
    let record = home.placements().await.unwrap().remove(&name("acme")).unwrap();
    let (there, back) = (record.moving_to(&name("home")), record.moving_to(&name("third")));
    assert!(home.write_placement(&name("acme"), &there).await.unwrap());
    assert!(!home.write_placement(&name("acme"), &back).await.unwrap());
    assert!(!home.write_placement(&name("acme"), &record).await.unwrap());
    until("the node to learn of it", SOON, async || {
        (several.placement(&name("acme")).await.unwrap().store == name("home")).then_some(())
    })
    .await;
}
