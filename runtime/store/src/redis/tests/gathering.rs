//! Jobs that are pushed one by one, by many at once.

use futures_util::future::join_all;
use futures_util::poll;
use redis::cmd;

use super::claiming::calls;
use super::server::TestRedis;
use crate::prelude::*;
use crate::tests::{job, tenant, topic};
use crate::{Pushed, StoreError};
use gristmill_core::job::{NewJob, Priority};

async fn push(store: &TestRedis, job: NewJob) -> Result<Vec<Pushed>, StoreError> {
    store.store.push(&[job]).await
}

#[tokio::test]
async fn a_hundred_single_pushes_at_once_are_a_few_scripts() {
    let store = TestRedis::new().await;
    push(&store, job("mail")).await.unwrap();
    let before = calls(&store, "evalsha").await;
    let jobs: Vec<NewJob> = (0..100).map(|_| job("mail")).collect();
    let twice = jobs.iter().chain(&jobs[..1]).cloned();
    let pushed = join_all(twice.map(|job| push(&store, job))).await;
    let mut answers: Vec<Pushed> = pushed.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(answers.pop(), Some(Pushed::Exists), "each has the answer for its own job");
    assert_eq!(answers, vec![Pushed::Stored; 100]);
    assert_eq!(calls(&store, "evalsha").await - before, 4, "two, and then 64 and 35 together");
}

#[tokio::test]
async fn a_push_that_is_refused_is_no_other_ones_matter() {
    let store = TestRedis::new().await;
    let broken = store.store.first().keys(&tenant()).ready(Priority::Normal, &topic("broken").topic);
    store.raw(cmd("SET").arg(broken).arg("no list")).await;
    let topics = ["mail", "mail", "mail", "broken", "mail"];
    let pushed = join_all(topics.map(|topic| push(&store, job(topic)))).await;
    let refused: Vec<bool> = pushed.iter().map(|pushed| matches!(pushed, Err(StoreError::Refused { .. }))).collect();
    assert_eq!(refused, [false, false, false, true, false], "{pushed:?}");
    assert_eq!(store.claim(10).await.len(), 4);
}

#[tokio::test]
async fn who_waits_is_not_forgotten_when_the_pushes_before_are_given_up() {
    let store = TestRedis::new().await;
    push(&store, job("mail")).await.unwrap();
    let [mut first, mut second, mut third] = [(); 3].map(|()| Box::pin(push(&store, job("mail"))));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
    drop(first);
    drop(second);
    assert_eq!(third.await.unwrap(), [Pushed::Stored]);
}
