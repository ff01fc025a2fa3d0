//! From one store to another.

use std::time::Duration;

use super::mill::{Mill, bury, delayed, job, retry, tenant, told, topic, unique, urgent};
use crate::{Imported, Inspect, JobState, Produce, Pushed, Settlement, Signal, Store, StoredPlace, Transfer};
use gristmill_core::job::{JobId, Priority};
use gristmill_core::outcome::Verdict;

fn ids(jobs: &[crate::StoredJob]) -> Vec<JobId> {
    jobs.iter().map(|stored| stored.job.spec.id.clone()).collect()
}

#[tokio::test]
async fn jobs_go_out_in_order_and_come_in_as_they_were() {
    let (from, to) = (Mill::new().await, Mill::new().await);
    let first = from.running().await;
    from.store.checkpoint(&first.lease, b"c").await.unwrap();
    let dead = from.running().await;
    from.settle(&dead, bury()).await;
    let (low, high, later) = (urgent("mail", Priority::Low), urgent("mail", Priority::High), delayed("mail", 9));
    let (held, soon) = (unique("mail", "w", Some(50)), delayed("mail", 5));
    from.push(&[low.clone(), held.clone(), later.clone(), high.clone(), soon.clone()]).await;
    from.settle(&first, retry(0)).await;
    let running = from.claim(1).await.pop().unwrap();
    assert_eq!(running.job.spec, high.spec, "what runs stays");
    from.pass(1);

    let out = from.store.export(&topic("mail"), 99).await.unwrap();
    let order = [&held.spec.id, &first.lease.job, &low.spec.id, &soon.spec.id, &later.spec.id, &dead.lease.job];
    assert!(ids(&out).iter().eq(order));
    assert_eq!(ids(&from.store.export(&topic("mail"), 2).await.unwrap()), ids(&out[..2]));
    assert_eq!(out[0].unique_for, Some(Duration::from_millis(49)));

    to.pass(1);
    let mut signals = to.store.signals(&[tenant()]).await.unwrap();
    assert_eq!(to.store.import(&out).await.unwrap(), [Imported::Stored; 6]);
    assert_eq!(told(&mut signals), [Signal::Ready(topic("mail")), Signal::Due(tenant(), Duration::from_millis(4))]);
    assert_eq!(to.store.export(&topic("mail"), 99).await.unwrap(), out);
    assert_eq!(to.counts("mail").await.totals.get("pushed"), None);
    let holder = Pushed::Duplicate(held.spec.id.clone());
    assert_eq!(to.store.push(&[unique("mail", "w", None)]).await.unwrap(), [holder]);

    assert_eq!(from.store.remove_exported(&topic("mail"), &ids(&out)).await.unwrap(), [true; 6]);
    assert_eq!(from.store.remove_exported(&topic("mail"), std::slice::from_ref(&high.spec.id)).await.unwrap(), [false]);
    let left = from.counts("mail").await;
    assert_eq!((left.ready, left.delayed, left.running, left.dead), (0, 0, 1, 0));
    assert_eq!(from.store.poll_work(&tenant(), &[]).await.unwrap().next_due_in, None);
}

#[tokio::test]
async fn a_job_that_was_taken_in_is_known_until_its_mark_is_taken_off() {
    let (from, to) = (Mill::new().await, Mill::new().await);
    from.push(&[job("mail")]).await;
    let out = from.store.export(&topic("mail"), 1).await.unwrap();
    assert_eq!(to.store.import(&[out[0].clone(), out[0].clone()]).await.unwrap(), [Imported::Stored, Imported::Before]);
    let claim = to.claim(1).await.pop().unwrap();
    to.settle(&claim, Verdict::Ack(None)).await;
    assert_eq!(to.store.import(&out).await.unwrap(), [Imported::Before], "over, and still not doubled");
    to.store.clear_move_marks(&tenant(), &ids(&out)).await.unwrap();
    assert_eq!(to.store.import(&out).await.unwrap(), [Imported::Stored]);
}

#[tokio::test]
async fn a_value_that_another_job_holds_is_left_to_it() {
    let (from, to) = (Mill::new().await, Mill::new().await);
    from.push(&[unique("mail", "u", None)]).await;
    let there = unique("mail", "u", None);
    to.push(std::slice::from_ref(&there)).await;
    let out = from.store.export(&topic("mail"), 1).await.unwrap();
    assert_eq!(to.store.import(&out).await.unwrap(), [Imported::Stored]);
    let holder = Pushed::Duplicate(there.spec.id);
    assert_eq!(to.store.push(&[unique("mail", "u", None)]).await.unwrap(), [holder]);
    assert_eq!(from.store.remove_exported(&topic("mail"), &ids(&out)).await.unwrap(), [true]);
    assert_eq!(from.store.push(&[unique("mail", "u", None)]).await.unwrap(), [Pushed::Stored]);
}

#[tokio::test]
async fn a_job_that_became_due_on_the_way_is_migrated() {
    let (from, to) = (Mill::new().await, Mill::new().await);
    let pushed = delayed("mail", 5);
    from.push(std::slice::from_ref(&pushed)).await;
    let out = from.store.export(&topic("mail"), 1).await.unwrap();
    assert!(matches!(out[0].place, StoredPlace::Delayed { .. }));
    to.pass(50);
    to.store.import(&out).await.unwrap();
    assert_eq!(to.migrate().await, 1);
    assert_eq!(to.state(&pushed.spec).await, Some(JobState::Ready));
    let claim = to.claim(1).await.pop().unwrap();
    assert_eq!(to.store.settle(&[Settlement::new(claim.lease, Verdict::Expire)]).await.unwrap().len(), 1);
    assert_eq!(to.store.job(&tenant(), &pushed.spec.id).await.unwrap(), None);
}
