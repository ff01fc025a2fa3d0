//! From one store to another, and what an interrupted move leaves behind.

use std::time::Duration;

use super::mill::{Mill, delayed, failure, job, retry, tenant, topic, unique, worker};
use crate::{Imported, Inspect, Produce, Pushed, Settled, Settlement, Store, StoredJob, StoredPlace, Transfer};
use gristmill_core::job::{JobId, Name, Priority, Unique};
use gristmill_core::outcome::{Reason, Verdict};

async fn exported(mill: &Mill) -> Vec<StoredJob> {
    mill.store.export(&topic("mail"), 100).await.unwrap()
}

fn ids(jobs: &[StoredJob]) -> Vec<JobId> {
    jobs.iter().map(|stored| stored.job.spec.id.clone()).collect()
}

/// A store with jobs in every place and with everything that a store can know about one.
async fn full() -> Mill {
    let mill = Mill::new().await;
    let mut dead = unique("mail", "dead");
    dead.spec.keep_result = Some(Duration::from_secs(9));
    mill.push(&[dead, job("mail"), job("mail")]).await;
    let claims = mill.claim(2).await;
    mill.settle_with(Settlement::of(&claims[0], Verdict::Bury(failure(Reason::Trap)), Duration::ZERO)).await;
    mill.store.checkpoint(&claims[1].lease, b"step").await.unwrap();
    mill.settle(&claims[1], retry(70)).await;
    let (mut high, mut low, mut window) = (unique("mail", "u"), job("mail"), delayed("mail", 50));
    high.spec.priority = Priority::High;
    low.spec.priority = Priority::Low;
    low.spec.metadata = vec![("a".into(), "b".into())];
    window.spec.unique = Some(Unique { value: "w".into(), window: Some(Duration::from_millis(100)) });
    mill.push(&[low, job("mail"), high, window, job("other")]).await;
    mill.pass(10);
    mill
}

#[tokio::test]
async fn jobs_go_out_in_the_order_in_which_they_would_run() {
    let mill = full().await;
    let jobs = exported(&mill).await;
    let now = mill.now();
    let seen: Vec<_> = jobs.iter().map(|stored| (stored.job.spec.priority, stored.place)).collect();
    let delayed = |ms| StoredPlace::Delayed { until: now.plus(Duration::from_millis(ms)) };
    let since = gristmill_core::time::Timestamp::from_millis(now.as_millis() - 10);
    assert_eq!(
        seen,
        [
            (Priority::High, StoredPlace::Ready),
            (Priority::Normal, StoredPlace::Ready),
            (Priority::Normal, StoredPlace::Ready),
            (Priority::Low, StoredPlace::Ready),
            (Priority::Normal, delayed(40)),
            (Priority::Normal, delayed(60)),
            (Priority::Normal, StoredPlace::Dead { since }),
        ]
    );
    assert_eq!(jobs[4].unique_for, Some(Duration::from_millis(90)));
    assert_eq!((jobs[5].attempts, jobs[5].deliveries, jobs[5].checkpoint.as_deref()), (1, 1, Some(&b"step"[..])));
    assert_eq!(jobs[6].last_failure, Some(failure(Reason::Trap)));
    assert_eq!(mill.store.export(&topic("mail"), 2).await.unwrap(), jobs[..2]);
}

#[tokio::test]
async fn a_move_keeps_order_and_every_field() {
    let (from, to) = (full().await, Mill::new().await);
    to.pass(10);
    let jobs = exported(&from).await;
    assert_eq!(to.store.import(&jobs).await.unwrap(), [Imported::Stored; 7]);
    assert_eq!(from.store.remove_exported(&topic("mail"), &ids(&jobs)).await.unwrap(), [true; 7]);
    assert_eq!(from.store.remove_exported(&topic("mail"), &ids(&jobs)).await.unwrap(), [false; 7]);
    assert_eq!(exported(&to).await, jobs);

    let left = from.counts("mail").await;
    assert_eq!((left.ready, left.delayed, left.dead), (0, 0, 0));
    assert!(!left.totals.contains_key("cancelled"));
    assert_eq!(
        from.store.push(&[unique("mail", "u"), unique("mail", "w")]).await.unwrap(),
        [Pushed::Stored, Pushed::Stored]
    );
    assert_eq!(from.store.poll_work(&tenant(), &[]).await.unwrap().next_due_in, None);
    let arrived = to.counts("mail").await;
    assert_eq!((arrived.ready, arrived.delayed, arrived.dead, arrived.totals.len()), (4, 2, 1, 0));
    let pushed = to.store.push(&[unique("mail", "u"), unique("mail", "w"), unique("mail", "dead")]).await.unwrap();
    let holder = |n: usize| Pushed::Duplicate(jobs[n].job.spec.id.clone());
    assert_eq!(pushed, [holder(0), holder(4), Pushed::Stored]);
    assert_eq!(to.store.respawn(&topic("mail"), &ids(&jobs[6..])).await.unwrap(), [false], "another holds its value");
    to.pass(60);
    assert_eq!(to.migrate().await, 2);
    let claims = to.claim(7).await;
    assert_eq!(claims.len(), 7);
    let again = claims.iter().find(|claim| claim.lease.job == jobs[5].job.spec.id).unwrap();
    assert_eq!((again.attempt, again.lease.delivery, again.checkpoint.as_deref()), (2, 2, Some(&b"step"[..])));
}

#[tokio::test]
async fn a_repeated_move_doubles_nothing_even_if_the_job_is_over() {
    let (from, to) = (Mill::new().await, Mill::new().await);
    from.push(&[job("mail"), job("mail")]).await;
    let jobs = exported(&from).await;
    to.store.import(&jobs[..1]).await.unwrap();
    let claim = to.claim(1).await.pop().unwrap();
    assert_eq!(to.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    // Interrupted here, and begun again.
    let jobs = exported(&from).await;
    assert_eq!(to.store.import(&jobs).await.unwrap(), [Imported::Before, Imported::Stored]);
    from.store.remove_exported(&topic("mail"), &ids(&jobs)).await.unwrap();
    to.store.clear_move_marks(&tenant(), &ids(&jobs)).await.unwrap();
    assert_eq!((exported(&from).await.len(), to.claim(9).await.len()), (0, 1));
    let marks = to.raw(redis::cmd("EXISTS").arg(to.store.keys(&tenant()).moved())).await;
    assert_eq!(marks, redis::Value::Int(0));
}

#[tokio::test]
async fn what_is_taken_is_left_to_whoever_has_it() {
    let (from, to) = (Mill::new().await, Mill::new().await);
    let (same, other) = (job("mail"), unique("mail", "u"));
    from.push(&[same.clone(), other.clone()]).await;
    let holder = unique("mail", "u");
    to.push(&[same, holder.clone()]).await;
    assert_eq!(to.store.import(&exported(&from).await).await.unwrap(), [Imported::IdTaken, Imported::Stored]);
    assert_eq!(to.store.push(&[unique("mail", "u")]).await.unwrap(), [Pushed::Duplicate(holder.spec.id)]);
    assert_eq!(to.counts("mail").await.ready, 3);
}

#[tokio::test]
async fn running_jobs_stay_and_raw_elements_come_along() {
    let mill = Mill::new().await;
    let running = mill.running().await;
    let mail: Name = "mail".parse().unwrap();
    let keys = mill.store.keys(&tenant());
    mill.raw(redis::cmd("LPUSH").arg(keys.ready(Priority::Normal, &mail)).arg("one").arg("two")).await;
    mill.raw(redis::cmd("ZADD").arg(keys.delayed(&mail)).arg(mill.now().as_millis() + 5).arg("later")).await;
    let jobs = exported(&mill).await;
    let payloads: Vec<&[u8]> = jobs.iter().map(|stored| stored.job.spec.body.data.as_slice()).collect();
    assert_eq!(payloads, [&b"one"[..], b"two", b"later"]);
    assert_eq!(mill.total("adopted").await, 3);
    assert_eq!(
        mill.store.remove_exported(&topic("mail"), std::slice::from_ref(&running.lease.job)).await.unwrap(),
        [false]
    );
    assert_eq!(mill.claim_as(&worker(), "mail", 9).await.claims.len(), 2, "they are jobs now");
}

#[tokio::test]
async fn every_tenant_is_found() {
    let mill = Mill::new().await;
    assert!(mill.store.tenants().await.unwrap().is_empty());
    let mut other = job("mail");
    other.spec.topic.tenant = "a".parse().unwrap();
    mill.push(&[job("mail"), other]).await;
    let names: Vec<String> = mill.store.tenants().await.unwrap().into_iter().map(String::from).collect();
    assert_eq!(names, ["a", "acme"]);
}
