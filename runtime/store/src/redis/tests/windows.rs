//! Unique values that are held for a time.

use std::time::Duration;

use super::mill::{Mill, failure, job, tenant, topic, unique};
use crate::{Cancelled, Inspect, Produce, Pushed, Settlement, Store};
use gristmill_core::job::{NewJob, Unique};
use gristmill_core::outcome::{Reason, Verdict};

fn window(value: &str, ms: u64) -> NewJob {
    let mut job = job("mail");
    job.spec.unique = Some(Unique { value: value.into(), window: Some(Duration::from_millis(ms)) });
    job
}

async fn push(mill: &Mill, job: &NewJob) -> Pushed {
    mill.store.push(std::slice::from_ref(job)).await.unwrap().pop().unwrap()
}

#[tokio::test]
async fn a_window_is_held_for_its_time_whatever_becomes_of_the_job() {
    let mill = Mill::new().await;
    let first = window("u", 1000);
    let duplicate = Pushed::Duplicate(first.spec.id.clone());
    assert_eq!(push(&mill, &first).await, Pushed::Stored);
    assert_eq!(push(&mill, &window("u", 1)).await, duplicate);
    let claim = mill.claim(1).await.pop().unwrap();
    mill.settle_with(Settlement::of(&claim, Verdict::Ack(None), Duration::ZERO)).await;
    mill.pass(999);
    assert_eq!(push(&mill, &unique("mail", "u")).await, duplicate, "for whoever asks");
    mill.pass(1);
    let second = window("u", 1000);
    assert_eq!(push(&mill, &second).await, Pushed::Stored);
    assert_eq!(mill.store.cancel(&tenant(), std::slice::from_ref(&second.spec.id)).await.unwrap(), [Cancelled::Gone]);
    assert_eq!(push(&mill, &window("u", 1)).await, Pushed::Duplicate(second.spec.id));
    assert_eq!(mill.total("duplicate").await, 3);
}

#[tokio::test]
async fn what_was_held_for_a_time_can_be_held_until_the_end() {
    let mill = Mill::new().await;
    push(&mill, &window("u", 10)).await;
    mill.pass(10);
    let holder = unique("mail", "u");
    assert_eq!(push(&mill, &holder).await, Pushed::Stored);
    // A new window purges those that have passed; this value's is none any more.
    push(&mill, &window("other", 10)).await;
    assert_eq!(push(&mill, &window("u", 10)).await, Pushed::Duplicate(holder.spec.id));
}

#[tokio::test]
async fn respawn_asks_for_a_value_held_to_the_end_and_not_for_a_window() {
    let mill = Mill::new().await;
    let (first, second) = (unique("mail", "u"), window("v", 10));
    mill.push(&[first.clone(), second.clone()]).await;
    for claim in mill.claim(2).await {
        mill.settle_with(Settlement::of(&claim, Verdict::Bury(failure(Reason::Trap)), Duration::ZERO)).await;
    }
    mill.pass(10);
    let (u, v) = (window("u", 10), unique("mail", "v"));
    mill.push(&[u, v.clone()]).await;
    let ids = [first.spec.id.clone(), second.spec.id];
    assert_eq!(mill.store.respawn(&topic("mail"), &ids).await.unwrap(), [false, true]);
    assert_eq!(push(&mill, &unique("mail", "v")).await, Pushed::Duplicate(v.spec.id));
    mill.pass(10);
    assert_eq!(mill.store.respawn(&topic("mail"), &ids[..1]).await.unwrap(), [true]);
    assert_eq!(push(&mill, &window("u", 1)).await, Pushed::Duplicate(first.spec.id));
}

#[tokio::test]
async fn windows_that_have_passed_do_not_pile_up() {
    let mill = Mill::new().await;
    for n in 0..50 {
        push(&mill, &window(&format!("u{n}"), 1)).await;
        mill.pass(1);
    }
    let keys = mill.store.keys(&tenant());
    for (command, key) in [("HLEN", keys.unique(&topic("mail").topic)), ("ZCARD", keys.windows(&topic("mail").topic))] {
        assert_eq!(mill.raw(redis::cmd(command).arg(key)).await, redis::Value::Int(1));
    }
    mill.store.sweep(&[super::sweep::limits(9, Duration::MAX)]).await.unwrap();
    let left = mill.raw(redis::cmd("EXISTS").arg(keys.unique(&topic("mail").topic)).arg(keys.perishable())).await;
    assert_eq!(left, redis::Value::Int(0));
}
