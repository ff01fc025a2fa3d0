//! Keys of a wrong type, which another program wrote: they stop only the topic or the tenant that they belong to.

use redis::{Value, cmd};

use super::server::TestRedis;
use crate::prelude::*;
use crate::redis::key_names::Keys;
use crate::tests::{DEAD_AFTER, LEASE, job, tenant, topic, unique, worker};
use crate::{Cancelled, ClaimFrom, Claimed, PollTenant, Pushed, Settled, Settlement, StoreError};
use gristmill_core::job::{JobSpec, NewJob, Priority, TopicId};
use gristmill_core::outcome::Verdict;

/// Makes a key a SET, whatever it was.
async fn damage(store: &TestRedis, key: String) {
    store.raw(cmd("DEL").arg(&key)).await;
    assert_eq!(store.raw(cmd("SADD").arg(&key).arg("x")).await, Value::Int(1));
}

async fn claim(store: &TestRedis, topics: &[&TopicId]) -> Claimed {
    let lines = topics.iter().map(|topic| ClaimFrom::new(TopicId::clone(topic), 10, LEASE));
    store.store.claim(&worker(), &lines.collect::<Vec<_>>()).await.unwrap()
}

fn other_tenants() -> NewJob {
    let spec = JobSpec { topic: "globex/mail".parse().unwrap(), ..job("mail").spec };
    NewJob { spec, ..job("mail") }
}

#[tokio::test]
async fn a_ready_list_of_the_wrong_type_stops_no_other_topic() {
    for priority in Priority::ALL {
        let store = TestRedis::new().await;
        store.push(&[job("audit"), job("mail"), other_tenants()]).await;
        // Only with more than one priority in use does a claim look at all three Lists.
        store.push(&[crate::tests::with("audit", |spec| spec.options.priority = Priority::High)]).await;
        damage(&store, store.store.first().keys(&tenant()).ready(priority, &topic("damaged").topic)).await;
        let other = other_tenants().spec.topic;
        let claimed = claim(&store, &[&topic("audit"), &topic("damaged"), &topic("mail"), &other]).await;
        let mut topics: Vec<_> = claimed.claims.iter().map(|claim| claim.lease.topic.to_string()).collect();
        topics.sort();
        assert_eq!(topics, ["acme/audit", "acme/audit", "acme/mail", "globex/mail"]);
        assert!(!claimed.drained.contains(&topic("damaged")));
        let [(refused, error)] = claimed.refused.as_slice() else { panic!("{:?}", claimed.refused) };
        assert_eq!(*refused, topic("damaged"));
        let key = store.store.first().keys(&tenant()).ready(priority, &topic("damaged").topic);
        let error = format!("{error:?}");
        assert!(error.contains("WRONGTYPE") && error.contains(&format!("the key {key} is a set")), "{error}");
        for claim in &claimed.claims {
            assert_eq!(store.settle(claim, Verdict::Ack(None)).await, crate::Settled::Done);
        }
    }
}

#[tokio::test]
async fn a_damaged_tenant_stops_no_other() {
    let store = TestRedis::new().await;
    store.push(&[job("mail"), other_tenants()]).await;
    damage(&store, store.store.first().keys(&tenant()).jobs()).await;
    let other = other_tenants().spec.topic;
    let claimed = claim(&store, &[&topic("mail"), &topic("audit"), &other]).await;
    assert_eq!(claimed.claims.iter().map(|claim| &claim.lease.topic).collect::<Vec<_>>(), [&other]);
    let refused: Vec<_> = claimed.refused.iter().map(|(topic, _)| topic.clone()).collect();
    assert_eq!(refused, [topic("mail"), topic("audit")]);
}

#[tokio::test]
async fn other_damaged_keys_of_a_topic_do_not_stop_its_ready_jobs() {
    let store = TestRedis::new().await;
    let keys = store.store.first().keys(&tenant());
    let mail = topic("mail").topic;
    for key in [keys.delayed(&mail), keys.dead(&mail), keys.strays(&mail)] {
        let first = store.running().await;
        store.settle(&first, Verdict::Release(std::time::Duration::ZERO)).await;
        damage(&store, key).await;
        let claimed = store.claim_as(&worker(), "mail", 10).await;
        assert_eq!(claimed.claims.len(), 1);
        assert_eq!(store.settle(&claimed.claims[0], Verdict::Ack(None)).await, crate::Settled::Done);
    }
}

/// Has an operation refused while the ready List of the topic `damaged` is of a wrong type. Then the operation finds everything as before.
async fn refused<T: std::fmt::Debug>(store: &TestRedis, operation: impl AsyncFn() -> Result<T, StoreError>) -> T {
    let ready = store.store.first().keys(&tenant()).ready(Priority::Normal, &topic("damaged").topic);
    damage(store, ready.clone()).await;
    let error = operation().await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    store.raw(cmd("DEL").arg(ready)).await;
    operation().await.unwrap()
}

#[tokio::test]
async fn what_would_put_a_job_into_a_list_of_the_wrong_type_changes_nothing() {
    let store = TestRedis::new().await;
    let two = [job("mail"), job("damaged")];
    assert_eq!(refused(&store, || store.store.push(&two)).await, [Pushed::Stored, Pushed::Stored]);
    let two = [job("mail"), unique("damaged", "u", None)];
    assert_eq!(refused(&store, || store.store.push(&two)).await, [Pushed::Stored, Pushed::Stored]);
    let lease = store.claim(1).await.pop().unwrap().lease;
    let ack = Settlement { follow_ups: vec![job("damaged")], ..Settlement::new(lease, Verdict::Ack(None)) };
    assert_eq!(refused(&store, || store.store.settle(std::slice::from_ref(&ack))).await, [Settled::Done]);
    let claimed = claim(&store, &[&topic("mail"), &topic("damaged")]).await;
    assert_eq!(claimed.claims.len(), 2, "the other one of the second push, and the follow-up job");
}

#[tokio::test]
async fn a_damaged_tenant_fails_only_its_own_part_of_a_poll() {
    let keys: [fn(&Keys) -> String; 3] = [Keys::active, Keys::cancelled, Keys::due];
    for key in keys {
        let store = TestRedis::new().await;
        let cancelled = store.running().await.lease.job;
        store.push(&[job("mail"), other_tenants()]).await;
        assert_eq!(
            store.store.cancel(&tenant(), std::slice::from_ref(&cancelled)).await.unwrap(),
            [Cancelled::Stopping]
        );
        // Two of them are SETs.
        store.raw(cmd("SET").arg(key(&store.store.first().keys(&tenant()))).arg("x")).await;
        let other = other_tenants().spec.topic;
        let polls = [tenant(), other.tenant.clone()].map(|tenant| PollTenant { tenant, raw: Vec::new() });
        let polled = store.store.poll_work(&polls).await.unwrap();
        let [Err(error), Ok(pending)] = polled.as_slice() else { panic!("{polled:?}") };
        let named = format!("the key {} is a", key(&store.store.first().keys(&tenant())));
        assert!(format!("{error:?}").contains(&named), "{error:?}");
        assert_eq!((&pending.ready, &pending.cancelled), (&vec![other], &Default::default()));
    }
}

#[tokio::test]
async fn a_damaged_tenant_stops_no_reaping_of_others() {
    let keys: [fn(&Keys) -> String; 2] = [Keys::leases, Keys::extended];
    for key in keys {
        let store = TestRedis::new().await;
        store.push(&[job("mail"), other_tenants()]).await;
        let other = other_tenants().spec.topic;
        let claims = claim(&store, &[&topic("mail"), &other]).await.claims;
        let of_other = claims.into_iter().find(|claim| claim.lease.topic == other).unwrap();
        // So that its lease stands by itself.
        assert_eq!(store.store.extend(&[of_other.lease], LEASE).await.unwrap(), [true]);
        store.pass(30_000);
        damage(&store, key(&store.store.first().keys(&tenant()))).await;
        let tenants = [tenant(), other.tenant.clone()];
        let found = store.store.overdue(&tenants, DEAD_AFTER, 10).await.unwrap();
        assert_eq!(found.jobs.iter().map(|overdue| &overdue.claim.lease.topic).collect::<Vec<_>>(), [&other]);
        assert_eq!(found.refused.iter().map(|(tenant, _)| tenant.clone()).collect::<Vec<_>>(), [tenant()]);
    }
}
